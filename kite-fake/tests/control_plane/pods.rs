//! Pods that run, end, wait for room and have to leave their node.

use std::time::Duration;

use kite_fake::actors::kind::{CONFIG_MAP, NODE, POD};
use kite_fake::actors::{Rule, Rules, Selector, Stage};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::{World, condition};

const SECOND: Duration = Duration::from_secs(1);

async fn phase(world: &World, name: &str) -> String {
    let status = world.status(&POD, name).await;
    status["phase"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn work_that_has_an_end_comes_to_it() {
    let world = World::new().await;
    let bad = Selector::all().label("bad", "yes");
    world
        .rules
        .add(Rule::fail(Stage::POD_ENDED, bad, "3", "no luck"));
    world.pod("web", json!({})).await;
    world.pod("once", json!({"restartPolicy": "Never"})).await;
    world
        .pod("retried", json!({"restartPolicy": "OnFailure"}))
        .await;
    let bad = json!({"metadata": {"name": "bad", "labels": {"bad": "yes"}}, "spec":
        {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    world.create(&POD, bad).await;
    world.is_quiet().await;
    assert_eq!(phase(&world, "web").await, "Running");
    assert_eq!(phase(&world, "retried").await, "Succeeded");
    let once = world.status(&POD, "once").await;
    assert_eq!(once["phase"], "Succeeded");
    assert_eq!(condition(&once, "Ready")["reason"], "PodCompleted");
    let bad = world.status(&POD, "bad").await;
    assert_eq!(bad["phase"], "Failed");
    let ended = &bad["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["reason"]),
        (&json!(3), &json!("Error"))
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_another_controller_runs_runs_on() {
    let world = World::new().await;
    let owner = world
        .create(&CONFIG_MAP, json!({"metadata": {"name": "o"}}))
        .await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o",
        "uid": owner.metadata.uid, "controller": true});
    let pod = json!({"metadata": {"name": "p", "ownerReferences": [reference]}, "spec":
        {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    world.create(&POD, pod).await;
    world.settle().await;
    assert_eq!(phase(&world, "p").await, "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_and_is_retried_waits_between() {
    let world = World::new().await;
    let all = Selector::all();
    world
        .rules
        .add(Rule::fail(Stage::POD_ENDED, all, "Error", "no luck"));
    world.pod("p", json!({"restartPolicy": "OnFailure"})).await;
    world.settle().await;
    let status = world.status(&POD, "p").await;
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "CrashLoopBackOff");
    tokio::time::sleep(35 * SECOND).await;
    let status = world.status(&POD, "p").await;
    assert_eq!(status["containerStatuses"][0]["restartCount"], 2);
    world.rules.clear(Stage::POD_ENDED);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(phase(&world, "p").await, "Succeeded");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_even_what_is_held() {
    let world = World::new().await;
    world
        .rules
        .add(Rule::hold(Stage::POD_ENDED, Selector::all()));
    let spec = json!({"restartPolicy": "Never", "activeDeadlineSeconds": 30});
    world.pod("p", spec).await;
    world.pod("web", json!({"activeDeadlineSeconds": 40})).await;
    world.settle().await;
    assert_eq!(phase(&world, "p").await, "Running");
    tokio::time::sleep(31 * SECOND).await;
    let status = world.status(&POD, "p").await;
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
    assert_eq!(phase(&world, "web").await, "Running");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(phase(&world, "web").await, "Failed");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_unready_before_it_is_gone() {
    let world = World::new().await;
    world.pod("p", json!({})).await;
    world.settle().await;
    let seen = world.seen(&POD, world.delete(&POD, "p")).await;
    let told: Vec<(&str, Value, bool)> = seen
        .iter()
        .map(|(what, pod)| {
            let ready = condition(&pod.data["status"], "Ready")["status"].clone();
            (*what, ready, pod.metadata.deletion_timestamp.is_some())
        })
        .collect();
    let (yes, no) = (json!("True"), json!("False"));
    assert_eq!(told[0], ("modified", yes, true));
    assert_eq!(told[1], ("modified", no.clone(), true));
    assert_eq!(told.last(), Some(&("deleted", no, true)));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_killed_tells_so_where_it_is_held() {
    let world = World::new().await;
    let pod = json!({"metadata": {"name": "p", "finalizers": ["example.com/x"]}, "spec":
        {"containers": [{"name": "c", "image": "i"}]}});
    world.create(&POD, pod).await;
    world.settle().await;
    let now = DeleteParams::default().grace_period(0);
    world.delete_by(&POD, "p", &now).await;
    world.is_quiet().await;
    let status = world.status(&POD, "p").await;
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&status["phase"], &ended["exitCode"]),
        (&json!("Failed"), &json!(137))
    );
    let free = json!({"metadata": {"finalizers": null}});
    world.merge(&POD, "p", free).await;
    world.settle().await;
    assert!(world.find(&POD, "p").await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_waits_for_who_gates_it() {
    let world = World::new().await;
    world
        .pod("p", json!({"schedulingGates": [{"name": "example.com/x"}]}))
        .await;
    world.is_quiet().await;
    let status = world.status(&POD, "p").await;
    let scheduled = condition(&status, "PodScheduled");
    assert_eq!(
        (&scheduled["status"], &scheduled["reason"]),
        (&json!("False"), &json!("SchedulingGated"))
    );
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "demo-node"}});
    let request = http::Request::post("/api/v1/namespaces/default/pods/p/binding")
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .unwrap();
    let refused = world.cluster.client().request::<Value>(request).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p has non-empty .spec.schedulingGates"
    );
    world
        .merge(&POD, "p", json!({"spec": {"schedulingGates": null}}))
        .await;
    world.settle().await;
    assert_eq!(phase(&world, "p").await, "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_once_its_gates_say_so() {
    let world = World::new().await;
    world
        .pod(
            "p",
            json!({"readinessGates": [{"conditionType": "example.com/x"}]}),
        )
        .await;
    world.is_quiet().await;
    let status = world.status(&POD, "p").await;
    let ready = condition(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"], &ready["message"]),
        (
            &json!("False"),
            &json!("ReadinessGatesNotReady"),
            &json!(
                "corresponding condition of pod readiness gate \"example.com/x\" does not exist."
            )
        )
    );
    assert_eq!(condition(&status, "ContainersReady")["status"], "True");
    world.say("p", "False").await;
    let status = world.status(&POD, "p").await;
    assert_eq!(
        condition(&status, "Ready")["message"],
        "the status of pod readiness gate \"example.com/x\" is not \"True\", but False"
    );
    world.say("p", "True").await;
    let status = world.status(&POD, "p").await;
    assert_eq!(condition(&status, "Ready")["status"], "True");
    world.end().await;
}

fn asking(cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_room() {
    let world = World::new().await;
    world.pod("a", asking("1000")).await;
    world.pod("b", asking("1000")).await;
    world.settle().await;
    let (a, b) = (world.get(&POD, "a").await, world.get(&POD, "b").await);
    assert_ne!(a.data["spec"]["nodeName"], b.data["spec"]["nodeName"]);
    // The actors that take over count those that are there.
    let world = world.take_over().await;
    world.pod("c", asking("1000")).await;
    world.pod("d", asking("9999")).await;
    world.is_quiet().await;
    let told = async |name: &str| {
        let status = world.status(&POD, name).await;
        condition(&status, "PodScheduled")["message"].clone()
    };
    assert_eq!(
        told("c").await,
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 No preemption victims found for incoming pod."
    );
    let hopeless = told("d").await;
    let hopeless = hopeless.as_str().unwrap();
    assert!(
        hopeless.ends_with("2 Preemption is not helpful for scheduling."),
        "{hopeless}"
    );
    world.delete(&POD, "a").await;
    world.settle().await;
    assert_eq!(phase(&world, "c").await, "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_has_those_leave_that_do_not_tolerate_it() {
    let world = World::with(Rules::instant().with_events()).await;
    let for_a_minute = json!([{"operator": "Exists", "key": "k", "effect": "NoExecute",
        "tolerationSeconds": 60}]);
    world.pod("leaves", json!({})).await;
    world
        .pod("stays", json!({"tolerations": [{"operator": "Exists"}]}))
        .await;
    world
        .pod("leaves-later", json!({"tolerations": for_a_minute}))
        .await;
    world.settle().await;
    let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let seen = world.seen(&POD, world.taint("demo-node", &taints)).await;
    let target = seen.iter().find_map(|(_, pod)| {
        let found = condition(&pod.data["status"], "DisruptionTarget");
        (!found.is_null()).then(|| found["reason"].clone())
    });
    assert_eq!(target, Some(json!("DeletionByTaintManager")));
    assert!(world.find(&POD, "leaves").await.is_none());
    // Another time, the minute begins anew.
    tokio::time::sleep(50 * SECOND).await;
    world
        .taint("demo-node", &json!({"spec": {"taints": null}}))
        .await;
    world.settle().await;
    world.taint("demo-node", &taints).await;
    tokio::time::sleep(50 * SECOND).await;
    assert!(world.find(&POD, "leaves-later").await.is_some());
    tokio::time::sleep(11 * SECOND).await;
    world.settle().await;
    assert!(world.find(&POD, "leaves-later").await.is_none());
    assert!(world.find(&POD, "stays").await.is_some());
    world.end().await;
}

impl World {
    /// Says something of a Pod, as the one does who keeps its gate.
    async fn say(&self, pod: &str, word: &str) {
        let patch = json!({"status": {"conditions": [{"type": "example.com/x", "status": word}]}});
        let api = POD.api(&self.cluster.client(), Some("default"));
        let patch = kube::api::Patch::Strategic(patch);
        api.patch_status(pod, &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
        self.is_quiet().await;
    }

    async fn taint(&self, node: &str, patch: &Value) {
        let api = NODE.api(&self.cluster.client(), None);
        let patch = kube::api::Patch::Merge(patch);
        api.patch(node, &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}
