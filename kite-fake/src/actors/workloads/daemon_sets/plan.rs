//! Which Pods of a `DaemonSet` come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::nodes::{Stand, stand};
use crate::actors::mirror::Found;
use crate::actors::objects::is_deleting;
use crate::actors::workloads::pod_state::{available_in, is_over, is_ready};
use crate::actors::workloads::revisions::HASH;
use crate::actors::workloads::shares::{share, up};

/// A `DaemonSet` and the nodes there are.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) spec: &'a Value,
    pub(super) nodes: &'a [Found],
    /// Its Pods by their node.
    pub(super) pods: &'a BTreeMap<String, Vec<Found>>,
    /// The label of those of the newest template.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes that get a Pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Found>,
}

impl<'a> View<'a> {
    fn on(&self, node: &DynamicObject) -> &'a [Found] {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.pods.get(name).map_or(&[], Vec::as_slice)
    }

    fn stands(&self) -> impl Iterator<Item = (&'a Found, Stand)> {
        let spec = &self.spec["template"]["spec"];
        self.nodes.iter().map(move |node| (node, stand(spec, node)))
    }

    fn wait(&self, pod: &Found) -> Option<Duration> {
        let minimum = self.spec["minReadySeconds"].as_i64().unwrap_or_default();
        available_in(pod, minimum, self.now)
    }

    fn is_available(&self, pod: &Found) -> bool {
        !is_deleting(pod) && self.wait(pod) == Some(Duration::ZERO)
    }

    fn is_newest(&self, pod: &DynamicObject) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels
            .and_then(|it| it.get(HASH))
            .is_some_and(|it| it == self.hash)
    }

    /// When to look again whether a Pod is available.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let waits = self
            .pods
            .values()
            .flatten()
            .filter_map(|pod| self.wait(pod));
        waits.filter(|wait| !wait.is_zero()).min()
    }

    /// What is to be done now.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        for (node, stand) in self.stands() {
            let name = node.metadata.name.clone().unwrap_or_default();
            let pods = self.on(node);
            if !stand.keeps {
                plan.delete
                    .extend(pods.iter().filter(|it| !is_deleting(it)).cloned());
                continue;
            }
            let (over, alive): (Vec<&Found>, Vec<&Found>) = pods.iter().partition(|it| is_over(it));
            let over = over.into_iter().filter(|it| !is_deleting(it));
            plan.delete.extend(over.cloned());
            if pods.is_empty() && stand.wants {
                plan.create.push(name);
            }
            // One is enough.
            let surplus = alive.into_iter().filter(|it| !is_deleting(it)).skip(1);
            plan.delete.extend(surplus.cloned());
        }
        let known = |name: &str| {
            self.nodes
                .iter()
                .any(|it| it.metadata.name.as_deref() == Some(name))
        };
        let stray = self.pods.iter().filter(|(node, _)| !known(node));
        let stray = stray
            .flat_map(|(_, pods)| pods)
            .filter(|it| !is_deleting(it));
        plan.delete.extend(stray.cloned());
        if plan == Plan::default() && self.spec["updateStrategy"]["type"] != "OnDelete" {
            plan.delete = self.roll();
        }
        plan
    }

    /// Pods of older templates, as many as may be missing.
    fn roll(&self) -> Vec<Found> {
        let wanting: Vec<&Found> = self
            .stands()
            .filter(|it| it.1.wants)
            .map(|it| it.0)
            .collect();
        let has_one = |node: &&&Found| self.on(node).iter().any(|pod| self.is_available(pod));
        let missing = wanting.len() - wanting.iter().filter(has_one).count();
        let said = &self.spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        let one = json!(1);
        let said = if said.is_null() { &one } else { said };
        let most = share(said, i64::try_from(wanting.len()).unwrap_or_default(), up).max(1);
        let mut room = usize::try_from(most)
            .unwrap_or_default()
            .saturating_sub(missing);
        let old = self.pods.values().flatten();
        let old = old.filter(|pod| !self.is_newest(pod) && !is_deleting(pod));
        let (available, sick): (Vec<&Found>, Vec<&Found>) =
            old.partition(|it| self.is_available(it));
        let mut gone: Vec<Found> = sick.into_iter().cloned().collect();
        for pod in available {
            if room == 0 {
                break;
            }
            room -= 1;
            gone.push(pod.clone());
        }
        gone
    }

    /// The counts of its status.
    pub(super) fn counts(&self) -> Value {
        let mut counts = Counts::default();
        for (node, stand) in self.stands() {
            let pods = self.on(node);
            let oldest = pods.first();
            if !stand.wants {
                counts.misscheduled += u64::from(oldest.is_some());
                continue;
            }
            counts.desired += 1;
            let Some(pod) = oldest else {
                continue;
            };
            counts.current += 1;
            counts.ready += u64::from(is_ready(pod));
            counts.available += u64::from(is_ready(pod) && self.wait(pod) == Some(Duration::ZERO));
            counts.updated += u64::from(self.is_newest(pod));
        }
        counts.into_value()
    }
}

#[derive(Debug, Default)]
struct Counts {
    desired: u64,
    current: u64,
    misscheduled: u64,
    ready: u64,
    available: u64,
    updated: u64,
}

impl Counts {
    fn into_value(self) -> Value {
        let mut status = json!({
            "currentNumberScheduled": self.current,
            "desiredNumberScheduled": self.desired,
            "numberMisscheduled": self.misscheduled,
            "numberReady": self.ready,
        });
        let others = [
            ("updatedNumberScheduled", self.updated),
            ("numberAvailable", self.available),
            (
                "numberUnavailable",
                self.desired.saturating_sub(self.available),
            ),
        ];
        for (member, count) in others.into_iter().filter(|(_, count)| *count > 0) {
            status[member] = json!(count);
        }
        status
    }
}
