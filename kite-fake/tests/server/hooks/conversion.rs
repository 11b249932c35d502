//! Definitions whose versions are converted by a webhook.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{JSON, World};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/kettles";
const V2: &str = "/apis/example.com/v2/namespaces/default/kettles";
const MERGE: &str = "application/merge-patch+json";

/// A kettle in the first version.
fn kettle(name: &str, litres: u32) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Kettle", "metadata": {"name": name},
        "spec": {"litres": litres}})
}

/// The same in the second.
fn other(name: &str, volume: &str) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Kettle", "metadata": {"name": name},
        "spec": {"volume": volume}})
}

fn definition() -> Value {
    let version = |name: &str, storage: bool, member: &str, kind: &str| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    member: {"type": kind}, "lid": {"type": "string", "default": name}}},
            }}},
            "subresources": {"status": {}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kettles.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "kettles", "kind": "Kettle"},
            "versions": [version("v1", true, "litres", "integer"), version("v2", false, "volume", "string")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "hooks", "namespace": "default", "path": "/convert"}},
            }},
        },
    })
}

/// What the webhook makes of an object.
fn converted(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    let spec = object["spec"].as_object_mut().unwrap();
    if desired == "example.com/v2" {
        let litres = spec.remove("litres").unwrap_or_default();
        spec.insert("volume".into(), format!("{litres}l").into());
    } else {
        let volume = spec.remove("volume").unwrap_or_default();
        let litres = volume.as_str().unwrap_or_default().trim_end_matches('l');
        spec.insert(
            "litres".into(),
            litres.parse::<u32>().unwrap_or_default().into(),
        );
    }
    object["apiVersion"] = desired.into();
    object
}

impl World {
    async fn with_kettles() -> Self {
        let world = Self::new();
        world.post(CRDS, definition()).await.expect(201);
        world.convert(converted);
        world
    }

    fn convert(&self, convert: impl Fn(&Value, &str) -> Value + Send + Sync + 'static) {
        self.reply("hooks.default.svc", move |review| {
            let request = &review["request"];
            let desired = request["desiredAPIVersion"].as_str().unwrap();
            let objects = request["objects"].as_array().unwrap();
            let objects: Vec<Value> = objects.iter().map(|it| convert(it, desired)).collect();
            let answer = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": {"uid": request["uid"], "result": {"status": "Success"},
                    "convertedObjects": objects},
            });
            Response::new(Full::new(Bytes::from(answer.to_string())))
        });
    }

    /// The next events of a watch.
    async fn events(&self, path: &str, count: usize) -> Vec<Value> {
        let request = Request::get(format!(
            "{path}?watch=true&timeoutSeconds=5{}",
            "&allowWatchBookmarks=false"
        ))
        .body(Full::new(Bytes::new()))
        .unwrap();
        let response = self.cluster.service().oneshot(request).await.unwrap();
        let mut body = response.into_body();
        let mut events = Vec::new();
        while events.len() < count {
            let Some(frame) = body.frame().await else {
                break;
            };
            let bytes = frame.unwrap().into_data().unwrap_or_default();
            let lines = bytes
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty());
            events.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
        }
        events
    }
}

#[tokio::test]
async fn what_is_written_in_one_version_is_read_in_the_other() {
    let world = World::with_kettles().await;
    let created = world.post(V2, other("a", "3l")).await.expect(201).body;
    assert_eq!(created["apiVersion"], "example.com/v2");
    // Both versions have defaults of their own; that of the first to see it stands.
    assert_eq!(created["spec"], json!({"volume": "3l", "lid": "v2"}));
    let stored = world.get(&format!("{V1}/a")).await.expect(200).body;
    assert_eq!(stored["apiVersion"], "example.com/v1");
    assert_eq!(stored["spec"], json!({"litres": 3, "lid": "v2"}));
    for member in ["uid", "resourceVersion", "managedFields"] {
        assert_eq!(
            stored["metadata"][member], created["metadata"][member],
            "{member}"
        );
    }
    world.post(V1, kettle("b", 5)).await.expect(201);
    world.requests();
    let list = world.get(V2).await.expect(200).body;
    let volumes: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["spec"]["volume"])
        .collect();
    assert_eq!(volumes, ["3l", "5l"]);
    // Objects of a list that are not known in the version yet are asked about at once.
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["desiredAPIVersion"], "example.com/v2");
    assert_eq!(request["objects"][0]["spec"]["litres"], 5);
    world.get(&format!("{V2}/b")).await.expect(200);
    assert!(world.requests().is_empty());
}

#[tokio::test]
async fn every_kind_of_write_is_converted() {
    let world = World::with_kettles().await;
    world.post(V1, kettle("a", 3)).await.expect(201);
    let path = format!("{V2}/a");
    let patched = world
        .send("PATCH", &path, MERGE, r#"{"spec":{"volume":"4l"}}"#)
        .await
        .expect(200);
    assert_eq!(patched.body["spec"]["volume"], "4l");
    let litres = async |world: &World| {
        world.get(&format!("{V1}/a")).await.expect(200).body["spec"]["litres"].clone()
    };
    assert_eq!(litres(&world).await, 4);

    // Who writes what is there already changes nothing.
    let again = world
        .send("PATCH", &path, MERGE, r#"{"spec":{"volume":"4l"}}"#)
        .await
        .expect(200);
    assert_eq!(
        again.body["metadata"]["resourceVersion"],
        patched.body["metadata"]["resourceVersion"]
    );

    let mut put = again.body;
    put["spec"]["volume"] = "6l".into();
    world.put(&path, put).await.expect(200);
    assert_eq!(litres(&world).await, 6);

    let apply = "application/apply-patch+yaml";
    let query = format!("{path}?fieldManager=me&force=true");
    world
        .send("PATCH", &query, apply, other("a", "7l"))
        .await
        .expect(200);
    assert_eq!(litres(&world).await, 7);

    world
        .send(
            "PATCH",
            &path,
            MERGE,
            r#"{"metadata":{"finalizers":["example.com/x"]}}"#,
        )
        .await
        .expect(200);
    let waits = world.send("DELETE", &path, JSON, "").await.expect(200).body;
    assert_eq!(waits["spec"]["volume"], "7l");
    let stored = world.get(&format!("{V1}/a")).await.expect(200).body;
    assert_eq!(stored["spec"]["litres"], 7);
    assert!(stored["metadata"]["deletionTimestamp"].is_string());
    world
        .send("PATCH", &path, MERGE, r#"{"metadata":{"finalizers":null}}"#)
        .await
        .expect(200);
    world.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_collection_is_deleted_in_another_version() {
    let world = World::with_kettles().await;
    for name in ["a", "b"] {
        let mut held = kettle(name, 1);
        held["metadata"]["finalizers"] = json!(["example.com/x"]);
        world.post(V1, held).await.expect(201);
    }
    world.post(V1, kettle("c", 1)).await.expect(201);
    let told = world.send("DELETE", V2, JSON, "").await.expect(200).body;
    assert_eq!(told["items"].as_array().unwrap().len(), 3);
    for name in ["a", "b"] {
        let stored = world.get(&format!("{V1}/{name}")).await.expect(200).body;
        assert!(stored["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(stored["spec"]["litres"], 1);
    }
    world.get(&format!("{V1}/c")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn watches_tell_of_converted_objects() {
    let world = World::with_kettles().await;
    world.post(V1, kettle("a", 1)).await.expect(201);
    let writes = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        world.post(V1, kettle("b", 2)).await.expect(201);
        world
            .send(
                "PATCH",
                &format!("{V1}/b"),
                MERGE,
                r#"{"spec":{"litres":3}}"#,
            )
            .await
            .expect(200);
        world
            .send("DELETE", &format!("{V1}/a"), JSON, "")
            .await
            .expect(200);
    };
    let (events, ()) = tokio::join!(world.events(V2, 4), writes);
    let told: Vec<(&str, &str, &str)> = events
        .iter()
        .map(|event| {
            let text = |value: &'static str| {
                event
                    .pointer(value)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            (
                text("/type"),
                text("/object/metadata/name"),
                text("/object/spec/volume"),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("ADDED", "a", "1l"),
            ("ADDED", "b", "2l"),
            ("MODIFIED", "b", "3l"),
            ("DELETED", "a", "1l")
        ]
    );
}

#[tokio::test]
async fn admission_sees_the_version_of_its_rules() {
    let world = World::with_kettles().await;
    let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["*"], "resources": ["kettles"]}]);
    world.mutate("a.example.com", json!({"rules": rules})).await;
    world.answer("a.example.com", |request| {
        assert_eq!(request["object"]["spec"]["litres"], 3);
        super::patch(&json!([{"op": "replace", "path": "/spec/litres", "value": 9}]))
    });
    let created = world.post(V2, other("a", "3l")).await.expect(201).body;
    assert_eq!(created["spec"]["volume"], "9l");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_converted_is_told() {
    let world = World::with_kettles().await;
    world.post(V1, kettle("a", 1)).await.expect(201);
    world.convert(|object, _| object.clone());
    let path = format!("{V2}/a");
    let why = "conversion webhook for example.com/v1, Kind=Kettle returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)";
    let told = world.get(&path).await.expect(500);
    assert_eq!(told.message(), why);
    assert_eq!(told.body["reason"], Value::Null);
    assert_eq!(world.get(V2).await.expect(500).message(), why);
    world.reply("hooks.default.svc", |review| {
        let answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": review["request"]["uid"],
                "result": {"status": "Failed", "message": "too hot"}}});
        Response::new(Full::new(Bytes::from(answer.to_string())))
    });
    let told = world.get(&path).await.expect(500);
    let hot = "conversion webhook for example.com/v1, Kind=Kettle failed: too hot";
    assert_eq!(told.message(), hot);
    let told = world.post(V2, other("b", "1l")).await.expect(500);
    assert_eq!(
        told.message(),
        "conversion webhook for example.com/v2, Kind=Kettle failed: too hot"
    );
    world.get(&format!("{V1}/b")).await.expect(404);
    // In its own version it is there as ever.
    world.get(&format!("{V1}/a")).await.expect(200);

    world.convert(converted);
    world.get(&path).await.expect(200);
    let breaks = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        world.convert(|object, _| object.clone());
        world.post(V1, kettle("c", 2)).await.expect(201);
    };
    let (events, ()) = tokio::join!(world.events(V2, 2), breaks);
    assert_eq!(events[1]["type"], "ERROR");
    assert_eq!(events[1]["object"]["message"], why);
}
