//! What things cost, and how the cost grows. `cargo bench -p kite-fake` measures
//! times; here allocations are counted, which no busy machine disturbs, and
//! times are only compared with each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::System;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::BodyExt as _;
use kite_fake::FakeCluster;
use kite_fake::service::ResponseBody;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tower::ServiceExt as _;

#[path = "../benches/speed/objects.rs"]
mod objects;

use objects::{ROOT, apply, filled, name, object, request, send};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One at a time: the allocator counts for all threads.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

fn cost(work: impl FnOnce()) -> Stats {
    let region = Region::new(ALLOCATOR);
    work();
    region.change()
}

fn kept(stats: Stats) -> usize {
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

fn get(cluster: &FakeCluster, query: &str) -> Bytes {
    send(cluster, "GET", &format!("{ROOT}{query}"), Bytes::new())
}

#[test]
fn an_object_takes_little_more_memory_than_its_text() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = filled(10);
        let size = apply(&cluster, 0, object(0).to_string().into()).len();
        let all = cost(|| {
            for i in 1000..3000 {
                apply(&cluster, i, object(i).to_string().into());
            }
        });
        let one = kept(all) / 2000;
        assert!(size > 1200, "{size} bytes are no fair example");
        assert!(one < 4096, "{one} bytes for an object of {size}");
        // Reading everything as trees, as tables do, leaves no trees behind.
        let read = cost(|| {
            let table = request("GET", ROOT, Bytes::new());
            let (mut parts, body) = table.into_parts();
            let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
            parts.headers.insert("accept", accept.parse().unwrap());
            drop(cluster.handle(http::Request::from_parts(parts, body)));
            get(&cluster, "/m01000");
        });
        assert!(kept(read) < 1_000_000, "{} bytes kept", kept(read));
    });
}

#[test]
fn the_history_is_bounded() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = FakeCluster::builder().history(200).build().unwrap();
        let changes = |from: usize| {
            for n in from..from + 1000 {
                let mut object = object(n % 10);
                object["data"]["key-1"] = n.to_string().into();
                apply(&cluster, n % 10, object.to_string().into());
            }
        };
        // The request log has its full length after its first few thousand.
        (0..5).for_each(|n| changes(1000 * n));
        let more = cost(|| changes(10_000));
        assert!(kept(more) < 100_000, "{} bytes more", kept(more));
    });
}

#[test]
fn a_list_joins_what_is_there() {
    let _turn = alone();
    runtime().block_on(async {
        let (small, large) = (filled(400), filled(800));
        let of = |cluster: &FakeCluster, query: &str| {
            get(cluster, query);
            cost(|| drop(get(cluster, query)))
        };
        let (one, two) = (of(&small, ""), of(&large, ""));
        assert!(one.allocations < 200, "{} allocations", one.allocations);
        assert!(two.bytes_allocated < one.bytes_allocated * 5 / 2);
        // So does one by label, and one by field reads no more than the field.
        let some = of(&large, "?labelSelector=app%3Da3");
        assert!(some.bytes_allocated < two.bytes_allocated / 5);
        // A page costs the same whatever is behind it.
        let page = |cluster: &FakeCluster| {
            let first: Value = serde_json::from_slice(&get(cluster, "?limit=50")).unwrap();
            let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
            of(cluster, &format!("?limit=50&continue={token}"))
        };
        let (here, there) = (page(&small), page(&large));
        assert!(there.bytes_allocated < here.bytes_allocated * 11 / 10);
    });
}

#[test]
fn pages_count_what_remains_while_others_write() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = filled(25);
        let mut token = String::new();
        let mut names = Vec::new();
        for left in [Some(15), Some(5), None] {
            let page = get(&cluster, &format!("?limit=10&continue={token}"));
            let page: Value = serde_json::from_slice(&page).unwrap();
            let listed = page["items"].as_array().unwrap();
            names.extend(listed.iter().map(|o| o["metadata"]["name"].clone()));
            assert_eq!(page["metadata"]["remainingItemCount"].as_u64(), left);
            token = page["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .into();
            // Neither shows in the pages that follow.
            apply(
                &cluster,
                900 + names.len(),
                object(900 + names.len()).to_string().into(),
            );
            let gone = format!("{ROOT}/{}", name(names.len() + 1));
            if left.is_some() {
                send(&cluster, "DELETE", &gone, Bytes::new());
            }
        }
        let expected: Vec<Value> = (0..25).map(|i| name(i).into()).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn an_apply_of_the_same_builds_next_to_nothing() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = filled(10);
        let body = |text: &str| -> Bytes {
            let mut object = object(3);
            object["data"]["key-1"] = text.into();
            object.to_string().into()
        };
        apply(&cluster, 3, body("x"));
        let (same, other) = (body("x"), body("y"));
        let same = cost(|| drop(apply(&cluster, 3, same)));
        let other = cost(|| drop(apply(&cluster, 3, other)));
        let (few, many) = (same.allocations, other.allocations);
        assert!(
            few < 100 && few * 5 < many,
            "{few} allocations, {many} with a change"
        );
    });
}

async fn watch(cluster: &FakeCluster, path: &str) -> ResponseBody {
    let request = request("GET", path, Bytes::new()).map(http_body_util::Full::new);
    let response = cluster.service().oneshot(request).await.unwrap();
    response.into_body()
}

/// What so many watchers receive of one change, with the cost of telling them.
async fn told(cluster: &FakeCluster, watchers: usize, query: &str) -> (Vec<Bytes>, Stats) {
    let version = cluster.server().store().revision();
    let path = format!("{ROOT}?watch=1&resourceVersion={version}{query}");
    let mut bodies = Vec::new();
    for _ in 0..watchers {
        bodies.push(watch(cluster, &path).await);
    }
    let mut last = None;
    for n in 0..5 {
        let mut changed = object(0);
        changed["data"]["key-1"] = format!("{watchers}-{n}").into();
        apply(cluster, 0, changed.to_string().into());
        let mut frames = Vec::with_capacity(watchers);
        let region = Region::new(ALLOCATOR);
        let mut waiting: FuturesUnordered<_> = bodies.iter_mut().map(|b| b.frame()).collect();
        while let Some(frame) = waiting.next().await {
            frames.push(frame.unwrap().unwrap().into_data().unwrap());
        }
        drop(waiting);
        // The first time some things are made that stay.
        last = Some((frames, region.change()));
    }
    last.unwrap()
}

#[test]
fn an_event_is_encoded_once_for_all_who_watch() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = filled(5);
        let (frames, one) = told(&cluster, 300, "").await;
        let first = frames[0].as_ptr();
        assert!(frames.iter().all(|f| f.as_ptr() == first), "the same bytes");
        let (_, two) = told(&cluster, 600, "").await;
        assert!(two.bytes_allocated < one.bytes_allocated * 5 / 2);
        // Selections that an object stays in are told the same.
        let (frames, _) = told(&cluster, 10, "&labelSelector=tier%3Dweb").await;
        let first = frames[0].as_ptr();
        assert!(frames.iter().all(|f| f.as_ptr() == first), "the same bytes");
    });
}

#[test]
fn a_watch_goes_on_over_a_compaction_and_through_others_noise() {
    let _turn = alone();
    runtime().block_on(async {
        let cluster = FakeCluster::builder().history(10).build().unwrap();
        let quiet = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"quiet"}}"#;
        send(&cluster, "POST", "/api/v1/namespaces", quiet.into());
        let version = cluster.server().store().revision();
        let root = "/api/v1/namespaces/quiet/configmaps";
        let mut body = watch(
            &cluster,
            &format!("{root}?watch=1&resourceVersion={version}"),
        )
        .await;
        // Nothing yet: the stream is asked once, so that it is open.
        let nothing = tokio::time::timeout(Duration::from_secs(1), body.frame()).await;
        assert!(nothing.is_err());
        for i in 0..50 {
            apply(&cluster, i, object(i).to_string().into());
        }
        cluster.server().compact();
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"here"}}"#;
        send(&cluster, "POST", root, map.into());
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], "here");
    });
}
