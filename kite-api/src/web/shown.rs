//! [`Shown`]: a view that was written down before it was asked for.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A `T`, as JSON already where that was done ahead.
pub(crate) enum Shown<T> {
    Written(Arc<RawValue>, PhantomData<T>),
    View(T),
}

impl<T> Shown<T> {
    /// What was written ahead, or the view.
    pub(crate) fn new(written: Option<&Arc<RawValue>>, view: impl FnOnce() -> T) -> Self {
        match written {
            Some(written) => Self::Written(Arc::clone(written), PhantomData),
            None => Self::View(view()),
        }
    }
}

impl<T: Serialize> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Written(text, _) => text.serialize(serializer),
            Self::View(view) => view.serialize(serializer),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Shown<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
