//! HTTP as such: bodies, lists, and what surrounds every request.

mod form;
pub(crate) mod layers;

use serde::Serialize;

pub use self::form::BODY_LIMIT;
pub(crate) use self::form::{Change, Field, Form};

/// A list, wrapped so that paging can be added beside the items.
#[derive(Serialize)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
}

/// Whether `text` is a DNS label and so fit to name an object. What is not must
/// not get into a path of the API server; the CRD refuses it in words.
pub(crate) fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
