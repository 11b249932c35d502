//! What is told as a process ends, and of connections that end at once.

use http::{Method, Request};
use kite_fake::FakeCluster;
use kite_gateway::kubernetes::ReportLimits;
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tower::ServiceExt as _;

use crate::connections::process::{Hanging, Process, all, cluster, find, until};

#[tokio::test(start_paused = true)]
async fn a_hanging_api_server_does_not_keep_a_process_from_ending() {
    let cluster = cluster().await;
    let hanging = Hanging::before(&cluster);
    let process = Process::new(7, ReportLimits::default(), &hanging.client);
    process.login(0);
    until("the first is told of", async || all(&cluster).await.pop()).await;
    hanging.hang(true);
    for number in 1..=40 {
        process.login(number);
    }
    // A whole batch waits for its answers.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ended = tokio::time::timeout(Duration::from_secs(12), process.end()).await;
    assert!(ended.is_ok(), "it still waits");
}

#[tokio::test(start_paused = true)]
async fn ends_are_reported_when_the_api_server_answers_before_the_process_has_ended() {
    let cluster = cluster().await;
    let hanging = Hanging::before(&cluster);
    let process = Process::new(7, ReportLimits::default(), &hanging.client);
    process.login(0);
    until("the first is told of", async || all(&cluster).await.pop()).await;
    hanging.hang(true);
    for number in 1..=40 {
        process.login(number);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ((), ()) = tokio::join!(process.end(), async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        hanging.hang(false);
    });
    let all = all(&cluster).await;
    assert_eq!(all.len(), 41);
    assert!(all.iter().all(|it| !it.is_live()));
}

#[tokio::test(start_paused = true)]
async fn ends_are_reported_for_as_long_as_they_are_taken() {
    let cluster = cluster().await;
    let is_slow = Arc::new(AtomicBool::new(false));
    let (inner, slow) = (cluster.service(), Arc::clone(&is_slow));
    let service = tower::service_fn(move |request: Request<Body>| {
        let wait = Duration::from_secs(u64::from(slow.load(Ordering::Relaxed)));
        let inner = inner.clone();
        async move {
            tokio::time::sleep(wait).await;
            inner.oneshot(request).await
        }
    });
    let client = Client::new(service, "default");
    let limits = ReportLimits {
        per_second: 1000,
        burst: 1000,
        known: 1000,
    };
    let process = Process::new(7, limits, &client);
    for number in 1..=200 {
        process.login(number);
    }
    let open = async || {
        let all = all(&cluster).await;
        all.iter().filter(|it| it.is_live()).count()
    };
    until("all are told of", async || {
        (open().await == 200).then_some(())
    })
    .await;
    is_slow.store(true, Ordering::Relaxed);
    process.end().await;
    assert_eq!(open().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_may_report_no_more_ends_without_many_tries() {
    let cluster = cluster().await;
    let (is_refused, tries) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let (refused, counted): (_, Arc<AtomicUsize>) = (Arc::clone(&is_refused), Arc::clone(&tries));
    // One that lets nobody write.
    let strict = FakeCluster::builder().rbac(true).build().unwrap();
    let (inner, strict) = (cluster.service(), strict.public_service());
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_write = request.method() == Method::PATCH;
        let is_refused = is_write && refused.load(Ordering::Relaxed);
        counted.fetch_add(usize::from(is_refused), Ordering::Relaxed);
        let service = if is_refused { &strict } else { &inner };
        service.clone().oneshot(request)
    });
    let process = Process::new(7, ReportLimits::default(), &Client::new(service, "default"));
    process.login(1);
    until("it is told of", async || all(&cluster).await.pop()).await;
    is_refused.store(true, Ordering::Relaxed);
    process.logout(1);
    process.end().await;
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_as_the_process_ends_does_not_take_back_the_end() {
    let cluster = cluster().await;
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = Arc::clone(&is_slow);
    // Carried out after a while, whether or not somebody still waits for it.
    let inner = cluster.service();
    let service = tower::service_fn(move |request: Request<Body>| {
        let wait = Duration::from_secs(u64::from(slow.load(Ordering::Relaxed)));
        let inner = inner.clone();
        let carried_out = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            inner.oneshot(request).await
        });
        async move { carried_out.await.unwrap() }
    });
    let client = Client::new(service, "default");
    let process = Process::new(7, ReportLimits::default(), &client);
    process.login(1);
    until("there is a heartbeat", async || {
        let log = cluster.log();
        (log.count("patch", "leases.coordination.k8s.io") > 0).then_some(())
    })
    .await;
    is_slow.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(all(&cluster).await.is_empty(), "it is under way");
    is_slow.store(false, Ordering::Relaxed);
    process.end().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let all = all(&cluster).await;
    assert!(all.len() == 1 && !all[0].is_live(), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_recorded_after_its_end_does_not_last_for_ever() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    until("the first is told of", async || all(&cluster).await.pop()).await;
    process.asked.1.lock().insert(2);
    process.logout(2);
    process.login(2);
    let ended = until("its end is told of", async || {
        let found = find(&cluster, "c-0000000000000007-2").await;
        found.and_then(|it| it.spec.ended)
    })
    .await;
    assert!(ended.why.contains("not there"), "{}", ended.why);
    // Nobody else has ended.
    let first = find(&cluster, "c-0000000000000007-1").await;
    assert!(first.unwrap().is_live());
    process.end().await;
}
