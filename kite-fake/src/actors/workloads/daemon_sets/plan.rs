//! Which Pods of a `DaemonSet` come and go.

use std::collections::{BTreeMap, BTreeSet};
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
        let surges = self.surge() > 0;
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
            // One is enough; while one takes the place of another, one of each.
            let alive = alive.into_iter().filter(|it| !is_deleting(it));
            if surges {
                let (newest, old): (Vec<_>, Vec<_>) = alive.partition(|it| self.is_newest(it));
                let surplus = newest.into_iter().skip(1).chain(old.into_iter().skip(1));
                plan.delete.extend(surplus.cloned());
            } else {
                plan.delete.extend(alive.skip(1).cloned());
            }
        }
        let known = self
            .nodes
            .iter()
            .filter_map(|it| it.metadata.name.as_deref());
        let known: BTreeSet<&str> = known.collect();
        let stray = self
            .pods
            .iter()
            .filter(|(node, _)| !known.contains(node.as_str()));
        let stray = stray
            .flat_map(|(_, pods)| pods)
            .filter(|it| !is_deleting(it));
        plan.delete.extend(stray.cloned());
        if plan == Plan::default() && self.spec["updateStrategy"]["type"] != "OnDelete" {
            plan = self.roll();
        }
        plan
    }

    /// The nodes that are to have a Pod.
    fn wanting(&self) -> Vec<&'a Found> {
        let wanting = self.stands().filter(|(_, stand)| stand.wants);
        wanting.map(|(node, _)| node).collect()
    }

    fn share(&self, member: &str) -> Option<i64> {
        let said = &self.spec["updateStrategy"]["rollingUpdate"][member];
        share(
            said,
            i64::try_from(self.wanting().len()).unwrap_or_default(),
            up,
        )
    }

    /// On how many nodes a newer Pod may come before the older one goes.
    fn surge(&self) -> usize {
        let surge = self.share("maxSurge").unwrap_or_default();
        usize::try_from(surge).unwrap_or_default()
    }

    /// A step to the newest template.
    fn roll(&self) -> Plan {
        match self.surge() {
            0 => Plan {
                delete: self.replaced(),
                ..Plan::default()
            },
            most => self.surged(most),
        }
    }

    /// Pods of older templates that go first: those that are not available anyway, and as
    /// many others as may be missing.
    fn replaced(&self) -> Vec<Found> {
        let wanting = self.wanting();
        let has_one = |node: &&&Found| self.on(node).iter().any(|pod| self.is_available(pod));
        let missing = wanting.len() - wanting.iter().filter(has_one).count();
        let most = self.share("maxUnavailable").unwrap_or(1).max(1);
        let room = usize::try_from(most)
            .unwrap_or_default()
            .saturating_sub(missing);
        let old = self.pods.values().flatten();
        let old = old.filter(|pod| !self.is_newest(pod) && !is_deleting(pod));
        let (available, sick): (Vec<&Found>, Vec<&Found>) =
            old.partition(|it| self.is_available(it));
        sick.into_iter()
            .chain(available.into_iter().take(room))
            .cloned()
            .collect()
    }

    /// Newer Pods come first, on so many nodes at a time; the older one goes once the newer
    /// one is available, or if it is not available itself.
    fn surged(&self, most: usize) -> Plan {
        let mut plan = Plan::default();
        let (mut candidates, mut under_way) = (Vec::new(), 0);
        for node in self.wanting() {
            let name = node.metadata.name.clone().unwrap_or_default();
            let alive = self.on(node).iter().filter(|it| !is_deleting(it));
            let (newest, old): (Vec<&Found>, Vec<&Found>) =
                alive.partition(|it| self.is_newest(it));
            match (newest.first(), old.first()) {
                (_, None) => {}
                (None, Some(old)) if !self.is_available(old) => plan.create.push(name),
                (None, Some(_)) => candidates.push(name),
                (Some(newest), Some(old)) => {
                    under_way += 1;
                    if self.is_available(newest) || !self.is_available(old) {
                        plan.delete.push(Found::clone(old));
                    }
                }
            }
        }
        let room = most.saturating_sub(under_way);
        plan.create.extend(candidates.into_iter().take(room));
        plan
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
