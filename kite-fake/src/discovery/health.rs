//! `/livez`, `/readyz`, `/healthz` and their single checks.

use super::Document;

const CHECKS: [&str; 4] = ["ping", "log", "etcd", "informer-sync"];

/// The answer of a health endpoint; `None` for an unknown check.
pub(super) fn document(endpoint: &str, checks: &[&str]) -> Option<Document> {
    match checks {
        [] => Some(Document::text("ok")),
        // Whether caches have been filled is a matter of readiness alone.
        ["informer-sync"] if endpoint == "livez" => None,
        [check] if CHECKS.contains(check) => Some(Document::text("ok")),
        _ => None,
    }
}
