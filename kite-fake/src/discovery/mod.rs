//! The documents that say what a server serves: `/api`, `/apis`, their groups
//! and versions, in the old form and in the aggregated one, and `/version`.

mod aggregated;
mod health;
mod legacy;
mod order;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

pub(crate) use order::{groups, versions};

use crate::go_json;
use crate::registry::{Registry, Subresource};
use crate::rest::query::Query;

/// A document as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The whole body.
    pub body: Bytes,
    /// A strong validator of the body, if clients keep it.
    pub etag: Option<String>,
    /// `Cache-Control`, if clients may keep it.
    pub cache: &'static str,
    /// Another place where the document is now.
    pub moved: Option<String>,
}

impl Document {
    /// A JSON document of a kind.
    pub fn json(value: &Value) -> Self {
        Self::new("application/json", go_json::document(value))
    }

    /// A JSON document that is for people, too.
    pub fn indented(text: &[u8]) -> Self {
        Self::new("application/json", go_json::indented(text))
    }

    /// A text.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Self::new("text/plain; charset=utf-8", text)
    }

    /// Any document.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            content_type,
            body: body.into(),
            etag: None,
            cache: "",
            moved: None,
        }
    }
}

/// What a client asks for beside the path.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `Accept`, empty if there is none.
    pub accept: &'a str,
    /// The parameters of the URL.
    pub query: &'a Query,
}

/// The document at a path, in a form that the client takes; `None` if there is none.
/// The API's own documents are in [`crate::openapi`].
pub fn document(registry: &Registry, path: &str, asked: Asked<'_>) -> Option<Document> {
    let accept = asked.accept;
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    match segments.as_slice() {
        [] => Some(Document::indented(paths(registry).to_string().as_bytes())),
        ["version"] => Some(Document::indented(version().as_bytes())),
        ["api"] => Some(
            aggregated::document(registry, true, accept)
                .unwrap_or_else(|| Document::json(&legacy::core())),
        ),
        ["apis"] => Some(
            aggregated::document(registry, false, accept)
                .unwrap_or_else(|| Document::json(&legacy::groups(registry))),
        ),
        ["api", version] => legacy::resources(registry, "", version)
            .as_ref()
            .map(Document::json),
        ["apis", group] => legacy::group(registry, group).as_ref().map(Document::json),
        ["apis", group, version] => legacy::resources(registry, group, version)
            .as_ref()
            .map(Document::json),
        [endpoint @ ("livez" | "readyz" | "healthz"), checks @ ..] => {
            health::document(endpoint, checks, asked.query)
        }
        _ => None,
    }
}

/// Whether a path is one of the router's, which knows `GET` alone and looks at
/// `Accept` itself; other documents are given to every method.
pub fn is_routed(registry: &Registry, path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    match segments.as_slice() {
        ["version" | "api"] | ["api", _] => true,
        ["apis", group] | ["apis", group, _] => registry.is_built_in_group(group),
        _ => false,
    }
}

/// Whether a path is below `/api` or `/apis`: such documents have other encodings, too.
pub fn is_negotiated(path: &str) -> bool {
    matches!(path.split('/').nth(1), Some("api" | "apis"))
}

/// What the server says of itself: no kind, but in the order of a type nevertheless.
fn version() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, architecture());
    let members = [
        ("major", "1"),
        ("minor", "36"),
        ("emulationMajor", "1"),
        ("emulationMinor", "36"),
        ("minCompatibilityMajor", "1"),
        ("minCompatibilityMinor", "35"),
        ("gitVersion", "v1.36.2"),
        ("gitCommit", ""),
        ("gitTreeState", "clean"),
        ("buildDate", "1970-01-01T00:00:00Z"),
        ("goVersion", ""),
        ("compiler", "rustc"),
        ("platform", &platform),
    ];
    let members = members.map(|(name, value)| format!("{name:?}:{value:?}"));
    format!("{{{}}}", members.join(","))
}

/// The machine as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The hash by which clients know a document, as the server writes it.
pub(crate) fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha512::digest(bytes)
        .iter()
        .fold(String::with_capacity(128), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02X}");
            text
        })
}

/// The list of paths at the root.
fn paths(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in order::groups(registry) {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            order::versions(registry, &group)
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    json!({ "paths": paths })
}

/// What discovery says of a subresource.
struct SubresourceEntry {
    name: &'static str,
    /// Group and version, where they are not the resource's own.
    foreign: Option<(&'static str, &'static str)>,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresource_entry(kind: &str, subresource: &Subresource) -> SubresourceEntry {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    const CREATE: &[&str] = &["create"];
    let (foreign, kind, verbs): (_, &str, _) = match subresource {
        Subresource::Status
        | Subresource::EphemeralContainers
        | Subresource::Resize
        | Subresource::Approval => (None, kind, CHANGE),
        Subresource::Scale(_) => (Some(("autoscaling", "v1")), "Scale", CHANGE),
        Subresource::Finalize => (None, kind, &["update"]),
        Subresource::Token => (
            Some(("authentication.k8s.io", "v1")),
            "TokenRequest",
            CREATE,
        ),
        Subresource::Eviction => (Some(("policy", "v1")), "Eviction", CREATE),
        Subresource::Binding => (None, "Binding", CREATE),
        Subresource::Unsupported { kind, verbs, .. } => (None, kind, verbs),
    };
    SubresourceEntry {
        name: subresource.name(),
        foreign,
        kind: kind.to_owned(),
        verbs,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn documents_are_found_by_path_and_form() {
        let registry = Registry::built_in();
        let query = Query::default();
        let ask = |accept: &'static str| Asked {
            accept,
            query: &query,
        };
        let read = |path: &str, accept: &'static str| -> Option<Value> {
            document(&registry, path, ask(accept))
                .map(|d| serde_json::from_slice(&d.body).unwrap_or(Value::Null))
        };
        assert_eq!(read("/api", "").unwrap()["versions"], json!(["v1"]));
        assert_eq!(
            read("/apis", "").unwrap()["groups"][0]["name"],
            "apiregistration.k8s.io"
        );
        let new =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(read("/apis", new).unwrap()["kind"], "APIGroupDiscoveryList");
        assert_eq!(
            read("/apis/apps/v1/", "").unwrap()["groupVersion"],
            "apps/v1"
        );
        assert_eq!(read("/apis/apps/v9", ""), None);
        assert_eq!(read("/apis/none.example.com", ""), None);
        assert!(document(&registry, "/livez/ping", ask("")).is_some());
        assert_eq!(document(&registry, "/livez/nope", ask("")), None);
    }
}
