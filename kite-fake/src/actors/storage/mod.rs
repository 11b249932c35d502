//! Storage: claims get volumes.

mod binding;
mod claims;
mod protection;

pub(super) use binding::{SELECTED_NODE, bind, claim_size, is_bound, is_late_bound};
pub use claims::ClaimBinder;
pub(super) use claims::claims_of;
