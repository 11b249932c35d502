//! Password hashing on a few threads of its own.
//!
//! A hash takes tens of milliseconds and about 20 MiB. On tokio's blocking pool
//! it would run on ever other threads, and the allocator would keep that memory
//! for each of them; here it is as many times as there are threads.
//!
//! Owners choose what their hashes cost. So owners take turns: one whose hashes are
//! costly, or whose name is guessed at, keeps others waiting for one hash at most.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kite_core::password::PasswordHash;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::fitted::Fitted;
use crate::route::{Route, VmKey};
use crate::turns::Turns;

/// Passwords that wait for one turn; a further one is not looked at.
const MOST_EACH: usize = 64;

/// Whose turn a password waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Turn {
    /// Those for machines of one owner.
    Owner(String),
    /// Those for a machine whose owner nobody knows.
    Machine(VmKey),
    /// Those for a name that leads nowhere. It waits as a machine's does, so that nobody can
    /// tell one from the other by what is not looked at.
    Stranger(String),
}

impl Turn {
    /// That of a route's machine.
    pub(crate) fn of(route: &Route) -> Self {
        match &route.owner {
            Some(owner) => Self::Owner(owner.clone()),
            None => Self::Machine(route.vm.clone()),
        }
    }
}

struct Job {
    hash: PasswordHash,
    /// The password is wrong whatever the hash says.
    is_decoy: bool,
    password: String,
    answer: oneshot::Sender<Looked>,
}

/// What became of a password whose turn came.
enum Looked {
    /// It fits its hash, or does not.
    Compared(bool),
    /// It was not worth a hash, which takes about as long as this.
    Skipped(Duration),
}

struct Waiting {
    jobs: Turns<Turn, Job>,
    /// How long the last hash took.
    taken: Duration,
    is_over: bool,
}

struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// The threads; they end when this is dropped.
pub(crate) struct HashPool {
    queue: Arc<Queue>,
    fitted: Fitted,
    patience: Duration,
}

impl std::fmt::Debug for HashPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashPool").finish_non_exhaustive()
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.queue.waiting.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}

impl HashPool {
    /// Starts `threads` of them, at least one. A password waits and is hashed for
    /// `patience` in all.
    pub(crate) fn new(threads: usize, patience: Duration) -> io::Result<Self> {
        let queue = Arc::new(Queue {
            waiting: Mutex::new(Waiting {
                jobs: Turns::new(MOST_EACH),
                taken: Duration::ZERO,
                is_over: false,
            }),
            changed: Condvar::new(),
        });
        let pool = Self {
            queue,
            fitted: Fitted::new(),
            patience,
        };
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&pool.queue);
            std::thread::Builder::new()
                .name(format!("kite-hash-{number}"))
                .spawn(move || work(&queue))?;
        }
        Ok(pool)
    }

    /// Whether `password` fits `hash`; `None` if it could not be looked at in time.
    pub(crate) async fn verify(
        &self,
        turn: Turn,
        hash: PasswordHash,
        password: String,
    ) -> Option<bool> {
        let is_decoy = matches!(turn, Turn::Stranger(_));
        let code = self.fitted.code(&hash, &password);
        if !is_decoy && self.fitted.has(&code) {
            return Some(true);
        }
        let (answer, verified) = oneshot::channel();
        let job = Job {
            hash,
            is_decoy,
            password,
            answer,
        };
        let is_wanted = |job: &Job| !job.answer.is_closed();
        let pushed = self.queue.waiting.lock().jobs.push(turn, job, is_wanted);
        pushed.ok()?;
        self.queue.changed.notify_one();
        let looking = async {
            match verified.await.ok()? {
                Looked::Compared(fits) => Some(fits),
                // Whoever asks has to wait as for one that was hashed.
                Looked::Skipped(taken) => {
                    tokio::time::sleep(taken).await;
                    Some(false)
                }
            }
        };
        let fits = tokio::time::timeout(self.patience, looking).await.ok()??;
        if fits {
            self.fitted.remember(code);
        }
        Some(fits)
    }
}

fn work(queue: &Queue) {
    loop {
        let (next, skipped) = {
            let mut waiting = queue.waiting.lock();
            loop {
                if waiting.is_over {
                    return;
                }
                match waiting.jobs.pop() {
                    // Any number of names lead nowhere: their hashes hold up nobody's.
                    Some(job) => {
                        let is_skipped = job.is_decoy && !waiting.jobs.is_empty();
                        break (job, is_skipped.then_some(waiting.taken));
                    }
                    None => queue.changed.wait(&mut waiting),
                }
            }
        };
        // Who hung up meanwhile costs nothing more.
        if next.answer.is_closed() {
            continue;
        }
        let looked = if let Some(taken) = skipped {
            Looked::Skipped(taken)
        } else {
            let begun = Instant::now();
            let fits = next.hash.verify(&next.password);
            queue.waiting.lock().taken = begun.elapsed();
            Looked::Compared(fits && !next.is_decoy)
        };
        let _ = next.answer.send(looked);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn ann() -> Turn {
        Turn::Owner("ann".to_owned())
    }

    #[tokio::test]
    async fn verifies_many_at_once() {
        let pool = HashPool::new(2, LONG).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let tries = (0..8).map(|i| {
            let password = if i % 2 == 0 { "right" } else { "wrong" };
            pool.verify(ann(), hash.clone(), password.to_owned())
        });
        let answers = futures::future::join_all(tries).await;
        assert_eq!(answers, [Some(true), Some(false)].repeat(4));
    }

    #[tokio::test]
    async fn what_is_not_looked_at_is_neither_right_nor_wrong() {
        let pool = HashPool::new(1, Duration::ZERO).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        for password in ["right", "wrong"] {
            let answer = pool.verify(ann(), hash.clone(), password.to_owned());
            assert_eq!(answer.await, None, "{password}");
        }
    }

    /// One owner's passwords fill their queue; another's is looked at before the
    /// second of them.
    #[tokio::test]
    async fn owners_take_turns() {
        let pool = HashPool::new(1, LONG).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let done = Mutex::new(Vec::new());
        let verify = async |owner: &str, password: String| {
            let turn = Turn::Owner(owner.to_owned());
            let answer = pool.verify(turn, hash.clone(), password).await;
            done.lock().push(owner.to_owned());
            answer
        };
        let flood = (0..MOST_EACH).map(|number| verify("bob", number.to_string()));
        let flood = futures::future::join_all(flood);
        let (flood, answer) = futures::join!(flood, verify("ann", "right".to_owned()));
        assert_eq!(answer, Some(true));
        assert!(flood.iter().all(|it| *it == Some(false)));
        let done = done.lock();
        let before = done.iter().position(|owner| owner == "ann").unwrap();
        // What was begun before hers, and one turn.
        assert!(before <= 3, "{before} of the other's came first");
    }

    /// However many names are guessed at that lead nowhere, each is answered as one that
    /// leads somewhere, and that one costs no more than it does alone.
    #[tokio::test]
    async fn names_that_lead_nowhere_wait_as_others_and_hold_up_nobody() {
        let pool = HashPool::new(1, LONG).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let begun = Instant::now();
        assert_eq!(
            pool.verify(ann(), hash.clone(), "wrong".to_owned()).await,
            Some(false)
        );
        let alone = begun.elapsed();
        let nowhere = |number: usize| {
            let turn = Turn::Stranger(format!("nobody-{number}"));
            pool.verify(turn, hash.clone(), "right".to_owned())
        };
        let flood = futures::future::join_all((0..40 * MOST_EACH).map(nowhere));
        let begun = Instant::now();
        let (flood, answer) =
            futures::join!(flood, pool.verify(ann(), hash.clone(), "right".to_owned()));
        assert_eq!(answer, Some(true));
        assert!(flood.iter().all(|it| *it == Some(false)), "none is right");
        // Each of them hashed would be 2560 times that.
        assert!(begun.elapsed() < alone * 200, "{:?}", begun.elapsed());
        // Of one name no more wait than of one owner.
        pool.queue.waiting.lock().jobs = Turns::new(0);
        assert_eq!(nowhere(1).await, None);
        assert_eq!(pool.verify(ann(), hash.clone(), "x".to_owned()).await, None);
    }

    #[tokio::test]
    async fn what_is_not_hashed_is_answered_after_as_long() {
        let pool = HashPool::new(1, LONG).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let verify = async |turn: Turn, password: &str| {
            let answer = pool.verify(turn, hash.clone(), password.to_owned()).await;
            assert_eq!(answer, Some(false));
            (Instant::now(), pool.queue.waiting.lock().taken)
        };
        let bob = || Turn::Owner("bob".to_owned());
        // Bob's second waits while it is the stranger's turn.
        let (_, (before, taken), _, (after, _)) = futures::join!(
            verify(ann(), "1"),
            verify(bob(), "2"),
            verify(bob(), "3"),
            verify(Turn::Stranger("nobody".to_owned()), "4"),
        );
        let later = after.duration_since(before);
        assert!(later >= taken / 4, "{later:?} after a hash of {taken:?}");
    }

    #[tokio::test]
    async fn a_password_that_fitted_costs_no_second_hash() {
        let pool = HashPool::new(1, LONG).unwrap();
        let hash = PasswordHash::create("right").unwrap();
        let verify = |password: &str| pool.verify(ann(), hash.clone(), password.to_owned());
        assert_eq!(verify("right").await, Some(true));
        // No thread is left that could hash.
        pool.queue.waiting.lock().is_over = true;
        pool.queue.changed.notify_all();
        assert_eq!(verify("right").await, Some(true));
        let wrong = tokio::time::timeout(Duration::from_millis(200), verify("wrong"));
        assert!(wrong.await.is_err(), "who would have said so?");
    }
}
