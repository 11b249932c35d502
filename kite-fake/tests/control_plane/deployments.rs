//! Deployments and their `ReplicaSet`s.

use std::time::Duration;

use kite_fake::actors::kind::{DEPLOYMENT, REPLICA_SET};
use kite_fake::actors::{Rule, Selector, Stage};
use serde_json::{Value, json};

use crate::world::{World, annotation, names, template, told, workload};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn image(image: &str) -> Value {
    let containers = json!([{"name": "c", "image": image}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// The sets of a Deployment as revision, replicas and image, by revision.
async fn sets(world: &World) -> Vec<(i64, i64, String)> {
    let sets = world.list_by(&REPLICA_SET, "app=web").await;
    let mut found: Vec<_> = sets
        .iter()
        .map(|set| {
            let revision = annotation(set, REVISION).unwrap().parse().unwrap();
            let spec = &set.data["spec"];
            let image = spec["template"]["spec"]["containers"][0]["image"].as_str();
            (
                revision,
                spec["replicas"].as_i64().unwrap(),
                image.unwrap().to_owned(),
            )
        })
        .collect();
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn a_rollout_and_back_again() {
    let world = World::new().await;
    world.create(&DEPLOYMENT, workload("web", 3, "a")).await;
    world.settle().await;
    assert_eq!(sets(&world).await, [(1, 3, "a".to_owned())]);
    let web = world.get(&DEPLOYMENT, "web").await;
    assert_eq!(annotation(&web, REVISION), Some("1"));
    assert_eq!(
        web.metadata.generation,
        Some(1),
        "the number is no change of the spec"
    );
    let annotated = json!({"metadata": {"annotations": {"team": "a"}}});
    let web_annotated = world.merge(&DEPLOYMENT, "web", annotated).await;
    assert_eq!(web_annotated.metadata.generation, Some(2));
    world.settle().await;
    let set = &world.list_by(&REPLICA_SET, "app=web").await[0];
    assert_eq!(annotation(set, "team"), Some("a"));
    let name = set.metadata.name.as_deref().unwrap();
    let progressing = &web.data["status"]["conditions"];
    let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
    let told: Vec<_> = progressing
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["message"])
        .collect();
    assert!(told.contains(&&json!(message)), "{told:?}");
    let status = &web.data["status"];
    for member in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(status[member], 3, "{member}");
    }
    assert!(status.get("unavailableReplicas").is_none());
    let hash = &set.metadata.labels.as_ref().unwrap()["pod-template-hash"];
    assert_eq!(
        world.pods(&format!("pod-template-hash={hash}")).await.len(),
        3
    );

    world.merge(&DEPLOYMENT, "web", image("b")).await;
    world.settle().await;
    let expected = [(1, 0, "a".to_owned()), (2, 3, "b".to_owned())];
    assert_eq!(sets(&world).await, expected);
    assert_eq!(world.pods("app=web").await.len(), 3);
    // Back: the first set serves again, under a new number.
    world.merge(&DEPLOYMENT, "web", image("a")).await;
    world.settle().await;
    let expected = [(2, 0, "b".to_owned()), (3, 3, "a".to_owned())];
    assert_eq!(sets(&world).await, expected);
    let first = world.get(&REPLICA_SET, name).await;
    assert_eq!(
        annotation(&first, "deployment.kubernetes.io/revision-history"),
        Some("1")
    );
    assert_eq!(
        annotation(&world.get(&DEPLOYMENT, "web").await, REVISION),
        Some("3")
    );
    world.delete(&DEPLOYMENT, "web").await;
    world.settle().await;
    assert_eq!(world.list_by(&REPLICA_SET, "").await.len(), 0);
    assert_eq!(world.pods("").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_keeps_what_is_available_and_is_late_in_the_end() {
    let world = World::new().await;
    world.create(&DEPLOYMENT, workload("web", 4, "a")).await;
    world.settle().await;
    world.rules.add(Rule::fail(
        Stage::POD_READY,
        Selector::all(),
        "ImagePullBackOff",
        "there is no such image",
    ));
    world.merge(&DEPLOYMENT, "web", image("bad")).await;
    world.settle().await;
    // One may be missing and one more may be there.
    let expected = [(1, 3, "a".to_owned()), (2, 2, "bad".to_owned())];
    assert_eq!(sets(&world).await, expected);
    let web = world.get(&DEPLOYMENT, "web").await;
    let status = &web.data["status"];
    let counts = [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "unavailableReplicas",
    ];
    assert_eq!(counts.map(|it| status[it].as_i64().unwrap()), [5, 2, 3, 2]);
    let progressing = |web| told(web, "Progressing").unwrap();
    assert_eq!(progressing(&web).1, "ReplicaSetUpdated");
    assert_eq!(told(&web, "Available").unwrap().0, "True");
    tokio::time::sleep(Duration::from_secs(700)).await;
    let web = world.get(&DEPLOYMENT, "web").await;
    let late = ("False".to_owned(), "ProgressDeadlineExceeded".to_owned());
    assert_eq!(progressing(&web), late);
    // Scaled while it is stuck: both sets have their share.
    world
        .merge(&DEPLOYMENT, "web", json!({"spec": {"replicas": 8}}))
        .await;
    world.settle().await;
    let total: i64 = sets(&world)
        .await
        .iter()
        .map(|(_, replicas, _)| replicas)
        .sum();
    assert_eq!(total, 10);
    world.rules.clear(Stage::POD_READY);
    world.settle().await;
    let expected = [(1, 0, "a".to_owned()), (2, 8, "bad".to_owned())];
    assert_eq!(sets(&world).await, expected);
    let web = world.get(&DEPLOYMENT, "web").await;
    assert_eq!(progressing(&web).1, "NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn recreating_never_has_two_templates_at_once() {
    let world = World::new().await;
    let mut web = workload("web", 2, "a");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(&DEPLOYMENT, web).await;
    world.settle().await;
    let slow = Rule::delay(Stage::POD_STOPPED, Selector::all(), Duration::from_secs(20));
    world.rules.add(slow);
    world.merge(&DEPLOYMENT, "web", image("b")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let expected = [(1, 0, "a".to_owned())];
    assert_eq!(sets(&world).await, expected);
    let ending = world.get(&DEPLOYMENT, "web").await;
    assert_eq!(ending.data["status"]["terminatingReplicas"], 2);
    world.settle().await;
    let expected = [(1, 0, "a".to_owned()), (2, 2, "b".to_owned())];
    assert_eq!(sets(&world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_and_not_rolled() {
    let world = World::new().await;
    world.create(&DEPLOYMENT, workload("web", 2, "a")).await;
    world.settle().await;
    world
        .merge(&DEPLOYMENT, "web", json!({"spec": {"paused": true}}))
        .await;
    world.merge(&DEPLOYMENT, "web", image("b")).await;
    world
        .merge(&DEPLOYMENT, "web", json!({"spec": {"replicas": 3}}))
        .await;
    world.settle().await;
    assert_eq!(sets(&world).await, [(1, 3, "a".to_owned())]);
    let web = world.get(&DEPLOYMENT, "web").await;
    let paused = ("Unknown".to_owned(), "DeploymentPaused".to_owned());
    assert_eq!(told(&web, "Progressing"), Some(paused));
    world
        .merge(&DEPLOYMENT, "web", json!({"spec": {"paused": false}}))
        .await;
    world.settle().await;
    let expected = [(1, 0, "a".to_owned()), (2, 3, "b".to_owned())];
    assert_eq!(sets(&world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn old_sets_are_forgotten_beyond_the_limit() {
    let world = World::new().await;
    let mut web = workload("web", 1, "0");
    web["spec"]["revisionHistoryLimit"] = json!(2);
    world.create(&DEPLOYMENT, web).await;
    for number in 1..5 {
        world.settle().await;
        world
            .merge(&DEPLOYMENT, "web", image(&number.to_string()))
            .await;
    }
    world.settle().await;
    let kept: Vec<i64> = sets(&world).await.iter().map(|it| it.0).collect();
    assert_eq!(kept, [3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_gone_around() {
    let world = World::new().await;
    // Its name is known from one that is like it.
    world.create(&DEPLOYMENT, workload("web", 1, "a")).await;
    world.settle().await;
    let name = names(&world.list_by(&REPLICA_SET, "app=web").await)[0].to_owned();
    world.delete(&DEPLOYMENT, "web").await;
    world.settle().await;
    let mut taken = workload("other", 0, "x");
    taken["metadata"]["name"] = json!(name);
    taken["spec"]["template"] = template("other", "x");
    world.create(&REPLICA_SET, taken).await;
    world.create(&DEPLOYMENT, workload("web", 1, "a")).await;
    world.settle().await;
    let web = world.get(&DEPLOYMENT, "web").await;
    assert_eq!(web.data["status"]["collisionCount"], 1);
    assert_eq!(web.data["status"]["readyReplicas"], 1);
}
