//! HTTP as such: bodies, lists, and what surrounds every request.

mod form;
pub(crate) mod layers;

use serde::Serialize;

pub use self::form::BODY_LIMIT;
pub(crate) use self::form::{Change, Form};

/// A list, wrapped so that paging can be added beside the items.
#[derive(Serialize)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
}
