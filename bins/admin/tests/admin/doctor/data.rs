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

#[tokio::test]
async fn namespaces_of_accounts_that_are_gone_are_named() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    assert!(judge(&facts, &aim()).find("namespacesLeft").is_none());
    let namespace = |name: &str, owner: Value, going: bool| {
        let mut metadata = json!({"name": name, "ownerReferences": owner});
        if going {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    let owner = |kind: &str, uid: &str| json!([{"apiVersion": "hy3ons.github.io/v1", "kind": kind, "name": "x", "uid": uid}]);
    let user = json!({"metadata": {"name": "ann", "uid": "u-1"}});
    facts.users = Seen::Known(vec![serde_json::from_value(user).unwrap()]);
    facts.namespaces = Seen::Known(vec![
        namespace("kite-user-ann", owner("KiteUser", "u-1"), false),
        namespace("kite-user-bob", owner("KiteUser", "u-2"), false),
        namespace("kite-user-eve", owner("KiteUser", "u-3"), true),
        namespace("kite-user-nobody", json!([]), false),
        namespace("other", owner("KiteImage", "u-4"), false),
    ]);
    let report = judge(&facts, &aim());
    let finding = report.find("namespacesLeft").unwrap();
    assert_eq!(finding.state, State::Warning);
    assert!(
        finding.message.ends_with("there any more: kite-user-bob"),
        "{finding:?}"
    );
    facts.users = Seen::Refused;
    assert!(judge(&facts, &aim()).find("namespacesLeft").is_none());
}
