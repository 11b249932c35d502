//! Objects by the names in paths, and what a deletion answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    answer::{Accepted, Answer},
    bounds::Bounds,
};

/// What stands for one object in a path.
#[derive(Deserialize, JsonSchema)]
pub struct Named {
    /// Its name.
    pub name: String,
}

/// What a deletion answers.
#[derive(Serialize, JsonSchema)]
pub struct Deleting {
    /// What is deleted.
    name: String,
    /// Always true: it goes, and is gone when it cannot be found any more.
    deleting: bool,
}

impl Deleting {
    /// The answer to the deletion of what is called so.
    pub fn of(name: String) -> Accepted<Self> {
        Answer::new(Self {
            name,
            deleting: true,
        })
    }
}

/// How long a DNS label may be.
pub const LABEL: Bounds = Bounds::between(1, 63);

/// Whether `text` is a DNS label and so fit to name an object. What is not must
/// not get into a path of the API server; the CRD refuses it in words.
pub fn is_label(text: &str) -> bool {
    LABEL.hold(text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
