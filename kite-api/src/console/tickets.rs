//! What a ticket is for, and tickets that are kept in memory.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use kite_rest::{Problem, ProblemKind};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ConsoleKind;

/// Tickets that wait in one session.
pub(crate) const MOST_WAITING: usize = 8;
/// Tickets that wait in memory.
const MOST_IN_MEMORY: usize = 1024;

/// What a ticket is for.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    /// Namespace of the VM.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) vm: String,
    /// Its uid: another VM of the name is another.
    pub(crate) uid: String,
    /// The account whose VM it is.
    pub(crate) owner: String,
    /// What of it is to be opened.
    pub(crate) kind: ConsoleKind,
    /// Until when the ticket is good.
    pub(crate) expires_at: Timestamp,
}

/// Tickets of accounts that were authenticated elsewhere.
#[derive(Default)]
pub(crate) struct MemoryTickets(Mutex<HashMap<String, (String, Grant)>>);

impl MemoryTickets {
    pub(crate) fn put(&self, name: String, user: &str, grant: Grant) -> Result<(), Problem> {
        let now = Timestamp::now();
        let mut tickets = self.0.lock();
        tickets.retain(|_, (_, grant)| grant.expires_at > now);
        let of_user = tickets.values().filter(|(owner, _)| owner == user).count();
        if of_user >= MOST_WAITING || tickets.len() >= MOST_IN_MEMORY {
            return Err(too_many());
        }
        tickets.insert(name, (user.to_owned(), grant));
        Ok(())
    }

    pub(crate) fn take(&self, name: &str, user: &str) -> Option<Grant> {
        let mut tickets = self.0.lock();
        // Somebody else's ticket stays theirs.
        tickets.get(name).filter(|(owner, _)| owner == user)?;
        tickets.remove(name).map(|(_, grant)| grant)
    }
}

/// The refusal of a ticket where too many wait.
pub(crate) fn too_many() -> Problem {
    Problem::new(
        ProblemKind::TooManyRequests,
        "too many tickets wait to be used: open the consoles that were asked for, or wait",
    )
    .retry_after(Duration::from_secs(30))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn grant() -> Grant {
        Grant {
            namespace: "kite-user-ann".to_owned(),
            vm: "web".to_owned(),
            uid: "1".to_owned(),
            owner: "ann".to_owned(),
            kind: ConsoleKind::Vnc,
            expires_at: Timestamp::now() + Duration::from_secs(30),
        }
    }

    #[test]
    fn in_memory_a_ticket_is_good_once_and_for_its_owner() {
        let tickets = MemoryTickets::default();
        tickets.put("a".to_owned(), "ann", grant()).unwrap();
        assert_eq!(tickets.take("a", "bob"), None);
        assert!(tickets.take("a", "ann").is_some());
        assert_eq!(tickets.take("a", "ann"), None);
        for number in 0..MOST_WAITING {
            tickets.put(number.to_string(), "ann", grant()).unwrap();
        }
        assert!(tickets.put("x".to_owned(), "ann", grant()).is_err());
        assert!(tickets.put("x".to_owned(), "bob", grant()).is_ok());
    }
}
