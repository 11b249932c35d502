//! `StatefulSet`s, their claims and their revisions.

use std::time::Duration;

use kite_fake::actors::kind::{CLAIM, CONTROLLER_REVISION, POD, STATEFUL_SET};
use kite_fake::actors::{Rule, Selector, Stage};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{World, names, workload};

fn database(replicas: u32) -> Value {
    let mut set = workload("db", replicas, "a");
    set["spec"]["serviceName"] = json!("db");
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }]);
    set
}

fn image(image: &str) -> Value {
    let containers = json!([{"name": "c", "image": image}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

fn images(pods: &[DynamicObject]) -> Vec<&str> {
    let images = pods
        .iter()
        .map(|it| it.data["spec"]["containers"][0]["image"].as_str());
    images.map(Option::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_have_numbers_and_claims_that_outlive_them() {
    let world = World::new().await;
    world.create(&STATEFUL_SET, database(3)).await;
    world.settle().await;
    let pods = world.pods("app=db").await;
    assert_eq!(names(&pods), ["db-0", "db-1", "db-2"]);
    let claims = ["data-db-0", "data-db-1", "data-db-2"];
    assert_eq!(names(&world.list_by(&CLAIM, "app=db").await), claims);
    let pod = &pods[1];
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-1");
    assert_eq!(pod.data["spec"]["hostname"], "db-1");
    assert_eq!(pod.data["spec"]["subdomain"], "db");
    let volume = &pod.data["spec"]["volumes"][0];
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], "data-db-1");
    let set = world.get(&STATEFUL_SET, "db").await;
    let revision = &labels["controller-revision-hash"];
    let status = json!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "currentReplicas": 3, "updatedReplicas": 3, "collisionCount": 0,
        "currentRevision": revision, "updateRevision": revision,
    });
    assert_eq!(set.data["status"], status);
    world
        .merge(&STATEFUL_SET, "db", json!({"spec": {"replicas": 1}}))
        .await;
    world.settle().await;
    assert_eq!(names(&world.pods("app=db").await), ["db-0"]);
    assert_eq!(names(&world.list_by(&CLAIM, "app=db").await), claims);
    // A Pod that goes comes again under its name, with its claim.
    let before = world.get(&POD, "db-0").await;
    world.delete(&POD, "db-0").await;
    world.settle().await;
    let after = world.get(&POD, "db-0").await;
    assert_ne!(before.metadata.uid, after.metadata.uid);
    world.delete(&STATEFUL_SET, "db").await;
    world.settle().await;
    assert_eq!(world.pods("").await.len(), 0);
    assert_eq!(world.list_by(&CONTROLLER_REVISION, "").await.len(), 0);
    assert_eq!(names(&world.list_by(&CLAIM, "").await), claims);
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_after_the_other() {
    let world = World::new().await;
    let slow = Rule::delay(Stage::POD_READY, Selector::all(), Duration::from_secs(10));
    world.rules.add(slow);
    world.create(&STATEFUL_SET, workload("db", 3, "a")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(names(&world.pods("app=db").await), ["db-0"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&world.pods("app=db").await), ["db-0", "db-1"]);
    let mut parallel = workload("any", 3, "a");
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    world.create(&STATEFUL_SET, parallel).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.pods("app=any").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_highest_to_the_partition_and_back() {
    let world = World::new().await;
    let mut set = database(3);
    set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    world.create(&STATEFUL_SET, set).await;
    world.settle().await;
    world.merge(&STATEFUL_SET, "db", image("b")).await;
    world.settle().await;
    assert_eq!(images(&world.pods("app=db").await), ["a", "a", "b"]);
    let status = world.get(&STATEFUL_SET, "db").await.data["status"].clone();
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(2), &json!(1))
    );
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // One below the partition that goes is made of what it was.
    world.delete(&POD, "db-0").await;
    world.settle().await;
    assert_eq!(images(&world.pods("app=db").await), ["a", "a", "b"]);
    let all = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    world.merge(&STATEFUL_SET, "db", all).await;
    world.settle().await;
    assert_eq!(images(&world.pods("app=db").await), ["b", "b", "b"]);
    world.merge(&STATEFUL_SET, "db", image("a")).await;
    world.settle().await;
    assert_eq!(images(&world.pods("app=db").await), ["a", "a", "a"]);
    let mut numbers: Vec<i64> = world
        .list_by(&CONTROLLER_REVISION, "app=db")
        .await
        .iter()
        .map(|it| it.data["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    let status = world.get(&STATEFUL_SET, "db").await.data["status"].clone();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_their_pod_or_their_set_if_that_is_said() {
    let world = World::new().await;
    let mut set = database(3);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    world.create(&STATEFUL_SET, set).await;
    world.settle().await;
    world
        .merge(&STATEFUL_SET, "db", json!({"spec": {"replicas": 2}}))
        .await;
    world.settle().await;
    let claims = world.list_by(&CLAIM, "app=db").await;
    assert_eq!(names(&claims), ["data-db-0", "data-db-1"]);
    world.delete(&STATEFUL_SET, "db").await;
    world.settle().await;
    assert_eq!(world.list_by(&CLAIM, "").await.len(), 0);
}
