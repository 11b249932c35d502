//! Connections as objects of the cluster, here the in-memory one: seen from anywhere,
//! and ended from anywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::HashSet;
use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Bed, text};
use futures::{StreamExt as _, stream};
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kite_core::cluster::KubeCluster;
use kite_core::connections::Instance;
use kite_core::crd::{ConnectionKind, EndWish, KiteConnection};
use kite_core::names;
use kite_fake::FakeCluster;
use kite_fake::fault::{Fault, Faults, Plan};
use kite_gateway::audit::{Event, Record};
use kite_gateway::kubernetes::{Live, ReportLimits, Reporter, watch_connections};
use kite_gateway::{AuditSink, LoginName, VmKey};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::watcher::Event as WatchEvent;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _};

const NAMESPACE: &str = "kite-user-ann";

async fn cluster() -> FakeCluster {
    let cluster = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .build()
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    for name in [NAMESPACE, names::PLATFORM_NAMESPACE] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.unwrap();
    }
    cluster
}

/// An API server that never answers what it is asked while somebody says so.
struct Hanging {
    client: Client,
    hangs: Arc<AtomicBool>,
}

impl Hanging {
    fn before(cluster: &FakeCluster) -> Self {
        let hangs = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&hangs);
        let inner = cluster.service();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, hangs) = (inner.clone(), heard.load(Ordering::Relaxed));
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                inner.oneshot(request).await
            }
        });
        let client = Client::new(service, "default");
        Self { client, hangs }
    }

    fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }
}

/// What was asked to end, and what is not there.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(u64, EndWish)>>>, Arc<Mutex<HashSet<u64>>>);

impl Live for Asked {
    fn is_there(&self, number: u64) -> bool {
        !self.1.lock().contains(&number)
    }

    fn client(&self, number: u64) -> Option<String> {
        Some(format!("client {number}"))
    }

    fn end(&self, number: u64, wish: &EndWish) {
        self.0.lock().push((number, wish.clone()));
    }
}

/// A process that reports.
struct Process {
    reporter: Reporter,
    asked: Asked,
    running: JoinHandle<()>,
    stop: CancellationToken,
}

impl Process {
    fn new(id: u64, limits: ReportLimits, client: &Client) -> Self {
        let instance = Instance::new(id, Some("gateway-0".to_owned()));
        let reporter = Reporter::new(instance, limits);
        let (asked, stop) = (Asked::default(), CancellationToken::new());
        let running = run(&reporter, client, asked.clone(), &stop);
        Self {
            reporter,
            asked,
            running,
            stop,
        }
    }

    fn login(&self, connection: u64) {
        self.reporter.record(&login(connection));
    }

    fn logout(&self, connection: u64) {
        self.reporter.record(&logout(connection));
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

fn record(connection: u64, event: Event) -> Record {
    Record {
        time: Timestamp::now(),
        connection,
        peer: "192.0.2.7:5000".parse().unwrap(),
        event,
    }
}

fn login(connection: u64) -> Record {
    record(
        connection,
        Event::Login {
            login: LoginName::parse("web"),
            method: "publickey",
            key: None,
            accepted: true,
            partial: false,
            vm: Some(vm()),
            uid: Some("uid-1".to_owned()),
            owner: Some("ann".to_owned()),
        },
    )
}

fn logout(connection: u64) -> Record {
    record(
        connection,
        Event::Connection {
            client: None,
            login: LoginName::parse("web"),
            seconds: 1.0,
            ended: "closed by the user".to_owned(),
        },
    )
}

fn run(
    reporter: &Reporter,
    client: &Client,
    live: impl Live,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(reporter.clone().run(
        KubeCluster::new(client.clone()),
        names::PLATFORM_NAMESPACE.to_owned(),
        watch_connections(client.clone(), reporter.instance()),
        live,
        stop.clone(),
    ))
}

fn vm() -> VmKey {
    VmKey {
        namespace: NAMESPACE.to_owned(),
        name: "web".to_owned(),
    }
}

fn api(cluster: &FakeCluster) -> Api<KiteConnection> {
    Api::namespaced(cluster.client(), NAMESPACE)
}

async fn all(cluster: &FakeCluster) -> Vec<KiteConnection> {
    let list = api(cluster).list(&ListParams::default()).await;
    list.unwrap().items
}

async fn delete(cluster: &FakeCluster, name: &str) {
    let deleted = api(cluster).delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
}

async fn find(cluster: &FakeCluster, name: &str) -> Option<KiteConnection> {
    api(cluster).get_opt(name).await.unwrap()
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = check().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

async fn wish(cluster: &FakeCluster, name: &str, reason: &str) {
    let end = json!({"by": "root", "reason": reason, "at": "2026-01-01T00:00:00Z"});
    let patch = Patch::Merge(json!({"spec": {"end": end}}));
    let patched = api(cluster)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

fn writes(cluster: &FakeCluster) -> u64 {
    let log = cluster.log();
    ["patch", "create", "update", "delete"]
        .iter()
        .map(|verb| log.count(verb, "kiteconnections.hy3ons.github.io"))
        .sum()
}

#[tokio::test(start_paused = true)]
async fn a_short_connection_is_one_write_and_a_long_one_two() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    process.logout(1);
    process.login(2);
    let both = until("both are told of", async || {
        let all = all(&cluster).await;
        (all.len() == 2).then_some(all)
    })
    .await;
    let [short, long] = both.try_into().unwrap();
    assert_eq!(short.metadata.name.as_deref(), Some("c-0000000000000007-1"));
    assert!(!short.is_live() && long.is_live());
    let spec = &long.spec;
    assert_eq!(
        (spec.owner.as_str(), spec.kind),
        ("ann", ConnectionKind::Ssh)
    );
    assert_eq!(spec.peer.as_deref(), Some("192.0.2.7"));
    assert_eq!(spec.client.as_deref(), Some("client 2"));
    assert_eq!(spec.server.as_deref(), Some("gateway-0"));
    let owners = long.metadata.owner_references.unwrap();
    assert_eq!(owners[0].uid, "uid-1");
    assert_eq!(writes(&cluster), 2);
    process.logout(2);
    process.end().await;
    assert_eq!(writes(&cluster), 3);
    let last = all(&cluster).await;
    assert!(last.iter().all(|it| !it.is_live()));
    assert_eq!(last[1].spec.client.as_deref(), Some("client 2"));
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_connections_is_written_at_its_rate_and_not_more() {
    let cluster = cluster().await;
    let limits = ReportLimits {
        per_second: 10,
        burst: 20,
        known: 100,
    };
    let process = Process::new(7, limits, &cluster.client());
    for number in 0..150 {
        process.login(number);
        process.logout(number);
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    let first = writes(&cluster);
    assert!((20..=25).contains(&first), "{first}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = writes(&cluster) - first;
    assert!((15..=25).contains(&later), "{later}");
    let mut registry = prometheus_client::registry::Registry::default();
    process.reporter.register_metrics(&mut registry);
    process.end().await;
    // A hundred are known at a time; the audit log tells of the rest.
    assert_eq!(writes(&cluster), 100);
    let mut told = String::new();
    prometheus_client::encoding::text::encode(&mut told, &registry).unwrap();
    assert!(
        told.contains("kite_connections_unreported_total 50"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_connected_is_seen_however_many_come_and_go() {
    let cluster = cluster().await;
    let limits = ReportLimits {
        per_second: 10,
        burst: 20,
        known: 100,
    };
    let process = Process::new(7, limits, &cluster.client());
    for number in 1..=150 {
        process.login(number);
        process.logout(number);
    }
    process.login(151);
    let name = "c-0000000000000007-151";
    until("it is told of", async || find(&cluster, name).await).await;
    assert!(writes(&cluster) < 60, "most of the others still wait");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_the_latest_state_waits() {
    let cluster = cluster().await;
    let faults = Faults::new(Plan::random(1, 1000, &[Fault::ServerError]));
    let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
    let process = Process::new(7, ReportLimits::default(), &client);
    process.login(1);
    process.login(2);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let tried = faults.count();
    assert!(tried < 400, "{tried} requests while nobody answers");
    process.logout(1);
    assert!(all(&cluster).await.is_empty());
    faults.disarm();
    let both = until("both are told of", async || {
        let all = all(&cluster).await;
        (all.len() == 2).then_some(all)
    })
    .await;
    assert!(!both[0].is_live() && both[1].is_live());
    assert_eq!(writes(&cluster), 2);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_leave_what_is_true() {
    for seed in 0..8 {
        let cluster = cluster().await;
        let lost = [
            Fault::ResetAfterCommit,
            Fault::Timeout,
            Fault::TooManyRequests,
        ];
        let faults = Faults::new(Plan::random(seed, 400, &lost));
        let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
        let process = Process::new(7, ReportLimits::default(), &client);
        for number in 0..8 {
            process.login(number);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        for number in 0..4 {
            process.logout(number);
        }
        let live = until("half are over", async || {
            let all = all(&cluster).await;
            let live = all.iter().filter(|it| it.is_live()).count();
            (all.len() == 8 && live == 4).then_some(live)
        })
        .await;
        assert_eq!(live, 4, "seed {seed}");
        faults.disarm();
        process.end().await;
        let all = all(&cluster).await;
        assert!(
            all.len() == 8 && all.iter().all(|it| !it.is_live()),
            "{seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_taken_for_gone_takes_that_back() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    let name = "c-0000000000000007-1";
    until("it is told of", async || {
        api(&cluster).get_opt(name).await.unwrap()
    })
    .await;
    let ended = json!({"at": "2026-01-01T00:00:00Z", "why": "the gateway went away"});
    let patch = Patch::Merge(json!({"spec": {"ended": ended}}));
    let patched = api(&cluster)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert!(!patched.is_live());
    until("it lasts", async || {
        let now = api(&cluster).get(name).await.unwrap();
        now.is_live().then_some(())
    })
    .await;
    process.logout(1);
    until("it is over", async || {
        let now = api(&cluster).get(name).await.unwrap();
        (!now.is_live()).then_some(())
    })
    .await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn wishes_reach_the_process_that_has_the_connection_and_no_other() {
    let cluster = cluster().await;
    let processes = [7, 8].map(|id| Process::new(id, ReportLimits::default(), &cluster.client()));
    for process in &processes {
        process.login(1);
        process.login(2);
    }
    until("all are told of", async || {
        (all(&cluster).await.len() == 4).then_some(())
    })
    .await;
    wish(&cluster, "c-0000000000000008-2", "rebuilt").await;
    let asked = until("it was asked for", async || {
        processes[1].asked.0.lock().first().cloned()
    })
    .await;
    assert_eq!((asked.0, asked.1.reason.as_str()), (2, "rebuilt"));
    assert!(processes[0].asked.0.lock().is_empty());
    // A wish for what has ended meanwhile asks for nothing.
    processes[0].logout(1);
    wish(&cluster, "c-0000000000000007-1", "too late").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(processes[0].asked.0.lock().is_empty());
    let ended = api(&cluster).get("c-0000000000000007-1").await.unwrap();
    assert!(ended.spec.ended.is_some() && ended.spec.end.is_some());
    for process in processes {
        process.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_who_carries_connections_has_a_heartbeat() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    let leases: Api<Lease> = Api::namespaced(cluster.client(), names::PLATFORM_NAMESPACE);
    let beat = async || {
        let lease = leases.get_opt("kite-heartbeat-0000000000000007").await;
        lease.unwrap().map(|it| it.metadata.resource_version)
    };
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(beat().await, None);
    process.login(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = beat().await;
    assert!(first.is_some());
    tokio::time::sleep(Duration::from_secs(21)).await;
    let second = beat().await;
    assert_ne!(first, second);
    process.logout(1);
    tokio::time::sleep(Duration::from_secs(21)).await;
    let last = beat().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(beat().await, last);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_place_any_more_is_left_alone() {
    let cluster = cluster().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    until("it is told of", async || all(&cluster).await.pop()).await;
    let gone = namespaces.delete(NAMESPACE, &DeleteParams::default()).await;
    gone.unwrap();
    let before = cluster.log().mark();
    process.logout(1);
    process.end().await;
    let asked = cluster.log().since(&before).to_string();
    assert!(asked.lines().count() < 4, "{asked}");
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ssh_session_is_listed_and_ended_with_a_reason() {
    let cluster = cluster().await;
    let reporter = Reporter::new(Instance::new(7, None), ReportLimits::default());
    let bed = Bed::reported(reporter.clone()).await;
    let stop = CancellationToken::new();
    let running = run(&reporter, &cluster.client(), bed.sessions.clone(), &stop);
    let _guest = bed.machine("web").await;
    let mut command = bed.with_key("ssh");
    command.args(["web@127.0.0.1", "echo in; sleep 60"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    tokio::task::spawn_blocking(move || stdout.read_exact(&mut [0; 3]).unwrap())
        .await
        .unwrap();
    let told = until("it is told of", async || all(&cluster).await.pop()).await;
    assert!(told.spec.client.clone().unwrap().contains("OpenSSH"));
    let name = told.metadata.name.clone().unwrap();
    let number = u64::try_from(told.spec.number).unwrap();
    assert!(Live::is_there(&bed.sessions, number));
    assert!(!Live::is_there(&bed.sessions, number + 1));
    wish(&cluster, &name, "the VM is rebuilt").await;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("ended by root: the VM is rebuilt"), "{said}");
    let ended = until("its end is told of", async || {
        api(&cluster).get(&name).await.unwrap().spec.ended
    })
    .await;
    assert!(ended.why.contains("the VM is rebuilt"), "{}", ended.why);
    assert!(!Live::is_there(&bed.sessions, number));
    assert_eq!(ended.bytes_down, Some(3));
    let last = api(&cluster).get(&name).await.unwrap();
    assert_eq!(last.spec.client, told.spec.client);
    stop.cancel();
    running.await.unwrap();
}
