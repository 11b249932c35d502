//! [`SeenFactors`]: whose second factor was seen here lately.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a second factor that was seen is taken to be there still.
const SEEN_FOR: Duration = Duration::from_secs(30);
/// Most accounts that are remembered.
const MOST_SEEN: usize = 10_000;

/// Whose second factor this replica saw lately, by uid. Only that there is one is
/// remembered: who has just set one up goes on at once.
#[derive(Default)]
pub(crate) struct SeenFactors(Mutex<HashMap<String, Instant>>);

impl SeenFactors {
    pub(crate) fn has(&self, uid: &str) -> bool {
        let seen = self.0.lock();
        seen.get(uid).is_some_and(|at| at.elapsed() < SEEN_FOR)
    }

    pub(crate) fn note(&self, uid: String) {
        let mut seen = self.0.lock();
        if seen.len() >= MOST_SEEN {
            seen.retain(|_, at| at.elapsed() < SEEN_FOR);
        }
        if seen.len() < MOST_SEEN {
            seen.insert(uid, Instant::now());
        }
    }

    /// Forgets an account, whose second factor is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
