//! How fast writes may be sent.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// A token bucket (in the form of GCRA): so many at once, and so many a second
/// in the long run. Clones share the bucket. Its clock is tokio's.
///
/// ```
/// use kite_runtime::wire::RateLimiter;
///
/// let limiter = RateLimiter::per_second(1.0, 2);
/// assert!(limiter.try_take() && limiter.try_take());
/// assert!(!limiter.try_take(), "the next comes within a second");
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    /// Time that one token takes to come.
    interval: Duration,
    /// Time in which a full bucket fills.
    depth: Duration,
    /// When the bucket would be full again, as of the last that was taken.
    full_at: Mutex<Instant>,
}

impl RateLimiter {
    /// `rate` a second, and `burst` at once. Rates below one in an hour are
    /// taken for one in an hour; a burst is at least one.
    pub fn per_second(rate: f64, burst: u32) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / rate)
            .unwrap_or(Duration::MAX)
            .min(Duration::from_secs(3600));
        Self(Arc::new(Bucket {
            interval,
            depth: interval.saturating_mul(burst.max(1)),
            full_at: Mutex::new(Instant::now()),
        }))
    }

    /// Takes a token; waits for it if there is none. Those who wait are served in
    /// turn.
    pub async fn wait(&self) {
        let due = self.reserve();
        if due > Instant::now() {
            sleep_until(due).await;
        }
    }

    /// Takes a token if there is one.
    pub fn try_take(&self) -> bool {
        let now = Instant::now();
        let bucket = &*self.0;
        let mut full_at = bucket
            .full_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let next = (*full_at).max(now) + bucket.interval;
        let is_there = next <= now + bucket.depth;
        if is_there {
            *full_at = next;
        }
        is_there
    }

    /// Nobody is served for `pause`, and after it at the steady rate.
    pub fn hold(&self, pause: Duration) {
        let bucket = &*self.0;
        let mut full_at = bucket
            .full_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Empty at the end of the pause.
        let empty = Instant::now() + pause + bucket.depth.saturating_sub(bucket.interval);
        *full_at = (*full_at).max(empty);
    }

    /// Takes a token. When it is there.
    fn reserve(&self) -> Instant {
        let bucket = &*self.0;
        let mut full_at = bucket
            .full_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let next = (*full_at).max(Instant::now()) + bucket.interval;
        *full_at = next;
        next.checked_sub(bucket.depth).unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn time_of(limiter: &RateLimiter, count: u32) -> Duration {
        let since = Instant::now();
        for _ in 0..count {
            limiter.wait().await;
        }
        since.elapsed()
    }

    fn assert_about(found: Duration, wanted: f64) {
        let found = found.as_secs_f64();
        assert!((found - wanted).abs() < 0.05, "{found} s, not {wanted} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_served_at_once_and_the_rest_at_the_rate() {
        let limiter = RateLimiter::per_second(10.0, 5);
        assert_about(time_of(&limiter, 5).await, 0.0);
        assert_about(time_of(&limiter, 20).await, 2.0);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_about(time_of(&limiter, 5).await, 0.0);
        assert!(!limiter.try_take(), "no more than the burst is saved up");
        tokio::time::sleep(Duration::from_millis(110)).await;
        assert!(limiter.try_take());
    }

    #[tokio::test(start_paused = true)]
    async fn during_a_pause_nobody_is_served() {
        let limiter = RateLimiter::per_second(10.0, 5);
        limiter.hold(Duration::from_secs(7));
        assert!(!limiter.try_take());
        assert_about(time_of(&limiter, 1).await, 7.0);
        assert_about(time_of(&limiter, 10).await, 1.0);
    }
}
