//! The API's own description: `OpenAPI` v3 (an index and one document for each
//! group and version) and v2 (one document, as JSON or protobuf).
//!
//! kubectl reads them for `explain`, to check what it sends, and to merge lists
//! in `apply`; old releases take v2 as protobuf only.

mod definitions;
mod gnostic;
mod paths;
mod v2;
mod v3;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::discovery::{Document, groups, versions};
use crate::server::registry::Registry;

/// The schema of a built-in kind: the definition's name, and the schema with
/// what it refers to in `$defs`.
pub type Source = fn(group: &str, version: &str, kind: &str) -> Option<(String, Value)>;

/// Definitions by name; references are of the form `#/$defs/<name>`.
type Definitions = BTreeMap<String, Value>;

/// What the documents call the API.
const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.2";
/// The media type in which old clients demand v2 …
const ASKED: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    PROTOBUF,
];
/// … and how it is named in answers, where `@` is no character of a media type.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The documents of the resources that are served now, made when first asked for.
#[derive(Debug)]
pub struct Documents {
    source: Source,
    /// The registry's generation that the documents show.
    generation: u64,
    rendered: BTreeMap<String, Bytes>,
}

impl Documents {
    /// No documents yet; `source` knows the built-in kinds.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            generation: 0,
            rendered: BTreeMap::new(),
        }
    }

    /// The document at a path below `/openapi`; `None` if there is none.
    pub fn document(&mut self, registry: &Registry, path: &str, accept: &str) -> Option<Document> {
        if self.generation != registry.generation() {
            self.generation = registry.generation();
            self.rendered.clear();
        }
        let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let (key, content_type) = match segments.as_slice() {
            ["openapi", "v2"] if ASKED.iter().any(|media| accept.contains(media)) => {
                ("v2.pb".to_owned(), PROTOBUF)
            }
            ["openapi", "v2"] => ("v2".to_owned(), "application/json"),
            ["openapi", "v3"] => ("v3".to_owned(), "text/plain; charset=utf-8"),
            ["openapi", "v3", rest @ ..] => (rest.join("/"), "application/json"),
            _ => return None,
        };
        let body = if let Some(body) = self.rendered.get(&key) {
            body.clone()
        } else {
            let body = self.render(registry, &key)?;
            self.rendered.insert(key, body.clone());
            body
        };
        let etag = Some(format!("\"{}\"", hash(&body)));
        Some(Document {
            content_type,
            body,
            etag,
        })
    }

    fn render(&self, registry: &Registry, key: &str) -> Option<Bytes> {
        Some(match key {
            "v2.pb" => gnostic::encode(&v2::document(registry, self.source)).into(),
            "v2" => v2::document(registry, self.source).to_string().into(),
            "v3" => index(registry).to_string().into(),
            key => {
                let (group, version) = match *key.split('/').collect::<Vec<_>>().as_slice() {
                    ["api", version] => ("", version),
                    ["apis", group, version] => (group, version),
                    ["version" | "api" | "apis"] => return Some(empty().to_string().into()),
                    _ => return None,
                };
                v3::document(registry, self.source, group, version)?
                    .to_string()
                    .into()
            }
        })
    }
}

/// A document without schemas, for paths that are no resources.
fn empty() -> Value {
    json!({"openapi": "3.0.0", "info": {"title": TITLE, "version": VERSION}, "paths": {}})
}

/// `/openapi/v3`: the documents that there are, with a hash of what they say.
fn index(registry: &Registry) -> Value {
    let mut paths = serde_json::Map::new();
    let mut add = |path: String, tag: &str| {
        let url = format!("/openapi/v3/{path}?hash={tag}");
        paths.insert(path, json!({ "serverRelativeURL": url }));
    };
    let built_in = hash(concat!(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).as_bytes());
    for path in ["api", "apis", "version"] {
        add(path.to_owned(), &built_in);
    }
    for group in std::iter::once(String::new()).chain(groups(registry)) {
        for version in versions(registry, &group) {
            let mut text = String::new();
            for resource in registry
                .group(&group)
                .filter(|r| r.version == version && r.is_custom())
            {
                let definition = resource.definition.as_deref().map(Value::to_string);
                let _ = write!(
                    text,
                    "{}{}",
                    resource.plural,
                    definition.unwrap_or_default()
                );
            }
            let tag = if text.is_empty() {
                built_in.clone()
            } else {
                hash(text.as_bytes())
            };
            add(
                if group.is_empty() {
                    format!("api/{version}")
                } else {
                    format!("apis/{group}/{version}")
                },
                &tag,
            );
        }
    }
    json!({ "paths": paths })
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        })
}

#[cfg(test)]
mod tests;
