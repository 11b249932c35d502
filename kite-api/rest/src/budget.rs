//! [`Budget`]: how much memory requests may hold at a time, in all. Whoever is about to
//! hold bytes takes them first, and is refused if there are none left; they are given
//! back when what held them is dropped.

mod owners;

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

pub use self::owners::{AnyShare, OwnersBudget, OwnersShare};
use crate::problem::{Problem, ProblemKind};

/// How long whoever was refused waits.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// For whom something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Anybody. All of them share half of the budget, so that they do not crowd out who
    /// is signed in.
    Stranger,
    /// Somebody whose session or token was found good.
    SignedIn,
}

/// Marks the answer to a request of somebody who is signed in.
#[derive(Clone, Copy, Debug)]
pub struct IsSignedIn;

/// Marks a request with the account whose it is, for what reads its body.
#[derive(Clone, Debug)]
pub struct OfAccount(pub Arc<str>);

/// Whether the extensions of an answer say that its request came with a session or a token
/// that was found good. For servers that keep places for those.
pub fn is_signed_in(answer: &http::Extensions) -> bool {
    answer.get::<IsSignedIn>().is_some()
}

/// Bytes that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    /// For everybody.
    open: usize,
    /// For who is signed in.
    kept: usize,
}

/// A number of bytes from which all take.
///
/// ```
/// use kite_rest::budget::{Budget, Party};
///
/// let budget = Budget::shared(1000);
/// let share = budget.take(Party::Stranger, 500)?;
/// // Strangers have their half; whoever is signed in still finds the other one.
/// assert!(budget.take(Party::Stranger, 1).is_err());
/// assert!(budget.take(Party::SignedIn, 500).is_ok());
/// drop(share);
/// assert!(budget.take(Party::Stranger, 500).is_ok());
/// # Ok::<(), kite_rest::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Left>>);

impl Budget {
    /// Half for everybody, half for who is signed in.
    pub fn shared(bytes: usize) -> Self {
        let open = bytes / 2;
        Self::with(open, bytes - open)
    }

    /// For who is signed in alone.
    pub fn signed_in(bytes: usize) -> Self {
        Self::with(0, bytes)
    }

    fn with(open: usize, kept: usize) -> Self {
        Self(Arc::new(Mutex::new(Left { open, kept })))
    }

    /// A share in which nothing is yet.
    pub fn share(&self, party: Party) -> Share {
        Share {
            budget: self.clone(),
            party,
            open: 0,
            kept: 0,
        }
    }

    /// A share of `bytes`.
    ///
    /// # Errors
    /// [`ProblemKind::Unavailable`] if there is less left.
    pub fn take(&self, party: Party, bytes: usize) -> Result<Share, Problem> {
        let mut share = self.share(party);
        share.grow(bytes)?;
        Ok(share)
    }
}

/// What somebody holds of a [`Budget`]; dropping it gives it back.
pub struct Share {
    budget: Budget,
    party: Party,
    open: usize,
    kept: usize,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("party", &self.party)
            .field("bytes", &(self.open + self.kept))
            .finish_non_exhaustive()
    }
}

impl Share {
    /// Takes `bytes` more, or none of them.
    ///
    /// # Errors
    /// [`ProblemKind::Unavailable`] if there is less left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let mut left = self.budget.0.lock();
        // What strangers cannot have is taken first.
        let kept = match self.party {
            Party::Stranger => 0,
            Party::SignedIn => bytes.min(left.kept),
        };
        let open = bytes - kept;
        if open > left.open {
            return Err(Problem::new(
                ProblemKind::Unavailable,
                "this server holds as much for others as it may: try again shortly",
            )
            .retry_after(RETRY_AFTER));
        }
        left.open -= open;
        left.kept -= kept;
        self.open += open;
        self.kept += kept;
        Ok(())
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let mut left = self.budget.0.lock();
        let beyond = (self.open + self.kept).saturating_sub(bytes);
        let open = beyond.min(self.open);
        let kept = beyond - open;
        self.open -= open;
        self.kept -= kept;
        left.open += open;
        left.kept += kept;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn strangers_share_half_and_leave_the_rest_to_who_is_signed_in() {
        let budget = Budget::shared(100);
        let mut stranger = budget.share(Party::Stranger);
        stranger.grow(50).unwrap();
        assert!(budget.take(Party::Stranger, 1).is_err());
        assert!(stranger.grow(1).is_err());
        let signed_in = budget.take(Party::SignedIn, 50).unwrap();
        assert!(budget.take(Party::SignedIn, 1).is_err());
        drop(stranger);
        // Who is signed in takes of the rest, too.
        let other = budget.take(Party::SignedIn, 50).unwrap();
        assert!(budget.take(Party::Stranger, 1).is_err());
        drop((signed_in, other));
        assert_eq!(*budget.0.lock(), Left { open: 50, kept: 50 });
    }

    #[test]
    fn what_is_refused_takes_nothing_and_what_shrinks_gives_back() {
        let budget = Budget::shared(100);
        assert!(budget.take(Party::SignedIn, 101).is_err());
        let mut share = budget.take(Party::SignedIn, 100).unwrap();
        share.shrink_to(20);
        // What is kept for who is signed in goes back last.
        assert_eq!(*budget.0.lock(), Left { open: 50, kept: 30 });
        share.shrink_to(60);
        share.grow(80).unwrap();
        drop(share);
        assert_eq!(*budget.0.lock(), Left { open: 50, kept: 50 });
        assert!(Budget::signed_in(100).take(Party::Stranger, 1).is_err());
        assert!(Budget::signed_in(100).take(Party::SignedIn, 100).is_ok());
    }
}
