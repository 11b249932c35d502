//! Fields that hold objects of a custom resource's own, which are read by its schema: what
//! is wrong inside of them is told by its own place. The API server would drop misspelt
//! fields in silence.

use std::{borrow::Cow, marker::PhantomData};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    described_as::described_as,
    field::Field,
    shape::{Fault, Shape, schema_of},
};

/// What of an object is changed: what is not named in it stays, and null removes.
pub struct Partial<T>(pub Map<String, Value>, PhantomData<T>);

/// A list of whole objects, as they were written.
pub struct Listed<T>(pub Vec<Map<String, Value>>, PhantomData<T>);

/// An object, or a list, as a whole: what it does not name is not there.
pub struct Whole<T>(pub T);

described_as!(Whole<T> as T);

impl<T: JsonSchema + DeserializeOwned> Field for Whole<T> {
    fn expected() -> Cow<'static, str> {
        if schema_of::<T>()["type"] == "array" {
            "a list of objects".into()
        } else {
            "an object with its fields".into()
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        T::deserialize(value).ok().map(Self)
    }
}

described_as!(Partial<T> as T);

impl<T: JsonSchema> Field for Partial<T> {
    fn expected() -> Cow<'static, str> {
        "an object with the fields to change".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        let fields = value.as_object()?.clone();
        Some(Self(fields, PhantomData))
    }

    fn faults(value: &Value, place: &str) -> Vec<Fault> {
        let schema = schema_of::<T>();
        let shape = Shape::new(&schema, &schema).merging();
        shape.faults(value, place)
    }
}

described_as!(Listed<T> as Vec<T>);

impl<T: JsonSchema + DeserializeOwned> Field for Listed<T> {
    fn expected() -> Cow<'static, str> {
        "a list of objects such as [{\"name\": \"one\"}]".into()
    }

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value::<Vec<T>>(value.clone()).ok()?;
        let objects = serde_json::from_value(value.clone()).ok()?;
        Some(Self(objects, PhantomData))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::crd::{Exposure, GatewayExposure, SignInProvider, WebExposure};
    use serde_json::json;

    use super::*;
    use crate::{Form, shape::not_understood};

    fn told<T: Field>(value: &Value) -> Vec<String> {
        let mut form = Form::new(json!({ "it": value }).as_object().unwrap().clone());
        let _ = form.change::<T>("it");
        let Err(problem) = form.finish() else {
            return Vec::new();
        };
        let fields = problem.errors().iter().map(|it| it.field.clone());
        fields.collect()
    }

    #[test]
    fn a_misspelt_field_is_found_wherever_it_is() {
        let right = json!({"gateway": {"name": "a", "namespace": "b"}, "certificate": {}});
        assert_eq!(told::<Partial<Exposure>>(&right), [""; 0]);
        let wrong = json!({"gatway": {}, "gateway": {"nmae": "a"}, "certificate": null});
        assert_eq!(
            told::<Partial<Exposure>>(&wrong),
            ["it.gateway.nmae", "it.gatway"]
        );
        // What people name themselves is no field.
        let named = json!({"annotations": {"example.org/a": "b"}, "publicHsot": "x"});
        assert_eq!(told::<Partial<GatewayExposure>>(&named), ["it.publicHsot"]);
        let whole = json!({"name": "a", "issuer": "b", "clientId": "c"});
        let mut with = whole.clone();
        with["accessLevels"] = json!([{"gruop": "x", "accessLevel": "User"}]);
        assert_eq!(
            told::<Listed<SignInProvider>>(&json!([whole, with])),
            ["it[1].accessLevels[0].gruop", "it[1].accessLevels[0].group"]
        );
    }

    #[test]
    fn a_wrong_type_is_found_wherever_it_is() {
        assert_eq!(
            told::<Vec<String>>(&json!(["a", 1, null])),
            ["it[1]", "it[2]"]
        );
        let wrong = json!({"publicPort": "x", "annotations": {"a": 1}, "enabled": null});
        assert_eq!(
            told::<Partial<GatewayExposure>>(&wrong),
            ["it.annotations.a", "it.publicPort"]
        );
        let wrong = json!([{"name": "a", "issuer": 1, "scopes": ["a", 1]}]);
        assert_eq!(
            told::<Listed<SignInProvider>>(&wrong),
            ["it[0].issuer", "it[0].scopes[1]", "it[0].clientId"]
        );
    }

    #[test]
    fn what_schemas_of_nested_fields_say_is_looked_at_here_or_by_the_api_server() {
        const BY_THE_API_SERVER: [&str; 11] = [
            "$defs",
            "$schema",
            "maxItems",
            "maxProperties",
            "minLength",
            "pattern",
            "title",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "x-kubernetes-validations",
        ];
        for schema in [
            schema_of::<Exposure>(),
            schema_of::<WebExposure>(),
            schema_of::<GatewayExposure>(),
            schema_of::<SignInProvider>(),
        ] {
            let defined = schema["$defs"].as_object().into_iter().flatten();
            let all = defined.map(|(_, it)| it).chain([&schema]);
            for it in all {
                let unknown = not_understood(it, &BY_THE_API_SERVER);
                assert!(unknown.is_empty(), "{unknown:?} in {it}");
            }
        }
    }
}
