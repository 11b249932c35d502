//! A process that reports its connections, before the in-memory cluster.

use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kite_core::cluster::KubeCluster;
use kite_core::connections::Instance;
use kite_core::crd::{EndWish, KiteConnection};
use kite_core::names;
use kite_fake::FakeCluster;
use kite_gateway::audit::{Event, Record};
use kite_gateway::kubernetes::{Live, ReportLimits, Reporter, watch_connections};
use kite_gateway::{AuditSink as _, LoginName, VmKey};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub(crate) const NAMESPACE: &str = "kite-user-ann";

pub(crate) async fn cluster() -> FakeCluster {
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
pub(crate) struct Hanging {
    pub(crate) client: Client,
    pub(crate) hangs: Arc<AtomicBool>,
}

impl Hanging {
    pub(crate) fn before(cluster: &FakeCluster) -> Self {
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

    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }
}

/// What was asked to end, and what is not there.
#[derive(Clone, Default)]
pub(crate) struct Asked(
    pub(crate) Arc<Mutex<Vec<(u64, EndWish)>>>,
    pub(crate) Arc<Mutex<HashSet<u64>>>,
);

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
pub(crate) struct Process {
    pub(crate) reporter: Reporter,
    pub(crate) asked: Asked,
    pub(crate) running: JoinHandle<()>,
    pub(crate) stop: CancellationToken,
}

impl Process {
    pub(crate) fn new(id: u64, limits: ReportLimits, client: &Client) -> Self {
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

    pub(crate) fn login(&self, connection: u64) {
        self.reporter.record(&login(connection));
    }

    pub(crate) fn logout(&self, connection: u64) {
        self.reporter.record(&logout(connection));
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

pub(crate) fn record(connection: u64, event: Event) -> Record {
    Record {
        time: Timestamp::now(),
        connection,
        peer: "192.0.2.7:5000".parse().unwrap(),
        event,
    }
}

pub(crate) fn login(connection: u64) -> Record {
    record(
        connection,
        Event::Login {
            login: LoginName::parse("web"),
            method: "publickey",
            key: None,
            certificate: None,
            accepted: true,
            partial: false,
            unchecked: false,
            vm: Some(vm()),
            uid: Some("uid-1".to_owned()),
            owner: Some("ann".to_owned()),
        },
    )
}

pub(crate) fn logout(connection: u64) -> Record {
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

pub(crate) fn run(
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

pub(crate) fn vm() -> VmKey {
    VmKey {
        namespace: NAMESPACE.to_owned(),
        name: "web".to_owned(),
    }
}

pub(crate) fn api(cluster: &FakeCluster) -> Api<KiteConnection> {
    Api::namespaced(cluster.client(), NAMESPACE)
}

pub(crate) async fn all(cluster: &FakeCluster) -> Vec<KiteConnection> {
    let list = api(cluster).list(&ListParams::default()).await;
    list.unwrap().items
}

pub(crate) async fn delete(cluster: &FakeCluster, name: &str) {
    let deleted = api(cluster).delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
}

pub(crate) async fn find(cluster: &FakeCluster, name: &str) -> Option<KiteConnection> {
    api(cluster).get_opt(name).await.unwrap()
}

pub(crate) async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = check().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

pub(crate) async fn wish(cluster: &FakeCluster, name: &str, reason: &str) {
    let end = json!({"by": "root", "reason": reason, "at": "2026-01-01T00:00:00Z"});
    let patch = Patch::Merge(json!({"spec": {"end": end}}));
    let patched = api(cluster)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

pub(crate) fn writes(cluster: &FakeCluster) -> u64 {
    let log = cluster.log();
    ["patch", "create", "update", "delete"]
        .iter()
        .map(|verb| log.count(verb, "kiteconnections.hy3ons.github.io"))
        .sum()
}
