//! The roles, and the table in `docs/rights.md` that tells of them.

use std::{collections::BTreeSet, fmt::Write as _};

use kite_render::install::{Installation, Manifest, Process, Right, Scope};

use crate::stage::{all, everything};

fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "everywhere",
        Scope::Kite => "namespace `kite`",
        Scope::Images => "namespace `kite-images`",
    }
}

fn quoted(items: &[&str]) -> String {
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
        rights.iter().for_each(|right| text.push_str(&row(right)));
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
    text
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
    let powers = ["escalate", "bind", "impersonate"];
    let kinds = [
        "pods",
        "pods/exec",
        "serviceaccounts/token",
        "nodes/proxy",
        "roles",
        "clusterroles",
    ];
    for (role, rule) in rules(&everything()) {
        for verb in &rule.verbs {
            assert!(!powers.contains(&verb.as_str()), "{role}: {verb}");
        }
        for resource in rule.resources.iter().flatten() {
            assert!(!kinds.contains(&resource.as_str()), "{role}: {resource}");
        }
    }
}

/// Who reads which Secrets.
#[test]
fn secrets_are_read_by_name() {
    let readers = |installation: &Installation| -> BTreeSet<String> {
        let rules = rules(installation).into_iter();
        rules
            .filter(|(_, rule)| {
                let is_about = rule.resources.iter().flatten().any(|it| it == "secrets");
                let reads = rule
                    .verbs
                    .iter()
                    .any(|verb| ["get", "list", "watch"].contains(&verb.as_str()));
                is_about && reads && rule.resource_names.is_none()
            })
            .map(|(role, _)| role)
            .collect()
    };
    let plain = readers(&Installation::default());
    assert!(!plain.contains("ClusterRole kite-api"), "{plain:?}");
    assert!(!plain.contains("Role kite-api"), "{plain:?}");
    assert!(!plain.contains("Role kite-gateway"), "{plain:?}");
}
