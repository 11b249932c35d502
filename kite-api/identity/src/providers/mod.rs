//! What sign-in providers say of themselves, and where they may be.

mod discovery;
mod failure;
mod fetch;
mod reach;

pub(crate) use self::{
    discovery::{Metadata, Providers, lost},
    failure::Failure,
    reach::Reach,
};
