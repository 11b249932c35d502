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

mod ledger;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::cluster::{Cluster, ClusterError, FieldManager, ObjectKey};
use kite_core::connections::{BEAT_EVERY, Instance, object};
use kite_core::crd::{ConnectedVm, ConnectionKind, EndWish, KiteConnection, KiteConnectionSpec};
use kite_core::names;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::ledger::ReportLimits;
use self::ledger::{Due, Ledger, Sent};
use self::metrics::Metrics;
use crate::audit::{AuditSink, Event, Record};
use crate::sessions::Sessions;

/// Writes under way at a time.
const PARALLEL: usize = 8;
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after the API server was away it is tried again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these times.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long the last reports may take when the process ends.
const LAST: Duration = Duration::from_secs(10);

/// The connections of a process while they last.
pub trait Live: Send + Sync + 'static {
    /// What the client of a connection calls itself, if that is known.
    fn client(&self, number: u64) -> Option<String>;

    /// Ends a connection, because somebody wants that.
    fn end(&self, number: u64, wish: &EndWish);
}

impl Live for Sessions {
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

    /// Reports to `cluster` until `shutdown`, and then what is left; what is open
    /// by then counts as ended with the process. `wishes` are the events of a watch
    /// on the objects of this process ([`watch_connections`]); `namespace` is where the
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
        let wishes = async {
            let mut wishes = std::pin::pin!(wishes);
            while let Some(event) = wishes.next().await {
                writer.hear(event);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = wishes => {}
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
    watcher(Api::<KiteConnection>::all(client), config).default_backoff()
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
            Event::Recording { name, .. } => ledger.recorded(number, name),
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
        }
    }
}

struct Writer<C, L> {
    shared: Arc<Shared>,
    cluster: C,
    namespace: String,
    live: L,
}

impl<C: Cluster, L: Live> Writer<C, L> {
    /// Takes in what is heard of the objects of this process.
    fn hear(&self, event: Result<WatchEvent<KiteConnection>, watcher::Error>) {
        let connection = match event {
            Ok(WatchEvent::Apply(it) | WatchEvent::InitApply(it)) => it,
            Ok(WatchEvent::Init | WatchEvent::InitDone | WatchEvent::Delete(_)) => return,
            Err(error) => {
                tracing::warn!(%error, "the watch on connections failed and is started again");
                return;
            }
        };
        let spec = &connection.spec;
        let Ok(number) = u64::try_from(spec.number) else {
            return;
        };
        if spec.instance != self.shared.instance.id() || !self.shared.ledger.lock().is_live(number)
        {
            return;
        }
        if let Some(wish) = &spec.end {
            tracing::info!(number, by = wish.by, "a connection is ended by request");
            self.live.end(number, wish);
        }
        if spec.ended.is_some() {
            self.shared.ledger.lock().revived(number);
            self.shared.changed.notify_one();
        }
    }

    /// Writes what is due until `shutdown`, and then what is left.
    async fn write_all(&self, shutdown: &CancellationToken) {
        let shared = &self.shared;
        let (mut beat, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let now = Instant::now();
            let is_anybody_there = shared.ledger.lock().live().next().is_some();
            let mut answered = Answered::All;
            // First, lest somebody takes what is written next for abandoned.
            if is_anybody_there && beat <= now {
                if self.beat().await == Sent::Lost {
                    answered = Answered::None;
                } else {
                    beat = now + BEAT_EVERY;
                }
            }
            if answered == Answered::All {
                self.ask_for_clients();
                let due = shared.ledger.lock().due(PARALLEL * 4, Instant::now());
                answered = self.send(due).await;
            }
            if answered != Answered::None {
                pause = FIRST_PAUSE;
            }
            let now = Instant::now();
            let is_away = answered != Answered::All;
            let next = if is_away {
                let next = now + pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                Some(next)
            } else {
                let due = shared.ledger.lock().next(now);
                let beat = is_anybody_there.then_some(beat);
                due.into_iter().chain(beat).min()
            };
            shared.count();
            let sleep = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = sleep => {}
                // What happens while the API server is away does not bring it back.
                () = shared.changed.notified(), if !is_away => {}
            }
        }
        if tokio::time::timeout(LAST, self.write_last()).await.is_err() {
            let left = shared.ledger.lock().waiting();
            tracing::warn!(left, "ends of connections are not reported in time");
        }
    }

    /// A login is told of before its client has said what it is.
    fn ask_for_clients(&self) {
        let nameless: Vec<_> = self.shared.ledger.lock().nameless().collect();
        for number in nameless {
            if let Some(client) = self.live.client(number) {
                self.shared.ledger.lock().client_is(number, &client);
            }
        }
    }

    /// Writes what is left as the process ends.
    async fn write_last(&self) {
        let shared = &self.shared;
        let why = "the server went down";
        let now = Instant::now();
        shared.ledger.lock().all_ended(Timestamp::now(), why, now);
        while !shared.ledger.lock().is_empty() {
            let last = shared.ledger.lock().last(PARALLEL * 4);
            let is_stuck = last.is_empty();
            if self.send(last).await != Answered::All || is_stuck {
                tokio::time::sleep(FIRST_PAUSE).await;
            }
        }
    }

    async fn beat(&self) -> Sent {
        let lease = self
            .shared
            .instance
            .heartbeat(&self.namespace, Timestamp::now());
        let writing = self.cluster.apply(FieldManager::GATEWAY, &lease);
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(_)) => Sent::Taken,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the heartbeat of this process cannot be written");
                what_came_of(&error)
            }
            Err(_) => Sent::Lost,
        }
    }

    /// Writes, and says what the API server answered.
    async fn send(&self, due: Vec<Due>) -> Answered {
        let sending = due
            .into_iter()
            .map(|due| async move { (self.send_one(&due).await, due) });
        let sent: Vec<_> = stream::iter(sending)
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let now = Instant::now();
        let (mut lost, mut heard) = (false, false);
        for (sent, due) in sent {
            lost |= sent == Sent::Lost;
            heard |= sent != Sent::Lost;
            self.shared.metrics.sent(sent);
            if self.shared.ledger.lock().sent(&due, sent, now) {
                self.shared.metrics.left_out.inc();
            }
        }
        match (lost, heard) {
            (false, _) => Answered::All,
            (true, true) => Answered::Some,
            (true, false) => Answered::None,
        }
    }

    async fn send_one(&self, due: &Due) -> Sent {
        let object = object(&due.namespace, due.spec.clone());
        let writing = async {
            if due.is_revived {
                let key = ObjectKey::namespaced(
                    &due.namespace,
                    names::connection(&due.spec.instance, due.spec.number),
                );
                // Whoever said so owns that field: leaving it out does not take it back.
                let patch = json!({"spec": {"ended": null}});
                self.cluster
                    .edit::<KiteConnection>(FieldManager::GATEWAY, &key, &patch)
                    .await?;
            }
            self.cluster.apply(FieldManager::GATEWAY, &object).await
        };
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(_)) => Sent::Taken,
            Ok(Err(error)) => {
                let number = due.number;
                tracing::warn!(number, %error, "a connection cannot be reported");
                what_came_of(&error)
            }
            Err(_) => Sent::Lost,
        }
    }
}

/// How much of what was asked the API server answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answered {
    All,
    Some,
    None,
}

fn what_came_of(error: &ClusterError) -> Sent {
    match error {
        ClusterError::NotFound { .. } => Sent::NoPlace,
        ClusterError::Invalid { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::Conflict { .. }
        | ClusterError::AlreadyExists { .. }
        | ClusterError::Unreadable { .. } => Sent::Refused,
        ClusterError::Unavailable { .. }
        | ClusterError::HeldBack { .. }
        | ClusterError::Other { .. } => Sent::Lost,
    }
}

impl Shared {
    fn count(&self) {
        let waiting = self.ledger.lock().waiting();
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.metrics.waiting.set(waiting);
    }
}
