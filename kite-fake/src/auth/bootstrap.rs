//! Roles and bindings that every cluster with RBAC starts with.

use serde_json::{Map, Value, json};

use super::rbac::GROUP;

/// Verbs that only look.
const READ: &[&str] = &["get", "list", "watch"];
/// Verbs that change.
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
/// Both.
const READ_WRITE: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CREATE: &[&str] = &["create"];
const LIST_WATCH: &[&str] = &["list", "watch"];

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const NETWORKING: &str = "networking.k8s.io";

/// Prefix of the labels by which roles gather others.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    let mut resources = resources.to_vec();
    resources.sort_unstable();
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn urls(urls: &[&str]) -> Value {
    json!({"nonResourceURLs": urls, "verbs": ["get"]})
}

fn events() -> [Value; 2] {
    let verbs = &["create", "patch", "update"];
    [
        rule("", &["events"], verbs),
        rule("events.k8s.io", &["events"], verbs),
    ]
}

fn metadata(name: &str, into: Option<&str>) -> Value {
    let mut labels = Map::new();
    labels.insert(
        "kubernetes.io/bootstrapping".to_owned(),
        json!("rbac-defaults"),
    );
    if let Some(into) = into {
        labels.insert(format!("{AGGREGATE}{into}"), json!("true"));
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name, None),
        "rules": rules,
    })
}

/// A role whose rules go into another one.
fn part(into: &str, rules: &[Value]) -> Value {
    let mut part = role(&format!("system:aggregate-to-{into}"), rules);
    part["metadata"] = metadata(&format!("system:aggregate-to-{into}"), Some(into));
    part
}

/// A role that gathers others, and may go into another one.
fn gathering(name: &str, into: Option<&str>, rules: &[Value]) -> Value {
    let mut gathering = role(name, rules);
    gathering["metadata"] = metadata(name, into);
    gathering["aggregationRule"] = json!({
        "clusterRoleSelectors": [{"matchLabels": {format!("{AGGREGATE}{name}"): "true"}}],
    });
    gathering
}

fn binding(name: &str, kind: &str, subjects: &[&str]) -> Value {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|s| json!({"kind": kind, "apiGroup": GROUP, "name": s}))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name, None),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    })
}

/// What those see who look at a namespace.
#[expect(clippy::too_many_lines, reason = "one list")]
fn view() -> Vec<Value> {
    vec![
        rule(
            "",
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ],
            READ,
        ),
        rule(
            "",
            &[
                "bindings",
                "events",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ],
            READ,
        ),
        rule("", &["namespaces"], READ),
        rule("discovery.k8s.io", &["endpointslices"], READ),
        rule(
            "apps",
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
            READ,
        ),
        rule(
            "autoscaling",
            &[
                "horizontalpodautoscalers",
                "horizontalpodautoscalers/status",
            ],
            READ,
        ),
        rule(
            "batch",
            &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
            READ,
        ),
        rule(
            "extensions",
            &[
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "ingresses",
                "ingresses/status",
                "networkpolicies",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "replicationcontrollers/scale",
            ],
            READ,
        ),
        rule(
            "policy",
            &["poddisruptionbudgets", "poddisruptionbudgets/status"],
            READ,
        ),
        rule(
            NETWORKING,
            &["ingresses", "ingresses/status", "networkpolicies"],
            READ,
        ),
        rule(
            "resource.k8s.io",
            &[
                "resourceclaims",
                "resourceclaims/status",
                "resourceclaimtemplates",
            ],
            READ,
        ),
    ]
}

/// What those may do beside who work in a namespace.
fn edit() -> Vec<Value> {
    vec![
        rule(
            "",
            &[
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
                "secrets",
                "services/proxy",
            ],
            READ,
        ),
        rule("", &["serviceaccounts"], &["impersonate"]),
        rule(
            "",
            &[
                "pods",
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
            ],
            WRITE,
        ),
        rule("", &["pods/eviction"], CREATE),
        rule(
            "",
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
            WRITE,
        ),
        rule("", &["serviceaccounts/token"], CREATE),
        rule(
            "apps",
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
            WRITE,
        ),
        rule("autoscaling", &["horizontalpodautoscalers"], WRITE),
        rule("batch", &["cronjobs", "jobs"], WRITE),
        rule(
            "extensions",
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "ingresses",
                "networkpolicies",
                "replicasets",
                "replicasets/scale",
                "replicationcontrollers/scale",
            ],
            WRITE,
        ),
        rule("policy", &["poddisruptionbudgets"], WRITE),
        rule(NETWORKING, &["ingresses", "networkpolicies"], WRITE),
        rule(COORDINATION, &["leases"], READ_WRITE),
        rule(
            "resource.k8s.io",
            &["resourceclaims", "resourceclaimtemplates"],
            WRITE,
        ),
    ]
}

/// What those may do beside who run a namespace.
fn admin() -> Vec<Value> {
    vec![
        rule(AUTHORIZATION, &["localsubjectaccessreviews"], CREATE),
        rule(GROUP, &["rolebindings", "roles"], READ_WRITE),
    ]
}

/// Paths that tell what the API is.
const DISCOVERY: &[&str] = &[
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
/// Paths that everybody may know.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// Paths that are watched by monitors.
const MONITORING: &[&str] = &[
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
];
/// Paths that tell who issues the tokens of service accounts.
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];

/// The roles of people.
fn user_roles() -> Vec<Value> {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let all_urls = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    // Gathered already, in the order of the parts' names.
    let (admin, edit, view) = (admin(), edit(), view());
    let edits = [edit.clone(), view.clone()].concat();
    let admins = [edits.clone(), admin.clone()].concat();
    vec![
        role("cluster-admin", &[all, all_urls]),
        gathering("admin", None, &admins),
        gathering("edit", Some("admin"), &edits),
        gathering("view", Some("edit"), &view),
        part("admin", &admin),
        part("edit", &edit),
        part("view", &view),
    ]
}

/// The roles that come with being somebody, or nobody.
fn common_roles() -> Vec<Value> {
    vec![
        role("system:discovery", &[urls(DISCOVERY)]),
        role("system:monitoring", &[urls(MONITORING)]),
        role("system:public-info-viewer", &[urls(PUBLIC)]),
        role("system:service-account-issuer-discovery", &[urls(ISSUER)]),
        role(
            "system:basic-user",
            &[
                rule(
                    AUTHORIZATION,
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    CREATE,
                ),
                rule(AUTHENTICATION, &["selfsubjectreviews"], CREATE),
            ],
        ),
        role(
            "system:auth-delegator",
            &[
                rule(AUTHENTICATION, &["tokenreviews"], CREATE),
                rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
            ],
        ),
    ]
}

/// The roles of the programs that a cluster is made of.
fn component_roles() -> Vec<Value> {
    let reviews = [
        rule(AUTHENTICATION, &["tokenreviews"], CREATE),
        rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
    ];
    let mut manager = events().to_vec();
    manager.extend([
        rule(COORDINATION, &["leases"], CREATE),
        rule("", &["secrets", "serviceaccounts"], CREATE),
        rule("", &["secrets"], &["delete"]),
        rule(
            "",
            &["configmaps", "namespaces", "secrets", "serviceaccounts"],
            &["get"],
        ),
        rule("", &["secrets", "serviceaccounts"], &["update"]),
        rule("*", &["*"], LIST_WATCH),
        rule("", &["serviceaccounts/token"], CREATE),
    ]);
    manager.extend(reviews);
    let mut proxier = vec![
        rule("", &["endpoints", "services"], LIST_WATCH),
        rule("", &["nodes"], READ),
        rule("discovery.k8s.io", &["endpointslices"], LIST_WATCH),
        rule(NETWORKING, &["servicecidrs"], LIST_WATCH),
    ];
    proxier.extend(events());
    let mut provisioner = vec![
        rule(
            "",
            &["persistentvolumes"],
            &["create", "delete", "get", "list", "watch"],
        ),
        rule(
            "",
            &["persistentvolumeclaims"],
            &["get", "list", "update", "watch"],
        ),
        rule("storage.k8s.io", &["storageclasses"], READ),
        rule("", &["events"], &["watch"]),
    ];
    provisioner.extend(events());
    let mut roles = signer_roles();
    roles.extend([
        role("system:kube-controller-manager", &manager),
        role("system:node-proxier", &proxier),
        role("system:persistent-volume-provisioner", &provisioner),
        role(
            "system:kube-dns",
            &[rule("", &["endpoints", "services"], LIST_WATCH)],
        ),
        role(
            "system:kube-aggregator",
            &[rule("", &["endpoints", "services"], READ)],
        ),
    ]);
    roles
}

/// The roles of those who ask for certificates as nodes, and of those who approve them.
fn signer_roles() -> Vec<Value> {
    const CERTIFICATES: &str = "certificates.k8s.io";
    let asks = ["nodeclient", "selfnodeclient"].map(|what| {
        let resource = format!("certificatesigningrequests/{what}");
        role(
            &format!("system:{CERTIFICATES}:certificatesigningrequests:{what}"),
            &[rule(CERTIFICATES, &[&resource], CREATE)],
        )
    });
    let approves = [
        "kube-apiserver-client",
        "kube-apiserver-client-kubelet",
        "kubelet-serving",
        "legacy-unknown",
    ]
    .map(|signer| {
        let mut rule = rule(CERTIFICATES, &["signers"], &["approve"]);
        rule["resourceNames"] = json!([format!("kubernetes.io/{signer}")]);
        role(&format!("system:{CERTIFICATES}:{signer}-approver"), &[rule])
    });
    asks.into_iter().chain(approves).collect()
}

/// The objects, roles first.
pub fn objects() -> Vec<Value> {
    let mut objects = user_roles();
    objects.extend(common_roles());
    objects.extend(component_roles());
    objects.extend([
        binding("cluster-admin", "Group", &["system:masters"]),
        binding("system:monitoring", "Group", &["system:monitoring"]),
        binding("system:discovery", "Group", &["system:authenticated"]),
        binding("system:basic-user", "Group", &["system:authenticated"]),
        binding(
            "system:public-info-viewer",
            "Group",
            &["system:authenticated", "system:unauthenticated"],
        ),
        binding(
            "system:service-account-issuer-discovery",
            "Group",
            &["system:serviceaccounts"],
        ),
        binding("system:node-proxier", "User", &["system:kube-proxy"]),
        binding(
            "system:kube-controller-manager",
            "User",
            &["system:kube-controller-manager"],
        ),
    ]);
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greater_roles_hold_what_the_smaller_ones_do() {
        let objects = objects();
        let rules = |name: &str| -> Vec<Value> {
            objects
                .iter()
                .find(|o| o["metadata"]["name"] == name && o["kind"] == "ClusterRole")
                .and_then(|o| o["rules"].as_array().cloned())
                .unwrap_or_default()
        };
        for (smaller, greater) in [("view", "edit"), ("edit", "admin")] {
            assert!(!rules(smaller).is_empty());
            assert!(rules(smaller).iter().all(|r| rules(greater).contains(r)));
        }
    }
}
