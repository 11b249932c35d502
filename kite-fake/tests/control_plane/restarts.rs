//! Controllers that end at any moment, and others that take over, or are there as well.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use kite_fake::actors::{Rules, Stage};
use serde_json::{Value, json};

use crate::world::{World, template, workload};

const IMAGES: [&str; 3] = ["a", "b", "c"];

async fn make(world: &World) {
    world.create(&DEPLOYMENT, workload("web", 4, "a")).await;
    world.create(&STATEFUL_SET, workload("db", 3, "a")).await;
    let agent = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", "a"),
        },
    });
    world.create(&DAEMON_SET, agent).await;
}

async fn roll(world: &World, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    for (kind, name) in [
        (&DEPLOYMENT, "web"),
        (&STATEFUL_SET, "db"),
        (&DAEMON_SET, "agent"),
    ] {
        world.merge(kind, name, patch.clone()).await;
    }
}

/// All Pods are those that are wanted, of the newest template.
async fn check(world: &World) {
    for (app, count) in [("web", 4), ("db", 3), ("agent", 2)] {
        let pods = world.pods(&format!("app={app}")).await;
        assert_eq!(pods.len(), count, "{app}");
        for pod in pods {
            assert_eq!(pod.data["spec"]["containers"][0]["image"], "c");
            assert_eq!(pod.data["status"]["phase"], "Running");
        }
    }
    let number = |object: &Value, member: &str| object["status"][member].as_i64();
    let web = world.get(&DEPLOYMENT, "web").await.data;
    assert_eq!(number(&web, "availableReplicas"), Some(4));
    assert_eq!(number(&web, "replicas"), Some(4));
    let db = world.get(&STATEFUL_SET, "db").await.data;
    assert_eq!(number(&db, "currentReplicas"), Some(3));
}

fn slowly() -> Rules {
    let ms = Duration::from_millis;
    Rules::instant().with_delays([
        (Stage::POD_SCHEDULED, ms(7)),
        (Stage::POD_READY, ms(11)),
        (Stage::POD_STOPPED, ms(13)),
    ])
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_over_ends_up_with_the_same() {
    let cluster = FakeCluster::builder().build().unwrap();
    let rules = Arc::new(slowly());
    let begin = || World::begun(cluster.clone(), Arc::clone(&rules));
    let (mut rolled, mut pause) = (0, 1);
    for life in 0..100 {
        let world = begin();
        match life {
            0 => make(&world).await,
            20 | 60 => {
                rolled += 1;
                roll(&world, IMAGES[rolled]).await;
            }
            _ => {}
        }
        pause = pause * 7 % 31 + 1;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        world.alone().await;
    }
    assert_eq!(rolled, 2);
    let world = begin();
    world.settle().await;
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn two_at_once_end_up_with_the_same() {
    let cluster = FakeCluster::builder().build().unwrap();
    let rules = Arc::new(slowly());
    let first = World::begun(cluster.clone(), Arc::clone(&rules));
    let second = World::begun(cluster, rules);
    make(&first).await;
    for image in IMAGES {
        roll(&second, image).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    for _ in 0..5 {
        first.settle().await;
        second.settle().await;
    }
    check(&first).await;
}
