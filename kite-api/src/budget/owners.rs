//! [`OwnersBudget`]: a [`Budget`] of which one account has a part at most, so that nobody
//! crowds out all others.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{Budget, Party, Share};
use crate::problem::{Problem, ProblemKind};

/// Which part of it one account may hold.
const PART: usize = 4;
/// How long whoever holds too much waits.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A number of bytes from which accounts take.
#[derive(Clone, Debug)]
pub(crate) struct OwnersBudget {
    all: Budget,
    /// What each account holds.
    held: Arc<Mutex<HashMap<String, usize>>>,
    most: usize,
}

impl OwnersBudget {
    /// For who is signed in.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            all: Budget::signed_in(bytes),
            held: Arc::default(),
            most: bytes / PART,
        }
    }

    /// A share of `bytes` for the account `owner`. Who holds nothing gets what there is,
    /// however large: else the one thing that somebody needs might never fit.
    pub(crate) fn take(&self, owner: &str, bytes: usize) -> Result<OwnersShare, Problem> {
        let mut held = self.held.lock();
        let has = held.get(owner).copied().unwrap_or_default();
        if has > 0 && has + bytes > self.most {
            return Err(Problem::new(
                ProblemKind::TooManyRequests,
                "the account holds as much of this server's memory as one may, for its consoles \
                 and streams of events: close one and try again",
            )
            .retry_after(RETRY_AFTER));
        }
        let share = self.all.take(Party::SignedIn, bytes)?;
        held.insert(owner.to_owned(), has + bytes);
        Ok(OwnersShare {
            _share: share,
            held: Arc::clone(&self.held),
            owner: owner.to_owned(),
            bytes,
        })
    }
}

/// What an account holds of an [`OwnersBudget`]; dropping it gives it back.
pub(crate) struct OwnersShare {
    _share: Share,
    held: Arc<Mutex<HashMap<String, usize>>>,
    owner: String,
    bytes: usize,
}

impl fmt::Debug for OwnersShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnersShare")
            .field("owner", &self.owner)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for OwnersShare {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(has) = held.get_mut(&self.owner) {
            *has = has.saturating_sub(self.bytes);
            if *has == 0 {
                held.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_account_has_a_part_and_leaves_the_rest_to_others() {
        let budget = OwnersBudget::new(100);
        let first = budget.take("ann", 20).unwrap();
        let refused = budget.take("ann", 6).unwrap_err();
        assert_eq!(refused.kind(), ProblemKind::TooManyRequests);
        let second = budget.take("ann", 5).unwrap();
        let _bob = budget.take("bob", 25).unwrap();
        drop(first);
        assert!(budget.take("ann", 20).is_ok());
        drop(second);
        // What is larger than a part is had by who has nothing else, if there is room.
        let large = budget.take("ann", 60).unwrap();
        assert!(budget.take("ann", 1).is_err());
        let refused = budget.take("eve", 20).unwrap_err();
        assert_eq!(refused.kind(), ProblemKind::Unavailable);
        drop(large);
        assert_eq!(budget.held.lock().len(), 1, "bob's alone");
    }
}
