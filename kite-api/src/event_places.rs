//! How many streams an account may have open.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kite_rest::{Problem, ProblemKind};
use parking_lot::Mutex;

/// Streams of one account at a time, on one replica: some browser tabs on some
/// devices.
const MOST: usize = 32;

/// Open streams by account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<String, usize>>>);

/// The right to have one more stream; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    user: String,
}

impl Places {
    /// A place for `user`.
    pub(crate) fn take(&self, user: &str) -> Result<Place, Problem> {
        let mut open = self.0.lock();
        let count = open.entry(user.to_owned()).or_default();
        if *count >= MOST {
            return Err(Problem::new(
                ProblemKind::TooManyRequests,
                format!("the account has {MOST} streams of events open: close one"),
            )
            .retry_after(Duration::from_secs(5)));
        }
        *count += 1;
        Ok(Place {
            places: self.clone(),
            user: user.to_owned(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.0.lock();
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_each_users_own_and_are_given_back() {
        let places = Places::default();
        let taken: Vec<_> = (0..MOST).map(|_| places.take("ann").unwrap()).collect();
        assert!(places.take("ann").is_err());
        assert!(places.take("bob").is_ok());
        drop(taken);
        assert!(places.take("ann").is_ok());
        assert!(places.0.lock().is_empty());
    }
}
