//! Objects that somebody deletes while their connection is open.

use futures::{StreamExt as _, stream};
use kite_core::cluster::KubeCluster;
use kite_core::connections::Instance;
use kite_core::crd::KiteConnection;
use kite_core::names;
use kite_fake::fault::{Fault, Faults, Plan};
use kite_gateway::AuditSink as _;
use kite_gateway::kubernetes::{ReportLimits, Reporter, watch_connections};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event as WatchEvent;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

use crate::connections::process::{
    Asked, Process, all, api, cluster, delete, find, login, until, wish, writes,
};

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_it_is_open_is_written_again() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    let name = "c-0000000000000007-1";
    until("it is told of", async || find(&cluster, name).await).await;
    delete(&cluster, name).await;
    let again = until("it is told of again", async || find(&cluster, name).await).await;
    assert!(again.is_live());
    // Wishes reach it as before.
    wish(&cluster, name, "rebuilt").await;
    until("it was asked for", async || {
        process.asked.0.lock().first().cloned()
    })
    .await;
    process.logout(1);
    until("its end is told of", async || {
        find(&cluster, name).await?.spec.ended
    })
    .await;
    // What has ended is not.
    delete(&cluster, name).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(find(&cluster, name).await, None);
    process.end().await;
    assert_eq!(find(&cluster, name).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_each_time_is_written_less_and_less_often() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    let name = "c-0000000000000007-1";
    let mut times = 0;
    // As it is with a VM that is gone, while somebody is still connected.
    for _ in 0..3600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if find(&cluster, name).await.is_some() {
            delete(&cluster, name).await;
            times += 1;
        }
    }
    assert!((8..=16).contains(&times), "{times} times in an hour");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_nobody_heard_of_is_seen_in_the_next_list() {
    let cluster = cluster().await;
    let written = |name: &'static str| {
        move |call: &kite_fake::fault::Call| call.is_write() && call.name.ends_with(name)
    };
    let plan = Plan::first("the second is written", Fault::WatchLags, written("-2"));
    let plan = plan.and_first("the third is written", Fault::WatchExpires, written("-3"));
    let faults = Faults::new(plan);
    let layer = faults.layer("gateway");
    let client = Client::new(layer.layer(cluster.service()), "default");
    let process = Process::new(7, ReportLimits::default(), &client);
    process.login(1);
    let first = "c-0000000000000007-1";
    until("the first is told of", async || find(&cluster, first).await).await;
    process.login(2);
    let second = "c-0000000000000007-2";
    until("so is the second", async || find(&cluster, second).await).await;
    delete(&cluster, first).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(layer.is_holding());
    process.login(3);
    until("it is told of again", async || find(&cluster, first).await).await;
    // The others were there.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(writes(&cluster), 5, "four, and a deletion");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn lists_without_it_do_not_put_off_what_is_written_again() {
    let cluster = cluster().await;
    let client = cluster.client();
    let reporter = Reporter::new(Instance::new(7, None), ReportLimits::default());
    // A watch that has to begin anew again and again, and hears of no deletion.
    let heard = cluster.clone();
    let events = stream::unfold(heard, async |heard| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let listed = all(&heard).await.into_iter();
        let mut events = vec![Ok(WatchEvent::Init)];
        events.extend(listed.map(|it| Ok(WatchEvent::InitApply(it))));
        events.push(Ok(WatchEvent::InitDone));
        Some((stream::iter(events), heard))
    });
    let name = "c-0000000000000007-1";
    let running = reporter.clone().run(
        KubeCluster::new(client),
        names::PLATFORM_NAMESPACE.to_owned(),
        events.flatten(),
        Asked::default(),
        CancellationToken::new(),
    );
    let process = async {
        reporter.record(&login(1));
        for _ in 0..4 {
            until("it is told of", async || find(&cluster, name).await).await;
            delete(&cluster, name).await;
        }
    };
    tokio::select! {
        () = running => {}
        () = process => {}
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_before_its_end_is_taken_back_is_made_anew() {
    let cluster = cluster().await;
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    let plan = Plan::first("an end is taken back", Fault::RivalDeletes, move |call| {
        call.is_write() && call.name.starts_with("c-") && armed.load(Ordering::Relaxed)
    });
    let faults = Faults::new(plan);
    let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
    let reporter = Reporter::new(Instance::new(7, None), ReportLimits::default());
    // One that hears of no deletion.
    let heard = watch_connections(client.clone(), reporter.instance())
        .filter(|event| std::future::ready(!matches!(event, Ok(WatchEvent::Delete(_)))));
    let (asked, stop) = (Asked::default(), CancellationToken::new());
    let running = tokio::spawn(reporter.clone().run(
        KubeCluster::new(client.clone()),
        names::PLATFORM_NAMESPACE.to_owned(),
        heard,
        asked.clone(),
        stop.clone(),
    ));
    let process = Process {
        reporter,
        asked,
        running,
        stop,
    };
    process.login(1);
    let name = "c-0000000000000007-1";
    let first = until("it is told of", async || find(&cluster, name).await).await;
    is_armed.store(true, Ordering::Relaxed);
    let ended = json!({"at": "2026-01-01T00:00:00Z", "why": "the gateway went away"});
    let patch = Patch::Merge(json!({"spec": {"ended": ended}}));
    let patched = api(&cluster)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    let second = until("it lasts", async || {
        find(&cluster, name).await.filter(KiteConnection::is_live)
    })
    .await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_stays_so_though_the_answer_to_its_end_was_lost() {
    let cluster = cluster().await;
    let plan = Plan::first("a connection is written", Fault::ResetAfterCommit, |call| {
        call.is_write() && call.name.starts_with("c-")
    });
    let faults = Faults::new(plan);
    let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
    let process = Process::new(7, ReportLimits::default(), &client);
    process.login(1);
    process.logout(1);
    let name = "c-0000000000000007-1";
    let ended = until("its end is told of", async || find(&cluster, name).await).await;
    assert!(!ended.is_live());
    delete(&cluster, name).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(find(&cluster, name).await, None);
    process.end().await;
    assert_eq!(find(&cluster, name).await, None);
}
