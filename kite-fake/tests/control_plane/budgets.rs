//! Disruption budgets, and evictions that they allow or refuse.

use std::time::Duration;

use kite_fake::actors::kind::{BUDGET, POD, REPLICA_SET};
use kite_fake::actors::{Rule, Selector, Stage};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{World, condition};

impl World {
    async fn set(&self, name: &str, replicas: u64) {
        let body = json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        self.create(&REPLICA_SET, body).await;
        self.settle().await;
    }

    async fn budget(&self, name: &str, app: &str, limit: Value) {
        let mut spec = limit;
        spec["selector"] = json!({"matchLabels": {"app": app}});
        let body = json!({"metadata": {"name": name}, "spec": spec});
        self.create(&BUDGET, body).await;
        self.settle().await;
    }

    async fn evict(&self, pod: &str) -> Result<Value, (u16, String)> {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "default"}});
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        match self.cluster.client().request::<Value>(request).await {
            Ok(done) => Ok(done),
            Err(kube::Error::Api(status)) => {
                let causes = status.details.as_ref().map(|it| it.causes.clone());
                let cause = causes.and_then(|it| it.first().map(|it| it.message.clone()));
                Err((status.code, cause.unwrap_or_default()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn names(&self) -> Vec<String> {
        let pods = self.list(&POD).await.into_iter();
        let there = pods.filter(|it| it.metadata.deletion_timestamp.is_none());
        there
            .filter_map(|it: DynamicObject| it.metadata.name)
            .collect()
    }
}

fn numbers(status: &Value) -> [i64; 4] {
    [
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
        "disruptionsAllowed",
    ]
    .map(|name| status[name].as_i64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_budget_tells_how_many_may_go() {
    let world = World::new().await;
    world.set("web", 3).await;
    world
        .budget("some", "web", json!({"minAvailable": 2}))
        .await;
    world
        .budget("share", "web", json!({"maxUnavailable": "50%"}))
        .await;
    world
        .budget("none", "nothing", json!({"maxUnavailable": 1}))
        .await;
    world.is_quiet().await;
    let status = world.status(&BUDGET, "some").await;
    assert_eq!(numbers(&status), [3, 2, 3, 1]);
    assert_eq!(status["observedGeneration"], 1);
    let allowed = condition(&status, "DisruptionAllowed");
    assert_eq!(
        (&allowed["status"], &allowed["reason"]),
        (&json!("True"), &json!("SufficientPods"))
    );
    assert_eq!(numbers(&world.status(&BUDGET, "share").await), [3, 1, 3, 2]);
    let status = world.status(&BUDGET, "none").await;
    assert_eq!(numbers(&status), [0, 0, 0, 0]);
    assert_eq!(
        condition(&status, "DisruptionAllowed")["reason"],
        "InsufficientPods"
    );
    let world = world.take_over().await;
    world.is_quiet().await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_go_by_what_is_there() {
    let world = World::new().await;
    world.set("web", 2).await;
    world.budget("b", "web", json!({"minAvailable": 1})).await;
    let names = world.names().await;
    world
        .rules
        .add(Rule::hold(Stage::POD_READY, Selector::all()));
    let evicting = async {
        world.evict(&names[0]).await.unwrap();
    };
    let told = world.seen(&POD, evicting).await;
    let target = told.into_iter().find_map(|(_, pod)| {
        let found = condition(&pod.data["status"], "DisruptionTarget");
        (!found.is_null()).then(|| found["reason"].clone())
    });
    assert_eq!(target, Some(json!("EvictionByEvictionAPI")));
    assert_eq!(numbers(&world.status(&BUDGET, "b").await), [1, 1, 2, 0]);
    let refused = world.evict(&names[1]).await.unwrap_err();
    let why = "The disruption budget b needs 1 healthy pods and has 1 currently";
    assert_eq!(refused, (429, why.to_owned()));
    world.rules.clear(Stage::POD_READY);
    world.settle().await;
    world.evict(&names[1]).await.unwrap();
    world.is_quiet().await;
    assert_eq!(numbers(&world.status(&BUDGET, "b").await), [2, 1, 2, 1]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_nobody_has_seen_allows_nothing() {
    let world = World::new().await;
    world.set("web", 1).await;
    let names = world.names().await;
    let world = world.alone().await;
    let body = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 0,
        "selector": {"matchLabels": {"app": "web"}}}});
    let budget = world.create(&BUDGET, body).await;
    assert_eq!(numbers(&budget.data["status"]), [0, 0, 0, 0]);
    let refused = world.evict(&names[0]).await.unwrap_err();
    let why = "The disruption budget b is still being processed by the server.";
    assert_eq!(refused, (429, why.to_owned()));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_nothing_came_of_is_forgotten() {
    let world = World::new().await;
    world.set("web", 2).await;
    world.budget("b", "web", json!({"minAvailable": 1})).await;
    let name = &world.names().await[0];
    let now = world.cluster.now().to_string();
    let patch = json!({"status": {"disruptedPods": {name: now}, "disruptionsAllowed": 0}});
    let api = BUDGET.api(&world.cluster.client(), Some("default"));
    let params = kube::api::PatchParams::default();
    api.patch_status("b", &params, &kube::api::Patch::Merge(patch))
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(numbers(&world.status(&BUDGET, "b").await), [1, 1, 2, 0]);
    tokio::time::sleep(Duration::from_secs(125)).await;
    world.is_quiet().await;
    let status = world.status(&BUDGET, "b").await;
    assert_eq!(numbers(&status), [2, 1, 2, 1]);
    assert!(status["disruptedPods"].is_null());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_count_allows_nothing() {
    let world = World::new().await;
    let owner = kite_fake::actors::kind::CONFIG_MAP;
    let object = world
        .create(&owner, json!({"metadata": {"name": "o"}}))
        .await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o",
        "uid": object.metadata.uid, "controller": true});
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "a"},
        "ownerReferences": [reference]}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.create(&POD, pod).await;
    world.budget("b", "a", json!({"maxUnavailable": 1})).await;
    world.is_quiet().await;
    let status = world.status(&BUDGET, "b").await;
    let allowed = condition(&status, "DisruptionAllowed");
    assert_eq!(allowed["reason"], "SyncFailed");
    assert_eq!(
        allowed["message"],
        "configmaps does not implement the scale subresource"
    );
    world.end().await;
}
