//! How long to wait after an error.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use kite_cluster::ObjectKey;
use rand::RngExt as _;

use crate::Failure;

/// Wait after the first error.
const FIRST: Duration = Duration::from_millis(500);
/// Longest wait after an error that may pass by itself.
const LONGEST: Duration = Duration::from_secs(120);
/// Wait after an error that only an edit mends; the edit itself is noticed at
/// once.
const PERMANENT: Duration = Duration::from_secs(600);
/// Longest wait that a server may ask for.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// Counts the errors of each object in a row: exponential, with jitter, so that
/// objects that failed together do not come back together.
#[derive(Debug, Default)]
pub struct Backoff {
    in_a_row: Mutex<HashMap<(&'static str, ObjectKey), u32>>,
}

impl Backoff {
    /// How long the object waits after `error`.
    pub fn after(&self, kind: &'static str, key: ObjectKey, error: &impl Failure) -> Duration {
        let errors = {
            let mut in_a_row = self.lock();
            let errors = in_a_row.entry((kind, key)).or_default();
            *errors = errors.saturating_add(1);
            *errors
        };
        let base = if error.is_permanent() {
            PERMANENT
        } else {
            exponential(errors)
        };
        base.mul_f64(rand::rng().random_range(0.75..1.25))
            .max(error.retry_after().unwrap_or_default().min(LONGEST_WISH))
    }

    /// How many errors in a row the object has had.
    pub fn errors(&self, kind: &'static str, key: ObjectKey) -> u32 {
        self.lock().get(&(kind, key)).copied().unwrap_or_default()
    }

    /// The object was reconciled.
    pub fn reset(&self, kind: &'static str, key: ObjectKey) {
        self.lock().remove(&(kind, key));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(&'static str, ObjectKey), u32>> {
        self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exponential(errors: u32) -> Duration {
    let doublings = errors.saturating_sub(1).min(16);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use kite_cluster::ClusterError;

    use super::*;
    use crate::Error;

    fn unavailable(retry_after: Option<Duration>) -> Error {
        Error::Cluster(ClusterError::Unavailable {
            operation: "get".to_owned(),
            message: "no".to_owned(),
            retry_after,
        })
    }

    #[test]
    fn waits_double_up_to_a_bound_and_begin_anew_after_success() {
        let backoff = Backoff::default();
        let key = ObjectKey::cluster("a");
        let wait = |after| backoff.after("K", key.clone(), &unavailable(after));
        let first = wait(None);
        assert!(first < FIRST.mul_f64(1.25) && first >= FIRST.mul_f64(0.75));
        for _ in 0..40 {
            assert!(wait(None) <= LONGEST.mul_f64(1.25));
        }
        assert!(wait(None) >= LONGEST.mul_f64(0.75));
        backoff.reset("K", key.clone());
        assert!(wait(None) < FIRST.mul_f64(1.25));
    }

    #[test]
    fn what_the_server_asks_for_is_the_least() {
        let backoff = Backoff::default();
        let hour = Duration::from_secs(3600);
        // Nobody is left alone for longer, whatever a server says.
        for wish in [hour, hour * 2, Duration::MAX] {
            let wait = backoff.after("K", ObjectKey::cluster("a"), &unavailable(Some(wish)));
            assert_eq!(wait, hour);
        }
    }
}
