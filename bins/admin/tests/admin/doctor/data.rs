//! What the doctor says of the data of VMs, volumes and schedules.

use kite_admin::doctor::{Seen, State, judge};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{aim, facts, with_kite};

#[tokio::test]
async fn what_is_lost_or_not_kept_is_named() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    for check in ["lostData", "snapshotSchedules"] {
        assert!(judge(&facts, &aim()).find(check).is_none(), "{check}");
    }
    let object = |name: &str, status: Value| -> DynamicObject {
        let metadata = json!({"name": name, "namespace": "kite-user-ann"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    let vm = |name: &str, kind: &str, status: &str, reason: &str| {
        let told = json!([{"type": kind, "status": status, "reason": reason}]);
        object(name, json!({ "conditions": told }))
    };
    facts.vms = Seen::Known(vec![
        vm("gone", "DiskReady", "False", "DiskLost"),
        vm("going", "DiskReady", "False", "DiskLeaving"),
        vm("whole", "DiskReady", "True", "DiskUnmanaged"),
        vm("made", "DiskReady", "False", "Cloning"),
        vm("stuck", "SnapshotsScheduled", "False", "ScheduleSuspended"),
        vm("waits", "SnapshotsScheduled", "False", "ScheduleWaits"),
        vm("follows", "SnapshotsScheduled", "True", "ScheduleFollowed"),
    ]);
    facts.volumes = Seen::Known(vec![
        object("data", json!({"phase": "Lost"})),
        object("logs", json!({"phase": "Attached"})),
    ]);
    let report = judge(&facts, &aim());
    assert!(report.is_fit(), "it keeps nobody from anything: {report}");
    for (check, told, others) in [
        (
            "lostData",
            &["ann/gone", "ann/going", "ann/data"][..],
            &["whole", "made", "logs", "stuck"][..],
        ),
        (
            "snapshotSchedules",
            &["ann/stuck"],
            &["waits", "follows", "gone"],
        ),
    ] {
        let finding = report.find(check).unwrap();
        assert_eq!(finding.state, State::Warning);
        let message = &finding.message;
        let names = |name: &&str| message.contains(*name);
        assert!(told.iter().all(names), "{message}");
        assert!(!others.iter().any(names), "{message}");
    }
}
