//! VMs that would come to nothing are not started, and those that would run are.

use kite_core::{cluster::Cluster as _, crd::AccessLevel, names};
use serde_json::{Value, json};

use crate::{
    intake::{VMS, WEB, merge, tell, vm, vm_with},
    world::World,
};

#[tokio::test]
async fn what_would_stay_off_is_not_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::Admin).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let over = json!({"spec": {"expiresAt": "2020-01-01T00:00:00Z"}});
    merge(&world, "ann", "web", over).await;
    for action in ["start", "restart"] {
        let refused = world
            .post(&format!("{WEB}/{action}"), &ann, Value::Null)
            .await;
        refused.is_problem(409, "conflict");
        let detail = refused.text("/detail");
        for part in ["2020-01-01T00:00:00Z", "expiresAt", "null"] {
            assert!(detail.contains(part), "{action}: {part}: {detail}");
        }
    }
    // So does the edit that says the same, and only that one.
    let on = json!({"powerState": "On"});
    let refused = world.patch(WEB, &ann, on.clone()).await;
    refused.is_problem(409, "conflict");
    let detail = refused.text("/detail");
    assert!(detail.contains("2020-01-01T00:00:00Z"), "{detail}");
    let other = json!({"powerState": "On", "startOnConnect": false});
    let edited = world.patch(WEB, &ann, other.clone()).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let off = world.patch(WEB, &ann, json!({"powerState": "Off"})).await;
    assert_eq!(off.status, 200, "{off:?}");
    for body in [on.clone(), other] {
        let refused = world.patch(WEB, &ann, body).await;
        refused.is_problem(409, "conflict");
    }
    // It can be kept, and is started then, or at once.
    let kept = json!({"expiresAt": null, "powerState": "On"});
    let kept = world.patch(WEB, &ann, kept).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
    assert_eq!(started.status, 200, "{started:?}");

    let suspended = json!({"suspended": true});
    let done = world
        .patch("/api/v1/admin/users/ann", &root, suspended)
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    for action in ["start", "restart"] {
        let path = format!("{WEB}/{action}?owner=ann");
        let refused = world.post(&path, &root, Value::Null).await;
        refused.is_problem(409, "conflict");
        assert!(refused.text("/detail").contains("suspended"), "{refused:?}");
    }
    let refused = world.patch(&format!("{WEB}?owner=ann"), &root, on).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("suspended"), "{refused:?}");
    // Off it can be switched in any case.
    let stopped = world
        .post(&format!("{WEB}/stop?owner=ann"), &root, Value::Null)
        .await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
}

#[tokio::test]
async fn what_was_refused_takes_nothing_and_says_why_it_does_not_start() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let large = |name| vm_with(name, "cpu", json!(5));
    assert_eq!(world.post(VMS, &ann, large("v0")).await.status, 201);
    let granted = json!({"cpu": 5, "memory": "1Gi", "disk": "4Gi"});
    tell(
        &world,
        "v0",
        json!({"phase": "Running", "observedGeneration": 1, "granted": granted}),
    )
    .await;
    // Made by kubectl, past the API's own count.
    let mut second = world.vm("ann", "v0").await.unwrap();
    second.metadata = kube::api::ObjectMeta {
        name: Some("v1".to_owned()),
        namespace: Some(names::user_namespace("ann")),
        ..kube::api::ObjectMeta::default()
    };
    second.spec.ssh_id = "v1-other".to_owned();
    second.status = None;
    let second = world.cluster.create(&second).await.unwrap();
    world.state.caches().vms.caught_up_with(&second).await;
    let path = "/api/v1/vms/v1";
    assert_eq!(
        world.get(path, &ann).await.body["charge"]["cpu"],
        5,
        "not looked at yet"
    );
    let why = json!([{
        "type": "Ready", "status": "False", "reason": "QuotaExceeded",
        "message": "spec.cpu: too many together",
        "lastTransitionTime": "2026-05-04T08:00:00Z",
    }]);
    tell(
        &world,
        "v1",
        json!({"phase": "Failed", "observedGeneration": 1, "conditions": why}),
    )
    .await;
    assert_eq!(world.get(path, &ann).await.body["charge"]["cpu"], 0);
    let more = world.post(VMS, &ann, vm_with("v2", "cpu", json!(3))).await;
    assert_eq!(more.status, 201, "{more:?}");
    let refused = world
        .post(&format!("{path}/start"), &ann, Value::Null)
        .await;
    refused.is_problem(409, "conflict");
    assert!(
        refused.text("/detail").contains("too many together"),
        "{refused:?}"
    );
    let refused = world.patch(path, &ann, json!({"powerState": "On"})).await;
    refused.is_problem(409, "conflict");
    assert!(
        refused.text("/detail").contains("too many together"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_has_lost_its_disk_is_not_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let condition = |type_| {
        json!({
            "type": type_, "status": "False", "reason": "DiskLost",
            "message": "the disk is gone with all that was on it",
            "lastTransitionTime": "2026-05-04T08:00:00Z",
        })
    };
    // It keeps what it knew of the disk.
    let lost = json!({
        "phase": "Failed", "observedGeneration": 1,
        "disk": {"name": "web-disk", "uid": "u-1", "phase": "Succeeded"},
        "conditions": [condition("Ready"), condition("DiskReady")],
    });
    tell(&world, "web", lost).await;
    for action in ["start", "restart"] {
        let path = format!("{WEB}/{action}");
        let refused = world.post(&path, &ann, Value::Null).await;
        refused.is_problem(409, "conflict");
        let detail = refused.text("/detail");
        assert!(detail.contains("the disk is gone"), "{action}: {detail}");
    }
    let refused = world.patch(WEB, &ann, json!({"powerState": "On"})).await;
    refused.is_problem(409, "conflict");
    let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
}

#[tokio::test]
async fn what_has_all_data_in_its_claim_is_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    for status in ["True", "False"] {
        let left = json!({
            "phase": "Stopped", "observedGeneration": 1,
            "disk": {"name": "web-disk", "uid": "u-1", "size": "4Gi", "phase": "Succeeded"},
            "conditions": [{
                "type": "DiskReady", "status": status, "reason": "DiskUnmanaged",
                "message": "nothing is lost, and the VM starts",
                "lastTransitionTime": "2026-05-04T08:00:00Z",
            }],
        });
        tell(&world, "web", left).await;
        let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
        assert_eq!(stopped.text("/powerState"), "Off", "{stopped:?}");
        let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
        assert_eq!(started.status, 200, "{started:?}");
        assert_eq!(started.text("/powerState"), "On", "{started:?}");
        let again = world
            .post(&format!("{WEB}/restart"), &ann, Value::Null)
            .await;
        assert_eq!(again.status, 200, "{again:?}");
        let edited = world.patch(WEB, &ann, json!({"powerState": "On"})).await;
        assert_eq!(edited.status, 200, "{edited:?}");
    }
}
