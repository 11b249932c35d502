//! How much is kept of sessions in VMs that have ended.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kite_api::ApiState;
use kite_core::{
    cluster::Cluster as _,
    connections::{Instance, object},
    crd::{AccessLevel, KiteConnection, KiteVirtualMachine},
    names,
};
use kite_fake::{
    FakeCluster,
    fault::{Call, Fault, Faults, Plan},
};
use kube::{Client, ResourceExt as _, api::ListParams, client::Body};
use serde_json::json;
use tower::{Layer as _, ServiceExt as _};

use crate::{
    vm_sessions::{beat, gateway, lasting, make_vm, report},
    world::World,
};

/// The numbers of the sessions that are kept of `ann`.
async fn kept(world: &World) -> Vec<i64> {
    let namespace = Some(names::user_namespace("ann"));
    let listed = world
        .cluster
        .list::<KiteConnection>(namespace, &ListParams::default())
        .await
        .unwrap();
    let mut numbers: Vec<_> = listed.items.iter().map(|it| it.spec.number).collect();
    numbers.sort_unstable();
    numbers
}

/// So many sessions that have ended, the first one last.
async fn make_history(world: &World, vm: &KiteVirtualMachine, count: i64) {
    make_history_of(world, vm, count, 0).await;
}

/// The same, in each of which so many bytes went up.
async fn make_history_of(world: &World, vm: &KiteVirtualMachine, count: i64, bytes: i64) {
    let namespace = vm.namespace().unwrap();
    let now = Timestamp::now();
    let make = async |number: i64| {
        let spec = json!({
            "vm": {"name": vm.name_any(), "uid": vm.uid()}, "owner": "ann", "login": "web",
            "kind": "Ssh", "instance": gateway().id(), "number": number,
            "openedAt": "2026-01-01T00:00:00Z",
            "ended": {
                "at": (now - SignedDuration::from_secs(number)).to_string(), "why": "over",
                "bytesUp": bytes, "bytesDown": 0,
            },
        });
        let connection = object(&namespace, serde_json::from_value(spec).unwrap());
        world.cluster.create(&connection).await.unwrap()
    };
    let all: Vec<_> = stream::iter(1..=count).then(make).collect().await;
    let seen = &world.state.caches().connections;
    seen.caught_up_with(all.last().unwrap()).await;
}

/// How many of `ann`'s sessions are counted by others, and by how many.
async fn counted(world: &World) -> (i64, usize) {
    let namespace = Some(names::user_namespace("ann"));
    let params = ListParams::default();
    let listed = world.cluster.list::<KiteConnection>(namespace, &params);
    let listed = listed.await.unwrap().items;
    let earlier: Vec<_> = listed
        .into_iter()
        .filter_map(|it| it.spec.earlier)
        .collect();
    let bytes: i64 = earlier.iter().map(|it| it.bytes_up).sum();
    let count: i64 = earlier.iter().map(|it| it.count).sum();
    assert_eq!(bytes, 2 * count, "what they carried");
    (count, earlier.len())
}

fn deletions(fake: &FakeCluster) -> u64 {
    fake.log()
        .count("delete", "kiteconnections.hy3ons.github.io")
}

fn is_deletion(call: &Call) -> bool {
    call.verb == "delete" && call.plural == "kiteconnections"
}

impl World {
    /// The same cluster before a replica of another client, and no other.
    async fn served_over(self, client: Client) -> Self {
        let state = ApiState::builder(client).build().await.unwrap();
        state.synced().await;
        Self {
            router: kite_api::router(state.clone()),
            state,
            fake: self.fake,
            cluster: self.cluster,
        }
    }
}

#[tokio::test]
async fn old_sessions_are_forgotten() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    report(&world, &web, &gateway(), 0, json!({})).await;
    for number in 1..=55 {
        let ended = json!({"ended": {
            "at": (Timestamp::now() - SignedDuration::from_mins(number)).to_string(),
            "why": "closed by the user", "bytesUp": 0, "bytesDown": 0,
        }});
        report(&world, &web, &gateway(), number, ended).await;
    }
    let month = json!({"ended": {"at": "2026-01-01T00:00:00Z", "why": "closed by the user"}});
    report(&world, &web, &Instance::new(9, None), 1, month).await;
    tokio::time::pause();
    let here = gateway();
    for _ in 0..4 {
        beat(&world, &here).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(kept(&world).await, (0..=50).collect::<Vec<_>>());
    assert_eq!(lasting(&world).await, 1);
}

#[tokio::test]
async fn what_is_too_much_is_cleared_away_at_once_and_at_a_pace() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    // More than one look takes on.
    make_history(&world, &web, 2_350).await;
    // Not before: however long that took, its gateway is not taken for gone.
    report(&world, &web, &gateway(), 0, json!({})).await;
    tokio::time::pause();
    let mut most = 0;
    for second in 0..90 {
        if second % 20 == 0 {
            beat(&world, &gateway()).await;
        }
        let before = deletions(&world.fake);
        tokio::time::sleep(Duration::from_secs(1)).await;
        most = most.max(deletions(&world.fake) - before);
    }
    assert!((1..=400).contains(&most), "{most} within a second");
    assert_eq!(kept(&world).await, (0..=50).collect::<Vec<_>>());
    assert_eq!(lasting(&world).await, 1);
    // Each of them once.
    assert_eq!(deletions(&world.fake), 2_300);
    for _ in 0..10 {
        beat(&world, &gateway()).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(deletions(&world.fake), 2_300);
}

#[tokio::test]
async fn replicas_forget_side_by_side() {
    let world = World::new().await;
    let _other = world.replica().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history(&world, &web, 2_050).await;
    tokio::time::pause();
    while deletions(&world.fake) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    // One replica has forgotten 200 in each of five seconds. If both took them in the
    // same order, one would soon find nothing where the other was, and stop: both
    // would have forgotten 1,200 at most.
    let gone = 2_050 - kept(&world).await.len();
    assert!(gone > 1_200, "{gone} in the time of 1000");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kept(&world).await, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replica_that_is_about_to_end_forgets_nothing_more() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history(&world, &web, 60).await;
    world.state.drain().await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(kept(&world).await.len(), 60);
}

#[tokio::test]
async fn what_is_taken_back_in_the_last_moment_is_kept() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history(&world, &web, 51).await;
    let plan = Plan::first("an old one is deleted", Fault::RivalEdits, is_deletion);
    let faults = Faults::new(plan);
    let service = faults.layer("api").layer(world.fake.service());
    let world = world.served_over(Client::new(service, "default")).await;
    tokio::time::pause();
    // The first look is taken at once.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(faults.injected().len(), 1);
    assert_eq!(kept(&world).await.len(), 51);
    // It was not taken back after all.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kept(&world).await, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn while_nothing_is_deleted_little_is_tried() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history(&world, &web, 650).await;
    let tried = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (world.fake.service(), Arc::clone(&tried));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, counted) = (inner.clone(), Arc::clone(&counted));
        async move {
            if request.method() == Method::DELETE {
                counted.fetch_add(1, Ordering::Relaxed);
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            inner.oneshot(request).await.map_err(io::Error::other)
        }
    });
    let world = world.served_over(Client::new(service, "default")).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(270)).await;
    assert_eq!(
        tried.load(Ordering::Relaxed),
        5 * 200,
        "at once and every minute"
    );
    assert_eq!(kept(&world).await.len(), 650);
}

#[tokio::test]
async fn deletions_that_hang_do_not_hold_up_the_ends_of_others() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history(&world, &web, 60).await;
    let gone = Instance::new(8, None);
    beat(&world, &gone).await;
    report(&world, &web, &gone, 0, json!({})).await;
    let inner = world.fake.service();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if request.method() == Method::DELETE {
                std::future::pending::<()>().await;
            }
            inner.oneshot(request).await
        }
    });
    let world = world.served_over(Client::new(service, "default")).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lasting(&world).await, 1);
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!(lasting(&world).await, 0);
}

/// What was done in a VM is not pushed out by doing something in it again and again.
#[tokio::test]
async fn sessions_that_were_used_are_counted_where_there_are_too_many() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    let evidence = json!({
        "peer": "198.51.100.9",
        "ended": {
            "at": (Timestamp::now() - SignedDuration::from_hours(700)).to_string(),
            "why": "closed by the user", "bytesUp": 7, "bytesDown": 9,
        },
    });
    report(&world, &web, &Instance::new(9, None), 0, evidence).await;
    make_history_of(&world, &web, 1_103, 2).await;
    tokio::time::pause();
    for _ in 0..9 {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    let numbers = kept(&world).await;
    assert_eq!(numbers.len(), 1_000);
    assert_eq!(numbers[0], 0, "it came from elsewhere");
    // The others have the rest, of which one stands for those that are gone.
    assert_eq!(numbers[999], 999);
    assert_eq!(counted(&world).await, (104, 1));
    let path = "/api/v1/vms/web/sessions?limit=1000";
    let page = world.get(path, &ann).await;
    assert_eq!(page.status, 200, "{page:?}");
    let items = page.body["items"].as_array().unwrap();
    let shown = items.iter().filter(|it| it["earlier"].is_object());
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0]["number"], 999);
    let earlier = &shown[0]["earlier"];
    assert_eq!(
        (&earlier["count"], &earlier["bytesUp"]),
        (&json!(104), &json!(208))
    );
    assert_eq!(earlier["firstOpenedAt"], "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn replicas_count_each_session_once() {
    let world = World::new().await;
    let _other = world.replica().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    make_history_of(&world, &web, 1_300, 2).await;
    tokio::time::pause();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(kept(&world).await, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(counted(&world).await, (300, 1));
}
