//! Laws that plans keep, whatever is wanted and whatever is found: objects that
//! were never there, belong to somebody else or to an earlier life, are on their
//! way out, lost their labels or their owner, or say nonsense of themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod found;
mod image_laws;
mod user_laws;
mod users;
mod vm_laws;
mod vms;
