//! Reports when VMs are used, so that those that nobody uses can be switched
//! off: see [`kite_core::activity`].
//!
//! A login is reported at once; what follows is put together, so that there is
//! one write per VM in [`REPORT_EVERY`] at most. Only VMs with an idle timeout
//! are reported.

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kite_core::activity::{REPORT_EVERY, report};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ending::{self, LAST, LAST_PATIENCE};
use super::table::RouteTable;
use crate::sessions::{Machine, Sessions};

/// How long after a report that failed it is tried again.
const RETRY: Duration = Duration::from_secs(15);
/// How long one report may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reports under way at a time.
const PARALLEL: usize = 8;

/// Reports the use of VMs through `client` until `shutdown`, and once more then, for
/// ten seconds at most. `table` says which VMs have an idle timeout.
pub async fn report_activity(
    client: Client,
    table: RouteTable,
    sessions: Sessions,
    shutdown: CancellationToken,
) {
    let mut reports = Reports {
        client,
        table,
        sessions,
        uses: Uses::default(),
    };
    ending::until(&shutdown, reports.report_until(&shutdown)).await;
    let last = reports.report_last();
    if tokio::time::timeout(LAST, last).await.is_err() {
        tracing::warn!("the last use of VMs is not reported in time");
    }
}

struct Reports {
    client: Client,
    table: RouteTable,
    sessions: Sessions,
    uses: Uses,
}

impl Reports {
    /// Reports what is due, and begins nothing more after `shutdown`.
    async fn report_until(&mut self, shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            self.look();
            let due = self.uses.due(Instant::now());
            self.send_all(due, PATIENCE, shutdown.cancelled()).await;
            let now = Instant::now();
            self.uses.forget(now);
            // An open session is use without any event.
            let next = self.uses.next(now).unwrap_or(now + REPORT_EVERY);
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.sessions.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Reports what is left as the process ends.
    async fn report_last(&mut self) {
        self.look();
        let all = self.uses.all();
        let for_ever = std::future::pending();
        self.send_all(all, LAST_PATIENCE, for_ever).await;
    }

    fn look(&mut self) {
        for (machine, at) in self.sessions.uses(Timestamp::now()) {
            if self.table.stops_when_idle(&machine.vm, &machine.uid) {
                self.uses.note(machine, at);
            }
        }
    }

    /// Sends reports, each for `patience` at most. None is begun after `stop`.
    async fn send_all(
        &mut self,
        due: Vec<(Machine, Timestamp)>,
        patience: Duration,
        stop: impl Future<Output = ()>,
    ) {
        let client = &self.client;
        let sending = due.into_iter().map(|(machine, at)| async move {
            (send(client, &machine, at, patience).await, machine, at)
        });
        let sending = stream::iter(sending).take_until(stop);
        let mut sent = std::pin::pin!(sending.buffer_unordered(PARALLEL));
        while let Some((sent, machine, at)) = sent.next().await {
            self.uses.sent(machine, at, sent, Instant::now());
        }
    }
}

/// Writes one report; whether it was taken.
async fn send(client: &Client, machine: &Machine, at: Timestamp, patience: Duration) -> bool {
    let vm = &machine.vm;
    let lease = report(&vm.namespace, &vm.name, &machine.uid, at);
    let api: Api<Lease> = Api::namespaced(client.clone(), &vm.namespace);
    let params = PatchParams::apply(kite_core::managers::GATEWAY.as_str()).force();
    let name = lease.name_any();
    let patch = Patch::Apply(&lease);
    match tokio::time::timeout(patience, api.patch(&name, &params, &patch)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::warn!(%vm, %error, "the use of a VM cannot be reported");
            false
        }
        Err(_) => {
            tracing::warn!(%vm, "the use of a VM cannot be reported in time");
            false
        }
    }
}

/// What is to be reported, and when it may be. No clock, no I/O.
#[derive(Default)]
struct Uses {
    machines: HashMap<Machine, Use>,
}

#[derive(Default)]
struct Use {
    /// Not reported yet.
    pending: Option<Timestamp>,
    /// Not before that it is reported.
    not_before: Option<Instant>,
}

impl Uses {
    fn note(&mut self, machine: Machine, at: Timestamp) {
        let pending = &mut self.machines.entry(machine).or_default().pending;
        *pending = (*pending).max(Some(at));
    }

    /// All that is to be reported now.
    fn due(&self, now: Instant) -> Vec<(Machine, Timestamp)> {
        self.pending(|not_before| not_before.is_none_or(|at| at <= now))
    }

    /// All that was not reported yet.
    fn all(&self) -> Vec<(Machine, Timestamp)> {
        self.pending(|_| true)
    }

    fn pending(&self, may: impl Fn(Option<Instant>) -> bool) -> Vec<(Machine, Timestamp)> {
        let due = self.machines.iter().filter(|(_, it)| may(it.not_before));
        due.filter_map(|(machine, it)| Some((machine.clone(), it.pending?)))
            .collect()
    }

    /// Takes in what came of a report.
    fn sent(&mut self, machine: Machine, at: Timestamp, taken: bool, now: Instant) {
        let it = self.machines.entry(machine).or_default();
        it.not_before = Some(now + if taken { REPORT_EVERY } else { RETRY });
        if taken && it.pending == Some(at) {
            it.pending = None;
        }
    }

    /// When something may be reported that may not be now.
    fn next(&self, now: Instant) -> Option<Instant> {
        let times = self.machines.values().filter_map(|it| it.not_before);
        times.filter(|at| *at > now).min()
    }

    /// Drops what says nothing any more.
    fn forget(&mut self, now: Instant) {
        self.machines
            .retain(|_, it| it.pending.is_some() || it.not_before.is_some_and(|at| at > now));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::convert::Infallible;

    use http::{Request, Response};
    use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
    use kube::client::Body;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::route::VmKey;

    fn machine(name: &str) -> Machine {
        Machine {
            vm: VmKey {
                namespace: "kite-user-ann".to_owned(),
                name: name.to_owned(),
            },
            uid: "1".to_owned(),
        }
    }

    fn web() -> Machine {
        machine("web")
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_does_not_keep_the_process_from_ending() {
        let hanging = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let client = Client::new(hanging, "default");
        let (table, sessions) = (RouteTable::default(), Sessions::default());
        for number in 0..60 {
            let name = format!("vm-{number}");
            let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
            let mut spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian", &*name);
            spec.idle_timeout = Some("1h".parse().unwrap());
            let mut vm = KiteVirtualMachine::new(&name, spec);
            vm.metadata.namespace = Some("kite-user-ann".to_owned());
            vm.metadata.uid = Some("1".to_owned());
            table.vm(Event::Apply(vm));
            sessions.note_use(machine(&name), at(0));
        }
        let shutdown = CancellationToken::new();
        let reports = report_activity(client, table, sessions.clone(), shutdown.clone());
        let reports = tokio::spawn(reports);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(sessions.uses(at(1)).is_empty(), "they are being reported");
        shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(12), reports).await;
        assert!(ended.is_ok(), "it still waits");
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::constant(second, 0)
    }

    #[test]
    fn a_login_is_reported_at_once_and_what_follows_together() {
        let (mut uses, start) = (Uses::default(), Instant::now());
        uses.note(web(), at(0));
        assert_eq!(uses.due(start), [(web(), at(0))]);
        uses.sent(web(), at(0), true, start);
        for second in 1..200 {
            uses.note(web(), at(second));
            assert_eq!(uses.due(start + Duration::from_secs(200)), []);
        }
        // What came last is what counts.
        assert_eq!(uses.next(start), Some(start + REPORT_EVERY));
        assert_eq!(uses.due(start + REPORT_EVERY), [(web(), at(199))]);
    }

    #[test]
    fn a_report_that_failed_is_not_lost() {
        let (mut uses, start) = (Uses::default(), Instant::now());
        uses.note(web(), at(0));
        uses.sent(web(), at(0), false, start);
        assert_eq!(uses.due(start), []);
        uses.forget(start + RETRY);
        assert_eq!(uses.due(start + RETRY), [(web(), at(0))]);
        // What happened while it was under way is reported next time.
        uses.note(web(), at(9));
        uses.sent(web(), at(0), true, start + RETRY);
        assert_eq!(uses.all(), [(web(), at(9))]);
    }

    #[test]
    fn what_is_not_used_any_more_is_forgotten() {
        let (mut uses, start) = (Uses::default(), Instant::now());
        uses.note(web(), at(0));
        uses.sent(web(), at(0), true, start);
        uses.forget(start + REPORT_EVERY);
        assert!(uses.machines.is_empty());
    }
}
