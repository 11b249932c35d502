//! A cluster with its control plane, and short words for what tests ask of it.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::POD;
use kite_fake::actors::{Actor, Actors, Kind, Rules, control_plane};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

pub const NS: Option<&str> = Some("default");

pub struct World {
    pub cluster: FakeCluster,
    pub rules: Arc<Rules>,
    pub actors: Actors,
}

impl World {
    /// Nothing takes time.
    pub async fn new() -> Self {
        Self::with(Rules::instant(), control_plane()).await
    }

    pub async fn with(rules: Rules, actors: Vec<Arc<dyn Actor>>) -> Self {
        let cluster = FakeCluster::builder().build().unwrap();
        let rules = Arc::new(rules);
        let actors = Actors::on(&cluster, &rules, actors);
        let world = Self {
            cluster,
            rules,
            actors,
        };
        world.settle().await;
        world
    }

    /// Until nothing happens any more.
    pub async fn settle(&self) {
        let settled = self.actors.settled(Duration::from_secs(600)).await;
        assert!(settled, "{}", self.cluster.dump());
    }

    pub async fn try_create(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        mut body: Value,
    ) -> Result<DynamicObject, kube::Error> {
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.to_string().into();
        let object: DynamicObject = serde_json::from_value(body).unwrap();
        let api = kind.api(&self.cluster.client(), namespace);
        api.create(&PostParams::default(), &object).await
    }

    /// Creates an object in the default namespace.
    pub async fn create(&self, kind: &Kind, body: Value) -> DynamicObject {
        self.try_create(kind, NS, body).await.unwrap()
    }

    pub async fn get(&self, kind: &Kind, name: &str) -> DynamicObject {
        let api = kind.api(&self.cluster.client(), NS);
        api.get(name).await.unwrap()
    }

    /// Objects with these labels, by name.
    pub async fn list(&self, kind: &Kind, labels: &str) -> Vec<DynamicObject> {
        let api = kind.api(&self.cluster.client(), NS);
        let params = ListParams::default().labels(labels);
        api.list(&params).await.unwrap().items
    }

    pub async fn pods(&self, labels: &str) -> Vec<DynamicObject> {
        self.list(&POD, labels).await
    }

    pub async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> DynamicObject {
        let api = kind.api(&self.cluster.client(), NS);
        let params = PatchParams::default();
        api.patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap()
    }

    pub async fn delete(&self, kind: &Kind, name: &str, params: DeleteParams) {
        let api = kind.api(&self.cluster.client(), NS);
        let _ = api.delete(name, &params).await.unwrap();
    }
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

/// Reason of a condition in the status, with its status.
pub fn condition(object: &DynamicObject, kind: &str) -> Option<(String, String)> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let it = conditions.iter().find(|it| it["type"] == kind)?;
    let word = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
    Some((word("status"), word("reason")))
}
