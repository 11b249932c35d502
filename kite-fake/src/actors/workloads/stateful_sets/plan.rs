//! What is to be done about the Pods of a `StatefulSet`, by their numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::member::revision;
use crate::actors::mirror::Found;
use crate::actors::objects::{is_deleting, text};
use crate::actors::workloads::pod_state::{available_in, is_over, is_ready};

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Makes the Pod of this number, of the newest revision or of the one before.
    Create { ordinal: i64, is_newest: bool },
    /// Deletes the Pod.
    Delete(Found),
}

/// A set, as far as its Pods go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The number of the first.
    pub(super) start: i64,
    pub(super) replicas: i64,
    /// One after the other.
    pub(super) is_ordered: bool,
    /// Pods of older revisions are replaced.
    pub(super) is_rolling: bool,
    /// Numbers below this one keep the revision they are of.
    pub(super) partition: i64,
    pub(super) minimum: i64,
    /// The newest revision.
    pub(super) newest: &'a str,
    pub(super) now: Timestamp,
}

impl<'a> Wanted<'a> {
    pub(super) fn of(spec: &Value, newest: &'a str, now: Timestamp) -> Self {
        let number = |value: &Value| value.as_i64().unwrap_or_default();
        let replicas = spec["replicas"].as_i64().unwrap_or(1);
        let start = number(&spec["ordinals"]["start"]);
        let strategy = &spec["updateStrategy"];
        let rolling = &strategy["rollingUpdate"];
        Self {
            start,
            replicas,
            is_ordered: spec["podManagementPolicy"] != "Parallel",
            is_rolling: strategy["type"] != "OnDelete",
            partition: start + number(&rolling["partition"]),
            minimum: number(&spec["minReadySeconds"]),
            newest,
            now,
        }
    }

    pub(super) fn has(self, ordinal: i64) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }

    /// In how long the Pod is available: `None` if that is not to be foreseen.
    fn wait(self, pod: &Found) -> Option<Duration> {
        let runs = text(pod, "/status/phase") == "Running" && is_ready(pod);
        runs.then(|| available_in(pod, self.minimum, self.now))?
    }

    pub(super) fn is_available(self, pod: &Found) -> bool {
        !is_deleting(pod) && self.wait(pod) == Some(Duration::ZERO)
    }

    /// When to look again whether a Pod is available.
    pub(super) fn next_look(self, pods: &BTreeMap<i64, Found>) -> Option<Duration> {
        let waits = pods.values().filter_map(|pod| self.wait(pod));
        waits.filter(|wait| !wait.is_zero()).min()
    }

    /// What is to be done now.
    pub(super) fn plan(self, pods: &BTreeMap<i64, Found>) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.settle(pods, &mut actions) {
            self.roll(pods, &mut actions);
        }
        actions
    }

    /// Brings the Pods to those that are wanted; whether an update may go on.
    fn settle(self, pods: &BTreeMap<i64, Found>, actions: &mut Vec<Action>) -> bool {
        for ordinal in self.start..self.start + self.replicas {
            let is_done = match pods.get(&ordinal) {
                None => {
                    let is_newest = !self.is_rolling || ordinal >= self.partition;
                    actions.push(Action::Create { ordinal, is_newest });
                    false
                }
                Some(pod) if is_over(pod) => {
                    if !is_deleting(pod) {
                        actions.push(Action::Delete(pod.clone()));
                    }
                    false
                }
                Some(pod) => self.is_available(pod),
            };
            if self.is_ordered && !is_done {
                return false;
            }
        }
        let condemned = pods.iter().filter(|(ordinal, _)| !self.has(**ordinal));
        let sick = |(_, pod): &(&i64, &Found)| !self.is_available(pod);
        let first_sick = condemned.clone().find(sick).map(|(ordinal, _)| *ordinal);
        for (ordinal, pod) in condemned.rev() {
            if is_deleting(pod) {
                if self.is_ordered {
                    return false;
                }
                continue;
            }
            let may_go = self.is_available(pod) || first_sick == Some(*ordinal);
            if self.is_ordered && !may_go {
                return false;
            }
            actions.push(Action::Delete(pod.clone()));
            if self.is_ordered {
                return false;
            }
        }
        true
    }

    /// Deletes the Pod of an older revision that has the highest number, be it well or
    /// not, while those above it are of the newest and available. (That several may be
    /// missing is a feature that is off in this release.)
    fn roll(self, pods: &BTreeMap<i64, Found>, actions: &mut Vec<Action>) {
        if !self.is_rolling {
            return;
        }
        let ordinals = self.start..self.start + self.replicas;
        for ordinal in ordinals.rev().take_while(|it| *it >= self.partition) {
            let Some(pod) = pods.get(&ordinal) else {
                return;
            };
            if revision(pod) != self.newest && !is_deleting(pod) {
                actions.push(Action::Delete(pod.clone()));
                return;
            }
            if !self.is_available(pod) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;

    fn pod(ordinal: i64, ready: bool, revision: &str) -> (i64, Found) {
        let word = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": format!("web-{ordinal}"), "labels": {
                "controller-revision-hash": revision,
            }},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": word}]},
        });
        let pod: DynamicObject = serde_json::from_value(pod).unwrap();
        (ordinal, pod.into())
    }

    fn plan(spec: &Value, pods: &[(i64, Found)]) -> Vec<String> {
        let wanted = Wanted::of(spec, "b", Timestamp::UNIX_EPOCH);
        let pods = pods.iter().cloned().collect();
        let told = wanted.plan(&pods).into_iter().map(|action| match action {
            Action::Create { ordinal, is_newest } => {
                format!("+{ordinal}{}", if is_newest { "" } else { " before" })
            }
            Action::Delete(pod) => format!("-{}", pod.metadata.name.as_deref().unwrap()),
        });
        told.collect()
    }

    #[test]
    fn pods_come_one_after_the_other_unless_that_does_not_matter() {
        let mut spec = json!({"replicas": 3});
        assert_eq!(plan(&spec, &[]), ["+0"]);
        assert_eq!(plan(&spec, &[pod(0, false, "b")]), Vec::<String>::new());
        assert_eq!(plan(&spec, &[pod(0, true, "b")]), ["+1"]);
        spec["podManagementPolicy"] = json!("Parallel");
        assert_eq!(plan(&spec, &[pod(1, false, "b")]), ["+0", "+2"]);
        spec["ordinals"] = json!({"start": 5});
        assert_eq!(plan(&spec, &[]), ["+5", "+6", "+7"]);
    }

    #[test]
    fn the_highest_goes_first_and_only_while_the_others_are_there() {
        let spec = json!({"replicas": 1});
        let three = [pod(0, true, "b"), pod(1, true, "b"), pod(2, true, "b")];
        assert_eq!(plan(&spec, &three), ["-web-2"]);
        // One that is not ready is waited for, unless it is what goes.
        let sick = [pod(0, true, "b"), pod(1, false, "b"), pod(2, true, "b")];
        assert_eq!(plan(&spec, &sick), ["-web-2"]);
        let two = [pod(0, true, "b"), pod(1, false, "b"), pod(2, false, "b")];
        assert_eq!(plan(&spec, &two), Vec::<String>::new());
        let first = [pod(0, false, "b"), pod(1, true, "b")];
        assert_eq!(plan(&spec, &first), Vec::<String>::new());
    }

    #[test]
    fn an_update_goes_down_to_the_partition() {
        let mut spec =
            json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
        let old = [pod(0, true, "a"), pod(1, true, "a"), pod(2, true, "a")];
        assert_eq!(plan(&spec, &old), ["-web-2"]);
        let next = [pod(0, true, "a"), pod(1, true, "a"), pod(2, true, "b")];
        assert_eq!(plan(&spec, &next), ["-web-1"]);
        let done = [pod(0, true, "a"), pod(1, true, "b"), pod(2, true, "b")];
        assert_eq!(plan(&spec, &done), Vec::<String>::new());
        assert_eq!(plan(&spec, &done[1..]), ["+0 before"]);
        spec["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 2});
        assert_eq!(plan(&spec, &old), ["-web-2"]);
        // One that never got well is no reason to wait.
        spec["podManagementPolicy"] = json!("Parallel");
        let sick = [pod(0, false, "a"), pod(1, true, "a"), pod(2, false, "a")];
        assert_eq!(plan(&spec, &sick), ["-web-2"]);
        let newer = [pod(0, false, "a"), pod(1, true, "a"), pod(2, false, "b")];
        assert_eq!(plan(&spec, &newer), Vec::<String>::new());
        spec["updateStrategy"] = json!({"type": "OnDelete"});
        assert_eq!(plan(&spec, &old), Vec::<String>::new());
    }
}
