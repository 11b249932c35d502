//! Password hashing on a few threads of its own.
//!
//! A hash takes tens of milliseconds and about 20 MiB. On tokio's blocking pool
//! it would run on ever other threads, and the allocator would keep that memory
//! for each of them; here it is as many times as there are threads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kite_core::password::PasswordHash;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Passwords that wait in the queue itself; more wait before it, in order.
const QUEUE: usize = 16;

struct Job {
    hash: PasswordHash,
    password: String,
    answer: oneshot::Sender<bool>,
}

/// The threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct HashPool {
    jobs: mpsc::Sender<Job>,
    patience: Duration,
}

impl HashPool {
    /// Starts `threads` of them, at least one. A password waits for `patience` in
    /// all: under a flood some are refused that would have fitted, rather than all
    /// connections held.
    pub(crate) fn new(threads: usize, patience: Duration) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            std::thread::Builder::new()
                .name(format!("kite-hash-{number}"))
                .spawn(move || work(&receiver))?;
        }
        Ok(Self { jobs, patience })
    }

    /// Whether `password` fits `hash`.
    pub(crate) async fn verify(&self, hash: PasswordHash, password: String) -> bool {
        let (answer, verified) = oneshot::channel();
        let job = Job {
            hash,
            password,
            answer,
        };
        let working =
            async { self.jobs.send(job).await.is_ok() && verified.await.unwrap_or(false) };
        tokio::time::timeout(self.patience, working)
            .await
            .unwrap_or(false)
    }
}

fn work(receiver: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // The lock is held while waiting: the threads take turns.
        let next = receiver.lock().blocking_recv();
        let Some(job) = next else { return };
        // Who hung up meanwhile costs nothing more.
        if !job.answer.is_closed() {
            let fits = job.hash.verify(&job.password);
            let _ = job.answer.send(fits);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn verifies_many_at_once() {
        let pool = HashPool::new(2, Duration::from_secs(60)).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let tries = (0..8).map(|i| {
            let password = if i % 2 == 0 { "right" } else { "wrong" };
            pool.verify(hash.clone(), password.to_owned())
        });
        let answers = futures::future::join_all(tries).await;
        assert_eq!(answers, [true, false].repeat(4));
    }
}
