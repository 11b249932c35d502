//! The paths of resources and the operations on them, for both versions.

use serde_json::{Map, Value, json};

use crate::registry::{Resource, Subresource, join_version};

/// One operation, as far as clients look at it.
pub(super) struct Operation {
    /// The HTTP method in lower case.
    pub(super) method: &'static str,
    /// `x-kubernetes-action`.
    pub(super) action: &'static str,
    /// A unique name.
    pub(super) id: String,
    /// Parameters of the query.
    pub(super) parameters: &'static [&'static str],
    /// Group, version and kind of what is operated on.
    pub(super) kind: Value,
    /// Content types of the body; empty if there is none.
    pub(super) consumes: &'static [&'static str],
    /// The list is answered, not one object.
    pub(super) list: bool,
}

const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];
const ANY_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];
const BODY: &[&str] = &["application/json", "application/yaml"];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "orphanDependents",
    "propagationPolicy",
];

/// The paths of a resource with their operations.
pub(super) fn of(resource: &Resource) -> Vec<(String, Vec<Operation>)> {
    let prefix = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let root = format!(
        "{prefix}/{}",
        join_version(&resource.group, &resource.version)
    );
    let own = kind(&resource.group, &resource.version, &resource.kind);
    let scope = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{root}{scope}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let mut paths = Vec::new();
    if resource.namespaced && resource.verbs.contains(&"list") {
        let all = operation(resource, "list", "ForAllNamespaces", &own);
        paths.push((
            format!("{root}/{}", resource.plural),
            all.into_iter().collect(),
        ));
    }
    let served = |verbs: &[&str]| -> Vec<Operation> {
        verbs
            .iter()
            .filter(|v| resource.verbs.contains(v))
            .filter_map(|v| operation(resource, v, "", &own))
            .collect()
    };
    paths.push((collection, served(&["list", "create", "deletecollection"])));
    let on_item = served(&["get", "update", "delete", "patch"]);
    if !on_item.is_empty() {
        paths.push((item.clone(), on_item));
    }
    for subresource in &resource.subresources {
        let (kind, verbs): (_, &[&str]) = match subresource {
            Subresource::Status
            | Subresource::EphemeralContainers
            | Subresource::Resize
            | Subresource::Approval => (own.clone(), &["get", "update", "patch"]),
            Subresource::Scale(_) => (
                kind("autoscaling", "v1", "Scale"),
                &["get", "update", "patch"],
            ),
            Subresource::Finalize => (own.clone(), &["update"]),
            Subresource::Token => (
                kind("authentication.k8s.io", "v1", "TokenRequest"),
                &["create"],
            ),
            Subresource::Eviction => (kind("policy", "v1", "Eviction"), &["create"]),
            Subresource::Binding => (kind("", "v1", "Binding"), &["create"]),
            Subresource::Unsupported { .. } => continue,
        };
        let name = subresource.name();
        let operations = verbs
            .iter()
            .filter_map(|verb| operation(resource, verb, name, &kind))
            .collect();
        paths.push((format!("{item}/{name}"), operations));
    }
    paths
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

fn operation(resource: &Resource, verb: &str, suffix: &str, kind: &Value) -> Option<Operation> {
    let patches = if resource.is_custom() {
        PATCHES
    } else {
        ANY_PATCHES
    };
    let (method, action, word, parameters, consumes): (_, _, _, _, &[&str]) = match verb {
        "list" => ("get", "list", "list", LIST, &[]),
        "get" => ("get", "get", "read", &[][..], &[]),
        "create" => ("post", "post", "create", WRITE, BODY),
        "update" => ("put", "put", "replace", WRITE, BODY),
        "patch" => ("patch", "patch", "patch", PATCH, patches),
        "delete" => ("delete", "delete", "delete", DELETE, BODY),
        "deletecollection" => ("delete", "deletecollection", "deleteCollection", LIST, BODY),
        _ => return None,
    };
    let group: String = resource
        .group
        .split('.')
        .next()
        .map(capitalised)
        .unwrap_or_default();
    let group = if group.is_empty() {
        "Core".to_owned()
    } else {
        group
    };
    let scope = if resource.namespaced && suffix != "ForAllNamespaces" {
        "Namespaced"
    } else {
        ""
    };
    let id = format!(
        "{word}{group}{}{scope}{}{}",
        capitalised(&resource.version),
        resource.kind,
        capitalised(suffix)
    );
    Some(Operation {
        method,
        action,
        id,
        parameters,
        kind: kind.clone(),
        consumes,
        list: verb == "list",
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// The parameters that stand in the path itself.
pub(super) fn path_parameters(path: &str) -> Vec<&'static str> {
    ["name", "namespace"]
        .into_iter()
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .collect()
}

/// Members that both versions give an operation.
pub(super) fn common(operation: &Operation) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("operationId".to_owned(), operation.id.as_str().into());
    members.insert("x-kubernetes-action".to_owned(), operation.action.into());
    members.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        operation.kind.clone(),
    );
    members
}

/// The type of a query parameter.
pub(super) fn parameter_type(name: &str) -> &'static str {
    match name {
        "allowWatchBookmarks" | "sendInitialEvents" | "watch" | "force" | "orphanDependents" => {
            "boolean"
        }
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        _ => "string",
    }
}
