//! Controllers that end at any moment, and others that take over, or are there as well.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use kite_fake::actors::{Actors, Rules, Stage, control_plane};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

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

fn world(cluster: &FakeCluster, rules: &Arc<Rules>, stop: &CancellationToken) -> World {
    let client = cluster.control_plane_client();
    let clock = cluster.clock();
    World {
        cluster: cluster.clone(),
        rules: Arc::clone(rules),
        actors: Actors::spawn(&client, clock, rules, control_plane(), stop),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_over_ends_up_with_the_same() {
    let cluster = FakeCluster::builder().build().unwrap();
    let rules = Arc::new(slowly());
    let (mut rolled, mut pause) = (0, 1);
    make(&World {
        cluster: cluster.clone(),
        rules: Arc::clone(&rules),
        actors: Actors::on(&cluster, &rules, Vec::new()),
    })
    .await;
    for life in 0..100 {
        let stop = CancellationToken::new();
        let world = world(&cluster, &rules, &stop);
        if life % 40 == 20 {
            rolled += 1;
            if let Some(image) = IMAGES.get(rolled) {
                roll(&world, image).await;
            }
        }
        pause = pause * 7 % 31 + 1;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        stop.cancel();
    }
    let world = world(&cluster, &rules, &CancellationToken::new());
    world.settle().await;
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn two_at_once_end_up_with_the_same() {
    let cluster = FakeCluster::builder().build().unwrap();
    let rules = Arc::new(slowly());
    let stop = CancellationToken::new();
    let first = world(&cluster, &rules, &stop);
    let second = world(&cluster, &rules, &stop);
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
