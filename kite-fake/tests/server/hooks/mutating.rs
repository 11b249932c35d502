//! Webhooks that change objects.

use serde_json::{Value, json};

use super::{MAPS, World, allowed, map, patch};

/// An answer that adds a member to `data`.
fn adds(name: &'static str) -> impl Fn(&Value) -> Value + Send + Sync + 'static {
    move |request| {
        if request["object"]["data"][name].is_string() {
            return allowed();
        }
        let mut data = request["object"]["data"].clone();
        if data.is_null() {
            data = json!({});
        }
        data[name] = "x".into();
        patch(&json!([{"op": "add", "path": "/data", "value": data}]))
    }
}

#[tokio::test]
async fn they_come_in_order_and_before_those_that_refuse() {
    let world = World::new();
    world.mutate("b.example.com", json!({})).await;
    world.mutate("a.example.com", json!({})).await;
    world.validate("0.example.com", json!({})).await;
    world.answer("a.example.com", adds("a"));
    world.answer("b.example.com", adds("b"));
    world.answer("0.example.com", |_| allowed());
    let created = world.post(MAPS, map("m")).await.expect(201).body;
    assert_eq!(created["data"], json!({"a": "x", "b": "x"}));
    let asked = std::mem::take(&mut *world.asked.lock());
    let who: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(who, ["a.example.com", "b.example.com", "0.example.com"]);
    // The first sees what was sent, without what the server gives it; the last all of it.
    let [first, second, last] = [0, 1, 2].map(|at: usize| &asked[at].1["object"]);
    assert_eq!(first["metadata"]["uid"], Value::Null);
    assert_eq!(first["data"], Value::Null);
    assert_eq!(second["data"], json!({"a": "x"}));
    assert_eq!(last["data"], created["data"]);
    assert_eq!(last["metadata"]["uid"], created["metadata"]["uid"]);
    // Nobody owns what webhooks add.
    let owned = created["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("f:data"), "{owned}");
}

#[tokio::test]
async fn who_wants_to_is_asked_once_more() {
    let world = World::new();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    world.mutate("a.example.com", again.clone()).await;
    world.mutate("b.example.com", json!({})).await;
    world.mutate("c.example.com", again).await;
    for name in ["a.example.com", "c.example.com"] {
        world.answer(name, |_| allowed());
    }
    world.answer("b.example.com", adds("b"));
    world.post(MAPS, map("m")).await.expect(201);
    // The last was asked after the change.
    assert_eq!(
        world.who(),
        [
            "a.example.com",
            "b.example.com",
            "c.example.com",
            "a.example.com"
        ]
    );
    let merge = "application/merge-patch+json";
    let path = format!("{MAPS}/m");
    world
        .send("PATCH", &path, merge, r#"{"data":{"n":"1"}}"#)
        .await
        .expect(200);
    assert_eq!(
        world.who(),
        ["a.example.com", "b.example.com", "c.example.com"]
    );
}

#[tokio::test]
async fn a_generated_name_comes_after_them() {
    let world = World::new();
    world.mutate("a.example.com", json!({})).await;
    world.answer("a.example.com", |_| {
        patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
    });
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    let created = world.post(MAPS, body).await.expect(201).body;
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["name"], Value::Null);
    assert_eq!(request["object"]["metadata"]["name"], Value::Null);
    assert_eq!(created["metadata"]["labels"], json!({"a": "b"}));
    let name = created["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("m-") && name.len() == 7, "{name}");
}

#[tokio::test]
async fn the_changed_object_has_its_defaults_and_is_checked() {
    let world = World::new();
    let pods = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"]}]);
    world.mutate("a.example.com", json!({"rules": pods})).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let path = "/api/v1/namespaces/default/pods";
    world.answer("a.example.com", |_| {
        patch(&json!([{"op": "add", "path": "/spec/containers/-",
            "value": {"name": "b", "image": "b", "unknown": 1}}]))
    });
    let created = world.post(path, pod.clone()).await.expect(201).body;
    let added = &created["spec"]["containers"][1];
    assert_eq!(added["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(added["unknown"], Value::Null);

    let mut other = pod;
    other["metadata"]["name"] = "q".into();
    world.answer("a.example.com", |_| {
        patch(&json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "a", "image": "b"}}]))
    });
    let told = world.post(path, other.clone()).await.expect(422);
    assert_eq!(
        told.message(),
        "Pod \"q\" is invalid: spec.containers[1].name: Duplicate value: \"a\""
    );
    world.answer("a.example.com", |_| {
        patch(&json!([{"op": "add", "path": "/spec/containers", "value": 3}]))
    });
    let told = world.post(path, other).await.expect(500);
    assert_eq!(
        told.message(),
        "Internal error occurred: json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
}

#[tokio::test]
async fn an_apply_goes_through_them_even_if_it_changes_nothing() {
    let world = World::new();
    let path = format!("{MAPS}/m?fieldManager=me");
    let apply = "application/apply-patch+yaml";
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "1"}});
    world.send("PATCH", &path, apply, &body).await.expect(201);
    world.mutate("a.example.com", json!({})).await;
    world.answer("a.example.com", adds("a"));
    let told = world
        .send("PATCH", &path, apply, &body)
        .await
        .expect(200)
        .body;
    assert_eq!(told["data"], json!({"k": "1", "a": "x"}));
    assert_eq!(world.who().len(), 1);
    let put = world.put(&format!("{MAPS}/m"), body).await.expect(200).body;
    assert_eq!(put["data"], json!({"k": "1", "a": "x"}));
}

#[tokio::test]
async fn a_deletion_has_nothing_to_change() {
    let world = World::new();
    world.post(MAPS, map("m")).await.expect(201);
    world.mutate("a.example.com", json!({})).await;
    world.answer("a.example.com", adds("a"));
    let told = world
        .send("DELETE", &format!("{MAPS}/m"), "application/json", "")
        .await
        .expect(500);
    assert_eq!(
        told.message(),
        "Internal error occurred: admission webhook \"a.example.com\" attempted to modify the object, which is not supported for this operation"
    );
}

#[tokio::test]
async fn who_changes_the_cluster_meanwhile_is_seen() {
    // The webhook itself writes the object that it is asked about: what it said counts
    // for the state that it was asked about, so that it is asked again.
    let world = World::new();
    world.post(MAPS, map("m")).await.expect(201);
    world.validate("a.example.com", json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["UPDATE"], "resources": ["configmaps"]}],
        "matchConditions": [{"name": "own", "expression": "request.userInfo.username == 'kubernetes-admin'"}]})).await;
    let cluster = world.cluster.clone();
    world.answer("a.example.com", move |request| {
        if request["oldObject"]["data"].is_null() {
            let write = http::Request::builder()
                .method("PATCH")
                .uri(format!("{MAPS}/m"))
                .header("content-type", "application/merge-patch+json")
                .extension(kite_fake::auth::Identity::user("other"))
                .body(bytes::Bytes::from_static(br#"{"data":{"other":"1"}}"#))
                .unwrap();
            cluster.handle(write);
        }
        allowed()
    });
    let merge = "application/merge-patch+json";
    let path = format!("{MAPS}/m");
    let told = world
        .send("PATCH", &path, merge, r#"{"data":{"own":"1"}}"#)
        .await
        .expect(200);
    assert_eq!(told.body["data"], json!({"other": "1", "own": "1"}));
    assert_eq!(world.who().len(), 2);
}
