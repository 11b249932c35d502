//! A cluster with actors, and short words for what tests ask of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::{Actor, Actors, Key, Kind, Rules, route_definitions, snapshot_definitions};
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, operator_definitions, play};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub struct World {
    pub cluster: FakeCluster,
    pub rules: Arc<Rules>,
    pub actors: Actors,
}

impl World {
    /// Every actor, without guests, and nothing takes time; what `KubeVirt` and
    /// CDI refuse is refused.
    pub async fn new() -> Self {
        let cluster = Self::permissive();
        let rules = Arc::new(Rules::instant());
        let actors = play(&cluster, &rules, false, cluster.stopped());
        Self::settled(cluster, rules, actors).await
    }

    /// Without any actors.
    pub fn empty() -> Self {
        let cluster = Self::permissive();
        let actors = Actors::on(&cluster, &Arc::new(Rules::instant()), Vec::new());
        Self {
            cluster,
            rules: Arc::new(Rules::instant()),
            actors,
        }
    }

    /// Every actor, until `stop` fires.
    pub async fn play(&mut self, stop: &CancellationToken) {
        self.actors = play(&self.cluster, &self.rules, false, stop);
        self.settle().await;
    }

    pub async fn with(rules: Rules, actors: Vec<Arc<dyn Actor>>) -> Self {
        Self::on(Self::permissive(), rules, actors).await
    }

    fn permissive() -> FakeCluster {
        let builder = FakeCluster::builder().crds(kubevirt_definitions());
        let builder = builder.crds(cdi_definitions()).crds(snapshot_definitions());
        let builder = builder.crds(operator_definitions());
        builder.crds(route_definitions()).build().unwrap()
    }

    /// With the definitions that `KubeVirt` and CDI bring themselves; they lie
    /// beside the checkout.
    pub async fn with_real_definitions(actors: Vec<Arc<dyn Actor>>) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds");
        let mut builder = FakeCluster::builder();
        for name in [
            "datasources.cdi.kubevirt.io",
            "datavolumes.cdi.kubevirt.io",
            "virtualmachineinstances.kubevirt.io",
            "virtualmachines.kubevirt.io",
        ] {
            let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).ok()?;
            builder = builder.crds_yaml(&text);
        }
        let cluster = builder.build().unwrap();
        Some(Self::on(cluster, Rules::instant(), actors).await)
    }

    async fn on(cluster: FakeCluster, rules: Rules, actors: Vec<Arc<dyn Actor>>) -> Self {
        let rules = Arc::new(rules);
        let actors = Actors::on(&cluster, &rules, actors);
        Self::settled(cluster, rules, actors).await
    }

    async fn settled(cluster: FakeCluster, rules: Arc<Rules>, actors: Actors) -> Self {
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
        let settled = self.actors.settled(Duration::from_secs(60)).await;
        assert!(settled, "newest: {:#?}", self.newest().await);
    }

    pub async fn create(&self, kind: &Kind, namespace: Option<&str>, body: Value) -> DynamicObject {
        let mut body = body;
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.to_string().into();
        let object: DynamicObject = serde_json::from_value(body).unwrap();
        let api = kind.api(&self.cluster.client(), namespace);
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn get(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<DynamicObject> {
        let key = Key::new(kind, namespace, name);
        let api = key.api(&self.cluster.client());
        api.get_opt(name).await.unwrap()
    }

    /// The objects of a kind, but those that every cluster has from its first revision on.
    pub async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<DynamicObject> {
        let api = kind.api(&self.cluster.client(), namespace);
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let is_first =
            |object: &DynamicObject| object.metadata.resource_version.as_deref() == Some("1");
        all.into_iter().filter(|object| !is_first(object)).collect()
    }

    pub async fn merge(&self, kind: &Kind, namespace: Option<&str>, name: &str, patch: Value) {
        let api = kind.api(&self.cluster.client(), namespace);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Asks for something below `subresources.kubevirt.io` in the namespace
    /// `default`; what is refused comes with its code and message.
    pub async fn ask(&self, path: &str, body: Value) -> Result<String, (u16, String)> {
        let uri = format!("/apis/subresources.kubevirt.io/v1/namespaces/default/{path}");
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = http::Request::put(uri).body(body).unwrap();
        match self.cluster.client().request_text(request).await {
            Ok(text) => Ok(text),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn delete(&self, kind: &Kind, namespace: Option<&str>, name: &str) {
        let api = kind.api(&self.cluster.client(), namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The revision of the store: it moves with every write.
    pub async fn revision(&self) -> String {
        let api = kite_fake::actors::kind::NAMESPACE.api(&self.cluster.client(), None);
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap()
    }

    pub async fn end(self) {
        self.cluster.shut_down();
        // Long, as some worlds go by the real clock on a busy machine.
        let ended = tokio::time::timeout(Duration::from_secs(60), self.actors.ended());
        ended.await.expect("the actors end");
    }
}

/// The text at a pointer.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    let found = object.data.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

impl World {
    /// Every object with its revision, newest first; for the messages of tests.
    pub async fn newest(&self) -> Vec<String> {
        let catalog = kite_fake::actors::Catalog::default();
        catalog.refresh(&self.cluster.client()).await.unwrap();
        let mut all = Vec::new();
        for kind in catalog.kinds(&["list", "watch"]) {
            for object in self.list(&kind, None).await {
                let revision: u64 = object.metadata.resource_version.unwrap().parse().unwrap();
                all.push((
                    revision,
                    format!(
                        "{revision} {} {}",
                        kind.plural,
                        object.metadata.name.unwrap()
                    ),
                ));
            }
        }
        all.sort();
        all.into_iter().rev().map(|(_, text)| text).collect()
    }
}
