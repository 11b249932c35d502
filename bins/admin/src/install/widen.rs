//! Roles between two versions: what is there before works on until what comes after it
//! is up, and must not be left without a right meanwhile.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kite_render::install::Manifest;
use kube::api::DynamicObject;

/// One thing that a rule allows: a verb, on a resource of a group, or on a path.
type Permission<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

/// The role `wanted`, with what `before` allows beyond it. Nothing if that is no more, or
/// if it is no role.
pub(super) fn widened(wanted: &Manifest, before: &DynamicObject) -> Option<Manifest> {
    let before: Vec<PolicyRule> = serde_json::from_value(before.data.get("rules")?.clone()).ok()?;
    let mut wanted = wanted.clone();
    let rules = match &mut wanted {
        Manifest::ClusterRole(role) => &mut role.rules,
        Manifest::Role(role) => &mut role.rules,
        _ => return None,
    };
    let mut all = rules.take().unwrap_or_default();
    let beyond: Vec<_> = {
        let allowed: BTreeSet<_> = all.iter().flat_map(permissions).collect();
        let mut before = before;
        before.retain(|rule| permissions(rule).any(|it| !allowed.contains(&it)));
        before
    };
    if beyond.is_empty() {
        return None;
    }
    all.extend(beyond);
    *rules = Some(all);
    Some(wanted)
}

fn each(list: Option<&Vec<String>>) -> Vec<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

fn permissions(rule: &PolicyRule) -> impl Iterator<Item = Permission<'_>> {
    let groups = each(rule.api_groups.as_ref());
    let resources = each(rule.resources.as_ref());
    let names = match each(rule.resource_names.as_ref()) {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let paths = each(rule.non_resource_urls.as_ref());
    let mut found = Vec::new();
    for verb in rule.verbs.iter().map(String::as_str) {
        for group in &groups {
            for resource in &resources {
                for name in &names {
                    found.push((verb, *group, *resource, *name));
                }
            }
        }
        // No group has a slash in it.
        found.extend(paths.iter().map(|path| (verb, "/", *path, None)));
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use serde_json::{Value, json};

    use super::*;

    fn rule(verbs: &[&str], resources: &[&str]) -> Value {
        json!({"apiGroups": [""], "verbs": verbs, "resources": resources})
    }

    fn rules(wanted: Value, before: Value) -> Option<Vec<PolicyRule>> {
        let role = |rules: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "it"}, "rules": rules})
        };
        let wanted: ClusterRole = serde_json::from_value(role(wanted)).unwrap();
        let before: DynamicObject = serde_json::from_value(role(before)).unwrap();
        match widened(&wanted.into(), &before)? {
            Manifest::ClusterRole(role) => role.rules,
            other => unreachable!("{other:?}"),
        }
    }

    fn typed(rules: Value) -> Vec<PolicyRule> {
        serde_json::from_value(rules).unwrap()
    }

    #[test]
    fn what_was_allowed_stays_allowed() {
        let wanted = json!([rule(&["get"], &["secrets"])]);
        let before = json!([
            rule(&["get", "list"], &["secrets"]),
            rule(&["get"], &["secrets"])
        ]);
        let both = json!([
            rule(&["get"], &["secrets"]),
            rule(&["get", "list"], &["secrets"])
        ]);
        assert_eq!(rules(wanted.clone(), before), Some(typed(both)));
        // A name narrows.
        let mut one = rule(&["get"], &["secrets"]);
        one["resourceNames"] = json!(["a"]);
        let found = rules(json!([one]), wanted.clone()).unwrap();
        assert_eq!(found.len(), 2);
        let path = json!([{"nonResourceURLs": ["/version"], "verbs": ["get"]}]);
        assert_eq!(rules(wanted, path).unwrap().len(), 2);
    }

    #[test]
    fn a_role_that_allows_no_less_is_as_wanted() {
        let wanted = json!([rule(&["get", "list"], &["pods", "nodes"])]);
        for before in [
            json!([]),
            wanted.clone(),
            json!([rule(&["list"], &["nodes"]), rule(&["get"], &["pods"])]),
        ] {
            assert_eq!(rules(wanted.clone(), before.clone()), None, "{before}");
        }
    }
}
