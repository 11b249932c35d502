//! Storage: claims get volumes.

mod attributes;
mod binding;
mod claims;
mod protection;

pub use attributes::AttributesProtection;
pub use binding::{SELECTED_NODE, bind, claim_size, is_bound, is_late_bound};
pub use claims::ClaimBinder;
pub use claims::claims_of;
