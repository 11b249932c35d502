//! A cluster with its control plane, and short words for what tests ask of it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Key, Kind, Rules, control_plane, kind};
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The namespace of everything.
pub const NS: Option<&str> = Some("default");

pub struct World {
    pub cluster: FakeCluster,
    pub rules: Arc<Rules>,
    pub actors: Actors,
    stop: CancellationToken,
}

impl World {
    /// Nothing takes any time.
    pub async fn new() -> Self {
        Self::with(Rules::instant()).await
    }

    pub async fn with(rules: Rules) -> Self {
        let cluster = FakeCluster::builder().build().unwrap();
        Self::on(cluster, Arc::new(rules)).await
    }

    pub async fn on(cluster: FakeCluster, rules: Arc<Rules>) -> Self {
        let world = Self::begun(cluster, rules);
        world.settle().await;
        world
    }

    /// The actors have just begun.
    pub fn begun(cluster: FakeCluster, rules: Arc<Rules>) -> Self {
        let stop = cluster.stopped().child_token();
        let actors = Actors::spawn(
            &cluster.control_plane_client(),
            cluster.clock(),
            &rules,
            control_plane(),
            &stop,
        );
        Self {
            cluster,
            rules,
            actors,
            stop,
        }
    }

    /// The actors are killed and others take over.
    pub async fn take_over(self) -> Self {
        self.away(Duration::ZERO).await
    }

    /// The same, with nobody there for a time.
    pub async fn away(self, time: Duration) -> Self {
        let world = self.alone().await;
        tokio::time::sleep(time).await;
        Self::on(world.cluster, world.rules).await
    }

    /// The same without anybody.
    pub async fn alone(self) -> Self {
        self.stop.cancel();
        self.actors.ended().await;
        self
    }

    /// Until nothing happens any more.
    pub async fn settle(&self) {
        assert!(self.actors.settled(Duration::from_secs(60)).await);
    }

    /// In a settled cluster nobody writes.
    pub async fn is_quiet(&self) {
        self.settle().await;
        let before = self.revision().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(self.revision().await, before);
    }

    pub async fn create(&self, kind: &Kind, body: Value) -> DynamicObject {
        let (mut body, namespace) = (body, kind.namespaced.then_some("default"));
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.to_string().into();
        let object: DynamicObject = serde_json::from_value(body).unwrap();
        let api = kind.api(&self.cluster.client(), namespace);
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn find(&self, kind: &Kind, name: &str) -> Option<DynamicObject> {
        let key = Key::new(kind, kind.namespaced.then_some("default"), name);
        let api = key.api(&self.cluster.client());
        api.get_opt(name).await.unwrap()
    }

    pub async fn get(&self, kind: &Kind, name: &str) -> DynamicObject {
        self.find(kind, name).await.unwrap()
    }

    /// The status of an object.
    pub async fn status(&self, kind: &Kind, name: &str) -> Value {
        self.get(kind, name).await.data["status"].clone()
    }

    pub async fn list(&self, kind: &Kind) -> Vec<DynamicObject> {
        self.list_by(kind, "").await
    }

    /// Objects with these labels, by name.
    pub async fn list_by(&self, kind: &Kind, labels: &str) -> Vec<DynamicObject> {
        let api = kind.api(&self.cluster.client(), NS);
        let params = ListParams::default().labels(labels);
        api.list(&params).await.unwrap().items
    }

    pub async fn pods(&self, labels: &str) -> Vec<DynamicObject> {
        self.list_by(&kind::POD, labels).await
    }

    pub async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> DynamicObject {
        let api = kind.api(&self.cluster.client(), kind.namespaced.then_some("default"));
        let params = PatchParams::default();
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap()
    }

    pub async fn delete(&self, kind: &Kind, name: &str) {
        self.delete_by(kind, name, &DeleteParams::default()).await;
    }

    pub async fn delete_by(&self, kind: &Kind, name: &str, how: &DeleteParams) {
        let api = kind.api(&self.cluster.client(), NS);
        api.delete(name, how).await.unwrap();
    }

    pub async fn pod(&self, name: &str, spec: Value) {
        let mut spec = spec;
        if spec["containers"].is_null() {
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        let body = json!({"metadata": {"name": name}, "spec": spec});
        self.create(&kind::POD, body).await;
    }

    /// The revision of the store: it moves with every write.
    pub async fn revision(&self) -> String {
        let api = kind::NAMESPACE.api(&self.cluster.client(), None);
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap()
    }

    /// What a watcher of `kind` sees while `meanwhile` is done and all settles.
    pub async fn seen(
        &self,
        kind: &Kind,
        meanwhile: impl Future<Output = ()>,
    ) -> Vec<(&'static str, DynamicObject)> {
        let api = kind.api(&self.cluster.client(), NS);
        let from = self.revision().await;
        let events = api.watch(&WatchParams::default(), &from).await.unwrap();
        let mut events = std::pin::pin!(events);
        meanwhile.await;
        self.settle().await;
        let mut seen = Vec::new();
        let wait = Duration::from_millis(10);
        while let Ok(Some(event)) = tokio::time::timeout(wait, events.next()).await {
            match event.unwrap() {
                WatchEvent::Added(object) => seen.push(("added", object)),
                WatchEvent::Modified(object) => seen.push(("modified", object)),
                WatchEvent::Deleted(object) => seen.push(("deleted", object)),
                _ => {}
            }
        }
        seen
    }

    pub async fn end(self) {
        self.cluster.shut_down();
        self.actors.ended().await;
    }
}

/// The condition of a type.
pub fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let all = status["conditions"].as_array().into_iter().flatten();
    let mut found = all.filter(|it| it["type"] == type_);
    found.next().unwrap_or(&Value::Null)
}

/// A Pod template with a label `app` and one container.
pub fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

/// A workload of `replicas` Pods.
pub fn workload(name: &str, replicas: u32, image: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
        },
    })
}

pub fn names(objects: &[DynamicObject]) -> Vec<&str> {
    let names = objects.iter().map(|it| it.metadata.name.as_deref());
    names.map(Option::unwrap_or_default).collect()
}

pub fn annotation<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// Status and reason of a condition of an object.
pub fn told(object: &DynamicObject, kind: &str) -> Option<(String, String)> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let it = conditions.iter().find(|it| it["type"] == kind)?;
    let word = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
    Some((word("status"), word("reason")))
}
