//! Built-in kinds, admission and rights as clients meet them, beside what was recorded.
#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::Answer;
use crate::FakeCluster;

pub(super) struct Client(pub(super) FakeCluster);

/// Whose request it is, beside the administrator's.
pub(super) type As<'a> = &'a [(&'a str, &'a str)];

impl Client {
    pub(super) fn new() -> Self {
        Self(FakeCluster::builder().build().unwrap())
    }

    pub(super) fn with_rbac() -> Self {
        Self(FakeCluster::builder().rbac(true).build().unwrap())
    }

    pub(super) fn ask(&self, method: &str, path: &str, body: &Value, user: As<'_>) -> (u16, Value) {
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("authorization", format!("Bearer {}", self.0.admin_token()));
        for (name, value) in user {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::from(text)).unwrap();
        let Answer::Response(response) = self.0.handle(request) else {
            panic!("no plain answer");
        };
        let body = serde_json::from_slice(response.body()).unwrap_or(Value::Null);
        (response.status().as_u16(), body)
    }

    /// The text at a path that has no JSON.
    pub(super) fn text(&self, path: &str) -> String {
        let request = Request::builder()
            .uri(path)
            .header("authorization", format!("Bearer {}", self.0.admin_token()))
            .body(Bytes::new())
            .unwrap();
        let Answer::Response(response) = self.0.handle(request) else {
            panic!("no plain answer");
        };
        String::from_utf8_lossy(response.body()).into_owned()
    }

    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask(method, path, body, &[])
    }

    /// Creates what must be accepted.
    pub(super) fn create(&self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.send("POST", path, body);
        assert_eq!(code, 201, "{answer}");
        answer
    }

    pub(super) fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null).1
    }

    /// The message of a refusal.
    pub(super) fn refused(&self, path: &str, body: &Value, expected: u16) -> String {
        let (code, answer) = self.send("POST", path, body);
        assert_eq!(code, expected, "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    }
}

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(super) fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (member, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][member] = value.clone();
    }
    pod
}

#[test]
fn a_bound_pod_gets_time_to_end() {
    let client = Client::new();
    client.create(PODS, &pod("bound", &json!({"nodeName": "n"})));
    client.create(PODS, &pod("loose", &json!({})));
    let loose = format!("{PODS}/loose");
    let (code, answer) = client.send("DELETE", &loose, &Value::Null);
    assert_eq!(
        (code, &answer["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(0))
    );
    assert_eq!(client.get(&loose)["code"], 404);

    let bound = format!("{PODS}/bound");
    let (code, first) = client.send("DELETE", &bound, &Value::Null);
    assert_eq!(
        (code, &first["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(30))
    );
    let (_, again) = client.send("DELETE", &bound, &Value::Null);
    assert_eq!(first, again);
    let (_, sooner) = client.send(
        "DELETE",
        &format!("{bound}?gracePeriodSeconds=5"),
        &Value::Null,
    );
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_ne!(
        sooner["metadata"]["deletionTimestamp"],
        first["metadata"]["deletionTimestamp"]
    );
    client.send(
        "DELETE",
        &format!("{bound}?gracePeriodSeconds=0"),
        &Value::Null,
    );
    assert_eq!(client.get(&bound)["code"], 404);
}

#[test]
fn a_quota_counts_only_what_lies_in_its_scope() {
    let client = Client::new();
    client.create(
        QUOTAS,
        &json!({"metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}),
    );
    let asking = json!({"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1"}}}]});
    client.create(PODS, &pod("asks", &asking));
    client.create(PODS, &pod("best", &json!({})));
    assert_eq!(
        client.refused(PODS, &pod("more", &json!({})), 403),
        "pods \"more\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    assert_eq!(
        client.get(&format!("{QUOTAS}/q"))["status"]["used"],
        json!({"pods": "1"})
    );
    client.send("DELETE", &format!("{PODS}/best"), &Value::Null);
    assert_eq!(
        client.get(&format!("{QUOTAS}/q"))["status"]["used"],
        json!({"pods": "0"})
    );
}

#[test]
fn a_quota_on_computing_wants_to_know() {
    let client = Client::new();
    client.create(
        QUOTAS,
        &json!({"metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}}}),
    );
    assert_eq!(
        client.refused(PODS, &pod("a", &json!({})), 403),
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let big = json!({"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "1Gi"}}}]});
    assert_eq!(
        client.refused(PODS, &pod("a", &big), 403),
        "pods \"a\" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=0, limited: requests.cpu=1"
    );
}

#[test]
fn a_limit_range_fills_in_and_bounds() {
    let client = Client::new();
    client.create("/api/v1/namespaces/default/limitranges", &json!({"metadata": {"name": "l"},
        "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}},
            {"type": "Pod", "max": {"cpu": "2"}}]}}));
    let made = client.create(PODS, &pod("a", &json!({})));
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(
        *resources,
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let with = |requests: &str, limits: &str| {
        json!({"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": requests}, "limits": {"cpu": limits}}}]})
    };
    assert_eq!(
        client.refused(PODS, &pod("b", &with("2", "2")), 403),
        "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
    assert_eq!(
        client.refused(PODS, &pod("b", &with("250m", "1")), 403),
        "pods \"b\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"
    );
}

#[test]
fn a_pod_has_the_priority_of_its_class() {
    let client = Client::new();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    client.create(
        classes,
        &json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}),
    );
    let made = client.create(PODS, &pod("a", &json!({"priorityClassName": "high"})));
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]),
        (&json!(7), &json!("Never"))
    );
    assert_eq!(
        client.refused(PODS, &pod("b", &json!({"priorityClassName": "none"})), 403),
        "pods \"b\" is forbidden: no PriorityClass with name none was found"
    );
    client.create(
        classes,
        &json!({"metadata": {"name": "usual"}, "value": 3, "globalDefault": true}),
    );
    assert_eq!(
        client.create(PODS, &pod("c", &json!({})))["spec"]["priorityClassName"],
        "usual"
    );
    assert_eq!(
        client.refused(
            classes,
            &json!({"metadata": {"name": "x"}, "value": 4, "globalDefault": true}),
            403
        ),
        "priorityclasses.scheduling.k8s.io \"x\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"
    );
}

#[test]
fn a_claim_without_a_class_gets_the_default_one() {
    let client = Client::new();
    client.create("/apis/storage.k8s.io/v1/storageclasses", &json!({"metadata": {"name": "std",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "x.io/y"}));
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    assert_eq!(
        client.create(claims, &claim("a"))["spec"]["storageClassName"],
        "std"
    );
    let mut none = claim("b");
    none["spec"]["storageClassName"] = json!("");
    assert_eq!(client.create(claims, &none)["spec"]["storageClassName"], "");
}

pub(super) const ALICE: As<'static> = &[("impersonate-user", "alice")];

#[test]
fn a_binding_to_nothing_is_named_in_the_refusal() {
    let client = Client::with_rbac();
    client.create(
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &json!({"metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gone"},
        "subjects": [{"kind": "User", "name": "alice"}]}),
    );
    let (code, answer) = client.ask("GET", PODS, &Value::Null, ALICE);
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\": RBAC: role.rbac.authorization.k8s.io \"gone\" not found"
    );
}

#[test]
fn rights_that_are_granted_are_listed_in_order() {
    let client = Client::with_rbac();
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]);
    client.create(
        &format!("{RBAC}/clusterroles"),
        &json!({"metadata": {"name": "maker"}, "rules": rules}),
    );
    client.create(&format!("{RBAC}/clusterrolebindings"), &json!({"metadata": {"name": "maker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maker"},
        "subjects": [{"kind": "User", "name": "alice"}]}));
    let more = json!({"metadata": {"name": "more"}, "rules": [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics", "/a"], "verbs": ["get"]}]});
    let (code, answer) = client.ask("POST", &format!("{RBAC}/clusterroles"), &more, ALICE);
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n{NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}"
    );
    let gathers = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let (_, answer) = client.ask("POST", &format!("{RBAC}/clusterroles"), &gathers, ALICE);
    assert_eq!(
        answer["message"],
        "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use an aggregationRule"
    );
}

#[test]
fn impersonation_is_refused_for_what_was_tried_first() {
    let client = Client::with_rbac();
    // The administrator acts as alice, by her token.
    let account = "/api/v1/namespaces/default/serviceaccounts";
    client.create(account, &json!({"metadata": {"name": "sa"}}));
    let token =
        client.create(&format!("{account}/sa/token"), &json!({}))["status"]["token"].clone();
    let bearer = format!("Bearer {}", token.as_str().unwrap());
    let ask = |user: &str| {
        let request = Request::builder()
            .uri("/api/v1/namespaces/default/configmaps")
            .header("authorization", &bearer)
            .header("impersonate-user", user)
            .body(Bytes::new())
            .unwrap();
        let Answer::Response(response) = client.0.handle(request) else {
            panic!("no plain answer");
        };
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        body["message"].as_str().unwrap().to_owned()
    };
    let me = "system:serviceaccount:default:sa";
    assert_eq!(
        ask("bob"),
        format!(
            "configmaps is forbidden: User \"{me}\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"default\""
        )
    );
    client.create(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "imp"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"]}]}));
    client.create(
        &format!("{RBAC}/clusterrolebindings"),
        &json!({"metadata": {"name": "imp"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "imp"},
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "default"}]}),
    );
    assert_eq!(
        ask("bob"),
        format!(
            "users.authentication.k8s.io \"bob\" is forbidden: User \"{me}\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
        )
    );
}

#[test]
fn the_token_of_an_account_says_whose_it_is_and_ends_with_it() {
    let client = Client::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.create(accounts, &json!({"metadata": {"name": "sa"}}));
    let at = format!("{accounts}/sa/token");
    let answer = client.create(
        &at,
        &json!({"spec": {"audiences": [], "expirationSeconds": 700}}),
    );
    assert_eq!(
        answer["spec"],
        json!({"audiences": ["https://kubernetes.default.svc"],
        "expirationSeconds": 700, "boundObjectRef": null})
    );
    assert_eq!(
        client.refused(&at, &json!({"spec": {"expirationSeconds": 10}}), 422),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes"
    );
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({"spec": {"token": answer["status"]["token"]}});
    let status = client.create(reviews, &review)["status"].clone();
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:sa"
    );
    client.send("DELETE", &format!("{accounts}/sa"), &Value::Null);
    assert_eq!(client.create(reviews, &review)["status"]["user"], json!({}));
}

#[test]
fn reviews_say_what_is_wrong_with_them() {
    let client = Client::with_rbac();
    let at = "/apis/authorization.k8s.io/v1";
    let local = format!("{at}/namespaces/default/localsubjectaccessreviews");
    let message = client.refused(
        &local,
        &json!({"spec": {"user": "a",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}}),
        422,
    );
    assert_eq!(
        message,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace"
    );
    assert_eq!(
        client.refused(
            &format!("{at}/selfsubjectrulesreviews"),
            &json!({"spec": {}}),
            400
        ),
        "no namespace on request"
    );
    let rules = client.create(
        &format!("{at}/selfsubjectrulesreviews"),
        &json!({"spec": {"namespace": "default"}}),
    );
    assert_eq!(rules["spec"], json!({}));
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(
        rules["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&all)
    );
}

#[test]
fn a_namespace_takes_only_the_pods_that_its_labels_allow() {
    let client = Client::new();
    let pods = "/api/v1/namespaces/safe/pods";
    client.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "safe",
        "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
    );
    client.create(pods, &pod("a", &json!({})));
    assert_eq!(
        client.refused(pods, &pod("b", &json!({"hostNetwork": true})), 403),
        "pods \"b\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
}

#[test]
fn a_pod_runs_as_an_account_that_is_there() {
    let client = Client(
        FakeCluster::builder()
            .service_accounts(true)
            .build()
            .unwrap(),
    );
    assert_eq!(
        client.refused(PODS, &pod("a", &json!({})), 403),
        "pods \"a\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    client.create(
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"metadata": {"name": "default"},
        "imagePullSecrets": [{"name": "pull"}]}),
    );
    let made = client.create(PODS, &pod("a", &json!({})));
    let spec = &made["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["imagePullSecrets"]),
        (&json!("default"), &json!([{"name": "pull"}]))
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"][0]["name"],
        spec["volumes"][0]["name"]
    );
    let quiet = client.create(
        PODS,
        &pod("b", &json!({"automountServiceAccountToken": false})),
    );
    assert!(quiet["spec"]["volumes"].is_null());
}

#[test]
fn a_role_gathers_what_its_selectors_take() {
    let client = Client::with_rbac();
    let at = format!("{RBAC}/clusterroles");
    let rule = |verb: &str| json!({"apiGroups": ["x.io"], "resources": ["ys"], "verbs": [verb]});
    client.create(
        &at,
        &json!({"metadata": {"name": "all"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "of-all"}}]}}),
    );
    let part = |name: &str, verb: &str| json!({"metadata": {"name": name, "labels": {"part": "of-all"}}, "rules": [rule(verb)]});
    client.create(&at, &part("b", "list"));
    client.create(&at, &part("a", "get"));
    let all = client.get(&format!("{at}/all"));
    assert_eq!(all["rules"], json!([rule("get"), rule("list")]));
    assert_eq!(
        all["metadata"]["managedFields"][0]["manager"],
        "clusterrole-aggregation-controller"
    );
    client.send("DELETE", &format!("{at}/a"), &Value::Null);
    assert_eq!(
        client.get(&format!("{at}/all"))["rules"],
        json!([rule("list")])
    );
    // What is gathered into `view` reaches `admin`, too.
    let mut seen = part("seen", "watch");
    seen["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    client.create(&at, &seen);
    let admin = client.get(&format!("{at}/admin"));
    assert!(admin["rules"].as_array().unwrap().contains(&rule("watch")));
}
