//! When what an actor waits for is due, by tokio's clock.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::rules::Stage;

/// Entries beyond which those long past are dropped.
const CROWDED: usize = 4096;
/// How long an entry is kept after it was due, so that a repeated attempt does
/// not wait again.
const KEPT: Duration = Duration::from_secs(600);

type Wait = (Stage, String, String);

/// Due times of waits that have begun.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<HashMap<Wait, Instant>>);

impl Timers {
    /// How much of `delay` is left since this was first asked for the same
    /// stage, uid and round; `None` when nothing is.
    pub(super) fn remaining(
        &self,
        stage: Stage,
        uid: &str,
        round: &str,
        delay: Duration,
    ) -> Option<Duration> {
        if delay.is_zero() {
            return None;
        }
        let now = Instant::now();
        let mut waits = self.0.lock();
        if waits.len() > CROWDED {
            waits.retain(|_, due| *due + KEPT > now);
        }
        let due = *waits
            .entry((stage, uid.to_owned(), round.to_owned()))
            .or_insert(now + delay);
        (due > now).then(|| due - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_runs_from_the_first_question() {
        let timers = Timers::default();
        let second = Duration::from_secs(1);
        let ask = |round: &str| timers.remaining(Stage::POD_READY, "u", round, second);
        assert_eq!(ask("1"), Some(second));
        tokio::time::advance(Duration::from_millis(400)).await;
        assert_eq!(ask("1"), Some(Duration::from_millis(600)));
        assert_eq!(ask("2"), Some(second));
        tokio::time::advance(Duration::from_millis(600)).await;
        assert_eq!(ask("1"), None);
    }
}
