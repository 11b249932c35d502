//! What a request to a Kubernetes API server is about, in few words: never a
//! name of an object.

use http::{Method, Uri};

/// A request's verb and resource, as access rules speak of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// The resource in plural with its subresource, such as
    /// `deployments/status`; empty for what is no resource.
    pub resource: String,
}

/// Verbs of access rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Other,
}

impl Verb {
    /// Its name in access rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

impl Call {
    /// Reads a request's line (Kubernetes API concepts, "Resource URIs").
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let (resource, is_named) = resource(uri.path());
        let is_watch = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .any(|pair| matches!(pair, "watch" | "watch=true" | "watch=1"));
        let verb = match *method {
            Method::GET | Method::HEAD if is_watch => Verb::Watch,
            Method::GET | Method::HEAD if is_named || resource.is_empty() => Verb::Get,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if is_named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        Self { verb, resource }
    }
}

/// The resource of a path, and whether the path names an object.
fn resource(path: &str) -> (String, bool) {
    let mut segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let prefix = match segments.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return (String::new(), false),
    };
    if segments.len() <= prefix {
        return (String::new(), false);
    }
    segments.drain(..prefix);
    let is_inside = segments.len() >= 3
        && segments[0] == "namespaces"
        && !matches!(segments[2], "status" | "finalize");
    if is_inside {
        segments.drain(..2);
    }
    let text = match segments.get(2) {
        Some(subresource) => format!("{}/{subresource}", segments[0]),
        None => segments[0].to_owned(),
    };
    (text, segments.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &Method, uri: &str) -> String {
        let call = Call::of(method, &uri.parse().unwrap());
        format!("{} {}", call.verb.as_str(), call.resource)
    }

    #[test]
    fn verbs_and_resources_are_those_of_access_rules() {
        let all = "/apis/apps/v1/namespaces/a/deployments";
        for (method, uri, expected) in [
            (Method::GET, "/version", "get "),
            (Method::GET, "/apis/apps/v1", "get "),
            (Method::GET, "/api/v1/namespaces", "list namespaces"),
            (Method::GET, "/api/v1/namespaces/a", "get namespaces"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update namespaces/finalize",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/secrets?limit=5",
                "list secrets",
            ),
            (
                Method::GET,
                "/api/v1/secrets?a=b&watch=true&c=d",
                "watch secrets",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/secrets?",
                "create secrets",
            ),
            (Method::GET, all, "list deployments"),
            (Method::PATCH, &format!("{all}/x"), "patch deployments"),
            (
                Method::PATCH,
                &format!("{all}/x/status?force=true"),
                "patch deployments/status",
            ),
            (Method::DELETE, &format!("{all}/x"), "delete deployments"),
            (Method::DELETE, all, "deletecollection deployments"),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/a/deployments/x/scale",
                "update deployments/scale",
            ),
            (Method::GET, "/apis/example.org/v1/sites/ann", "get sites"),
        ] {
            assert_eq!(call(&method, uri), expected, "{uri}");
        }
    }
}
