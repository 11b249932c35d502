//! [`NotedUses`]: when the use of API tokens was last written down here.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How old `lastUsedAt` may be: a token's use is written no more often.
pub(crate) const NOTED_EVERY: Duration = Duration::from_secs(3600);
/// Most tokens whose last use is remembered here.
const MOST_NOTED: usize = 10_000;

/// When this replica last wrote down the use of which token.
#[derive(Default)]
pub(crate) struct NotedUses(Mutex<HashMap<String, Instant>>);

impl NotedUses {
    /// Whether it is time to write it down again.
    pub(crate) fn is_due(&self, token: &str) -> bool {
        let mut noted = self.0.lock();
        if noted
            .get(token)
            .is_some_and(|at| at.elapsed() < NOTED_EVERY)
        {
            return false;
        }
        if noted.len() >= MOST_NOTED {
            noted.retain(|_, at| at.elapsed() < NOTED_EVERY);
        }
        if noted.len() >= MOST_NOTED {
            return false;
        }
        noted.insert(token.to_owned(), Instant::now());
        true
    }
}
