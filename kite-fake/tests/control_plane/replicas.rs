//! `ReplicaSet`s and `ReplicationController`s.

use kite_fake::actors::kind::{POD, REPLICA_SET, REPLICATION_CONTROLLER, RESOURCE_QUOTA};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::{World, names, template, told, workload};

fn owners(pod: &kube::api::DynamicObject) -> Value {
    json!(pod.metadata.owner_references)
}

#[tokio::test(start_paused = true)]
async fn a_set_has_its_pods_and_again_when_one_goes() {
    let world = World::new().await;
    world.create(&REPLICA_SET, workload("web", 3, "i")).await;
    world.settle().await;
    let pods = world.pods("app=web").await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(owners(pod)[0]["kind"], "ReplicaSet");
        assert_eq!(owners(pod)[0]["controller"], true);
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
    }
    let set = world.get(&REPLICA_SET, "web").await;
    let status = json!({
        "observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3,
        "readyReplicas": 3, "availableReplicas": 3, "terminatingReplicas": 0,
    });
    assert_eq!(set.data["status"], status);
    let first = names(&pods)[0];
    world.delete(&POD, first).await;
    world.settle().await;
    let after = world.pods("app=web").await;
    assert_eq!(after.len(), 3);
    assert!(!names(&after).contains(&first));
    world
        .merge(&REPLICA_SET, "web", json!({"spec": {"replicas": 1}}))
        .await;
    world.settle().await;
    assert_eq!(world.pods("app=web").await.len(), 1);
    // Then nobody writes.
    let mark = world.cluster.log().mark();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.cluster.log().since(&mark).writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_let_go_by_their_labels() {
    let world = World::new().await;
    let mut stray = json!({"metadata": {"name": "stray"}});
    let own = template("web", "i");
    stray["metadata"]["labels"] = own["metadata"]["labels"].clone();
    stray["spec"] = own["spec"].clone();
    world.create(&POD, stray).await;
    let plain = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"app": "web"}, "template": own},
    });
    world.create(&REPLICATION_CONTROLLER, plain).await;
    world.settle().await;
    let pods = world.pods("app=web").await;
    assert_eq!(pods.len(), 2);
    let stray = world.get(&POD, "stray").await;
    assert_eq!(owners(&stray)[0]["kind"], "ReplicationController");
    world
        .merge(
            &POD,
            "stray",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(owners(&world.get(&POD, "stray").await), Value::Null);
    assert_eq!(world.pods("app=web").await.len(), 2);
    let orphaning = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    world
        .delete_by(&REPLICATION_CONTROLLER, "web", &orphaning)
        .await;
    world.settle().await;
    let left = world.pods("app=web").await;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|pod| owners(pod) == Value::Null));
}

#[tokio::test(start_paused = true)]
async fn what_a_quota_refuses_is_told_and_tried_again() {
    let world = World::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    world.create(&RESOURCE_QUOTA, quota).await;
    world.create(&REPLICA_SET, workload("web", 2, "i")).await;
    world.settle().await;
    let set = world.get(&REPLICA_SET, "web").await;
    let failure = told(&set, "ReplicaFailure").unwrap();
    assert_eq!(failure, ("True".to_owned(), "FailedCreate".to_owned()));
    let message = set.data["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap();
    assert!(message.contains("exceeded quota: q"), "{message}");
    world
        .merge(
            &RESOURCE_QUOTA,
            "q",
            json!({"spec": {"hard": {"pods": "5"}}}),
        )
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    world.settle().await;
    let set = world.get(&REPLICA_SET, "web").await;
    assert_eq!(set.data["status"]["readyReplicas"], 2);
    assert_eq!(told(&set, "ReplicaFailure"), None);
}
