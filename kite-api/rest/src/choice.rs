//! [`OneOf`] and [`SomeOf`]: fields that are one of several words, or some of them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    described_as::described_as,
    field::Field,
    shape::{Shape, schema_of},
};

/// A value of an enum, which is one of the words of its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOf<T>(pub T);

/// Several values of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeOf<T>(pub Vec<T>);

impl<T: JsonSchema + DeserializeOwned> Field for OneOf<T> {
    fn expected() -> Cow<'static, str> {
        let schema = schema_of::<T>();
        let words = Shape::new(&schema, &schema).words();
        match words.as_slice() {
            [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
            _ => words.join(""),
        }
        .into()
    }

    fn parse(value: &Value) -> Option<Self> {
        T::deserialize(value).ok().map(Self)
    }
}

impl<T: JsonSchema + DeserializeOwned> Field for SomeOf<T> {
    fn expected() -> Cow<'static, str> {
        let schema = schema_of::<T>();
        let words = Shape::new(&schema, &schema).words();
        format!("a list of {}", words.join(", ")).into()
    }

    fn parse(value: &Value) -> Option<Self> {
        Vec::<T>::deserialize(value).ok().map(Self)
    }
}

described_as!(OneOf<T> as T);

described_as!(SomeOf<T> as Vec<T>);

#[cfg(test)]
mod tests {
    use kite_core::crd::{AccessLevel, PowerState, TokenScope};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_expected_are_the_words_of_the_schema() {
        assert_eq!(OneOf::<PowerState>::expected(), "On or Off");
        assert_eq!(
            OneOf::<AccessLevel>::expected(),
            "ReadOnly, User, Manager or Admin"
        );
        let scopes = SomeOf::<TokenScope>::expected();
        assert!(
            scopes.starts_with("a list of vms:read, vms:power, "),
            "{scopes}"
        );
        assert_eq!(
            OneOf::<PowerState>::parse(&json!("On")),
            Some(OneOf(PowerState::On))
        );
        assert_eq!(OneOf::<PowerState>::parse(&json!("on")), None);
        assert_eq!(
            SomeOf::<PowerState>::parse(&json!(["On", "Off"])),
            Some(SomeOf(vec![PowerState::On, PowerState::Off]))
        );
        assert_eq!(SomeOf::<PowerState>::parse(&json!(["On", 5])), None);
    }
}
