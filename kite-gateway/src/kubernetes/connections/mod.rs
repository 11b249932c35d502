//! Reports who is connected to VMs, as a [`KiteConnection`] each, and ends those that
//! somebody wants to end: however many gateways there are, all of their connections
//! are seen in one place, and ended from there.
//!
//! [`Reporter`] takes audit records and never waits, so that nothing of this is in a
//! login's way; [`Reporter::run`] writes. How much is written has a bound
//! ([`ReportLimits`]); what is beyond is counted and left to the audit log. While the
//! API server is away everything waits, and then the latest state is written.
//!
//! While connections are open, a heartbeat shows that this process is there: where it
//! dies, somebody else says that they are over (the HTTP API does). One that was only
//! cut off takes that back.
//!
//! | Module | What |
//! |---|---|
//! | `ledger` | what is to be written, and when it may be |
//! | `turns` | who is first |
//! | `writer` | hears and writes |

mod ledger;
mod metrics;
mod turns;
mod writer;

use std::sync::Arc;

use futures::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::cluster::Cluster;
use kite_core::connections::Instance;
use kite_core::crd::{ConnectedVm, ConnectionKind, EndWish, KiteConnection, KiteConnectionSpec};
use kite_core::watch_backoff::WatchBackoff;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::ledger::Ledger;
pub use self::ledger::ReportLimits;
use self::metrics::Metrics;
use self::writer::Writer;
use crate::audit::{AuditSink, Event, Record};
use crate::sessions::Sessions;

/// The connections of a process while they last.
pub trait Live: Send + Sync + 'static {
    /// Whether there is such a connection now: it must be there before it is recorded
    /// that it was opened, and until that it has ended is about to be.
    fn is_there(&self, number: u64) -> bool;

    /// What the client of a connection calls itself, if that is known.
    fn client(&self, number: u64) -> Option<String>;

    /// Ends a connection, because somebody wants that.
    fn end(&self, number: u64, wish: &EndWish);
}

impl Live for Sessions {
    fn is_there(&self, number: u64) -> bool {
        self.has(number)
    }

    fn client(&self, number: u64) -> Option<String> {
        self.client_of(number)
    }

    fn end(&self, number: u64, wish: &EndWish) {
        self.end_for(number, &wish.by, &wish.reason);
    }
}

/// Takes records of connections, and reports them. Clones share everything.
#[derive(Clone)]
pub struct Reporter {
    shared: Arc<Shared>,
}

struct Shared {
    instance: Instance,
    ledger: Mutex<Ledger>,
    changed: Notify,
    metrics: Metrics,
}

impl Reporter {
    /// For the connections of the process `instance`.
    pub fn new(instance: Instance, limits: ReportLimits) -> Self {
        Self {
            shared: Arc::new(Shared {
                instance,
                ledger: Mutex::new(Ledger::new(limits, Instant::now())),
                changed: Notify::new(),
                metrics: Metrics::default(),
            }),
        }
    }

    /// For the connections of this process, which has just been started and which
    /// people know as `server`, such as the name of its pod.
    pub fn of_process(server: Option<String>) -> Self {
        let instance = Instance::new(rand::random(), server);
        Self::new(instance, ReportLimits::default())
    }

    /// The process whose connections these are.
    pub fn instance(&self) -> &Instance {
        &self.shared.instance
    }

    /// Adds what is counted to a registry, each under `kite_connections_`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Reports to `cluster` until `shutdown`, and then what is left: for 22 seconds
    /// at most while that is taken, and for ten if nothing is. What is open by then
    /// counts as ended with the process. `wishes` are the events of a watch on the
    /// objects of this process ([`watch_connections`]); `namespace` is where the
    /// heartbeat lies. For one task.
    pub async fn run<C: Cluster>(
        self,
        cluster: C,
        namespace: String,
        wishes: impl Stream<Item = Result<WatchEvent<KiteConnection>, watcher::Error>> + Send,
        live: impl Live,
        shutdown: CancellationToken,
    ) {
        let writer = Writer {
            shared: self.shared,
            cluster,
            namespace,
            live,
        };
        tokio::select! {
            () = writer.hear_all(wishes) => {}
            () = writer.write_all(&shutdown) => {}
        }
    }
}

/// The events of a watch on the objects of a process' connections.
pub fn watch_connections(
    client: Client,
    instance: &Instance,
) -> impl Stream<Item = Result<WatchEvent<KiteConnection>, watcher::Error>> + Send + use<> {
    let config = watcher::Config::default().labels(&instance.selector());
    watcher(Api::<KiteConnection>::all(client), config).backoff(WatchBackoff::default())
}

impl AuditSink for Reporter {
    fn record(&self, record: &Record) {
        let shared = &self.shared;
        let (number, now) = (record.connection, Instant::now());
        let mut ledger = shared.ledger.lock();
        match &record.event {
            Event::Login {
                accepted: true,
                login: Some(login),
                vm: Some(vm),
                uid: Some(uid),
                owner: Some(owner),
                ..
            } => {
                let spec = shared.spec(record, &vm.name, uid, owner, login.as_str());
                if !ledger.opened(number, &vm.namespace, spec, now) {
                    shared.metrics.left_out.inc();
                }
            }
            Event::Recording { name, .. } => ledger.recorded(number, name, now),
            Event::Channel {
                bytes_up,
                bytes_down,
                ..
            } => ledger.carried(number, *bytes_up, *bytes_down),
            Event::Connection { client, ended, .. } => {
                if let Some(client) = client {
                    ledger.client_is(number, client);
                }
                ledger.ended(number, record.time, ended, now);
            }
            Event::Console {
                user,
                vm,
                uid,
                owner,
                kind,
                what,
                bytes_up,
                bytes_down,
                why,
                ..
            } => match *what {
                "opened" => {
                    let mut spec = shared.spec(record, &vm.name, uid, owner, user);
                    spec.kind = match *kind {
                        "Serial" => ConnectionKind::Serial,
                        "Vnc" => ConnectionKind::Vnc,
                        _ => ConnectionKind::Terminal,
                    };
                    if !ledger.opened(number, &vm.namespace, spec, now) {
                        shared.metrics.left_out.inc();
                    }
                }
                "ended" => {
                    ledger.carried(number, *bytes_up, *bytes_down);
                    let why = why.as_deref().unwrap_or_default();
                    ledger.ended(number, record.time, why, now);
                }
                _ => return,
            },
            Event::Login { .. } => return,
        }
        drop(ledger);
        shared.changed.notify_one();
    }
}

impl Shared {
    fn spec(
        &self,
        record: &Record,
        vm: &str,
        uid: &str,
        owner: &str,
        login: &str,
    ) -> KiteConnectionSpec {
        let address = record.peer.ip();
        KiteConnectionSpec {
            vm: ConnectedVm {
                name: vm.to_owned(),
                uid: uid.to_owned(),
            },
            owner: owner.to_owned(),
            login: login.to_owned(),
            kind: ConnectionKind::Ssh,
            peer: (!address.is_unspecified()).then(|| address.to_canonical().to_string()),
            client: None,
            instance: self.instance.id().to_owned(),
            server: self.instance.server().map(str::to_owned),
            number: i64::try_from(record.connection).unwrap_or(i64::MAX),
            opened_at: Time(record.time),
            recordings: Vec::new(),
            end: None,
            ended: None,
            earlier: None,
        }
    }

    fn count(&self) {
        let waiting = self.ledger.lock().waiting();
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.metrics.waiting.set(waiting);
    }
}
