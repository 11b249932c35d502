//! The schema of `metadata`, which no custom resource declares itself.

use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::model::Schema;

/// `meta.k8s.io/v1 ObjectMeta`.
pub fn object_meta() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let text = json!({"type": "string"});
        let strings = json!({"type": "object", "additionalProperties": text});
        let schema = Schema::from_json(&json!({
            "type": "object",
            "properties": {
                "annotations": strings,
                "creationTimestamp": {"type": "string", "nullable": true},
                "deletionGracePeriodSeconds": {"type": "integer"},
                "deletionTimestamp": text,
                "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge"},
                "generateName": text,
                "generation": {"type": "integer"},
                "labels": strings,
                "managedFields": {"type": "array", "items": {"type": "object", "properties": {
                    "apiVersion": text, "fieldsType": text, "manager": text, "operation": text,
                    "subresource": text, "time": text,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
                "name": text,
                "namespace": text,
                "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
                    "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                        "apiVersion": text, "kind": text, "name": text, "uid": text,
                        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
                    }}},
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            },
        }));
        Arc::new(schema.unwrap_or_default())
    });
    Arc::clone(&SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ListType;

    #[test]
    fn metadata_names_its_members() {
        let meta = object_meta();
        assert_eq!(meta.properties.len(), 15);
        assert_eq!(
            meta.properties["ownerReferences"].list_type,
            ListType::Map(vec!["uid".into()])
        );
    }
}
