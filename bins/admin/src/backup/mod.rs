//! All that people and administrators have written into an installation, as one file,
//! and back again.
//!
//! Kept are Kite's custom resources, but for sessions and connections, and on request the
//! Secrets that nobody can make anew. What the controller finds out or makes again is
//! not; and no disk is.

mod admit;
mod bootstrap;
mod claim;
mod compare;
mod document;
mod factor;
mod kinds;
mod namespace;
mod order;
mod outcome;
mod password;
mod restore;
mod rising;
mod selection;
mod take;
mod write;

pub use self::{
    document::{Backup, Entry, ReadError},
    outcome::Outcome,
    password::without_password,
    restore::{NotInstalled, Options, Scope, require_installed, restore},
    selection::{Only, SelectError, Selection},
    take::{Reading, take},
};
use crate::{causes::said, install::ObjectName};

/// Why nothing could be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "{object}: {}; see whether Kite is installed (kite doctor) and these credentials may \
     read all of it",
    said(answer)
)]
pub struct Error {
    object: Box<ObjectName>,
    answer: Box<kube::Error>,
}

impl Error {
    fn of(object: ObjectName, answer: kube::Error) -> Self {
        Self {
            object: Box::new(object),
            answer: Box::new(answer),
        }
    }
}
