//! Storage: claims get volumes, of drivers that differ.

mod attributes;
mod binding;
mod claims;
mod contents;
mod drivers;
mod protection;
mod standing;

pub use attributes::AttributesProtection;
pub use binding::{
    SELECTED_NODE, bind, claim_size, class_of, grow, is_bound, is_consumed, is_late, is_late_bound,
    rebind, resume, volume_of,
};
pub use claims::ClaimBinder;
pub use claims::claims_of;
pub(in crate::actors) use contents::obstacle;
pub use contents::{
    ARRIVING, BROKEN, CONTENTS, COPYING_FROM, FILLED_FROM, Filling, STILL, TAKEN, annotation,
};
pub use drivers::{Bond, Driver};
