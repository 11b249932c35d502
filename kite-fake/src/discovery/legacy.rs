//! The old form of discovery: `APIGroupList`, `APIGroup`, `APIResourceList`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{order, subresource_entry};
use crate::registry::{Origin, Registry, Resource, join_version};

/// `/api`.
pub(super) fn core() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
pub(super) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = order::groups(registry)
        .iter()
        .map(|group| group_entry(registry, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub(super) fn group(registry: &Registry, group: &str) -> Option<Value> {
    if group.is_empty() || registry.group(group).next().is_none() {
        return None;
    }
    let mut entry = group_entry(registry, group);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn group_entry(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = order::versions(registry, group)
        .iter()
        .map(|version| json!({"groupVersion": join_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for resource in registry.group(group).filter(|r| r.version == version) {
        entries.push(entry(resource));
        for subresource in &resource.subresources {
            let found = subresource_entry(&resource.kind, subresource);
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, found.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": found.kind,
                "verbs": found.verbs,
            });
            if let Some((group, version)) = found.foreign {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            entries.push(entry);
        }
    }
    (!entries.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": join_version(group, version),
            "resources": entries,
        })
    })
}

fn entry(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), resource.plural.as_str().into());
    entry.insert("singularName".to_owned(), resource.singular.as_str().into());
    entry.insert("namespaced".to_owned(), resource.namespaced.into());
    entry.insert("kind".to_owned(), resource.kind.as_str().into());
    entry.insert("verbs".to_owned(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
    if resource.origin != Origin::Virtual {
        entry.insert(
            "storageVersionHash".to_owned(),
            storage_hash(resource).into(),
        );
    }
    Value::Object(entry)
}

/// A short hash of group, stored version and kind; it changes when the stored version does.
fn storage_hash(resource: &Resource) -> String {
    let text = format!(
        "{}/{}/{}",
        resource.group, resource.storage_version, resource.kind
    );
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}
