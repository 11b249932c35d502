//! [`Allowance`]: a quota in a body.

use std::borrow::Cow;

use kite_core::{crd::Quota, quantity::Bytes};
use kite_rest::{Fault, FaultKind, Field, faults_by_schema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize as _;
use serde_json::Value;

/// What somebody may have.
pub(crate) struct Allowance {
    pub(crate) quota: Quota,
    /// As it was written: in an edit, null takes away what was there, and what is not named stays.
    pub(crate) written: Value,
}

impl JsonSchema for Allowance {
    fn inline_schema() -> bool {
        Quota::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Quota::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Quota::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Quota::json_schema(generator)
    }
}

impl Field for Allowance {
    fn expected() -> Cow<'static, str> {
        "an object such as {\"vms\": 5, \"cpu\": 8, \"memory\": \"16Gi\", \"disk\": \"200Gi\"}"
            .into()
    }

    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            quota: Quota::deserialize(value).ok()?,
            written: value.clone(),
        })
    }

    fn faults(value: &Value, place: &str) -> Vec<Fault> {
        let mut faults = faults_by_schema::<Self>(value, place);
        if !value.is_object() {
            return faults;
        }
        // Of sizes the schema says only that they are texts.
        for (name, may_lack) in [
            ("memory", false),
            ("disk", false),
            ("snapshotDisk", true),
            ("volumeDisk", true),
        ] {
            let place = format!("{place}.{name}");
            let given = value.get(name);
            let is_none = given.is_none_or(Value::is_null);
            if given.and_then(Bytes::parse).is_some() || (may_lack && is_none) {
                continue;
            }
            let expected = Bytes::expected().into_owned();
            faults.retain(|fault| fault.place != place);
            faults.push(Fault {
                place,
                value: given.cloned(),
                kind: match given {
                    Some(_) => FaultKind::Other(expected),
                    None => FaultKind::Missing(expected),
                },
            });
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_rest::{Form, not_understood};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_part_is_found() {
        let told = |value: Value| {
            let mut form = Form::new(json!({ "it": value }).as_object().unwrap().clone());
            let _ = form.change::<Allowance>("it");
            let problem = form.finish().unwrap_err();
            let fields = problem.errors().iter().map(|it| it.field.clone());
            fields.collect::<Vec<_>>()
        };
        assert_eq!(
            told(json!({"vms": 1, "cpu": [], "memory": "lots", "foo": 1})),
            ["it.cpu", "it.foo", "it.memory", "it.disk"]
        );
        assert_eq!(told(json!([])), ["it"]);
        let mut sizes = json!({"vms": 1, "cpu": 1, "memory": "1Gi", "disk": "1Gi"});
        for (name, value) in [("snapshotDisk", json!("lots")), ("volumeDisk", json!(5))] {
            sizes[name] = value;
        }
        assert_eq!(told(sizes), ["it.snapshotDisk", "it.volumeDisk"]);
    }

    #[test]
    fn what_its_schema_says_is_looked_at_here_or_by_the_api_server() {
        const BY_THE_API_SERVER: [&str; 4] =
            ["$defs", "$schema", "title", "x-kubernetes-validations"];
        let schema = json!(SchemaGenerator::default().into_root_schema_for::<Quota>());
        let defined = schema["$defs"].as_object().into_iter().flatten();
        for it in defined.map(|(_, it)| it).chain([&schema]) {
            let unknown = not_understood(it, &BY_THE_API_SERVER);
            assert!(unknown.is_empty(), "{unknown:?} in {it}");
        }
    }
}
