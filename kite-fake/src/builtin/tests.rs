#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::testing::any_json;

fn find(group: &str, version: &str, name: &str) -> &'static BuiltIn {
    kind(group, version, name).unwrap()
}

#[test]
fn every_kind_has_a_schema_with_metadata() {
    for entry in &table::KINDS {
        let schema = entry.schema();
        let reviews = entry.group.starts_with("auth");
        assert!(
            reviews || schema.properties.contains_key("metadata"),
            "{entry:?}"
        );
        assert!(!schema.properties.is_empty(), "{entry:?}");
        assert!(entry.empty().is_object(), "{entry:?}");
    }
}

#[test]
fn empty_objects_have_what_go_always_writes() {
    for (group, name, expected) in [
        ("", "ConfigMap", json!({"metadata": {}})),
        (
            "",
            "Service",
            json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ),
        (
            "",
            "PodTemplate",
            json!({"metadata": {}, "template": {"metadata": {}, "spec": {"containers": null}}}),
        ),
        (
            "",
            "Event",
            json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
                "reportingInstance": ""}),
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"metadata": {}, "spec": {"podSelector": {}}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({"metadata": {}, "rules": null}),
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"metadata": {}, "spec": {"resources": {}}, "status": {}}),
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"metadata": {}, "spec": {}}),
        ),
    ] {
        assert_eq!(find(group, "v1", name).empty(), &expected, "{name}");
    }
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    let mut map = json!({"metadata": {"name": "a", "labels": {"k": 1}}});
    assert_eq!(
        find("", "v1", "ConfigMap").decode(&mut map),
        Err("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string".into())
    );
    let mut map = json!({"data": {"k": 1}});
    assert_eq!(
        find("", "v1", "ConfigMap").decode(&mut map),
        Err(
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
                .into()
        )
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_input_panics(object in any_json(), other in any_json(), pick in 0..table::KINDS.len()) {
        let entry = &table::KINDS[pick];
        let mut object = json!({"metadata": object.clone(), "spec": object, "rules": other,
            "subjects": other, "template": {"spec": other}, "data": other});
        let _ = entry.decode(&mut object);
        entry.prepare_create(&mut object);
        let _ = entry.validate_create(&object);
        let mut new = other.clone();
        entry.prepare_update(&mut new, &object, "");
        let _ = entry.validate_update(&new, &object, "");
    }

    #[test]
    fn decoding_is_idempotent(object in any_json(), pick in 0..table::KINDS.len()) {
        let entry = &table::KINDS[pick];
        let mut once = json!({"metadata": {"name": "a"}, "spec": object, "data": {"a": ""}});
        if entry.decode(&mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(entry.decode(&mut twice), Ok(()));
            prop_assert_eq!(twice, once);
        }
    }
}
