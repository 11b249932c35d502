//! When a watch that broke is begun again.

use std::time::Duration;

use backon::ExponentialBuilder;
use kube::runtime::{
    utils::{Backoff, ResetTimerBackoff},
    watcher::ExponentialBackoff,
};

/// Wait after the first failure, and up to as much again.
pub const FIRST: Duration = Duration::from_millis(800);
/// Longest wait. Kube's own is a minute: when an API server is back, its first answer to
/// a watch may be that it knows no such version any more, and the list that is needed then
/// would come after another whole wait, in which nothing that is written is seen.
pub const LONGEST: Duration = Duration::from_secs(5);
/// Without a failure for so long, the next one is the first again.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// How long a watcher waits after each failure in a row, for
/// [`WatchStreamExt::backoff`](kube::runtime::WatchStreamExt::backoff): longer each time,
/// never longer than [`LONGEST`]. A part of each wait is left to chance, so that all who
/// lost their API server in one moment do not come back to it in one.
pub struct WatchBackoff(ResetTimerBackoff<ExponentialBackoff>);

impl Default for WatchBackoff {
    fn default() -> Self {
        // What is left to chance comes on top: a share of the wait, up to all of it.
        let waits = ExponentialBuilder::default()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST / 2)
            .with_factor(2.0)
            .without_max_times()
            .with_jitter();
        Self(ResetTimerBackoff::new(waits.into(), FORGOTTEN))
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_waits_for_long_after_an_outage() {
        let waits: Vec<_> = WatchBackoff::default().take(200).collect();
        assert_eq!(waits.len(), 200, "it goes on for ever");
        assert!(waits.iter().all(|wait| (FIRST..=LONGEST).contains(wait)));
        assert!(waits[0] <= 2 * FIRST, "{waits:?}");
    }

    #[test]
    fn those_who_lost_it_together_do_not_come_back_in_one_moment() {
        let late = || WatchBackoff::default().nth(20);
        let waits: HashSet<_> = (0..20).map(|_| late()).collect();
        assert!(waits.len() > 10, "{waits:?}");
        assert!(waits.into_iter().flatten().all(|wait| wait >= LONGEST / 2));
    }
}
