//! `/livez`, `/readyz`, `/healthz` and their single checks.

use std::fmt::Write as _;

use super::Document;
use crate::rest::query::Query;

/// Checks of all three endpoints; the hooks are those of a control plane with
/// its default features.
const CHECKS: [&str; 31] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
];
/// The last hook of all; `shutdown` follows it where it is checked.
const LAST: &str = "poststarthook/apiservice-openapiv3-controller";

/// The checks of an endpoint in their order. Whether caches have been filled
/// and whether the server goes on are matters of readiness alone.
fn checks(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let ready = |names: &'static [&'static str]| {
        let names = if endpoint == "readyz" { names } else { &[] };
        names.iter().copied()
    };
    let (first, rest) = CHECKS.split_at(3);
    first
        .iter()
        .copied()
        .chain(ready(&["etcd-readiness", "informer-sync"]))
        .chain(rest.iter().copied())
        .chain([LAST])
        .chain(ready(&["shutdown"]))
}

/// The answer of a health endpoint; `None` for an unknown check.
pub(super) fn document(endpoint: &str, path: &[&str], query: &Query) -> Option<Document> {
    if !path.is_empty() {
        let asked = path.join("/");
        return checks(endpoint)
            .any(|check| check == asked)
            .then(|| Document::text("ok"));
    }
    if !query.has("verbose") {
        return Some(Document::text("ok"));
    }
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    excluded.sort_unstable();
    excluded.dedup();
    let mut text = String::new();
    for check in checks(endpoint) {
        let place = excluded.iter().position(|name| *name == check);
        let result = if let Some(i) = place {
            excluded.remove(i);
            " excluded: ok"
        } else {
            " ok"
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[+]{check}{result}");
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {}",
            names.join(",")
        );
    }
    let _ = writeln!(text, "{endpoint} check passed");
    Some(Document::text(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn text(endpoint: &str, query: &str) -> String {
        let found = document(endpoint, &[], &Query::parse(query)).unwrap();
        String::from_utf8(found.body.to_vec()).unwrap()
    }

    #[test]
    fn checks_are_told_one_by_one() {
        assert_eq!(text("readyz", ""), "ok");
        let all = text("readyz", "verbose");
        assert!(all.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"));
        assert!(all.ends_with("[+]shutdown ok\nreadyz check passed\n"));
        assert!(!text("livez", "verbose").contains("[+]informer-sync "));
        let some = text("livez", "verbose&exclude=etcd&exclude=nope");
        assert!(some.contains("[+]etcd excluded: ok\n"));
        assert!(some.ends_with("no matches for \"nope\"\nlivez check passed\n"));
    }

    #[test]
    fn a_check_has_a_path_of_its_own() {
        let found =
            |endpoint: &str, path: &[&str]| document(endpoint, path, &Query::default()).is_some();
        assert!(found(
            "healthz",
            &["poststarthook", "rbac", "bootstrap-roles"]
        ));
        assert!(found("readyz", &["shutdown"]) && !found("livez", &["shutdown"]));
        assert!(!found("healthz", &["informer-sync"]));
    }
}
