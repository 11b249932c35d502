//! kube-rs on the in-memory server: clients and reflectors.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_fake::FakeCluster;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, WatchEvent, WatchParams,
};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    let data = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    let mut object = ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    };
    object.metadata.name = Some(name.to_owned());
    object
}

#[tokio::test(start_paused = true)]
async fn a_client_creates_reads_patches_and_deletes() {
    let cluster = FakeCluster::builder().build().unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let created = api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(created.uid().is_some());
    let patch = Patch::Merge(json!({"data": {"k": "w"}}));
    let patched = api
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap()["k"], "w");
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let gone = api.get_opt("a").await.unwrap();
    assert!(gone.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_both_kinds_of_lists() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let cluster = FakeCluster::builder().build().unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &config_map("before"))
            .await
            .unwrap();
        let (store, writer) = reflector::store();
        let stream = watcher(api.clone(), config)
            .reflect(writer)
            .applied_objects();
        let task = tokio::spawn(stream.for_each(|_| async {}));
        store.wait_until_ready().await.unwrap();
        assert_eq!(store.len(), 1);
        api.create(&PostParams::default(), &config_map("after"))
            .await
            .unwrap();
        tokio::time::timeout(Duration::from_secs(60), async {
            while store.len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("the watch brings the second object");
        task.abort();
    }
}

const KITES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.demo.example.com}
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: kites, singular: kite, kind: Kite}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}
";

/// A cluster with that definition: the kind, its objects and all definitions.
fn with_kites() -> (
    ApiResource,
    Api<DynamicObject>,
    Api<CustomResourceDefinition>,
) {
    let cluster = FakeCluster::builder().crds_yaml(KITES).build().unwrap();
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("demo.example.com", "v1", "Kite"),
        "kites",
    );
    let kites = Api::default_namespaced_with(cluster.client(), &kind);
    (kind, kites, Api::all(cluster.client()))
}

#[tokio::test(start_paused = true)]
async fn a_watch_learns_of_new_fields_and_ends_with_its_definition() {
    let (kind, kites, crds) = with_kites();
    let mut events = kites
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    let field = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}}}}}]}});
    crds.patch(
        "kites.demo.example.com",
        &PatchParams::default(),
        &Patch::Merge(field),
    )
    .await
    .unwrap();
    let mut kite = DynamicObject::new("k", &kind);
    kite.data = json!({"spec": {"a": "x", "b": 2}});
    kites.create(&PostParams::default(), &kite).await.unwrap();
    match events.next().await.unwrap().unwrap() {
        WatchEvent::Added(seen) => assert_eq!(seen.data["spec"]["b"], 2),
        other => panic!("{other:?}"),
    }
    kites.delete("k", &DeleteParams::default()).await.unwrap();
    crds.delete("kites.demo.example.com", &DeleteParams::default())
        .await
        .unwrap();
    let rest = tokio::time::timeout(Duration::from_secs(5), events.count()).await;
    assert_eq!(
        rest.expect("the watch ends"),
        1,
        "only the deletion is left"
    );
}

/// Without any controllers: it is the API server's own work.
#[tokio::test(start_paused = true)]
async fn a_definition_goes_after_its_objects() {
    let (kind, kites, crds) = with_kites();
    for name in ["free", "held"] {
        let mut kite = DynamicObject::new(name, &kind);
        kite.data = json!({"spec": {}});
        if name == "held" {
            kite.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
        }
        kites.create(&PostParams::default(), &kite).await.unwrap();
    }
    let name = "kites.demo.example.com";
    crds.delete(name, &DeleteParams::default()).await.unwrap();
    assert!(kites.get_opt("free").await.unwrap().is_none());
    let held = kites.get("held").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let crd = crds.get(name).await.unwrap();
    let mut conditions = crd.status.unwrap().conditions.into_iter().flatten();
    let terminating = conditions.find(|it| it.type_ == "Terminating").unwrap();
    assert_eq!(
        terminating.reason.as_deref(),
        Some("InstanceDeletionInProgress")
    );
    let release = json!({"metadata": {"finalizers": null}});
    kites
        .patch("held", &PatchParams::default(), &Patch::Merge(release))
        .await
        .unwrap();
    assert!(crds.get_opt(name).await.unwrap().is_none());
    let gone = kites.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
    // It can be made anew at once.
    let again = serde_saphyr::from_str(KITES).unwrap();
    crds.create(&PostParams::default(), &again).await.unwrap();
    assert!(
        kites
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn rbac_lets_a_user_do_what_a_binding_says() {
    let cluster = FakeCluster::builder()
        .rbac(true)
        .objects_yaml(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
",
        )
        .build()
        .unwrap();
    let admin: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    admin
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let alice: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("alice"));
    assert!(alice.get("a").await.is_ok());
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    assert_eq!(
        code(alice.list(&ListParams::default()).await.unwrap_err()),
        403
    );
    // An apply of what is not there creates, which takes that right.
    let patch =
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}));
    let refused = alice.patch("b", &PatchParams::apply("x"), &patch).await;
    assert_eq!(code(refused.unwrap_err()), 403);
}

#[tokio::test(start_paused = true)]
async fn discovery_is_read_in_both_forms() {
    use kube::core::GroupVersionKind;
    use kube::discovery::{Discovery, verbs};

    let cluster = FakeCluster::builder().crds_yaml(KITES).build().unwrap();
    let kite = GroupVersionKind::gvk("demo.example.com", "v1", "Kite");
    let old = Discovery::new(cluster.client()).run().await.unwrap();
    let new = Discovery::new(cluster.client());
    let new = new.run_aggregated().await.unwrap();
    for found in [old, new] {
        assert!(found.has_group("apps"));
        let (resource, capabilities) = found.resolve_gvk(&kite).unwrap();
        assert_eq!(resource.plural, "kites");
        assert!(capabilities.supports_operation(verbs::WATCH));
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_tells_an_event_once_and_counts_it() {
    use k8s_openapi::api::events::v1::Event as Told;
    use kube::Resource as _;
    use kube::runtime::events::{Event, EventType, Recorder, Reporter};

    let cluster = FakeCluster::builder().build().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = maps
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let reporter = Reporter {
        controller: "tester".to_owned(),
        instance: Some("one".to_owned()),
    };
    let recorder = Recorder::new(cluster.client(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "Seen".to_owned(),
        note: Some("it was seen".to_owned()),
        action: "Looking".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder
            .publish(&event, &map.object_ref(&()))
            .await
            .unwrap();
    }
    let told: Api<Told> = Api::default_namespaced(cluster.client());
    let about = ListParams::default().fields("regarding.name=a,reason=Seen");
    let told = told.list(&about).await.unwrap().items;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].series.as_ref().unwrap().count, 3);
    // The same in the core group's words.
    let core: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(cluster.client());
    let about = ListParams::default().fields("involvedObject.name=a,source=tester");
    let core = core.list(&about).await.unwrap().items;
    assert_eq!(core[0].message.as_deref(), Some("it was seen"));
}
