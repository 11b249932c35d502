//! Roles and bindings that every cluster with RBAC starts with (the part that
//! people and controllers use).

use serde_json::{Value, json};

use super::rbac::GROUP;

/// Verbs that only look.
const READ: &[&str] = &["get", "list", "watch"];
/// Verbs that change.
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn urls(urls: &[&str]) -> Value {
    json!({"nonResourceURLs": urls, "verbs": ["get"]})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "rules": rules,
    })
}

fn binding(name: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|g| json!({"kind": "Group", "apiGroup": GROUP, "name": g}))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    })
}

/// What those who work in a namespace may read or write, by group.
fn workload_rules(verbs: &[&str]) -> Vec<Value> {
    vec![
        rule(
            "",
            &[
                "configmaps",
                "endpoints",
                "events",
                "persistentvolumeclaims",
                "pods",
                "pods/log",
                "replicationcontrollers",
                "serviceaccounts",
                "services",
            ],
            verbs,
        ),
        rule(
            "apps",
            &[
                "daemonsets",
                "deployments",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
            verbs,
        ),
        rule("batch", &["cronjobs", "jobs"], verbs),
        rule("autoscaling", &["horizontalpodautoscalers"], verbs),
        rule("policy", &["poddisruptionbudgets"], verbs),
        rule(
            "networking.k8s.io",
            &["ingresses", "networkpolicies"],
            verbs,
        ),
        rule("discovery.k8s.io", &["endpointslices"], READ),
        rule("", &["limitranges", "namespaces", "resourcequotas"], READ),
    ]
}

/// The objects, roles first.
pub fn objects() -> Vec<Value> {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let all_urls = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let view = workload_rules(READ);
    let mut edit = workload_rules(&[READ, WRITE].concat());
    edit.push(rule("", &["secrets"], &[READ, WRITE].concat()));
    edit.push(rule("", &["serviceaccounts"], &["impersonate"]));
    let mut admin = edit.clone();
    admin.push(rule(
        GROUP,
        &["rolebindings", "roles"],
        &[READ, WRITE].concat(),
    ));
    admin.push(rule(
        "authorization.k8s.io",
        &["localsubjectaccessreviews"],
        &["create"],
    ));
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    vec![
        role("cluster-admin", &[all, all_urls]),
        role("admin", &admin),
        role("edit", &edit),
        role("view", &view),
        role("system:discovery", &[urls(&discovery)]),
        role(
            "system:public-info-viewer",
            &[urls(&[
                "/healthz",
                "/livez",
                "/readyz",
                "/version",
                "/version/",
            ])],
        ),
        role(
            "system:basic-user",
            &[
                rule(
                    "authorization.k8s.io",
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"],
                ),
                rule(
                    "authentication.k8s.io",
                    &["selfsubjectreviews"],
                    &["create"],
                ),
            ],
        ),
        role(
            "system:auth-delegator",
            &[
                rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
                rule(
                    "authorization.k8s.io",
                    &["subjectaccessreviews"],
                    &["create"],
                ),
            ],
        ),
        binding("cluster-admin", &["system:masters"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding(
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
    ]
}
