//! [`ClaimState`]: how a claim stands.

use kite_core::crd::KiteReservation;

/// How a claim stands.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimState {
    /// Nobody has it.
    Free,
    /// The one who asks has it.
    Mine(KiteReservation),
    /// Somebody else has it.
    Held {
        /// Their reservation.
        reservation: KiteReservation,
        /// Whether they still exist.
        alive: bool,
        /// Uid of the user whose they were, if they do not exist any more.
        user_uid: Option<String>,
    },
    /// It was given back, and is kept for its former owner.
    Kept(KiteReservation),
    /// Nobody gets it who does not have it, for this reason.
    Reserved(String),
}
