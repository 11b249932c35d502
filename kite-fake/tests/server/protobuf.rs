//! Bodies and answers in protobuf, as Go's typed clients send and read them.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use kite_fake::protobuf::{self, MEDIA_TYPE};
use serde_json::{Value, json};
use tower::ServiceExt as _;

struct Client(FakeCluster);

struct Answer {
    code: u16,
    media: String,
    body: Bytes,
}

impl Answer {
    /// The object, whatever the answer is encoded in.
    fn value(&self) -> Value {
        match self.media.as_str() {
            MEDIA_TYPE => protobuf::decode(&self.body, ("", "")).unwrap(),
            _ => serde_json::from_slice(&self.body).unwrap(),
        }
    }
}

impl Client {
    fn new() -> Self {
        Self(FakeCluster::builder().build().unwrap())
    }

    async fn send(&self, method: &str, path: &str, accept: &str, body: impl Into<Bytes>) -> Answer {
        let body = body.into();
        let media = if body.first() == Some(&b'{') {
            "application/json"
        } else {
            MEDIA_TYPE
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, media)
            .body(Full::new(body))
            .unwrap();
        let (parts, body) = self
            .0
            .service()
            .oneshot(request)
            .await
            .unwrap()
            .into_parts();
        Answer {
            code: parts.status.as_u16(),
            media: parts.headers[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .to_owned(),
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    async fn get(&self, path: &str, accept: &str) -> Answer {
        self.send("GET", path, accept, Bytes::new()).await
    }

    /// Creates an object as a typed client does; gives it as JSON has it then.
    async fn create(&self, path: &str, object: &Value) -> Value {
        let body = protobuf::encode(object).unwrap();
        let answer = self.send("POST", path, MEDIA_TYPE, body).await;
        assert_eq!(
            (answer.code, answer.media.as_str()),
            (201, MEDIA_TYPE),
            "{}",
            answer.value()
        );
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{path}/{name}");
        let json = self.get(&path, "application/json").await.value();
        assert_eq!(self.get(&path, MEDIA_TYPE).await.value(), json);
        // The names of a new definition are accepted by an update of its own.
        if answer.value()["metadata"]["resourceVersion"] == json["metadata"]["resourceVersion"] {
            assert_eq!(answer.value(), json, "both encodings say the same");
        }
        json
    }
}

fn pod_template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

fn workload(kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "z"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pod_template()},
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    object
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z"}, "spec": pod_template()["spec"]});
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn hook(name: &str) -> Value {
    json!({"name": name, "clientConfig": {"url": "https://hooks.example.com/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 5})
}

/// Where an object goes, what is to be looked at then, and what must be there.
type Row = (String, Value, &'static str, Value);

fn in_namespaces() -> [Row; 12] {
    let apps = "/apis/apps/v1/namespaces/default";
    let core = "/api/v1/namespaces/default";
    let affinity = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {}}]}}});
    [
        (
            format!("{apps}/deployments"),
            workload("Deployment", &json!({"replicas": 0})),
            "/spec/replicas",
            json!(0),
        ),
        (
            format!("{apps}/replicasets"),
            workload("ReplicaSet", &json!({"replicas": 0})),
            "/spec/replicas",
            json!(0),
        ),
        (
            format!("{apps}/statefulsets"),
            workload("StatefulSet", &json!({"replicas": 0})),
            "/spec/replicas",
            json!(0),
        ),
        (
            format!("{core}/persistentvolumeclaims"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "z"}, "spec": {
                "storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            "/spec/storageClassName",
            json!(""),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers".to_owned(),
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "z"}, "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "z"}, "maxReplicas": 3,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}),
            "/spec/behavior/scaleDown/stabilizationWindowSeconds",
            json!(0),
        ),
        (
            format!("{core}/services"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "z"}, "spec": {
                "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}}),
            "/spec/allocateLoadBalancerNodePorts",
            json!(false),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs".to_owned(),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "z"}, "spec": {
                "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}}),
            "/spec/backoffLimitPerIndex",
            json!(0),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "z"}, "spec": {"attachRequired": false}}),
            "/spec/attachRequired",
            json!(false),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets".to_owned(),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "z"}, "spec": {"selector": {}, "minAvailable": 0}}),
            "/spec/selector",
            json!({}),
        ),
        (
            format!("{core}/pods"),
            pod(&affinity),
            "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector",
            json!({}),
        ),
        (
            format!("{core}/configmaps"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}, "immutable": false, "data": {"a": ""}}),
            "/immutable",
            json!(false),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases".to_owned(),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "z"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}),
            "/spec/holderIdentity",
            json!(""),
        ),
    ]
}

fn in_the_cluster() -> [Row; 6] {
    let expression = "object.metadata.name == 'a'";
    [
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned(),
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "z"}, "webhooks": [hook("a.example.com")]}),
            "/webhooks/0/name",
            json!("a.example.com"),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations".to_owned(),
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "z"}, "webhooks": [hook("a.example.com")]}),
            "/webhooks/0/timeoutSeconds",
            json!(5),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".to_owned(),
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "z"}, "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
                "variables": [{"name": "v", "expression": "1"}],
                "validations": [{"expression": expression}]}}),
            "/spec/validations/0/expression",
            json!(expression),
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses".to_owned(),
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "z"}, "handler": "run"}),
            "/handler",
            json!("run"),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations".to_owned(),
            json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "z"}, "spec": {
                "type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}}}),
            "/spec/limited/nominalConcurrencyShares",
            json!(0),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "zs.example.com"}, "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "zs", "singular": "z", "kind": "Z", "listKind": "ZList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "minProperties": 0, "properties": {
                        "count": {"type": "integer", "default": 0, "minimum": 0},
                        "any": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}}]}}),
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/count/minimum",
            json!(0),
        ),
    ]
}

/// What zero values and empty messages say that Go has pointers for.
#[tokio::test]
async fn zero_values_that_were_meant_are_kept() {
    let client = Client::new();
    for (path, object, pointer, expected) in in_namespaces().into_iter().chain(in_the_cluster()) {
        let stored = client.create(&path, &object).await;
        assert_eq!(
            stored.pointer(pointer),
            Some(&expected),
            "{path} {pointer}: {stored}"
        );
    }
}

#[tokio::test]
async fn an_update_to_zero_is_one() {
    let client = Client::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let three = client
        .create(path, &workload("Deployment", &json!({"replicas": 3})))
        .await;
    let mut zero = three.clone();
    zero["spec"]["replicas"] = json!(0);
    let body = protobuf::encode(&zero).unwrap();
    let answer = client
        .send("PUT", &format!("{path}/z"), MEDIA_TYPE, body)
        .await;
    assert_eq!(answer.code, 200, "{}", answer.value());
    assert_eq!(answer.value()["spec"]["replicas"], 0);
    // A hook that sleeps for no time, and a toleration of none.
    let spec = json!({
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "containers": [{"name": "c", "image": "x", "lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}],
    });
    let stored = client
        .create("/api/v1/namespaces/default/pods", &pod(&spec))
        .await;
    assert_eq!(stored["spec"]["tolerations"][0]["tolerationSeconds"], 0);
    let hook = stored.pointer("/spec/containers/0/lifecycle/preStop/sleep");
    assert_eq!(hook, Some(&json!({"seconds": 0})));
}

#[tokio::test]
async fn lists_statuses_and_metadata_are_answered_in_protobuf() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": name}});
        client.create(path, &map).await;
    }
    for n in 0..120 {
        let map = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{n}")}, "data": {"k": "AP8="}});
        client
            .send(
                "POST",
                "/api/v1/namespaces/default/secrets",
                "*/*",
                map.to_string(),
            )
            .await;
    }
    let both = "application/vnd.kubernetes.protobuf,application/json";
    // Long lists are written by themselves.
    for path in [
        path,
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces",
    ] {
        let there = client.get(path, both).await;
        assert_eq!((there.code, there.media.as_str()), (200, MEDIA_TYPE));
        assert_eq!(
            there.value(),
            client.get(path, "application/json").await.value()
        );
    }
    let partial =
        |encoding: &str| format!("{encoding};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let there = client.get(path, &partial(MEDIA_TYPE)).await.value();
    assert_eq!(there["kind"], "PartialObjectMetadataList");
    // The items of a message do not say what they are.
    let mut json = client.get(path, &partial("application/json")).await.value();
    for item in json["items"].as_array_mut().unwrap() {
        item.as_object_mut()
            .unwrap()
            .retain(|name, _| name == "metadata");
    }
    assert_eq!(there, json);

    let missing = client.get(&format!("{path}/none"), both).await;
    assert_eq!((missing.code, missing.media.as_str()), (404, MEDIA_TYPE));
    assert_eq!(missing.value()["details"]["name"], "none");
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    let body = protobuf::encode(&options).unwrap();
    let gone = client
        .send("DELETE", &format!("{path}/a"), both, body)
        .await;
    assert_eq!((gone.code, gone.media.as_str()), (200, MEDIA_TYPE));
    assert_eq!(gone.value()["status"], "Success");

    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(client.get(path, table).await.code, 406);
    let falls_back = format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(client.get(path, &falls_back).await.value()["kind"], "Table");
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let there = client.get(path, MEDIA_TYPE).await;
        assert_eq!(there.media, MEDIA_TYPE, "{path}");
        let json = client.get(path, "application/json").await.value();
        assert_eq!(there.value()["kind"], json["kind"], "{path}");
    }
    // Which is no kind.
    let version = client.get("/version", both).await;
    assert_eq!(
        (version.code, version.media.as_str()),
        (200, "application/json")
    );
    // Failures are told in what is taken as it is.
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let missing = client.get(&format!("{path}/none"), metadata).await;
    assert_eq!(
        (missing.code, missing.media.as_str()),
        (404, "application/json")
    );
}

#[tokio::test]
async fn custom_resources_are_json_and_their_metadata_is_both() {
    let client = Client::new();
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "zs.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "zs", "singular": "z", "kind": "Z", "listKind": "ZList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    client
        .create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &crd,
        )
        .await;
    let path = "/apis/example.com/v1/namespaces/default/zs";
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Z", "metadata": {"name": "a"}});
    let made = client.send("POST", path, "*/*", custom.to_string()).await;
    assert_eq!(made.code, 201);
    let both = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(client.get(path, both).await.media, "application/json");
    let refused = client.get(path, MEDIA_TYPE).await;
    assert_eq!(refused.code, 406);
    assert_eq!(
        refused.value()["message"],
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let there = client.get(&format!("{path}/a"), partial).await;
    assert_eq!((there.code, there.media.as_str()), (200, MEDIA_TYPE));
    assert_eq!(there.value()["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_watch_is_framed() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "\n\n"}});
    let stored = client.create(path, &map).await;
    let query = "?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for accept in [
        MEDIA_TYPE,
        "application/vnd.kubernetes.protobuf;stream=watch",
    ] {
        let stream = client.get(&format!("{path}{query}"), accept).await;
        assert_eq!(
            (stream.code, stream.media.as_str()),
            (200, "application/vnd.kubernetes.protobuf;stream=watch")
        );
        let mut rest = &stream.body[..];
        let mut events = Vec::new();
        while let Some((head, more)) = rest.split_first_chunk::<4>() {
            let (frame, more) = more.split_at(u32::from_be_bytes(*head) as usize);
            let event = protobuf::decode_event(frame).unwrap();
            events.push(event);
            rest = more;
        }
        assert_eq!(events[0], ("ADDED".to_owned(), stored.clone()));
        assert_eq!(events[1].0, "BOOKMARK");
        assert_eq!(events[1].1["kind"], "ConfigMap");
        assert_eq!(
            events[1].1["metadata"]["annotations"]["k8s.io/initial-events-end"],
            "true"
        );
    }
    let error = client
        .get(&format!("{path}?watch=true&labelSelector=,"), MEDIA_TYPE)
        .await;
    assert_eq!((error.code, error.media.as_str()), (400, MEDIA_TYPE));
}

#[tokio::test]
async fn what_cannot_be_decoded_is_refused_in_the_servers_words() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let send = async |body: &'static [u8]| {
        let answer = client
            .send("POST", path, "*/*", Bytes::from_static(body))
            .await;
        (
            answer.code,
            answer.value()["message"].as_str().unwrap().to_owned(),
        )
    };
    let (code, message) = send(b"xyz").await;
    assert_eq!(code, 400);
    assert_eq!(
        message,
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (78797a)"
    );
    let (code, message) = send(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x01\xff").await;
    assert_eq!(code, 400);
    assert_eq!(
        message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF"
    );
    let (code, message) = send(b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Thing\x12\x00").await;
    assert_eq!(code, 400);
    assert_eq!(
        message,
        "Thing in version \"v1\" cannot be handled as a ConfigMap: no kind \"Thing\" is registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    );
}
