//! Paths: which resource, object and subresource a URL names.

use crate::percent::decode;

/// A path below `/api` or `/apis/<group>` taken apart (the server's
/// `RequestInfo`). Whether such a resource exists is another question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// API group, empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Namespace, if the path has one.
    pub namespace: Option<String>,
    /// Plural of the resource; empty for the discovery of a version.
    pub plural: String,
    /// Name of the object.
    pub name: Option<String>,
    /// Subresource, such as `status`.
    pub subresource: Option<String>,
    /// What follows the subresource, joined by `/`.
    pub rest: String,
    /// The old `/watch/` prefix.
    pub watch_prefix: bool,
}

/// What a path is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `/api`, `/apis`, `/apis/<group>`, `/openapi/...`, `/version` and other
    /// documents: the path itself decides.
    Document,
    /// `/api/v1` or `/apis/<group>/<version>`: the resources of a version.
    Version(Target),
    /// A resource.
    Resource(Target),
}

/// Takes a path apart.
pub fn parse(path: &str) -> Route {
    let segments: Vec<String> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(|s| decode(s, false))
        .collect();
    let (mut target, mut parts) = match segments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        ["api", version, ..] => (
            Target {
                version: version.to_owned(),
                ..Target::default()
            },
            &segments[2..],
        ),
        ["apis", group, version, ..] => (
            Target {
                group: group.to_owned(),
                version: version.to_owned(),
                ..Target::default()
            },
            &segments[3..],
        ),
        _ => return Route::Document,
    };
    if parts.first().is_some_and(|p| p == "watch") && parts.len() > 1 {
        target.watch_prefix = true;
        parts = &parts[1..];
    }
    if parts.is_empty() {
        return Route::Version(target);
    }
    // `namespaces/<n>/<plural>` is a resource in a namespace, unless the third
    // segment is a subresource of the namespace itself.
    if parts[0] == "namespaces" && parts.len() > 1 {
        target.namespace = Some(parts[1].clone());
        if parts.len() > 2 && !(target.group.is_empty() && is_namespace_part(&parts[2])) {
            parts = &parts[2..];
        }
    }
    target.plural.clone_from(&parts[0]);
    target.name = parts.get(1).cloned();
    target.subresource = parts.get(2).cloned();
    target.rest = parts.get(3..).unwrap_or_default().join("/");
    Route::Resource(target)
}

fn is_namespace_part(segment: &str) -> bool {
    segment == "status" || segment == "finalize"
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        match parse(path) {
            Route::Resource(t) => t,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn a_namespace_is_a_resource_and_a_scope() {
        let t = target("/api/v1/namespaces/a");
        assert_eq!(
            (t.plural.as_str(), t.name.as_deref()),
            ("namespaces", Some("a"))
        );
        let t = target("/api/v1/namespaces/a/finalize");
        assert_eq!(t.subresource.as_deref(), Some("finalize"));
        let t = target("/api/v1/namespaces/a/pods/p/log");
        assert_eq!(t.namespace.as_deref(), Some("a"));
        assert_eq!(
            (t.plural.as_str(), t.subresource.as_deref()),
            ("pods", Some("log"))
        );
    }

    #[test]
    fn watch_prefixes_and_documents_are_told_apart() {
        let t = target("/apis/x.io/v1/watch/namespaces/n/things");
        assert!(t.watch_prefix);
        assert_eq!(t.plural, "things");
        assert_eq!(parse("/apis/x.io"), Route::Document);
        assert!(matches!(parse("/apis/x.io/v1"), Route::Version(_)));
        assert_eq!(parse("/version"), Route::Document);
    }
}
