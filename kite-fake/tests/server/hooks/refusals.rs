//! What clients are told where a webhook refuses, or does not answer as it should.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{JSON, MAPS, World, allowed, map, patch};

fn text(code: u16, kind: &str, body: &str) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .header("content-type", kind)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

#[tokio::test]
async fn a_refusal_is_in_the_words_of_the_webhook() {
    let denied = "admission webhook \"a.example.com\" denied the request";
    for (status, code, body) in [
        (
            json!({"message": "no", "code": 403, "reason": "Forbidden"}),
            403,
            json!({"message": format!("{denied}: no"), "reason": "Forbidden", "code": 403}),
        ),
        (
            json!({"reason": "Busy"}),
            400,
            json!({"message": format!("{denied}: Busy"), "reason": "Busy", "code": 400}),
        ),
        (
            Value::Null,
            400,
            json!({"message": format!("{denied} without explanation"), "code": 400}),
        ),
        (
            json!({"message": "x", "code": 200, "status": "Success",
                "details": {"causes": [{"field": "a", "message": "b"}]}}),
            400,
            json!({"message": format!("{denied}: x"), "code": 400,
                "details": {"causes": [{"field": "a", "message": "b"}]}}),
        ),
    ] {
        let world = World::new();
        world.validate("a.example.com", json!({})).await;
        world.answer(
            "a.example.com",
            move |_| json!({"allowed": false, "status": status, "warnings": ["look here"]}),
        );
        let told = world.post(MAPS, map("a")).await.expect(code);
        let mut wanted = body;
        wanted["kind"] = "Status".into();
        wanted["apiVersion"] = "v1".into();
        wanted["metadata"] = json!({});
        wanted["status"] = "Failure".into();
        assert_eq!(told.body, wanted);
        assert_eq!(told.warnings, ["299 - \"look here\""]);
        world.get(&format!("{MAPS}/a")).await.expect(404);
    }
}

/// How a response is made of a review.
type Reply = fn(&Value) -> Response<Full<Bytes>>;

/// What the server says of a response, after the name of the webhook.
async fn said_of(plural: &str, reply: Reply) -> String {
    let world = World::new();
    world.configure(plural, "a.example.com", json!({})).await;
    world.reply("a.example.com", reply);
    let told = world.post(MAPS, map("a")).await.expect(500);
    let cause = told.body["details"]["causes"][0]["message"].as_str();
    let failed = "failed calling webhook \"a.example.com\": ";
    let why = cause.and_then(|cause| cause.strip_prefix(failed)).unwrap();
    assert_eq!(
        told.message(),
        format!("Internal error occurred: {failed}{why}")
    );
    why.to_owned()
}

/// A review with a response that answers the question.
fn answering(review: &Value, mut response: Value) -> Response<Full<Bytes>> {
    response["uid"] = review["request"]["uid"].clone();
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": response});
    text(200, JSON, &body.to_string())
}

#[tokio::test]
async fn responses_that_are_no_reviews_are_told_as_such() {
    let cases: Vec<(Reply, &str)> = vec![
        (
            |_| text(404, "text/plain", "404 page not found"),
            "the server could not find the requested resource",
        ),
        (
            |_| text(500, "text/plain", "broken\n"),
            "an error on the server (\"broken\") has prevented the request from succeeding",
        ),
        (
            |_| text(200, JSON, ""),
            "0-length response with status code: 200 and content type: application/json",
        ),
        (
            |_| text(200, "text/html", "<html>"),
            "couldn't get version/kind; json parse error: invalid character '<' looking for beginning of value",
        ),
        (
            |_| {
                let body = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview",
                    "response": {"allowed": true}});
                text(200, JSON, &body.to_string())
            },
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
    ];
    for (reply, wanted) in cases {
        assert_eq!(
            said_of("validatingwebhookconfigurations", reply).await,
            format!("failed to call webhook: {wanted}")
        );
    }
}

#[tokio::test]
async fn reviews_that_do_not_answer_are_told_as_such() {
    let cases: Vec<(&str, Reply, &str)> = vec![
        (
            "validatingwebhookconfigurations",
            |review| {
                let body = json!({"response": {"uid": review["request"]["uid"], "allowed": true}});
                text(200, JSON, &body.to_string())
            },
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            "validatingwebhookconfigurations",
            |_| {
                let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
                text(200, JSON, &body.to_string())
            },
            "received invalid webhook response: webhook response was absent",
        ),
        (
            "validatingwebhookconfigurations",
            |review| answering(review, patch(&json!([]))),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            "mutatingwebhookconfigurations",
            |review| {
                let mut answer = patch(&json!([]));
                answer["patchType"] = Value::Null;
                answering(review, answer)
            },
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            "mutatingwebhookconfigurations",
            |review| answering(review, patch(&json!({"not": "a list"}))),
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "mutatingwebhookconfigurations",
            |review| {
                let mut answer = patch(&json!([{"op": "test", "path": "/a", "value": 1}]));
                answer["patchType"] = "Merge".into();
                answering(review, answer)
            },
            "unsupported patch type \"Merge\"",
        ),
    ];
    for (plural, reply, wanted) in cases {
        assert_eq!(said_of(plural, reply).await, wanted);
    }
}

#[tokio::test]
async fn a_patch_that_does_not_fit_is_told() {
    let world = World::new();
    world.mutate("a.example.com", json!({})).await;
    world.answer("a.example.com", |_| {
        patch(&json!([{"op": "add", "path": "/spec/a", "value": 1}]))
    });
    let told = world.post(MAPS, map("a")).await.expect(500);
    assert_eq!(
        told.message(),
        "Internal error occurred: add operation does not apply: doc is missing path: \"/spec/a\": missing value"
    );
}

#[tokio::test]
async fn another_uid_is_no_answer() {
    let world = World::new();
    world.validate("a.example.com", json!({})).await;
    world.reply("a.example.com", |_| {
        text(200, "application/json", r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}"#)
    });
    let told = world.post(MAPS, map("a")).await.expect(500);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(
        told.message(),
        format!(
            "Internal error occurred: failed calling webhook \"a.example.com\": received invalid webhook response: expected response.uid={}, got \"x\"",
            request["uid"]
        )
    );
}

#[tokio::test]
async fn the_version_before_is_not_looked_at_closely() {
    let world = World::new();
    world
        .mutate(
            "a.example.com",
            json!({"admissionReviewVersions": ["v1beta1"]}),
        )
        .await;
    world.reply("a.example.com", |review| {
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
        let mut answer = patch(&json!([{"op": "add", "path": "/data", "value": {"a": "1"}}]));
        answer["patchType"] = Value::Null;
        text(
            200,
            "application/json",
            &json!({"response": answer}).to_string(),
        )
    });
    let created = world.post(MAPS, map("a")).await.expect(201).body;
    assert_eq!(created["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn a_failure_policy_lets_pass_what_was_not_answered_only() {
    let world = World::new();
    let open = json!({"failurePolicy": "Ignore"});
    world.validate("a.example.com", open.clone()).await;
    world.mutate("b.example.com", open).await;
    world.reply("a.example.com", |_| text(500, "text/plain", "broken"));
    world.reply("b.example.com", |_| text(500, "text/plain", "broken"));
    world.post(MAPS, map("a")).await.expect(201);
    assert_eq!(world.who(), ["b.example.com", "a.example.com"]);
    world.answer("a.example.com", |_| json!({"allowed": false}));
    world.post(MAPS, map("b")).await.expect(400);
}

#[tokio::test]
async fn dry_runs_need_webhooks_without_effects() {
    let world = World::new();
    world
        .validate("a.example.com", json!({"sideEffects": "NoneOnDryRun"}))
        .await;
    world.answer("a.example.com", |request| {
        assert_eq!(request["dryRun"], true);
        allowed()
    });
    let path = format!("{MAPS}?dryRun=All");
    world.post(&path, map("a")).await.expect(201);
    // Nothing but the versions before could be written otherwise; what has is refused.
    let kept =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a.example.com";
    let merge = "application/strategic-merge-patch+json";
    let some = json!({"webhooks": [{"name": "a.example.com", "sideEffects": "Some"}]});
    let told = world.send("PATCH", kept, merge, some).await;
    if told.code == 200 {
        let told = world.post(&path, map("a")).await.expect(400);
        assert_eq!(
            told.message(),
            "admission webhook \"a.example.com\" does not support dry run"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_has_its_time() {
    let world = World::new();
    world
        .validate("a.example.com", json!({"timeoutSeconds": 3}))
        .await;
    world.cluster.answer_webhooks(
        "a.example.com",
        tower::service_fn(async |_| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::new())))
        }),
    );
    let begun = tokio::time::Instant::now();
    let told = world.post(MAPS, map("a")).await.expect(500);
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(
        told.message(),
        "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"https://a.example.com/?timeout=3s\": context deadline exceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_has_its_time_too() {
    let world = World::new();
    let slow = json!({"timeoutSeconds": 20, "failurePolicy": "Ignore"});
    for name in ["a.example.com", "b.example.com", "c.example.com"] {
        world.mutate(name, slow.clone()).await;
        world.cluster.answer_webhooks(
            name,
            tower::service_fn(async |_| {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::new())))
            }),
        );
    }
    let begun = tokio::time::Instant::now();
    let told = world.post(MAPS, map("a")).await.expect(504);
    assert_eq!(begun.elapsed().as_secs(), 34);
    assert_eq!(
        told.message(),
        "Timeout: request did not complete within requested timeout - context deadline exceeded"
    );
}

#[tokio::test]
async fn a_service_is_looked_for() {
    let world = World::new();
    let service = json!({"service": {"name": "hooks", "namespace": "default", "port": 8443}});
    world
        .validate("a.example.com", json!({"clientConfig": service}))
        .await;
    let told = world.post(MAPS, map("a")).await.expect(500);
    let post = "Post \"https://hooks.default.svc:8443/?timeout=10s\": ";
    let wanted = if cfg!(feature = "webhooks") {
        "service \"hooks\" not found"
    } else {
        "nobody answers for hooks.default.svc:8443 in this process"
    };
    assert!(
        told.message().contains(&format!("{post}{wanted}")),
        "{}",
        told.message()
    );
    world.answer("hooks.default.svc:8443", |_| allowed());
    world.post(MAPS, map("a")).await.expect(201);
}

#[test]
fn who_cannot_ask_is_told() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(world.validate("a.example.com", json!({})));
    let mut map = map("a");
    map["metadata"]["namespace"] = "default".into();
    let told = world.cluster.create(map).unwrap_err().to_string();
    assert!(told.contains("a webhook is to be asked"), "{told}");
}
