//! What a change of a status means to a person. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    conditions::find,
    crd::{
        platform_condition::GATEWAY_HOST_KEY_KEPT,
        vm_condition::{
            ACCESSIBLE, DISK_READY, EXPIRED, EXPOSED, READY, RESTORED, SNAPSHOTS_SCHEDULED,
        },
    },
};

use kite_runtime::events::{EventRecord, Severity};

use crate::vm::KEYS_REPLACED;

/// Reasons of what is merely on its way: it needs nobody, and what comes of it is
/// told.
const ON_ITS_WAY: &[&str] = &[
    "Cloning",
    "Completing",
    "Cutting",
    "Deleting",
    "DiskNotReady",
    "Freezing",
    "Growing",
    "Importing",
    "NotMade",
    "Pending",
    "Provisioning",
    "Reserving",
    "Resizing",
    "Restarting",
    "Restoring",
    "Starting",
    "Stopping",
    "Waiting",
    "WaitingForDeletion",
    "WaitingForNamespace",
    "WaitingForQuota",
    "WaitingForReceiver",
    "WaitingForStart",
    "WaitingForVolumeBinding",
];

/// Reasons of the condition `Restored` that need somebody.
const RESTORE_REFUSED: &[&str] = &[
    "CopyFailed",
    "CopyRefused",
    "NoFormerDisk",
    "NotLater",
    "SnapshotUnusable",
];

/// Reasons of the condition `SnapshotsScheduled` that need somebody.
const SCHEDULE_STOPPED: &[&str] = &["ScheduleInvalid", "ScheduleSuspended", "SnapshotRefused"];

/// Reason of the condition `Expired` while there is time left, but not much.
const EXPIRES_SOON: &str = "ExpiresSoon";

/// What there is to tell of a status whose conditions were `old` and are `new`.
///
/// `Ready` tells of what was reached and of what is in the way; other conditions
/// only of what was reached and is worth a line by itself. Where a condition says
/// the same for the same reason, nothing happened, whatever its message says by
/// now. There are few: each is a request.
pub fn story(old: &[Condition], new: &[Condition]) -> Vec<EventRecord> {
    // Ready last: it is what the others lead to.
    let (ready, others): (Vec<_>, Vec<_>) = new.iter().partition(|now| now.type_ == READY);
    others
        .into_iter()
        .chain(ready)
        .filter(|now| {
            let before = find(old, &now.type_);
            before
                .is_none_or(|before| (&before.status, &before.reason) != (&now.status, &now.reason))
        })
        .filter_map(|now| match (now.type_.as_str(), now.status.as_str()) {
            (READY, "True") => Some(record(Severity::Normal, &now.reason, now)),
            (READY, _) if ON_ITS_WAY.contains(&now.reason.as_str()) => None,
            (READY, _) => Some(record(Severity::Warning, &now.reason, now)),
            (DISK_READY, "True") => Some(record(Severity::Normal, DISK_READY, now)),
            (EXPOSED, "True") => Some(record(Severity::Normal, EXPOSED, now)),
            // Steps on the way to Ready, which tells of them.
            (other, _) if other.ends_with("Ready") || other == "Reserved" => None,
            // Its disk goes with it: whoever wants to keep it has to act.
            (EXPIRED, "True") => Some(record(Severity::Warning, &now.reason, now)),
            (EXPIRED, _) if now.reason == EXPIRES_SOON => {
                Some(record(Severity::Warning, EXPIRES_SOON, now))
            }
            // All else of it says that there was nothing to log in with from the start.
            (ACCESSIBLE, "False") if now.reason == KEYS_REPLACED => {
                Some(record(Severity::Warning, KEYS_REPLACED, now))
            }
            (RESTORED, "False") if RESTORE_REFUSED.contains(&now.reason.as_str()) => {
                Some(record(Severity::Warning, &now.reason, now))
            }
            (SNAPSHOTS_SCHEDULED, "False") if SCHEDULE_STOPPED.contains(&now.reason.as_str()) => {
                Some(record(Severity::Warning, &now.reason, now))
            }
            (GATEWAY_HOST_KEY_KEPT, "False") => {
                let reason = format!("GatewayHostKey{}", now.reason);
                Some(record(Severity::Warning, &reason, now))
            }
            (GATEWAY_HOST_KEY_KEPT, _) => None,
            // What befalls an object beside that, such as being idle.
            (_, "True") => Some(record(Severity::Normal, &now.reason, now)),
            _ => None,
        })
        .collect()
}

fn record(severity: Severity, reason: &str, condition: &Condition) -> EventRecord {
    EventRecord {
        severity,
        reason: reason.to_owned(),
        message: condition.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kite_core::conditions::{NewCondition, merge};

    use super::*;

    type Said = (&'static str, bool, &'static str);

    fn conditions(said: &[Said]) -> Vec<Condition> {
        let new: Vec<_> = said
            .iter()
            .map(|(type_, status, reason)| NewCondition::new(type_, *status, *reason, "why"))
            .collect();
        merge(&[], &new, 1, jiff::Timestamp::UNIX_EPOCH)
    }

    fn told(old: &[Said], new: &[Said]) -> Vec<String> {
        story(&conditions(old), &conditions(new))
            .into_iter()
            .map(|record| format!("{} {}", record.severity.as_str(), record.reason))
            .collect()
    }

    #[test]
    fn a_host_key_that_goes_is_a_warning_and_one_that_stays_is_no_news() {
        let said = |holds, reason| [("GatewayHostKeyKept", holds, reason)];
        let (kept, gone) = (said(true, "Kept"), said(false, "Gone"));
        assert!(told(&[], &kept).is_empty());
        assert_eq!(told(&kept, &gone), ["Warning GatewayHostKeyGone"]);
        let changed = told(&gone, &said(false, "Changed"));
        assert_eq!(changed, ["Warning GatewayHostKeyChanged"]);
        assert!(told(&gone, &kept).is_empty());
    }

    #[test]
    fn a_vm_that_comes_to_be_is_told_in_a_few_lines() {
        let life: &[&[Said]] = &[
            &[],
            &[
                ("Ready", false, "Reserving"),
                ("Reserved", false, "Reserving"),
            ],
            &[("Ready", false, "NotMade"), ("Reserved", true, "Reserved")],
            &[("Ready", false, "Cloning"), ("DiskReady", false, "Cloning")],
            &[("Ready", false, "Starting"), ("DiskReady", true, "Filled")],
            &[("Ready", true, "Running"), ("DiskReady", true, "Filled")],
            &[
                ("Ready", true, "Running"),
                ("DiskReady", true, "Filled"),
                ("Exposed", true, "Exposed"),
            ],
            &[("Ready", false, "Stopping"), ("DiskReady", true, "Filled")],
            &[("Ready", true, "Stopped"), ("DiskReady", true, "Filled")],
        ];
        let lines: Vec<_> = life
            .windows(2)
            .flat_map(|step| told(step[0], step[1]))
            .collect();
        assert_eq!(
            lines,
            [
                "Normal DiskReady",
                "Normal Running",
                "Normal Exposed",
                "Normal Stopped"
            ]
        );
    }

    #[test]
    fn what_is_in_the_way_is_told_once_with_its_reason() {
        let taken: &[Said] = &[
            ("Ready", false, "SshIdTaken"),
            ("Reserved", false, "SshIdTaken"),
        ];
        assert_eq!(told(&[], taken), ["Warning SshIdTaken"]);
        assert_eq!(told(taken, taken), [""; 0]);
        let refused: &[Said] = &[("Ready", false, "Refused")];
        assert_eq!(told(taken, refused), ["Warning Refused"]);
        let quota: &[Said] = &[("Ready", false, "QuotaExceeded")];
        assert_eq!(
            told(&[("Ready", true, "Running")], quota),
            ["Warning QuotaExceeded"]
        );
    }

    #[test]
    fn a_new_message_is_no_news() {
        let mut new = conditions(&[("Ready", false, "CloneFailed")]);
        let old = new.clone();
        new[0].message = "the same with other words".to_owned();
        assert_eq!(story(&old, &new), []);
    }

    #[test]
    fn what_befalls_an_object_is_told() {
        let life: &[&[Said]] = &[
            &[("Expired", false, "NotExpired"), ("Idle", false, "NotIdle")],
            &[("Expired", false, "NotExpired"), ("Idle", true, "Idle")],
            &[("Expired", false, "ExpiresSoon"), ("Idle", true, "Idle")],
            &[("Expired", true, "Expired"), ("Idle", true, "Idle")],
            &[("Expired", false, "NotExpired"), ("Idle", false, "NotIdle")],
        ];
        let lines: Vec<_> = life
            .windows(2)
            .flat_map(|step| told(step[0], step[1]))
            .collect();
        assert_eq!(
            lines,
            ["Normal Idle", "Warning ExpiresSoon", "Warning Expired"]
        );
    }
}
