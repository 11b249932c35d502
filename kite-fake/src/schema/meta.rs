//! The schema of `metadata`, which no custom resource declares itself.

use std::sync::{Arc, LazyLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::model::Schema;

/// `meta.k8s.io/v1 ObjectMeta`: members, descriptions, list types and merge keys.
/// Limits are left to whoever validates metadata.
pub fn object_meta() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let mut json = object_meta_json();
        strip_limits(&mut json);
        Arc::new(Schema::from_json(&json).unwrap_or_else(|_| Schema::any()))
    });
    Arc::clone(&SCHEMA)
}

/// The same as a JSON schema, with its limits and with what it refers to in `$defs`.
pub fn object_meta_json() -> Value {
    static JSON: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = schemars::schema_for!(ObjectMeta).to_value();
        for (pointer, name, value) in [
            (
                "/properties/finalizers",
                "x-kubernetes-list-type",
                json!("set"),
            ),
            (
                "/properties/finalizers",
                "x-kubernetes-patch-strategy",
                json!("merge"),
            ),
            (
                "/properties/ownerReferences",
                "x-kubernetes-list-type",
                json!("map"),
            ),
            (
                "/properties/ownerReferences",
                "x-kubernetes-list-map-keys",
                json!(["uid"]),
            ),
            (
                "/properties/ownerReferences",
                "x-kubernetes-patch-strategy",
                json!("merge"),
            ),
            (
                "/properties/ownerReferences",
                "x-kubernetes-patch-merge-key",
                json!("uid"),
            ),
        ] {
            if let Some(Value::Object(node)) = schema.pointer_mut(pointer) {
                node.insert(name.to_owned(), value);
            }
        }
        if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
            for (name, node) in definitions {
                let Value::Object(node) = node else { continue };
                if name.ends_with("OwnerReference") {
                    node.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
                } else if name.ends_with("FieldsV1") {
                    node.insert(
                        "x-kubernetes-preserve-unknown-fields".to_owned(),
                        true.into(),
                    );
                }
            }
        }
        schema
    });
    JSON.clone()
}

/// Removes what would refuse values at every level.
fn strip_limits(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("required");
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            members.values_mut().for_each(strip_limits);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip_limits),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListType, MapType};

    #[test]
    fn metadata_names_its_members() {
        let meta = object_meta();
        assert_eq!(meta.properties.len(), 15);
        let owners = &meta.properties["ownerReferences"];
        assert_eq!(owners.list_type, ListType::Map(vec!["uid".into()]));
        assert_eq!(
            owners.items.as_ref().map(|s| s.map_type),
            Some(MapType::Atomic)
        );
        let entry = meta.properties["managedFields"].items.as_ref();
        assert!(entry.is_some_and(|s| s.properties["fieldsV1"].preserve_unknown));
        assert!(meta.properties["name"].description.is_some());
    }
}
