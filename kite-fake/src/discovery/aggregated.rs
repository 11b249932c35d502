//! The aggregated form of discovery: everything in one document (`apidiscovery.k8s.io`).

use serde_json::{Map, Value, json};

use super::{Document, order, subresource_entry};
use crate::go_json;
use crate::registry::{Registry, Resource};

const FORMS: [(&str, &str); 2] = [
    (
        "v2",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ),
    (
        "v2beta1",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    ),
];

/// The document for `/api` or `/apis`, if the client asks for this form before plain JSON.
pub(super) fn document(registry: &Registry, core: bool, accept: &str) -> Option<Document> {
    for clause in accept.split(',') {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let has = |parameter: &str| parts.contains(&parameter);
        if parts.first() == Some(&"application/json") && parts.iter().all(|p| !p.starts_with("as="))
        {
            return None;
        }
        let asked = has("application/json")
            && has("g=apidiscovery.k8s.io")
            && has("as=APIGroupDiscoveryList");
        let form = FORMS
            .iter()
            .find(|(version, _)| asked && has(&format!("v={version}")));
        if let Some((version, content_type)) = form {
            let mut body = go_json::text(&list(registry, core, version));
            let tag = super::hash(&body);
            body.push(b'\n');
            let mut found = Document::new(content_type, body);
            found.etag = Some(format!("\"{tag}\""));
            found.cache = "public";
            return Some(found);
        }
    }
    None
}

fn list(registry: &Registry, core: bool, form: &str) -> Value {
    let groups = if core {
        vec![String::new()]
    } else {
        order::groups(registry)
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let versions: Vec<Value> = order::versions(registry, group)
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = registry
                        .group(group)
                        .filter(|r| r.version == *version)
                        .map(|r| entry(r))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let mut metadata = json!({});
            if !group.is_empty() {
                metadata["name"] = group.as_str().into();
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{form}"),
        "metadata": {},
        "items": items,
    })
}

fn entry(resource: &Resource) -> Value {
    // Built-in kinds leave group and version to the document around them.
    let own = |kind: &str| {
        if resource.is_custom() {
            json!({"group": resource.group, "version": resource.version, "kind": kind})
        } else {
            json!({"group": "", "version": "", "kind": kind})
        }
    };
    let mut entry = Map::new();
    entry.insert("resource".to_owned(), resource.plural.as_str().into());
    entry.insert("responseKind".to_owned(), own(&resource.kind));
    entry.insert(
        "scope".to_owned(),
        if resource.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        }
        .into(),
    );
    entry.insert(
        "singularResource".to_owned(),
        resource.singular.as_str().into(),
    );
    entry.insert("verbs".to_owned(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|subresource| {
            let found = subresource_entry(&resource.kind, subresource);
            let kind = match found.foreign {
                Some((group, version)) => {
                    json!({"group": group, "version": version, "kind": found.kind})
                }
                None => own(&found.kind),
            };
            json!({"subresource": found.name, "responseKind": kind, "verbs": found.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry.insert("subresources".to_owned(), Value::Array(subresources));
    }
    Value::Object(entry)
}
