//! What a request is about.

use std::fmt;

use http::request::Parts;
use serde_json::Value;

use crate::rest::path::{self, Route};
use crate::rest::query::Query;

/// A request in the API's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Who sends it: the name given to [`Faults::layer`](super::Faults::layer).
    pub participant: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`; the HTTP method for documents.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural of the resource; the path for documents.
    pub plural: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name: of the path, or of the body that is created. Empty where the
    /// server is to generate one.
    pub name: String,
    /// Field manager, if the request names one; otherwise the client's program.
    pub manager: String,
}

impl Call {
    /// Reads a request.
    pub fn of(participant: &str, parts: &Parts, body: &[u8]) -> Self {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let agent = || {
            let agent = parts.headers.get(http::header::USER_AGENT)?;
            let program = agent.to_str().ok()?.split('/').next()?;
            Some(program.to_owned())
        };
        let manager = query.get("fieldManager").map(str::to_owned);
        let mut call = Self {
            participant: participant.to_owned(),
            manager: manager.or_else(agent).unwrap_or_default(),
            ..Self::default()
        };
        match path::parse(parts.uri.path()) {
            Route::Resource(target) => {
                crate::server::verb(&parts.method, &target, &query).clone_into(&mut call.verb);
                call.group = target.group;
                call.version = target.version;
                call.plural = target.plural;
                call.subresource = target.subresource.unwrap_or_default();
                call.namespace = target.namespace.unwrap_or_default();
                call.name = target.name.unwrap_or_default();
                if call.verb == "create" && call.name.is_empty() {
                    call.name = name_in(body);
                }
            }
            Route::Document | Route::Version(_) => {
                call.verb = parts.method.as_str().to_lowercase();
                parts.uri.path().clone_into(&mut call.plural);
            }
        }
        call
    }

    /// Whether the request may change something. Reviews (`SubjectAccessReview`
    /// and the like) are created and change nothing.
    pub fn is_write(&self) -> bool {
        let is_review = self.verb == "create" && self.plural.ends_with("reviews");
        !is_review
            && matches!(
                self.verb.as_str(),
                "create" | "update" | "patch" | "delete" | "deletecollection"
            )
    }

    /// Plural and group, as `kubectl` names resources: `deployments.apps`.
    pub fn resource(&self) -> String {
        crate::status::qualified(&self.group, &self.plural)
    }

    /// Path of the object that the request is about, without a subresource.
    pub(super) fn object_path(&self) -> String {
        format!("{}/{}", self.collection_path(), self.name)
    }

    /// Path of the collection that the object is in.
    pub(super) fn collection_path(&self) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespace.is_empty() {
            format!("{root}/{}", self.plural)
        } else {
            format!("{root}/namespaces/{}/{}", self.namespace, self.plural)
        }
    }
}

fn name_in(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    value["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource())?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn call(method: &str, uri: &str, body: &str) -> Call {
        let request = http::Request::builder().method(method).uri(uri).body(());
        Call::of("me", &request.unwrap().into_parts().0, body.as_bytes())
    }

    #[test]
    fn a_request_is_read_as_the_api_words_it() {
        let status = call(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/web/status?fieldManager=me",
            "",
        );
        assert_eq!(status.to_string(), "patch deployments.apps/status a/web");
        assert_eq!(status.manager, "me");
        let path = "/apis/apps/v1/namespaces/a/deployments/web";
        assert_eq!(status.object_path(), path);

        let made = call(
            "POST",
            "/api/v1/namespaces/a/pods",
            r#"{"metadata":{"name":"x"}}"#,
        );
        assert_eq!(made.to_string(), "create pods a/x");
        assert!(made.is_write());
        let watch = call("GET", "/api/v1/nodes?watch=true", "");
        assert_eq!(watch.to_string(), "watch nodes");
        assert!(!watch.is_write());
    }

    #[test]
    fn a_review_changes_nothing() {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(!call("POST", path, "{}").is_write());
    }
}
