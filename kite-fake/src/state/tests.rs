#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::*;

const THINGS: &str = "
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
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string, default: given}}}}}}
";

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": "default"}})
}

fn cluster() -> FakeCluster {
    FakeCluster::builder().crds_yaml(THINGS).build().unwrap()
}

fn things(cluster: &FakeCluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("x.io", "v1", "Thing");
    let kind = ApiResource::from_gvk_with_plural(&kind, "things");
    Api::default_namespaced_with(cluster.client(), &kind)
}

#[test]
fn it_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    shared(&cluster().snapshot());
}

#[tokio::test(start_paused = true)]
async fn restoring_brings_objects_and_kinds_back() {
    let cluster = cluster();
    cluster.create(map("kept", &json!({"n": "1"}))).unwrap();
    let then = cluster.snapshot();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.delete("kept", &DeleteParams::default()).await.unwrap();
    cluster.create(map("new", &json!({}))).unwrap();
    let crds: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        Api::all(cluster.client());
    crds.delete("things.x.io", &DeleteParams::default())
        .await
        .unwrap();
    let later = cluster.snapshot().revision();

    cluster.restore(&then);
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["n"], "1");
    assert!(maps.get_opt("new").await.unwrap().is_none());
    assert!(things(&cluster).list(&ListParams::default()).await.is_ok());
    assert!(then.diff(&cluster.snapshot()).is_empty());
    assert!(
        cluster.snapshot().revision() > later,
        "revisions never go back"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_of_a_new_cluster_stays_away() {
    let cluster = cluster();
    let untouched = cluster.snapshot();
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let body = DeleteParams::default();
    roles.delete("view", &body).await.unwrap();
    let later = PostParams::default();
    let mut edit = roles.get("edit").await.unwrap();
    edit.metadata.labels = None;
    roles.replace("edit", &later, &edit).await.unwrap();
    roles.delete("edit", &body).await.unwrap();
    let then = cluster.snapshot();
    cluster.restore(&then);
    assert!(roles.get_opt("view").await.unwrap().is_none());
    let filed = Snapshot::from_json(&then.to_json().unwrap()).unwrap();
    for state in [then.clone(), then.bump_revision(9), filed] {
        let next = FakeCluster::builder().snapshot(state).build().unwrap();
        let roles: Api<ClusterRole> = Api::all(next.client());
        assert!(roles.get_opt("view").await.unwrap().is_none());
        assert!(roles.get_opt("edit").await.unwrap().is_none());
        assert!(roles.get_opt("admin").await.unwrap().is_some());
    }
    cluster.restore(&untouched);
    assert!(roles.get_opt("view").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn watches_across_a_restore_are_told_to_list_again() {
    let cluster = cluster();
    let then = cluster.snapshot();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.create(map("a", &json!({}))).unwrap();
    let now = cluster.snapshot().revision().to_string();
    let mut quiet = maps
        .watch(&WatchParams::default(), &now)
        .await
        .unwrap()
        .boxed();
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    assert!(page.metadata.resource_version.unwrap() == now);

    cluster.restore(&then);
    let event = tokio::time::timeout(Duration::from_secs(1), quiet.next()).await;
    let Some(Ok(WatchEvent::Error(status))) = event.unwrap() else {
        panic!("an ERROR event was due");
    };
    assert_eq!(status.code, 410);
    assert!(quiet.next().await.is_none(), "and the watch is over");
    let mut late = maps
        .watch(&WatchParams::default(), &now)
        .await
        .unwrap()
        .boxed();
    let event = late.next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Error(status) if status.code == 410));
}

#[tokio::test(start_paused = true)]
async fn a_write_based_on_the_abandoned_state_is_a_conflict() {
    let cluster = cluster();
    cluster.create(map("a", &json!({"n": "1"}))).unwrap();
    let then = cluster.snapshot();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut a = maps.get("a").await.unwrap();
    a.data = Some([("n".to_owned(), "2".to_owned())].into());
    let a = maps.replace("a", &PostParams::default(), &a).await.unwrap();
    cluster.restore(&then);
    let answer = maps.replace("a", &PostParams::default(), &a).await;
    assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 409));
}

#[test]
fn another_cluster_takes_up_a_state_and_keeps_its_administrator() {
    let (one, two) = (cluster(), FakeCluster::builder().seed(9).build().unwrap());
    one.create(map("a", &json!({}))).unwrap();
    two.restore(&one.snapshot());
    assert!(one.snapshot().diff(&two.snapshot()).is_empty());
    let request = http::Request::get("/api/v1/namespaces")
        .header("authorization", format!("Bearer {}", two.admin_token()))
        .body(bytes::Bytes::new())
        .unwrap();
    let crate::server::Answer::Response(answer) = two.handle(request) else {
        panic!("a list is a response");
    };
    assert_eq!(answer.status(), 200);
}

#[test]
fn continuations_of_one_state_are_alike_and_know_its_history() {
    let cluster = cluster();
    let start = cluster.snapshot().revision();
    cluster.create(map("a", &json!({}))).unwrap();
    let world = cluster.snapshot();
    let go_on = || {
        let builder = FakeCluster::builder().seed(5).snapshot(world.clone());
        let next = builder.build().unwrap();
        next.create(map("b", &json!({}))).unwrap();
        next.snapshot()
    };
    let (one, two) = (go_on(), go_on());
    let maps = GroupResource::new("", "configmaps");
    let uid = |s: &Snapshot| s.get(&maps, "default", "b").unwrap().meta("uid").to_owned();
    assert_eq!(uid(&one), uid(&two));
    assert_eq!(one.revision(), world.revision() + 1);
    let next = FakeCluster::builder()
        .snapshot(world.clone())
        .build()
        .unwrap();
    assert_eq!(
        next.server()
            .store()
            .events_since(&maps, start)
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn a_snapshot_shares_what_did_not_change() {
    let cluster = cluster();
    let before = cluster.snapshot();
    cluster.create(map("a", &json!({}))).unwrap();
    let after = cluster.snapshot();
    let of = |snapshot: &Snapshot, plural: &str| {
        let objects = snapshot.store.collection(&GroupResource::new("", plural));
        objects.map(std::sync::Arc::as_ptr)
    };
    assert_eq!(of(&before, "namespaces"), of(&after, "namespaces"));
    assert_ne!(of(&before, "configmaps"), of(&after, "configmaps"));
}

#[test]
fn differences_are_told_in_words() {
    let cluster = FakeCluster::builder()
        .object(map("gone", &json!({})))
        .object(map("changed", &json!({"a.b": "1", "old": "x"})))
        .build()
        .unwrap();
    let before = cluster.snapshot();
    let put = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let request = http::Request::put(format!("/api/v1/namespaces/default/configmaps/{name}"))
            .header("content-type", "application/json")
            .body(object.to_string().into())
            .unwrap();
        cluster.handle(authorised(&cluster, request));
    };
    put(&map("changed", &json!({"a.b": "2", "new": "y"})));
    let gone = http::Request::delete("/api/v1/namespaces/default/configmaps/gone");
    cluster.handle(authorised(
        &cluster,
        gone.body(bytes::Bytes::new()).unwrap(),
    ));
    cluster.create(map("come", &json!({}))).unwrap();
    let diff = before.diff(&cluster.snapshot());
    let expected = "\
~ ConfigMap default/changed: data[\"a.b\"]: \"1\" → \"2\"
~ ConfigMap default/changed: data.old: \"x\" → (none)
~ ConfigMap default/changed: data.new: (none) → \"y\"
+ ConfigMap default/come
- ConfigMap default/gone
";
    assert_eq!(diff.to_string(), expected);
    assert_eq!(
        (diff.added().count(), diff.removed().count(), diff.len()),
        (1, 1, 3)
    );
    assert!(
        before
            .diff_with(&cluster.snapshot(), &View::default().kind("Secret"))
            .is_empty()
    );
}

fn authorised(
    cluster: &FakeCluster,
    mut request: http::Request<bytes::Bytes>,
) -> http::Request<bytes::Bytes> {
    let token = format!("Bearer {}", cluster.admin_token());
    request
        .headers_mut()
        .insert("authorization", token.parse().unwrap());
    request
}

#[test]
fn elements_of_lists_are_found_again_by_their_names() {
    let change = |a: Value, b: Value| {
        let changes = diff::field_changes(&a, &b);
        let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
        lines.join("; ")
    };
    let (x, y) = (json!({"name": "x", "n": 1}), json!({"name": "y", "n": 1}));
    assert_eq!(
        change(json!([x]), json!([y, {"name": "x", "n": 2}])),
        r#"[name=x].n: 1 → 2; [name=y]: (none) → {"n":1,"name":"y"}"#
    );
    assert_eq!(
        change(
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 81}]})
        ),
        "ports[0].port: 80 → 81"
    );
    assert_eq!(change(json!([1, 2]), json!([1])), "[1]: 2 → (none)");
    assert_ne!(change(json!([x, y]), json!([y, x])), "", "order counts");
}

#[test]
fn two_runs_of_the_same_thing_are_the_same_when_normalised() {
    let run = |seed: u64, order: [&str; 2]| {
        let cluster = FakeCluster::builder().seed(seed).build().unwrap();
        for n in order {
            let mut object = map("", &json!({"n": n}));
            object["metadata"] = json!({"generateName": "web-", "namespace": "default"});
            cluster.create(&object).unwrap();
        }
        let snapshot = cluster.snapshot();
        let made = snapshot
            .objects()
            .find(|(r, _, o)| r.plural == "configmaps" && o.value()["data"]["n"] == "1");
        let (_, key, object) = made.unwrap();
        let mut child = map("child", &json!({"of": format!("pod/{}-0", key.name)}));
        child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
            "name": key.name, "uid": object.meta("uid")}]);
        cluster.create(&child).unwrap();
        cluster.snapshot()
    };
    let (one, two) = (run(1, ["1", "2"]), run(2, ["2", "1"]));
    assert!(!one.diff(&two).is_empty());
    let view = View::default().normalised();
    assert_eq!(one.diff_with(&two, &view).to_string(), "");
    let text = one.dump_with(&view.kind("ConfigMap"));
    assert!(text.contains("# ConfigMap default/web-<gen:1>\n"), "{text}");
    assert!(text.contains("of: pod/web-<gen:1>-0"), "{text}");
    assert!(
        text.contains("<uid of ConfigMap default/web-<gen:1>>"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_filed_state_is_the_same_when_it_is_read() {
    let cluster = cluster();
    let kind: Value = json!({"apiVersion": "x.io/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {}});
    cluster.create(&kind).unwrap();
    let saved = cluster.snapshot();
    let loaded = Snapshot::from_json(&saved.to_json().unwrap()).unwrap();
    assert_eq!(loaded.revision(), saved.revision());
    let all = View::default().resource_versions().managed_fields();
    assert_eq!(saved.diff_with(&loaded, &all).to_string(), "");

    let again = FakeCluster::builder().snapshot(loaded).build().unwrap();
    let thing = things(&again).get("a").await.unwrap();
    assert_eq!(thing.data["spec"]["a"], "given");
    let client = FakeCluster::builder()
        .snapshot(saved.bump_revision(1000))
        .build()
        .unwrap();
    assert_eq!(
        client.snapshot().revision(),
        cluster.snapshot().revision() + 1000
    );
}

#[test]
fn a_damaged_or_foreign_file_says_so() {
    let error = |text: &str| {
        Snapshot::from_json(text.as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert!(error("{").contains("no saved cluster state"));
    assert!(error(r#"{"format": 99}"#).contains("format 99"));
    let mut filed: Value =
        serde_json::from_slice(&cluster().snapshot().to_json().unwrap()).unwrap();
    filed["collections"][0]["objects"][0]["metadata"]["name"] = Value::Null;
    assert!(error(&filed.to_string()).contains("damaged"));
}
