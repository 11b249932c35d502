//! [`Reads`]: what somebody has looked at lately, so that a page that asks for the same
//! again and again is written down once in a while.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// When it is written down again that somebody looks at the same.
const AGAIN_AFTER: Duration = Duration::from_secs(10 * 60);
/// Most that is remembered, of some hundred bytes each. What comes beyond that is written
/// down each time: nobody can have others' looks forgotten.
const MOST: usize = 4096;

/// What was looked at, and since when that is not written down again.
#[derive(Debug, Default)]
pub(super) struct Reads(Mutex<HashMap<String, Instant>>);

impl Reads {
    /// Whether it is to be written down that `what` is looked at `now`.
    pub(super) fn is_new(&self, what: String, now: Instant) -> bool {
        let is_fresh = |since: &Instant| now.duration_since(*since) < AGAIN_AFTER;
        let mut known = self.0.lock();
        if known.get(&what).is_some_and(is_fresh) {
            return false;
        }
        if known.len() >= MOST {
            known.retain(|_, since| is_fresh(since));
        }
        if known.len() < MOST {
            known.insert(what, now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_new_after_a_while() {
        let (reads, start) = (Reads::default(), Instant::now());
        let is_new = |what: &str, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            reads.is_new(what.to_owned(), now)
        };
        assert!(is_new("ann's", 0) && is_new("bob's", 3));
        for seconds in (3..600).step_by(3) {
            assert!(!is_new("ann's", seconds));
        }
        assert!(is_new("ann's", 600));
        assert!(!is_new("ann's", 603));
        assert!(!is_new("bob's", 602));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_nothing_is_left_out_for_it() {
        let (reads, start) = (Reads::default(), Instant::now());
        assert!(reads.is_new("first".to_owned(), start));
        for number in 0..2 * MOST {
            assert!(reads.is_new(number.to_string(), start));
        }
        assert_eq!(reads.0.lock().len(), MOST);
        assert!(!reads.is_new("first".to_owned(), start));
        // Beyond the bound each time.
        assert!(reads.is_new("last".to_owned(), start));
        assert!(reads.is_new("last".to_owned(), start));
        let later = start + AGAIN_AFTER;
        assert!(reads.is_new("last".to_owned(), later));
        assert_eq!(reads.0.lock().len(), 1);
    }
}
