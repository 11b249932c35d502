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
use kite_core::cluster::FieldManager;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::table::RouteTable;
use crate::sessions::{Machine, Sessions};

/// How long after a report that failed it is tried again.
const RETRY: Duration = Duration::from_secs(15);
/// How long one report may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reports under way at a time.
const PARALLEL: usize = 8;

/// Reports the use of VMs through `client` until `shutdown`, and once more then.
/// `table` says which VMs have an idle timeout.
pub async fn report_activity(
    client: Client,
    table: RouteTable,
    sessions: Sessions,
    shutdown: CancellationToken,
) {
    let mut uses = Uses::default();
    let mut last_round = false;
    loop {
        for (machine, at) in sessions.uses(Timestamp::now()) {
            if table.stops_when_idle(&machine.vm, &machine.uid) {
                uses.note(machine, at);
            }
        }
        let now = Instant::now();
        let due = if last_round {
            uses.all()
        } else {
            uses.due(now)
        };
        let sent = stream::iter(due)
            .map(|(machine, at)| {
                let client = client.clone();
                async move { (send(client, &machine, at).await, machine, at) }
            })
            .buffer_unordered(PARALLEL)
            .collect::<Vec<_>>()
            .await;
        let now = Instant::now();
        for (sent, machine, at) in sent {
            uses.sent(machine, at, sent, now);
        }
        if last_round {
            return;
        }
        uses.forget(now);
        // An open session is use without any event.
        let next = uses.next(now).unwrap_or(now + REPORT_EVERY);
        tokio::select! {
            () = shutdown.cancelled() => last_round = true,
            () = sessions.changed() => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Writes one report; whether it was taken.
async fn send(client: Client, machine: &Machine, at: Timestamp) -> bool {
    let vm = &machine.vm;
    let lease = report(&vm.namespace, &vm.name, &machine.uid, at);
    let api: Api<Lease> = Api::namespaced(client, &vm.namespace);
    let params = PatchParams::apply(FieldManager::GATEWAY.as_str()).force();
    let name = lease.name_any();
    let patch = Patch::Apply(&lease);
    match tokio::time::timeout(PATIENCE, api.patch(&name, &params, &patch)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::warn!(%vm, %error, "the use of a VM cannot be reported, will be tried again");
            false
        }
        Err(_) => {
            tracing::warn!(%vm, "the use of a VM cannot be reported in time, will be tried again");
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
    use super::*;
    use crate::route::VmKey;

    fn web() -> Machine {
        Machine {
            vm: VmKey {
                namespace: "kite-user-ann".to_owned(),
                name: "web".to_owned(),
            },
            uid: "1".to_owned(),
        }
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
