//! Requests of every kind, one after the other, on the same cluster.

use serde_json::{Value, json};

use super::input::Input;
use super::world::World;

/// Collections, with the type that their bodies should have.
const COLLECTIONS: &[(&str, &str, &str)] = &[
    (
        "/apis/x.io/v1/namespaces/default/things",
        "x.io/v1",
        "Thing",
    ),
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/secrets", "v1", "Secret"),
    ("/api/v1/namespaces/default/services", "v1", "Service"),
    ("/api/v1/namespaces/default/pods", "v1", "Pod"),
    (
        "/api/v1/namespaces/default/resourcequotas",
        "v1",
        "ResourceQuota",
    ),
    ("/api/v1/namespaces/default/limitranges", "v1", "LimitRange"),
    (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        "v1",
        "PersistentVolumeClaim",
    ),
    (
        "/api/v1/namespaces/default/serviceaccounts",
        "v1",
        "ServiceAccount",
    ),
    ("/api/v1/namespaces/default/events", "v1", "Event"),
    ("/api/v1/namespaces", "v1", "Namespace"),
    ("/api/v1/nodes", "v1", "Node"),
    (
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "events.k8s.io/v1",
        "Event",
    ),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        "apps/v1",
        "Deployment",
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "coordination.k8s.io/v1",
        "Lease",
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        "networking.k8s.io/v1",
        "Ingress",
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        "networking.k8s.io/v1",
        "NetworkPolicy",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
    ),
    (
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "authorization.k8s.io/v1",
        "SelfSubjectRulesReview",
    ),
    ("/openapi/v3", "v1", "ConfigMap"),
    ("/apis", "v1", "ConfigMap"),
    ("/healthz", "v1", "ConfigMap"),
];

const BELOW: &[&str] = &[
    "",
    "/a",
    "/a",
    "/a",
    "/a/status",
    "/a/scale",
    "/a/token",
    "/a/eviction",
    "/a/finalize",
    "/a/log",
    "/a/b/c",
    "/%2F",
    "/%zz",
    "//",
    "/A_",
];

const QUERIES: &[&str] = &[
    "watch=1",
    "limit=1",
    "limit=-1",
    "continue=abc",
    "resourceVersion=3",
    "resourceVersion=0",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan",
    "labelSelector=a%20in%20(",
    "labelSelector=!a",
    "labelSelector=a%20notin%20(b,c)",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=status.phase!%3DRunning",
    "dryRun=All",
    "dryRun=x",
    "fieldManager=m",
    "fieldManager=",
    "force=1",
    "force=x",
    "fieldValidation=Strict",
    "fieldValidation=Warn",
    "propagationPolicy=Foreground",
    "propagationPolicy=Orphan",
    "gracePeriodSeconds=0",
    "sendInitialEvents=true",
    "allowWatchBookmarks=1",
    "timeoutSeconds=1",
    "pretty=1",
    "%",
    "a=%f",
    "&&=",
];

const MEDIA: &[&str] = &[
    "application/json",
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
];

const ACCEPTED: &[&str] = &[
    "application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/yaml",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "*/*",
    "text/html",
    "",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
];

fn operations(input: &mut Input<'_>) -> Value {
    (0..input.below(4))
        .map(|_| {
            let path = format!("/{}/{}", input.name(), input.name());
            json!({"op": input.pick(&["add", "remove", "replace", "test", "move", "copy"]),
                "path": path, "from": format!("/{}", input.name()), "value": input.value(2)})
        })
        .collect()
}

fn body(input: &mut Input<'_>, version: &str, kind: &str, media: &str) -> Vec<u8> {
    match input.below(8) {
        0 => return input.text().into_bytes(),
        1 => return input.value(4).to_string().into_bytes(),
        _ if media.contains("json-patch") => return operations(input).to_string().into_bytes(),
        _ => {}
    }
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let noise = input.object(4);
    if let Value::Object(members) = &mut object {
        for (name, value) in noise {
            match (members.get_mut(&name), value) {
                (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
                (_, value) => drop(members.insert(name, value)),
            }
        }
    }
    object.to_string().into_bytes()
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let world = World::new();
    for _ in 0..40 {
        if input.is_empty() {
            return;
        }
        let method = input.pick(&["POST", "GET", "PUT", "PATCH", "DELETE", "PATCH", "HEAD"]);
        let (collection, version, kind) = input.pick(COLLECTIONS);
        let below = input.pick(BELOW);
        let query: Vec<&str> = (0..input.below(4)).map(|_| input.pick(QUERIES)).collect();
        let path = format!("{collection}{below}?{}", query.join("&"));
        let (media, accepted) = (input.pick(MEDIA), input.pick(ACCEPTED));
        let body = body(&mut input, version, kind, media);
        world.send(
            method,
            &path,
            &[("content-type", media), ("accept", accepted)],
            &body,
        );
    }
}
