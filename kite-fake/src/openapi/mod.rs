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

use crate::discovery::{Asked, Document, groups, hash, versions};
use crate::registry::Registry;

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
    ///
    /// # Errors
    /// 406 if the client takes no form of it.
    pub fn document(
        &mut self,
        registry: &Registry,
        path: &str,
        asked: Asked<'_>,
    ) -> Result<Option<Document>, NotAcceptable> {
        if self.generation != registry.generation() {
            self.generation = registry.generation();
            self.rendered.clear();
        }
        let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let (key, content_type) = match segments.as_slice() {
            ["openapi", "v2"] if ASKED.iter().any(|media| asked.accept.contains(media)) => {
                ("v2.pb".to_owned(), PROTOBUF)
            }
            ["openapi", "v2"] => ("v2".to_owned(), "application/json"),
            ["openapi", "v3"] => ("v3".to_owned(), "text/plain; charset=utf-8"),
            ["openapi", "v3", rest @ ..] => (rest.join("/"), "application/json"),
            _ => return Ok(None),
        };
        if content_type == "application/json" && !takes_json(asked.accept) {
            return Err(NotAcceptable);
        }
        let Some(body) = self.body(registry, &key) else {
            return Ok(None);
        };
        let mut document = Document::new(content_type, body);
        let tag = match tag(registry, &key) {
            Some(tag) => tag,
            None => hash(&document.body),
        };
        let wanted = asked.query.text("hash");
        if segments.len() > 2 && !wanted.is_empty() {
            if wanted == tag {
                document.cache = "public, immutable";
            } else {
                document.moved = Some(address(&key, &tag));
            }
        }
        document.etag = Some(format!("\"{tag}\""));
        Ok(Some(document))
    }

    fn body(&mut self, registry: &Registry, key: &str) -> Option<Bytes> {
        if let Some(body) = self.rendered.get(key) {
            return Some(body.clone());
        }
        let body = self.render(registry, key)?;
        self.rendered.insert(key.to_owned(), body.clone());
        Some(body)
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

/// A client takes no form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAcceptable;

fn takes_json(accept: &str) -> bool {
    let mut clauses = accept.split(',').map(|clause| {
        let media = clause.split(';').next().unwrap_or_default();
        media.trim()
    });
    accept.trim().is_empty()
        || clauses.any(|media| {
            matches!(
                media,
                "*/*" | "application/*" | "*/json" | "application/json"
            )
        })
}

/// The paths of all documents of v3.
fn keys(registry: &Registry) -> Vec<String> {
    let mut keys: Vec<String> = ["api", "apis", "version"].map(str::to_owned).into();
    for group in std::iter::once(String::new()).chain(groups(registry)) {
        keys.extend(versions(registry, &group).iter().map(|version| {
            if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            }
        }));
    }
    keys
}

/// By what clients know the state of a document of v3: it changes with the
/// definitions that the document shows, and needs no document to be made.
fn tag(registry: &Registry, key: &str) -> Option<String> {
    let (group, version) = match *key.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => ("", version),
        ["apis", group, version] => (group, version),
        ["api" | "apis" | "version"] => ("", ""),
        _ => return None,
    };
    let mut text = format!(
        "{} {} {key}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION")
    );
    for resource in registry.group(group).filter(|r| r.version == version) {
        if let Some(definition) = resource.definition.as_deref() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{definition}", resource.plural);
        }
    }
    Some(hash(text.as_bytes()))
}

fn address(key: &str, tag: &str) -> String {
    format!("/openapi/v3/{key}?hash={tag}")
}

/// `/openapi/v3`: the documents that there are, with a hash of what they say.
fn index(registry: &Registry) -> Value {
    let paths: serde_json::Map<String, Value> = keys(registry)
        .into_iter()
        .filter_map(|key| {
            let url = address(&key, &tag(registry, &key)?);
            Some((key, json!({ "serverRelativeURL": url })))
        })
        .collect();
    json!({ "paths": paths })
}

#[cfg(test)]
mod tests;
