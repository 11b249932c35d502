//! What the owner of an account should know of, until they have seen it.
//!
//! | Module | What |
//! |---|---|
//! | [`store`] | how notices are kept, in annotations of what they are about |
//! | [`told`] | what was told of last: what differs from it is news |
//! | [`mod@write`] | what is written by itself |
//!
//! A notice is there by the same write as what it tells of, or before that, and stays until
//! somebody has named it by its id: so none is lost to a crash, or with what it is about.
//! An application has notices of its own kinds beside those of accounts, and keeps them by
//! the same means.

pub mod store;
pub mod told;
pub mod write;

use jiff::Timestamp;
use kite_core::crd::KiteUser;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::store::{Record, id_of, put};
pub use self::{
    told::{note_edit, note_new},
    write::tell_ahead,
};

/// What a notice of an account is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AccountNotice {
    /// Somebody signed in from a browser or an address that the account was not seen at.
    SignIn,
    /// An API token was made.
    Token,
    /// A key was added that opens all that is the account's.
    Key,
    /// The account was linked with somebody at a sign-in provider, who may sign in to it.
    Identity,
    /// The account has another password.
    Password,
    /// A second factor was set up, or taken away.
    SecondFactor,
    /// The quota is another.
    Quota,
}

impl AccountNotice {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::SignIn,
        Self::Token,
        Self::Key,
        Self::Identity,
        Self::Password,
        Self::SecondFactor,
        Self::Quota,
    ];
}

/// Adds to `notes`, which are about to be written to `user`, that somebody has signed in
/// from a new place, which is called `place`: with which client, and in which network.
pub(crate) fn put_sign_in(
    user: &KiteUser,
    notes: &mut Map<String, Value>,
    place: &str,
    (client, network): (&str, Option<String>),
    now: Timestamp,
) {
    let mut record = Record::new(AccountNotice::SignIn, client, now);
    record.network = network;
    let id = id_of(AccountNotice::SignIn, place);
    put(user.annotations(), notes, &id, &record);
}
