//! Where key exchanges and signatures are done: off the threads that carry sessions, so many
//! at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;
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
        let semaphore = Arc::clone(&self.0);
        tokio::spawn(async move {
            // It is never closed.
            let permit = semaphore.acquire_owned().await.ok()?;
            let done = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                work()
            });
            done.await.ok()
        })
    }
}

impl Default for Workers {
    /// As many as there are processors.
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}
