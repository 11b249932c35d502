//! Whatever comes in, the server answers: no panic, no hang, a `Status` for
//! every failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use http::Request;
use kite_fake::FakeCluster;
use kite_fake::auth::Identity;
use kite_fake::server::Answer;
use proptest::prelude::*;
use serde_json::{Value, json};

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              n: {type: integer}
              list: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}
          status: {type: object, properties: {n: {type: integer}}}
";

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            Just("a"),
            Just("0"),
            Just(""),
            Just("Foreground"),
            Just("x.io/v1")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        let name = prop_oneof![
            Just("metadata"),
            Just("name"),
            Just("namespace"),
            Just("spec"),
            Just("status"),
            Just("finalizers"),
            Just("labels"),
            Just("ownerReferences"),
            Just("managedFields"),
            Just("data"),
            Just("list"),
            Just("k"),
            Just("n"),
            Just("rules"),
            Just("subjects"),
            Just("roleRef"),
            Just("hard"),
            Just("ports"),
            Just("versions"),
            Just("names"),
            Just("schema"),
            Just("uid"),
            Just("resourceVersion"),
            Just("generateName"),
            Just("preconditions"),
            Just("resourceAttributes"),
            Just("op"),
            Just("path"),
            Just("value"),
            Just("containers"),
            Just("selector"),
            Just("limits"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// A resource's path with the type that bodies should have.
fn any_target() -> impl Strategy<Value = (String, Value)> {
    let kinds = prop_oneof![
        Just((
            "/apis/x.io/v1/namespaces/default/things",
            "x.io/v1",
            "Thing"
        )),
        Just(("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap")),
        Just(("/api/v1/namespaces/default/services", "v1", "Service")),
        Just(("/api/v1/namespaces/default/pods", "v1", "Pod")),
        Just((
            "/api/v1/namespaces/default/resourcequotas",
            "v1",
            "ResourceQuota"
        )),
        Just(("/api/v1/namespaces/default/limitranges", "v1", "LimitRange")),
        Just(("/api/v1/namespaces/default/events", "v1", "Event")),
        Just((
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "events.k8s.io/v1",
            "Event"
        )),
        Just((
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            "rbac.authorization.k8s.io/v1",
            "RoleBinding"
        )),
        Just((
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition"
        )),
        Just((
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "authorization.k8s.io/v1",
            "SubjectAccessReview"
        )),
        Just((
            "/apis/apps/v1/namespaces/default/deployments",
            "apps/v1",
            "Deployment"
        )),
        Just((
            "/api/v1/namespaces/default/serviceaccounts",
            "v1",
            "ServiceAccount"
        )),
        Just(("/api/v1/namespaces", "v1", "Namespace")),
    ];
    let below = prop_oneof![
        Just(""),
        Just("/a"),
        Just("/a/status"),
        Just("/a/scale"),
        Just("/a/token"),
        Just("/a/eviction"),
        Just("/a/finalize"),
        Just("/a/b/c"),
        Just("/%2F"),
    ];
    (kinds, below).prop_map(|((path, version, kind), below)| {
        (
            format!("{path}{below}"),
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}),
        )
    })
}

fn any_query() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        Just("watch=1"),
        Just("limit=1"),
        Just("continue=abc"),
        Just("resourceVersion=3"),
        Just("resourceVersion=x"),
        Just("resourceVersionMatch=Exact"),
        Just("labelSelector=a%20in%20("),
        Just("labelSelector=!,a"),
        Just("fieldSelector=metadata.name%3Da"),
        Just("dryRun=All"),
        Just("fieldManager=m"),
        Just("force=1"),
        Just("fieldValidation=Strict"),
        Just("propagationPolicy=Foreground"),
        Just("sendInitialEvents=true"),
        Just("%"),
        Just("a=%f"),
    ];
    prop::collection::vec(one, 0..3).prop_map(|all| all.join("&"))
}

/// `PROPTEST_CASES` asks for more than a quick run.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|c| c.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_request_is_answered(
        requests in prop::collection::vec(
            (
                prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE")],
                any_target(),
                any_query(),
                prop_oneof![
                    Just("application/json"), Just("application/yaml"),
                    Just("application/merge-patch+json"), Just("application/json-patch+json"),
                    Just("application/strategic-merge-patch+json"), Just("application/apply-patch+yaml"),
                ],
                any_value(),
                any::<bool>(),
                prop_oneof![Just("application/json"), Just("application/json;as=Table;g=meta.k8s.io;v=v1"), Just("application/yaml")],
            ),
            1..40,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let cluster = FakeCluster::builder().crds_yaml(CRD).build().unwrap();
        for (method, (path, base), query, media, noise, typed, accept) in requests {
            let mut body = noise.clone();
            if typed {
                let mut object = base;
                if let (Some(object), Some(noise)) = (object.as_object_mut(), noise.as_object()) {
                    object.extend(noise.clone());
                }
                body = object;
            }
            let request = Request::builder()
                .method(method)
                .uri(format!("{path}?{query}"))
                .header("content-type", media)
                .header("accept", accept)
                .extension(Identity::admin())
                .body(Bytes::from(body.to_string()))
                .unwrap();
            let what = format!("{method} {path}?{query} {media} {body}");
            match cluster.handle(request) {
                Answer::Response(response) => {
                    let code = response.status().as_u16();
                    if code >= 400 && response.headers()["content-type"] == "application/json" {
                        let status: Value = serde_json::from_slice(response.body()).unwrap();
                        prop_assert_eq!(&status["kind"], "Status", "{}", what);
                        prop_assert_eq!(&status["code"], code, "{}", what);
                    }
                }
                Answer::Watch(mut watch) => {
                    let now = cluster.now();
                    let server = cluster.server();
                    server.poll(&mut watch, now);
                    server.poll(&mut watch, now);
                }
                Answer::Extension(..) => prop_assert!(false, "{}", what),
            }
        }
    }
}
