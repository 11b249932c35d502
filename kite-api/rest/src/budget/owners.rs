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
pub struct OwnersBudget {
    all: Budget,
    /// What each account holds.
    held: Arc<Mutex<HashMap<String, usize>>>,
    most: usize,
    /// What somebody reads who holds too much.
    refusal: &'static str,
}

impl OwnersBudget {
    /// For who is signed in. However few `bytes` there are, one account may have `least`.
    pub fn new(bytes: usize, least: usize, refusal: &'static str) -> Self {
        Self {
            all: Budget::signed_in(bytes.max(least)),
            held: Arc::default(),
            most: (bytes / PART).max(least),
            refusal,
        }
    }

    /// For everybody: half of it for strangers, too, and the other half, and what they leave,
    /// for who is signed in.
    pub fn beside_strangers(bytes: usize, least: usize, refusal: &'static str) -> Self {
        Self {
            all: Budget::shared(bytes),
            ..Self::new(bytes, least, refusal)
        }
    }

    /// A share in which nothing is yet, for the account `owner` or for a stranger.
    ///
    /// # Errors
    /// [`ProblemKind::TooManyRequests`] while the account holds more than one may.
    pub fn share(&self, owner: Option<&str>) -> Result<AnyShare, Problem> {
        Ok(match owner {
            Some(owner) => AnyShare::OfAccount(self.take(owner, 0)?),
            None => AnyShare::OfStranger(self.all.share(Party::Stranger)),
        })
    }

    /// A share of `bytes` for the account `owner`. Who holds nothing gets what there is,
    /// however large: else the one thing that somebody needs might never fit.
    ///
    /// # Errors
    /// [`ProblemKind::TooManyRequests`] if that is more than one account may hold,
    /// [`ProblemKind::Unavailable`] if there is less left.
    pub fn take(&self, owner: &str, bytes: usize) -> Result<OwnersShare, Problem> {
        let mut held = self.held.lock();
        let has = held.get(owner).copied().unwrap_or_default();
        self.require(has, bytes)?;
        let share = self.all.take(Party::SignedIn, bytes)?;
        held.insert(owner.to_owned(), has + bytes);
        Ok(OwnersShare {
            share,
            budget: self.clone(),
            owner: owner.to_owned(),
            bytes,
        })
    }

    /// Refuses `bytes` more to an account that has so many of others.
    fn require(&self, has: usize, bytes: usize) -> Result<(), Problem> {
        if has == 0 || has + bytes <= self.most {
            return Ok(());
        }
        Err(Problem::new(ProblemKind::TooManyRequests, self.refusal).retry_after(RETRY_AFTER))
    }
}

/// What an account or a stranger holds of an [`OwnersBudget`]; dropping it gives it back.
#[derive(Debug)]
pub enum AnyShare {
    /// Of all strangers' part.
    OfStranger(Share),
    /// Of the account's.
    OfAccount(OwnersShare),
}

impl AnyShare {
    /// Takes `bytes` more, or none of them.
    ///
    /// # Errors
    /// [`ProblemKind::TooManyRequests`] if that is more than one account may hold,
    /// [`ProblemKind::Unavailable`] if there is less left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        match self {
            Self::OfStranger(share) => share.grow(bytes),
            Self::OfAccount(share) => share.resize(share.bytes + bytes),
        }
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        match self {
            Self::OfStranger(share) => share.shrink_to(bytes),
            Self::OfAccount(share) => share.shrink_to(bytes),
        }
    }
}

/// What an account holds of an [`OwnersBudget`]; dropping it gives it back.
pub struct OwnersShare {
    share: Share,
    budget: OwnersBudget,
    owner: String,
    bytes: usize,
}

impl OwnersShare {
    /// Holds `bytes` from now on. Where that is more and too much, it stays as it was.
    ///
    /// # Errors
    /// [`ProblemKind::TooManyRequests`] if that is more than one account may hold,
    /// [`ProblemKind::Unavailable`] if there is less left.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes <= self.bytes {
            self.shrink_to(bytes);
            return Ok(());
        }
        let mut held = self.budget.held.lock();
        let has = held.get(&self.owner).copied().unwrap_or_default();
        let others = has.saturating_sub(self.bytes);
        self.budget.require(others, bytes)?;
        self.share.grow(bytes - self.bytes)?;
        self.bytes = bytes;
        held.insert(self.owner.clone(), others + bytes);
        Ok(())
    }

    /// Gives back what is beyond `bytes`.
    fn shrink_to(&mut self, bytes: usize) {
        let beyond = self.bytes.saturating_sub(bytes);
        self.share.shrink_to(bytes);
        self.bytes -= beyond;
        let mut held = self.budget.held.lock();
        if let Some(has) = held.get_mut(&self.owner) {
            *has = has.saturating_sub(beyond);
        }
    }
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
        let mut held = self.budget.held.lock();
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
        let budget = OwnersBudget::new(100, 1, "too much");
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

    #[test]
    fn a_share_that_turns_out_otherwise_is_counted_as_it_is() {
        let budget = OwnersBudget::new(100, 1, "too much");
        let other = budget.take("ann", 5).unwrap();
        let mut share = budget.take("ann", 10).unwrap();
        share.resize(20).unwrap();
        assert!(share.resize(21).is_err());
        assert!(budget.take("ann", 1).is_err());
        share.resize(2).unwrap();
        drop(budget.take("ann", 18).unwrap());
        drop((share, other));
        assert!(budget.held.lock().is_empty());
        assert!(budget.take("bob", 100).is_ok(), "all is there again");
    }

    #[test]
    fn however_little_there_is_an_account_has_the_least() {
        let budget = OwnersBudget::new(40, 30, "too much");
        let _first = budget.take("ann", 10).unwrap();
        let second = budget.take("ann", 20).unwrap();
        assert!(budget.take("ann", 1).is_err());
        drop(second);
        drop(
            OwnersBudget::new(2, 30, "too much")
                .take("ann", 30)
                .unwrap(),
        );
    }
}
