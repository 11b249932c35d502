//! Where key exchanges and signatures are done: off the threads that carry sessions, so many
//! at a time, and a few on the spot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::login::{Proof, Verified};
use crate::verify::VerifyError;

/// What is done on the spot is so far apart: it takes a tenth of a millisecond, so that a
/// crowd of strangers takes no more than a tenth of one thread from sessions.
const APART: Duration = Duration::from_millis(1);

/// Bounds what is computed at a time for peers, most of whom are strangers.
#[derive(Debug, Clone)]
pub struct Workers {
    permits: Arc<Semaphore>,
    /// When something was done on the spot last.
    on_the_spot: Arc<Moment>,
}

/// A time in microseconds, counted from a beginning.
#[derive(Debug)]
struct Moment {
    beginning: Instant,
    last: AtomicU64,
}

impl Moment {
    /// Takes the present, if `apart` has passed since it was taken last.
    fn take(&self, apart: Duration) -> bool {
        let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
        let now = micros(self.beginning.elapsed());
        let last = self.last.load(Ordering::Relaxed);
        // Of two threads at once one takes it.
        now.saturating_sub(last) >= micros(apart)
            && self
                .last
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

impl Workers {
    /// So many at a time.
    #[must_use]
    pub fn new(at_a_time: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(at_a_time.max(1))),
            on_the_spot: Arc::new(Moment {
                beginning: Instant::now(),
                last: AtomicU64::new(0),
            }),
        }
    }

    /// Does it when its turn comes. A handle that is aborted before that has nothing done.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let permits = Arc::clone(&self.permits);
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

    /// Verifies a signature. `None` if that panics.
    pub async fn verify(&self, proof: Proof) -> Option<Result<Verified, VerifyError>> {
        if proof.is_short() && self.lets_on_the_spot() {
            return Some(proof.verify());
        }
        self.run(|| proof.verify()).await.ok().flatten()
    }

    /// Whether something short may be done on the spot now, where another thread would have to
    /// be woken, and wake this one. It is to be done then.
    pub(super) fn lets_on_the_spot(&self) -> bool {
        self.on_the_spot.take(APART)
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

    #[test]
    fn what_is_done_on_the_spot_is_apart() {
        let moment = Moment {
            beginning: Instant::now(),
            last: AtomicU64::new(0),
        };
        let hour = Duration::from_secs(3600);
        assert!(!moment.take(hour));
        assert!(moment.take(Duration::ZERO));
        std::thread::sleep(Duration::from_millis(2));
        assert!(moment.take(Duration::from_millis(1)));
        assert!(!moment.take(hour));
    }

    #[tokio::test]
    async fn all_have_their_turn() {
        let workers = Workers::new(2);
        let handles: Vec<_> = (0..50).map(|it| workers.run(move || it)).collect();
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.await.unwrap(), Some(number));
        }
    }
}
