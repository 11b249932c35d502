//! Schemas of Kubernetes kinds: the model, and the pure functions over it.
//!
//! A custom resource's schema is parsed once, when its definition is stored
//! ([`Schema::from_json`], CEL programs and patterns compiled), and then used
//! for each request in this order: [`prune`], [`apply_defaults`], [`validate`].

#[cfg(feature = "cel")]
mod cel;
#[cfg(not(feature = "cel"))]
#[path = "no_cel.rs"]
mod cel;
mod constraints;
mod correlate;
pub mod crd;
mod declared;
mod default;
mod embedded;
mod field_path;
mod formats;
mod lists;
mod meta;
mod model;
mod parse;
mod path;
mod pattern;
mod prune;
mod rule;
mod validate;

pub use crate::field_error::{CauseReason, FieldError, aggregate};
pub use crate::held::Held;
pub(crate) use cel::{Program, review_expression};
#[cfg(feature = "cel")]
pub(crate) use cel::{authorizer, configuration, operations, untyped};
pub(crate) use crd::client_config;
pub(crate) use declared::{Declared, Wanted};
pub use default::apply_defaults;
pub use meta::{object_meta, object_meta_json};
pub use model::{Bound, Constraints, Kind, ListType, MapType, PatchStrategy, Presence, Schema};
pub use parse::SchemaError;
pub use pattern::Pattern;
pub use prune::prune;
pub use rule::Rule;
pub(crate) use validate::validate_after;
pub use validate::{Validation, validate};

#[cfg(test)]
mod tests;
