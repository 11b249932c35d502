//! Snapshots of a VM that are taken by a schedule.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quiesce;

/// When snapshots of a VM are taken, and how many of them are kept.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSchedule {
    /// Five fields of cron: minute, hour, day of the month, month, day of the week, as in
    /// `30 3 * * *` for half past three each night. Once an hour at most.
    #[schemars(length(min = 9, max = 100))]
    pub schedule: String,
    /// The time zone in which they are meant, by its IANA name such as `Europe/Rome`; UTC if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How many that can be restored are kept; older ones go when there is another. Those that
    /// are `protected`, or whose `keepUntil` is not over, stay beside them.
    #[serde(default = "keep")]
    #[schemars(range(min = 1, max = 60))]
    pub keep: u32,
    /// After how many that have failed in a row no more are taken.
    #[serde(default = "max_failures")]
    #[schemars(range(min = 1, max = 60))]
    pub max_failures: u32,
    /// Whether the guest's file systems are to be at rest in them.
    #[serde(default)]
    pub quiesce: Quiesce,
}

/// Time between two snapshots of a VM at least, by a schedule.
pub const SNAPSHOTS_APART: Duration = Duration::from_secs(3600);

fn keep() -> u32 {
    7
}

fn max_failures() -> u32 {
    3
}

/// What was seen of a schedule.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// The schedule that this speaks of.
    pub schedule: String,
    /// Its time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Since when it is followed: what came before is not made up for.
    #[serde(deserialize_with = "crate::time::required")]
    pub since: Time,
    /// The last time for which a snapshot was begun, or for which none was needed since the VM
    /// has not run.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub last: Option<Time>,
    /// When the next one is begun.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub next: Option<Time>,
}
