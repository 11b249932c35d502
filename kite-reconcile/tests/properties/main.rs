//! Laws that plans keep, whatever is wanted and whatever is found: objects that
//! were never there, belong to somebody else or to an earlier life, are on their
//! way out, lost their labels or their owner, or say nonsense of themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(
    clippy::fn_params_excessive_bools,
    clippy::items_after_statements,
    clippy::needless_update,
    clippy::ref_option,
    clippy::similar_names,
    clippy::wrong_self_convention,
    reason = "worlds are built from many small choices, and from defaults so that new fields do no harm"
)]

mod found;
mod image_laws;
mod offer_laws;
mod platform_laws;
mod quota_laws;
mod user_laws;
mod users;
mod vm_laws;
mod vms;
