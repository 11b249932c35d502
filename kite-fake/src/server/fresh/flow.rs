//! Priority and fairness: the levels and schemas of a new cluster.

use serde_json::{Value, json};

use super::START;

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

/// A limited level: shares, percent that are lent, and queues and hand, where there are some.
type Level = (&'static str, i64, i64, Option<(i64, i64)>);

const LEVELS: [Level; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];

pub(super) fn levels() -> Vec<Value> {
    let exempt = json!({"metadata": metadata("exempt"), "spec": {
        "type": "Exempt",
        "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    }});
    let limited = LEVELS.iter().map(|(name, shares, lent, queue)| {
        let response = match queue {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => json!({"type": "Queue", "queuing": {
                "queues": queues, "handSize": hand, "queueLengthLimit": 50,
            }}),
        };
        json!({"metadata": metadata(name), "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lent,
            "limitResponse": response,
        }}})
    });
    std::iter::once(exempt).chain(limited).collect()
}

fn groups(names: &[&str]) -> Vec<Value> {
    let all = names.iter();
    all.map(|name| json!({"kind": "Group", "group": {"name": name}}))
        .collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    let all = names.iter();
    all.map(|name| json!({"kind": "User", "user": {"name": name}}))
        .collect()
}

/// All accounts of the control plane's namespace.
fn system_accounts() -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}})
}

fn on(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"],
        "clusterScope": cluster})
}

fn schema(name: &str, level: &str, precedence: i64, by: &str, rules: &Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rules],
    });
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    json!({"metadata": metadata(name), "spec": spec, "status": {"conditions": [{
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": START,
        "reason": "Found",
        "message": format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
        ),
    }]}})
}

/// Everything that these ask for.
fn everything(subjects: &[Value]) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [on(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

pub(super) fn schemas() -> Vec<Value> {
    const COORDINATION: &str = "coordination.k8s.io";
    const USER: &str = "ByUser";
    const NAMESPACE: &str = "ByNamespace";
    let all = groups(&["system:unauthenticated", "system:authenticated"]);
    let nodes = groups(&["system:nodes"]);
    let mut leaders = users(&["system:kube-controller-manager", "system:kube-scheduler"]);
    leaders.push(system_accounts());
    let probes = json!({"subjects": all, "nonResourceRules": [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]});
    let elections = json!({"subjects": leaders, "resourceRules": [
        on(&["get", "create", "update"], COORDINATION, &["leases"], false)]});
    let beats = json!({"subjects": nodes, "resourceRules": [
        on(&["*"], "", &["nodes", "nodes/status"], true),
        on(&["*"], COORDINATION, &["leases"], false)]});
    let of = |name: &str| everything(&users(&[name]));
    vec![
        schema(
            "exempt",
            "exempt",
            1,
            "",
            &everything(&groups(&["system:masters"])),
        ),
        schema("catch-all", "catch-all", 10_000, USER, &everything(&all)),
        schema("system-nodes", "system", 500, USER, &everything(&nodes)),
        schema("system-node-high", "node-high", 400, USER, &beats),
        schema("probes", "exempt", 2, "", &probes),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            USER,
            &elections,
        ),
        schema(
            "kube-controller-manager",
            "workload-high",
            800,
            NAMESPACE,
            &of("system:kube-controller-manager"),
        ),
        schema(
            "kube-scheduler",
            "workload-high",
            800,
            NAMESPACE,
            &of("system:kube-scheduler"),
        ),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            NAMESPACE,
            &everything(&[system_accounts()]),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9_000,
            USER,
            &everything(&groups(&["system:serviceaccounts"])),
        ),
        schema(
            "global-default",
            "global-default",
            9_900,
            USER,
            &everything(&all),
        ),
    ]
}
