//! Nobody hands out rights that they do not hold
//! (`pkg/registry/rbac/validation` of Kubernetes).

use serde_json::{Value, json};

use super::identity::Identity;
use super::rbac::rules_for;
use crate::store::Store;

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A rule as its smallest parts: one verb on one resource of one group.
fn parts(rule: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    for verb in texts(&rule["verbs"]) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let names = texts(&rule["resourceNames"]);
                if names.is_empty() {
                    out.push(
                        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}),
                    );
                }
                for name in names {
                    out.push(json!({"apiGroups": [group], "resources": [resource],
                                    "resourceNames": [name], "verbs": [verb]}));
                }
            }
        }
        for url in texts(&rule["nonResourceURLs"]) {
            out.push(json!({"nonResourceURLs": [url], "verbs": [verb]}));
        }
    }
    out
}

/// Whether a held rule includes a part.
fn includes(held: &Value, part: &Value) -> bool {
    let all = |field: &str| {
        let wanted = texts(&part[field]);
        let held = texts(&held[field]);
        wanted.iter().all(|w| {
            held.iter().any(|h| {
                h == w || *h == "*" || {
                    // `*/scale` includes `things/scale`; `/x/*` includes `/x/y`.
                    let sub = h.strip_prefix("*/");
                    let prefix = h.strip_suffix('*').filter(|_| field == "nonResourceURLs");
                    sub.is_some_and(|s| w.split_once('/').is_some_and(|(_, t)| t == s))
                        || prefix.is_some_and(|p| w.starts_with(p))
                }
            })
        })
    };
    let names = texts(&held["resourceNames"]);
    let name_ok = names.is_empty()
        || (!texts(&part["resourceNames"]).is_empty()
            && texts(&part["resourceNames"])
                .iter()
                .all(|n| names.contains(n)));
    all("verbs") && all("apiGroups") && all("resources") && all("nonResourceURLs") && name_ok
}

/// Whether a part can be joined with others of the same resource.
fn is_simple(part: &Value) -> bool {
    texts(&part["nonResourceURLs"]).is_empty()
}

/// The parts of `wanted` that the user does not hold in the namespace, joined
/// again where only the verb differs.
pub fn missing_rights(
    store: &Store,
    identity: &Identity,
    namespace: &str,
    wanted: &[Value],
) -> Vec<Value> {
    let held = rules_for(store, identity, namespace);
    let mut missing: Vec<Value> = Vec::new();
    for part in wanted.iter().flat_map(parts) {
        if held.iter().any(|h| includes(h, &part)) {
            continue;
        }
        let same = |a: &Value| {
            ["apiGroups", "resources", "resourceNames"]
                .iter()
                .all(|f| a[*f] == part[*f])
        };
        let joins = |m: &&mut Value| is_simple(m) && is_simple(&part) && same(m);
        match missing.iter_mut().find(joins) {
            Some(rule) => {
                if let Some(verbs) = rule["verbs"].as_array_mut() {
                    verbs.push(part["verbs"][0].clone());
                }
            }
            None => missing.push(part),
        }
    }
    missing
}

/// A rule as refusals print it.
pub fn rule_text(rule: &Value) -> String {
    let fields: Vec<String> = [
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ]
    .iter()
    .filter_map(|(label, field)| {
        let list: Vec<String> = texts(&rule[*field])
            .iter()
            .map(|t| format!("{t:?}"))
            .collect();
        (!list.is_empty()).then(|| format!("{label}:[{}]", list.join(" ")))
    })
    .collect();
    format!("{{{}}}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_printed_as_the_server_does() {
        assert_eq!(
            rule_text(&json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})),
            "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"list\"]}"
        );
    }

    #[test]
    fn stars_include_everything() {
        let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let part = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        assert!(includes(&all, &part));
        assert!(!includes(&part, &all));
    }
}
