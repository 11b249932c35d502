//! Events to many watchers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::BodyExt as _;
use kite_fake::FakeCluster;
use kite_fake::service::ResponseBody;
use tower::ServiceExt as _;

use crate::figures::Table;
use crate::objects::{ROOT, apply, filled, name, object, request};
use crate::plain::PlainMap;

async fn open(cluster: &FakeCluster, path: &str) -> ResponseBody {
    let request = request("GET", path, Bytes::new()).map(http_body_util::Full::new);
    let response = cluster.service().oneshot(request).await.unwrap();
    assert!(response.status().is_success());
    response.into_body()
}

fn change(cluster: &FakeCluster, n: usize) {
    let mut object = object(0);
    object["data"]["key-1"] = n.to_string().into();
    apply(cluster, 0, object.to_string().into());
}

/// Time until so many watchers have an event.
async fn told(cluster: &FakeCluster, watchers: usize) -> Duration {
    let version = cluster.server().store().revision();
    let path = format!("{ROOT}?watch=1&resourceVersion={version}");
    let mut bodies = Vec::new();
    for _ in 0..watchers {
        bodies.push(open(cluster, &path).await);
    }
    let mut least = Duration::MAX;
    for n in 0..7 {
        change(cluster, 1000 * watchers + n);
        let begin = Instant::now();
        let mut waiting: FuturesUnordered<_> = bodies.iter_mut().map(|b| b.frame()).collect();
        while let Some(frame) = waiting.next().await {
            assert!(frame.unwrap().unwrap().into_data().unwrap().len() > 500);
        }
        drop(waiting);
        least = least.min(begin.elapsed());
    }
    least
}

pub async fn fan_out(table: &mut Table) {
    let cluster = filled(100);
    let thousand = told(&cluster, 1000).await;
    let double = told(&cluster, 2000).await;
    let mut map = PlainMap::default();
    map.apply(&name(0), object(0).to_string().as_bytes());
    let theirs = crate::figures::best(7, 1, |_| {
        map.announce(&name(0), 1000);
    });
    table.times(
        "an event to 1,000 watchers",
        thousand,
        None,
        "plain map",
        Some(theirs),
    );
    table.row(
        "an event to 2,000 beside one to 1,000",
        &format!("× {:.2}", double.as_secs_f64() / thousand.as_secs_f64()),
        "linear",
        "–",
        "–",
    );

    // Those whom it does not concern are not woken: a write is as fast as without them.
    let alone = crate::figures::best(7, 100, |n| change(&cluster, 10_000_000 + n));
    let mut bodies = Vec::new();
    for n in 0..1000 {
        let path = format!("/api/v1/namespaces/other-{n}/configmaps?watch=1");
        bodies.push(open(&cluster, &path).await);
    }
    let watched = crate::figures::best(7, 100, |n| change(&cluster, 20_000_000 + n));
    table.row(
        "a write beside 1,000 watchers of other namespaces",
        &crate::figures::time(watched),
        "–",
        "without them",
        &crate::figures::time(alone),
    );
}
