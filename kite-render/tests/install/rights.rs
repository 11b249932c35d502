//! The roles, and the table in `docs/rights.md` that tells of them.

use std::{collections::BTreeMap, fmt::Write as _};

use kite_render::install::{Installation, Manifest, Process, Right, Scope, provisioning_rights};

use crate::stage::{all, everything};

fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "everywhere",
        Scope::Kite => "namespace `kite`",
        Scope::Images => "namespace `kite-images`",
        Scope::Users => "users' namespaces",
    }
}

fn quoted<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("`{item}`")).collect();
    items.join(", ")
}

fn row(right: &Right) -> String {
    let group = if right.group.is_empty() {
        "core".to_owned()
    } else {
        format!("`{}`", right.group)
    };
    let names = if right.names.is_empty() {
        String::new()
    } else {
        format!(" ({} only)", quoted(&right.names))
    };
    format!(
        "| {} | {group} | {}{names} | {} | {} |\n",
        place(right.scope),
        quoted(&right.resources),
        right.verbs.join(", "),
        right.why
    )
}

fn tables() -> String {
    let plain = Installation::default();
    let terminals = Installation {
        terminals: true,
        ..Installation::default()
    };
    let mut text = String::new();
    let mut table = |title: &str, rights: &[Right]| {
        let _ = write!(
            text,
            "\n### {title}\n\n| Where | API group | Resources | Verbs | For |\n|---|---|---|---|---|\n"
        );
        for right in rights {
            text.push_str(&row(right));
        }
    };
    for process in Process::ALL {
        table(process.name(), &plain.rights(process));
    }
    let api = plain.rights(Process::Api);
    let more: Vec<_> = terminals
        .rights(Process::Api)
        .into_iter()
        .filter(|right| !api.contains(right))
        .collect();
    table("kite-api with terminals", &more);
    table("An operator that provisions VMs", &provisioning_rights());
    text
}

/// Who provisions VMs by the library does what the controller does. What the controller may
/// do in users' namespaces, which it makes, it may do in all.
#[test]
fn provisioning_takes_no_right_that_the_controller_lacks() {
    let controller = Installation::default().rights(Process::Controller);
    let everywhere = [
        "secrets",
        "virtualmachines/restart",
        "virtualmachineinstances/freeze",
        "virtualmachineinstances/unfreeze",
        "leases",
    ];
    for right in provisioning_rights() {
        assert!(right.names.is_empty(), "{right:?}");
        for resource in &right.resources {
            let is_wider = everywhere.contains(resource);
            for verb in &right.verbs {
                let has = |it: &Right| {
                    let is_there = it.scope == right.scope;
                    (is_there || is_wider && it.scope == Scope::Users)
                        && it.group == right.group
                        && it.resources.contains(resource)
                        && it.verbs.contains(verb)
                };
                let (group, place) = (right.group, right.scope);
                assert!(
                    controller.iter().any(has),
                    "{verb} {resource} {group} {place:?}"
                );
            }
        }
    }
    let makes_users = |right: &Right| {
        right.resources.contains(&"kiteusers") && right.verbs != ["get", "list", "watch"]
    };
    assert!(!provisioning_rights().iter().any(makes_users));
}

#[test]
fn the_documented_rights_are_those_that_are_rendered() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rights.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let (head, _) = docs.split_once("\n### ").unwrap_or((&docs, ""));
    let fresh = format!("{}\n{}", head.trim_end(), tables());
    if std::env::var_os("KITE_BLESS").is_some() {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    assert!(
        docs == fresh,
        "docs/rights.md is stale: run `KITE_BLESS=1 cargo test -p kite-render --test install rights`"
    );
}

/// All rules of an installation's roles, by role.
fn rules(installation: &Installation) -> Vec<(String, k8s_openapi::api::rbac::v1::PolicyRule)> {
    let rules = |name: &str, rules: Option<Vec<_>>| {
        let name = name.to_owned();
        rules
            .into_iter()
            .flatten()
            .map(move |rule| (name.clone(), rule))
            .collect::<Vec<_>>()
    };
    let manifests = installation.manifests();
    manifests
        .into_iter()
        .flat_map(|manifest| {
            let name = format!("{} {}", manifest.kind(), manifest.name());
            match manifest {
                Manifest::ClusterRole(role) => rules(&name, role.rules),
                Manifest::Role(role) => rules(&name, role.rules),
                _ => Vec::new(),
            }
        })
        .collect()
}

#[test]
fn no_rule_has_a_star() {
    for (name, installation) in all() {
        for (role, rule) in rules(&installation) {
            let lists = [rule.api_groups, rule.resources, Some(rule.verbs)];
            for item in lists.into_iter().flatten().flatten() {
                assert!(!item.contains('*'), "{name}: {role}: {item}");
            }
            assert_eq!(rule.non_resource_urls, None, "{name}: {role}");
        }
    }
}

#[test]
fn no_process_has_a_right_that_makes_more_of_it() {
    let powers = ["escalate", "impersonate"];
    let kinds = [
        "pods",
        "pods/exec",
        "serviceaccounts/token",
        "nodes/proxy",
        "roles",
        "clusterrolebindings",
    ];
    for (role, rule) in rules(&everything()) {
        for verb in &rule.verbs {
            assert!(!powers.contains(&verb.as_str()), "{role}: {verb}");
            // The controller gives others what it need not have itself.
            if verb == "bind" {
                let names = rule.resource_names.as_deref().unwrap();
                let users = [
                    "kite-controller-users",
                    "kite-gateway-users",
                    "kite-api-users",
                ];
                assert_eq!(names, users, "{role}");
            }
        }
        // Which replicas of the API there are is seen by their pods, and in one namespace.
        if role == "Role kite-api" && rule.resources.as_deref() == Some(&["pods".to_owned()]) {
            assert_eq!(rule.verbs, ["list"], "{role}");
            continue;
        }
        for resource in rule.resources.iter().flatten() {
            assert!(!kinds.contains(&resource.as_str()), "{role}: {resource}");
        }
    }
}

/// Who reads Secrets without saying which, and where.
#[test]
fn secrets_are_read_by_name_or_in_users_namespaces() {
    let readers = |installation: &Installation| -> BTreeMap<String, Vec<String>> {
        let rules = rules(installation).into_iter();
        rules
            .filter(|(_, rule)| {
                let is_about = rule.resources.iter().flatten().any(|it| it == "secrets");
                is_about && rule.resource_names.is_none()
            })
            .map(|(role, rule)| (role, rule.verbs))
            .filter(|(_, verbs)| verbs != &["create"])
            .collect()
    };
    let mut plain = readers(&Installation::default());
    let of_controller = plain.remove("ClusterRole kite-controller-users").unwrap();
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    assert_eq!(of_controller, all);
    let of_gateway = plain.remove("ClusterRole kite-gateway-users").unwrap();
    assert_eq!(of_gateway, ["get"]);
    assert_eq!(plain, BTreeMap::new());
    let everything = readers(&everything());
    assert_eq!(everything["ClusterRole kite-api-users"], ["get"]);
    assert_eq!(everything.len(), 3, "{everything:?}");
}

/// What only the controller binds is bound to nobody everywhere.
#[test]
fn roles_for_users_namespaces_are_bound_by_the_controller_only() {
    let users: Vec<_> = Process::ALL
        .iter()
        .filter_map(|it| it.role_for_users())
        .collect();
    assert_eq!(users.len(), 3);
    for (name, installation) in all() {
        for manifest in installation.manifests() {
            let role = match &manifest {
                Manifest::ClusterRoleBinding(binding) => &binding.role_ref.name,
                Manifest::RoleBinding(binding) => &binding.role_ref.name,
                _ => continue,
            };
            assert!(!users.contains(&role.as_str()), "{name}: {role}");
        }
    }
}
