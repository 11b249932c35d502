//! When a list or watch that failed is tried again.
//!
//! Not kube's `default_backoff`: a [`watcher`](kube::runtime::watcher()) says
//! that it begins before each list, which resets that back-off, and a kind that
//! cannot be listed is asked for every second for ever.

use std::time::Duration;

use kite_cluster::watch_backoff::{FIRST, LONGEST};
use rand::RngExt as _;
use tokio::time::Instant;

/// Longest wait for a kind that the cluster may do without: by so much later a
/// controller notices that it was installed.
const LONGEST_ABSENT: Duration = Duration::from_secs(120);
/// A watch that ran for so long is one that works.
const SOUND: Duration = Duration::from_secs(60);

/// Counts how often a watch failed in a row.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// When it was last tried again.
    began: Option<Instant>,
}

impl Retry {
    /// The watch failed: how long to wait. `is_absent`: the kind is not installed
    /// and need not be.
    pub(super) fn after(&mut self, is_absent: bool) -> Duration {
        if self.began.is_some_and(|began| began.elapsed() > SOUND) {
            self.failures = 0;
        }
        let longest = if is_absent { LONGEST_ABSENT } else { LONGEST };
        let wait = FIRST.saturating_mul(1 << self.failures.min(16));
        let wait = wait
            .min(longest)
            .mul_f64(rand::rng().random_range(0.75..1.25));
        self.failures = self.failures.saturating_add(1);
        self.began = Some(Instant::now() + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_a_watch_runs_for_a_while() {
        let mut retry = Retry::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = retry.after(false);
            tokio::time::sleep(wait).await;
            waits.push(wait);
        }
        assert!(waits[0] <= FIRST.mul_f64(1.25), "{waits:?}");
        assert!(waits[11] >= LONGEST.mul_f64(0.75), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.25)));
        let wait = retry.after(true);
        assert!(wait >= LONGEST_ABSENT.mul_f64(0.75), "{wait:?}");
        tokio::time::sleep(wait + SOUND + Duration::from_secs(1)).await;
        assert!(retry.after(false) <= FIRST.mul_f64(1.25));
    }
}
