//! [`Field`]: which values a field of a body can have, and what to write if it has another.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{quantity::Bytes, span::Span, time};
use schemars::JsonSchema;
use serde_json::Value;

use crate::shape::{Fault, faults_by_schema};

/// A value that a field can have.
pub trait Field: Sized + JsonSchema {
    /// What to write, in the words after "write".
    fn expected() -> Cow<'static, str>;

    /// The value, if it is of this type.
    fn parse(value: &Value) -> Option<Self>;

    /// The value as it is to be taken, if there is something to tidy up in it.
    fn tidied(_value: &Value) -> Option<Value> {
        None
    }

    /// What is wrong inside of a list or an object, which stands at `place`.
    fn faults(value: &Value, place: &str) -> Vec<Fault> {
        faults_by_schema::<Self>(value, place)
    }
}

impl Field for String {
    fn expected() -> Cow<'static, str> {
        "a text in quotes".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Field for bool {
    fn expected() -> Cow<'static, str> {
        "true or false".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Field for u32 {
    fn expected() -> Cow<'static, str> {
        "a whole number such as 2".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_u64().and_then(|number| number.try_into().ok())
    }
}

impl Field for Bytes {
    fn expected() -> Cow<'static, str> {
        "a size with its unit, such as 512Mi or 20Gi".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Field for Vec<String> {
    fn expected() -> Cow<'static, str> {
        "a list of texts such as [\"ssh-ed25519 AAAA…\"]".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value
            .as_array()?
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    }
}

impl Field for Time {
    fn expected() -> Cow<'static, str> {
        "a time such as 2026-12-31T18:00:00Z".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        time::parse(value.as_str()?).ok()
    }
}

impl Field for Span {
    fn expected() -> Cow<'static, str> {
        "a span such as 90m or 72h".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for value in [json!(-1), json!(1.5), json!(4_294_967_296_u64), json!("2")] {
            assert_eq!(u32::parse(&value), None, "{value}");
        }
    }
}
