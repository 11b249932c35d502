//! `KubeVirt`'s order to move an instance to another node while it runs.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::StatusCondition;

/// What is to be moved. `KubeVirt` sees to it once and tells how it went.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstanceMigration",
    plural = "virtualmachineinstancemigrations",
    shortname = "vmim",
    shortname = "vmims",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineInstanceMigrationStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceMigrationSpec {
    /// Name of the instance, which is in the same namespace.
    #[serde(default)]
    pub vmi_name: String,
}

/// How far it is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceMigrationStatus {
    /// `Pending`, `Scheduling`, `Scheduled`, `PreparingTarget`, `TargetReady`,
    /// `Running`, `Succeeded`, `Failed`, and others between clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When it came to each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_transition_timestamps: Vec<PhaseTransition>,
    /// What is in its way, such as `migrationRejectedByResourceQuota`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
}

/// When something came to a phase.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTransition {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When it came to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_transition_timestamp: Option<String>,
}

impl PhaseTransition {
    /// When something came to this phase, if that is among its transitions.
    pub fn time_of<'a>(all: &'a [Self], phase: &str) -> Option<&'a str> {
        let time = all.iter().find(|it| it.phase.as_deref() == Some(phase))?;
        time.phase_transition_timestamp.as_deref()
    }
}

impl VirtualMachineInstanceMigration {
    /// Whether it has ended, well or not.
    pub fn is_over(&self) -> bool {
        matches!(self.phase(), Some("Succeeded" | "Failed"))
    }

    /// Whether it has ended well.
    pub fn has_succeeded(&self) -> bool {
        self.phase() == Some("Succeeded")
    }

    /// Whether it is under way: it counts among those that `KubeVirt` carries out at a time,
    /// and broken off now it would have been for nothing. What is looked at only, or waits
    /// for its turn, for room or for another cluster, is not.
    pub fn has_begun(&self) -> bool {
        let waits = ["", "Pending", "Synchronizing", "WaitingForSync"];
        !self.is_over() && self.phase().is_some_and(|phase| !waits.contains(&phase))
    }

    /// When it came to its present phase, as far as that is told.
    pub fn since(&self) -> Option<&str> {
        let times = &self.status.as_ref()?.phase_transition_timestamps;
        PhaseTransition::time_of(times, self.phase()?)
    }

    fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_over_once_kubevirt_says_so() {
        let of = |status: serde_json::Value| -> VirtualMachineInstanceMigration {
            let object = json!({"metadata": {}, "spec": {"vmiName": "web"}, "status": status});
            serde_json::from_value(object).unwrap()
        };
        assert!(!of(json!(null)).is_over() && !of(json!({})).is_over());
        assert!(!of(json!({"phase": "Scheduling"})).is_over());
        let succeeded = of(json!({"phase": "Succeeded"}));
        assert!(succeeded.is_over() && succeeded.has_succeeded());
        let failed = of(json!({"phase": "Failed", "phaseTransitionTimestamps": [
            {"phase": "Pending", "phaseTransitionTimestamp": "2026-05-04T08:00:00Z"},
            {"phase": "Failed", "phaseTransitionTimestamp": "2026-05-04T08:05:00Z"},
        ]}));
        assert!(failed.is_over() && !failed.has_succeeded());
        assert_eq!(failed.since(), Some("2026-05-04T08:05:00Z"));
        assert_eq!(of(json!({"phase": "Failed"})).since(), None);
    }

    #[test]
    fn it_has_begun_once_its_target_is_made() {
        for (phase, has_begun) in [
            (None, false),
            (Some(""), false),
            (Some("Pending"), false),
            (Some("WaitingForSync"), false),
            (Some("Synchronizing"), false),
            (Some("Scheduling"), true),
            (Some("Running"), true),
            (Some("Succeeded"), false),
            (Some("Failed"), false),
        ] {
            let status = json!({"phase": phase});
            let object = json!({"metadata": {}, "spec": {"vmiName": "web"}, "status": status});
            let order: VirtualMachineInstanceMigration = serde_json::from_value(object).unwrap();
            assert_eq!(order.has_begun(), has_begun, "{phase:?}");
        }
    }

    #[test]
    fn what_is_in_its_way_is_read() {
        let status = json!({"phase": "Pending", "conditions": [{
            "type": "migrationRejectedByResourceQuota", "status": "True",
            "lastProbeTime": "2026-05-04T08:00:00Z", "lastTransitionTime": null,
        }]});
        let object = json!({"metadata": {}, "spec": {"vmiName": "web"}, "status": status});
        let order: VirtualMachineInstanceMigration = serde_json::from_value(object).unwrap();
        let conditions = order.status.unwrap().conditions;
        assert_eq!(conditions[0].type_, "migrationRejectedByResourceQuota");
    }
}
