//! Where key exchanges and signatures are done: off the threads that carry sessions, so many
//! at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Bounds what is computed at a time for peers, most of whom are strangers.
#[derive(Debug, Clone)]
pub struct Workers(Arc<Semaphore>);

impl Workers {
    /// So many at a time.
    #[must_use]
    pub fn new(at_a_time: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_a_time.max(1))))
    }

    /// Does it when its turn comes. A handle that is aborted before that has nothing done.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let permits = Arc::clone(&self.0);
        let begin = |permit: OwnedSemaphorePermit| {
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                Some(work())
            })
        };
        // Where nobody waits, whoever asks is woken by the work itself.
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return begin(permit);
        }
        tokio::spawn(async move {
            // It is never closed.
            let permit = permits.acquire_owned().await.ok()?;
            begin(permit).await.ok().flatten()
        })
    }
}

impl Default for Workers {
    /// As many as there are processors.
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_have_their_turn() {
        let workers = Workers::new(2);
        let handles: Vec<_> = (0..50).map(|it| workers.run(move || it)).collect();
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.await.unwrap(), Some(number));
        }
    }
}
