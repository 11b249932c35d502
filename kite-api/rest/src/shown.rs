//! [`Shown`]: a view that was written down before it was asked for.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::described_as::described_as;

/// A `T`, as JSON already where that was done ahead.
pub struct Shown<T>(Inner<T>);

enum Inner<T> {
    Written(Arc<RawValue>),
    View(T),
}

impl<T> Shown<T> {
    /// What was written ahead, or the view.
    pub fn new(written: Option<&Arc<RawValue>>, view: impl FnOnce() -> T) -> Self {
        match written {
            Some(written) => Self(Inner::Written(Arc::clone(written))),
            None => Self(Inner::View(view())),
        }
    }
}

impl<T: Serialize> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Inner::Written(text) => text.serialize(serializer),
            Inner::View(view) => view.serialize(serializer),
        }
    }
}

described_as!(Shown<T> as T);
