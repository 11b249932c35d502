//! What sign-in providers say of themselves.

mod discovery;
mod failure;

pub(crate) use self::{
    discovery::{Metadata, Providers, lost},
    failure::Failure,
};
