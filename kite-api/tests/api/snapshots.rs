//! Snapshots over HTTP: taken, kept, restored, and made VMs of.

use kite_core::crd::{AccessLevel, KiteSnapshot, KiteVirtualMachine};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    names,
};
use serde_json::{Value, json};

use crate::{
    data::{SNAPSHOTS, condition, let_go, snapshot, tell},
    lists::new_vm,
    vms::VMS,
    world::{World, request, send},
};

const FIRST: &str = "/api/v1/snapshots/first";
const RESTORE: &str = "/api/v1/vms/web/restore";

/// A world in which `ann` has the VM `web`.
async fn world() -> (World, String, KiteVirtualMachine) {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post(VMS, &ann, new_vm("web")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let web = world.vm("ann", "web").await.unwrap();
    (world, ann, web)
}

async fn stored(world: &World, name: &str) -> Option<KiteSnapshot> {
    let key = ObjectKey::namespaced(names::user_namespace("ann"), name);
    world.cluster.get_opt(&key).await.unwrap()
}

#[tokio::test]
async fn a_snapshot_from_its_taking_to_its_end() {
    let (world, ann, web) = world().await;
    let body = json!({"name": "first", "vm": "web", "description": "before 13"});
    let made = world.post(SNAPSHOTS, &ann, body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.headers["location"], FIRST);
    assert_eq!(made.text("/status/phase"), "Pending");
    assert_eq!(made.text("/owner"), "ann");
    // Another VM that comes under the name is not meant.
    let object = stored(&world, "first").await.unwrap();
    assert_eq!(object.spec.vm_uid, web.metadata.uid);
    assert_eq!(world.get(SNAPSHOTS, &ann).await.names(), ["first"]);
    let taken = world.post(SNAPSHOTS, &ann, body).await;
    taken.is_problem(409, "taken");
    assert_eq!(taken.fields(), ["name"]);

    let edit = json!({"protected": true, "keepUntil": "2100-01-01T00:00:00Z"});
    let kept = world.patch(FIRST, &ann, edit).await;
    assert_eq!(kept.body["protected"], true, "{kept:?}");
    let refused = world.delete(FIRST, &ann).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("protected to false"));
    let edit = json!({"protected": false, "keepUntil": null, "description": null});
    let let_go = world.patch(FIRST, &ann, edit).await;
    assert_eq!(let_go.body["keepUntil"], Value::Null);
    assert_eq!(let_go.body["description"], Value::Null);
    let gone = world.delete(FIRST, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert_eq!(stored(&world, "first").await, None);
    world.get(FIRST, &ann).await.is_problem(404, "not-found");
}

#[tokio::test]
async fn what_is_seen_of_a_snapshot_is_shown_and_found() {
    let (world, ann, web) = world().await;
    let note = json!({"consistency": "CrashConsistent", "consistencyNote": "no agent"});
    snapshot(&world, &web, "first", note).await;
    let failure = json!({"reason": "QuotaExceeded", "message": "too large"});
    let failed = json!({"phase": "Failed", "failure": failure, "consistency": null});
    snapshot(&world, &web, "second", failed).await;
    let shown = world.get(FIRST, &ann).await;
    assert_eq!(shown.text("/status/consistency"), "CrashConsistent");
    assert_eq!(shown.text("/status/consistencyNote"), "no agent");
    assert_eq!(shown.text("/status/size"), "4Gi");
    assert_eq!(shown.text("/status/source/image"), "debian-12");
    assert_eq!(shown.body["status"]["upToDate"], true);
    assert_eq!(shown.body["scheduled"], false);
    assert_eq!(shown.headers["etag"], shown.text("/etag"));
    let list = async |query: &str| world.get(&format!("{SNAPSHOTS}{query}"), &ann).await;
    assert_eq!(list("?phase=Failed").await.names(), ["second"]);
    assert_eq!(list("?vm=web").await.names(), ["first", "second"]);
    assert!(list("?vm=db").await.names().is_empty());
    assert_eq!(list("?search=SECO").await.names(), ["second"]);
}

#[tokio::test]
async fn all_that_is_wrong_with_a_snapshot_is_told_at_once() {
    let (world, ann, _) = world().await;
    let wrong = json!({
        "name": "First!", "vm": "db", "quiesce": "Perhaps", "keepUntil": "2020-01-01T00:00:00Z",
        "description": "x".repeat(1025), "protcted": true,
    });
    let answer = world.post(SNAPSHOTS, &ann, wrong).await;
    answer.is_problem(422, "invalid");
    let mut fields = answer.fields();
    fields.sort_unstable();
    let all = [
        "description",
        "keepUntil",
        "name",
        "protcted",
        "quiesce",
        "vm",
    ];
    assert_eq!(fields, all, "{answer:?}");
    assert!(world.get(SNAPSHOTS, &ann).await.names().is_empty());
    let fixed = world
        .post(SNAPSHOTS, &ann, json!({"name": "first", "vm": "web"}))
        .await;
    assert_eq!(fixed.status, 201, "{fixed:?}");
    // An end that stays is nothing new, though it is over.
    let over = json!({"spec": {"keepUntil": "2020-01-01T00:00:00Z"}});
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "first");
    let manager = kite_core::cluster::FieldManager::new("kubectl");
    let edited: KiteSnapshot = world
        .cluster
        .merge_patch(manager, &key, &over)
        .await
        .unwrap();
    world.state.caches().snapshots.caught_up_with(&edited).await;
    let same = json!({"keepUntil": "2020-01-01T00:00:00Z", "description": "x"});
    let same = world.patch(FIRST, &ann, same).await;
    assert_eq!(same.status, 200, "{same:?}");
    let other = json!({"keepUntil": "2020-01-02T00:00:00Z"});
    let other = world.patch(FIRST, &ann, other).await;
    assert_eq!(other.fields(), ["keepUntil"]);
    let answer = world
        .patch(FIRST, &ann, json!({"vm": "db", "name": "x"}))
        .await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["name", "vm"]);
}

#[tokio::test]
async fn what_the_quota_has_no_room_for_is_told() {
    let (world, ann, web) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let limit = async |quota: Value| {
        let body = json!({ "quota": quota });
        let set = world.patch("/api/v1/admin/users/ann", &root, body).await;
        assert_eq!(set.status, 200, "{set:?}");
    };
    let quota = |more: Value| {
        let mut quota = json!({"vms": 2, "cpu": 4, "memory": "4Gi", "disk": "20Gi"});
        for (name, value) in more.as_object().unwrap() {
            quota[name] = value.clone();
        }
        quota
    };
    snapshot(&world, &web, "first", json!({})).await;
    let second = || world.post(SNAPSHOTS, &ann, json!({"name": "second", "vm": "web"}));
    limit(quota(json!({"snapshots": 1}))).await;
    let answer = second().await;
    answer.is_problem(403, "quota-exceeded");
    assert!(answer.text("/detail").contains("so many snapshots (1)"));
    // Two of 4Gi each.
    limit(quota(json!({"snapshots": null, "snapshotDisk": "7Gi"}))).await;
    let answer = second().await;
    answer.is_problem(403, "quota-exceeded");
    assert!(answer.text("/detail").contains("7Gi"), "{answer:?}");
    // Too much is the size of its disk, which nobody has sent.
    assert_eq!(answer.fields(), ["vm"]);
    assert_eq!(answer.text("/errors/0/value"), "web");
    let faulty = json!({"name": "Second!", "vm": "web"});
    let answer = world.post(SNAPSHOTS, &ann, faulty).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["name", "vm"], "{answer:?}");
    assert_eq!(answer.text("/errors/1/value"), "web");
    limit(quota(json!({"snapshotDisk": "8Gi"}))).await;
    assert_eq!(second().await.status, 201);
}

#[tokio::test]
async fn others_snapshots_are_for_those_who_look_after_them() {
    let (world, ann, web) = world().await;
    snapshot(&world, &web, "first", json!({})).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let sam = world.user("sam", AccessLevel::Manager).await;
    let of_ann = format!("{FIRST}?owner=ann");
    world.get(&of_ann, &bob).await.is_problem(403, "forbidden");
    world.get(FIRST, &bob).await.is_problem(404, "not-found");
    assert!(world.get(SNAPSHOTS, &bob).await.names().is_empty());
    assert_eq!(world.get(&of_ann, &sam).await.text("/owner"), "ann");
    let all = world.get(&format!("{SNAPSHOTS}?all=true"), &sam).await;
    assert_eq!(all.names(), ["first"]);
    let body = json!({"name": "second", "vm": "web"});
    let made = world
        .post(&format!("{SNAPSHOTS}?owner=ann"), &sam, body)
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        made.headers["location"],
        "/api/v1/snapshots/second?owner=ann"
    );
    assert_eq!(
        world.get(SNAPSHOTS, &ann).await.names(),
        ["first", "second"]
    );
    let looks = world.user("eve", AccessLevel::ReadOnly).await;
    let body = json!({"name": "third", "vm": "web"});
    let refused = world.post(SNAPSHOTS, &looks, body).await;
    refused.is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_vm_is_restored_once_for_each_request() {
    let (world, ann, web) = world().await;
    snapshot(&world, &web, "first", json!({})).await;
    let body = json!({"snapshot": "first", "keep": "72h"});
    let restored = world.post(RESTORE, &ann, body).await;
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(restored.text("/restore/snapshot"), "first");
    assert_eq!(restored.text("/restore/keep"), "72h");
    let first = world.vm("ann", "web").await.unwrap().spec.restore.unwrap();

    // It is put back by the name that the status has, and not by any other.
    let back = || world.post(RESTORE, &ann, json!({"disk": "web-disk"}));
    let refused = back().await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["disk"]);
    let formers = json!([{"name": "web-disk", "size": "4Gi"}]);
    tell(&world, &web, json!({"formerDisks": formers})).await;
    let shown = world.get("/api/v1/vms/web", &ann).await;
    assert_eq!(shown.text("/status/formerDisks/0/name"), "web-disk");
    let put_back = back().await;
    assert_eq!(put_back.status, 200, "{put_back:?}");
    let second = world.vm("ann", "web").await.unwrap().spec.restore.unwrap();
    assert_eq!(second.snapshot, None);
    assert_eq!(second.disk.as_deref(), Some("web-disk"));
    assert!(second.at.0 > first.at.0);
    // What was to be kept for long is kept no shorter for that.
    assert_eq!(second.keep, first.keep);

    // It may have been carried out: then the former disk would be kept for a shorter time.
    let unseen = world.delete(RESTORE, &ann).await;
    unseen.is_problem(409, "conflict");
    let done = json!({"conditions": [condition("Restored", true, "Restored")]});
    tell(&world, &web, done).await;
    let done = world.delete(RESTORE, &ann).await;
    done.is_problem(409, "conflict");
    assert!(done.text("/detail").contains("carried out"), "{done:?}");
    let copying = json!({"conditions": [condition("Restored", false, "Copying")]});
    tell(&world, &web, copying).await;
    let canceled = world.delete(RESTORE, &ann).await;
    assert_eq!(canceled.status, 200, "{canceled:?}");
    assert_eq!(canceled.body.get("restore"), None);
    assert_eq!(world.delete(RESTORE, &ann).await.status, 200);
}

#[tokio::test]
async fn a_restore_by_a_clock_that_is_ahead_is_followed_by_another() {
    let (world, ann, web) = world().await;
    snapshot(&world, &web, "first", json!({})).await;
    let ahead = |minutes: i64| {
        let at = jiff::Timestamp::now() + jiff::Span::new().minutes(minutes);
        json!({"spec": {"restore": {"snapshot": "first", "at": at.to_string()}}})
    };
    let write = async |patch: Value| {
        let key = ObjectKey::of(&web);
        let manager = kite_core::cluster::FieldManager::new("kubectl");
        let vm: KiteVirtualMachine =
            kite_core::cluster::Cluster::merge_patch(&world.cluster, manager, &key, &patch)
                .await
                .unwrap();
        world.state.caches().vms.caught_up_with(&vm).await;
        vm.spec.restore.unwrap().at.0
    };
    let restore = || world.post(RESTORE, &ann, json!({"snapshot": "first"}));
    let before = write(ahead(2)).await;
    assert_eq!(restore().await.status, 200);
    let vm = world.vm("ann", "web").await.unwrap();
    assert!(vm.spec.restore.unwrap().at.0 > before);
    // What is meant for later is not thrown away by the way.
    write(ahead(60)).await;
    let refused = restore().await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("DELETE"), "{refused:?}");
    tell(
        &world,
        &web,
        json!({"conditions": [condition("Restored", false, "Scheduled")]}),
    )
    .await;
    assert_eq!(world.delete(RESTORE, &ann).await.status, 200);
    assert_eq!(restore().await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_restored_says_why() {
    let (world, ann, web) = world().await;
    world.post(VMS, &ann, new_vm("db")).await;
    let db = world.vm("ann", "db").await.unwrap();
    snapshot(&world, &web, "good", json!({})).await;
    snapshot(&world, &db, "other", json!({})).await;
    let going = json!({"phase": "Cutting", "consistency": null});
    snapshot(&world, &web, "going", going).await;
    let lost = json!([{"type": "Ready", "status": "False", "reason": "Lost", "message": "it is gone",
                       "lastTransitionTime": "2026-05-04T08:00:00Z"}]);
    snapshot(
        &world,
        &web,
        "lost",
        json!({"phase": "Lost", "conditions": lost}),
    )
    .await;
    let restore = |body: Value| world.post(RESTORE, &ann, body);
    for (snapshot, kind, word) in [
        ("none", "invalid", "choose one of this VM's, good"),
        ("other", "invalid", "is of another VM (db)"),
        ("going", "conflict", "not ready yet"),
        ("lost", "conflict", "it is gone"),
    ] {
        let answer = restore(json!({ "snapshot": snapshot })).await;
        let status = if kind == "invalid" { 422 } else { 409 };
        answer.is_problem(status, kind);
        assert!(answer.body.to_string().contains(word), "{answer:?}");
    }
    for (body, fields) in [
        (json!({}), ["snapshot"]),
        (json!({"snapshot": "good", "disk": "web-disk"}), ["disk"]),
        (json!({"snapshot": "good", "keep": "1m"}), ["keep"]),
    ] {
        let answer = restore(body).await;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.fields()[0], fields[0], "{answer:?}");
    }
    assert_eq!(world.vm("ann", "web").await.unwrap().spec.restore, None);
}

#[tokio::test]
async fn a_restore_counts_only_for_what_was_seen() {
    let (world, ann, web) = world().await;
    snapshot(&world, &web, "first", json!({})).await;
    let seen = world.get("/api/v1/vms/web", &ann).await;
    world
        .patch("/api/v1/vms/web", &ann, json!({"cpu": 2}))
        .await;
    let body = Some(json!({"snapshot": "first"}));
    let mut ask = request(http::Method::POST, RESTORE, &ann, body);
    let tag = seen.headers["etag"].clone();
    ask.headers_mut().insert("if-match", tag);
    let refused = send(&world.router, ask).await;
    refused.is_problem(412, "changed-meanwhile");
}

#[tokio::test]
async fn a_vm_is_made_of_a_snapshot_whose_vm_and_image_are_gone() {
    let (world, ann, web) = world().await;
    let source = json!({"vmUid": web.metadata.uid, "claim": "web-disk", "claimUid": "c-1",
                        "image": "gone", "cpu": 1, "memory": "1Gi", "outlivesDisk": true});
    snapshot(&world, &web, "first", json!({"source": source})).await;
    world.delete("/api/v1/vms/web", &ann).await;
    let mut copy = new_vm("copy");
    copy["fromSnapshot"] = json!("first");
    copy["disk"] = json!("3Gi");
    let answer = world.post(VMS, &ann, copy.clone()).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["image", "disk"], "{answer:?}");
    assert!(
        answer.body.to_string().contains("write \\\"gone\\\""),
        "{answer:?}"
    );
    copy["disk"] = json!("4Gi");
    copy["image"] = json!("gone");
    let made = world.post(VMS, &ann, copy.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/fromSnapshot"), "first");
    let fixed = json!({"fromSnapshot": "second"});
    let answer = world.patch("/api/v1/vms/copy", &ann, fixed).await;
    assert_eq!(answer.fields(), ["fromSnapshot"]);
    copy["name"] = json!("other");
    copy["sshId"] = json!("other-id");
    copy["fromSnapshot"] = json!("none");
    let answer = world.post(VMS, &ann, copy).await;
    assert_eq!(answer.fields(), ["fromSnapshot"]);
}

#[tokio::test]
async fn a_schedule_is_set_as_a_whole_and_taken_away() {
    let (world, ann, _) = world().await;
    let path = "/api/v1/vms/web";
    let edit = |snapshots: Value| world.patch(path, &ann, json!({ "snapshots": snapshots }));
    let set = edit(json!({"schedule": "30 3 * * *", "timeZone": "Europe/Rome", "keep": 3})).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(set.text("/snapshots/timeZone"), "Europe/Rome");
    assert_eq!(set.body["snapshots"]["keep"], 3);
    // The zone of the one before is none of this one's.
    let set = edit(json!({"schedule": "0 4 * * 1"})).await;
    assert_eq!(set.text("/snapshots/schedule"), "0 4 * * 1");
    assert_eq!(set.body["snapshots"].get("timeZone"), None, "{set:?}");
    assert_eq!(set.body["snapshots"]["keep"], 7);
    for (wrong, field) in [
        (
            json!({"schedule": "whenever it suits"}),
            "snapshots.schedule",
        ),
        (json!({"schedule": "* * * * *"}), "snapshots.schedule"),
        (json!({"schedule": "0 0 30 2 *"}), "snapshots.schedule"),
        (
            json!({"schedule": "0 4 * * *", "timeZone": "Middle/Earth"}),
            "snapshots.timeZone",
        ),
        (
            json!({"schedule": "0 4 * * *", "keep": 61}),
            "snapshots.keep",
        ),
        (json!({"schedule": "0 4 * * *", "kep": 6}), "snapshots.kep"),
        (json!({"keep": 6}), "snapshots.schedule"),
    ] {
        let answer = edit(wrong).await;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.fields(), [field], "{answer:?}");
    }
    let away = edit(Value::Null).await;
    assert_eq!(away.body.get("snapshots"), None, "{away:?}");
    let mut body = new_vm("db");
    body["snapshots"] = json!({"schedule": "0 4 * * *"});
    let made = world.post(VMS, &ann, body).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test]
async fn no_snapshot_is_taken_of_a_vm_that_goes() {
    let (world, ann, web) = world().await;
    let web = let_go(&world, &web).await;
    world.state.caches().vms.caught_up_with(&web).await;
    let body = json!({"name": "first", "vm": "web"});
    let answer = world.post(SNAPSHOTS, &ann, body).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["vm"], "{answer:?}");
}

#[tokio::test]
async fn the_image_of_a_snapshot_is_known_before_it_is_taken() {
    let (world, ann, web) = world().await;
    let going = json!({"phase": "Pending", "consistency": null, "source": null, "size": null});
    snapshot(&world, &web, "first", going).await;
    let mut copy = new_vm("copy");
    copy["fromSnapshot"] = json!("first");
    copy["image"] = json!("another");
    let answer = world.post(VMS, &ann, copy.clone()).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["image"], "{answer:?}");
    copy["image"] = json!("debian-12");
    let made = world.post(VMS, &ann, copy).await;
    assert_eq!(made.status, 201, "{made:?}");
}

/// What another VM has on its disks is no matter of a token that makes VMs.
#[tokio::test]
async fn a_token_that_makes_vms_reads_no_disk_of_another() {
    let (world, ann, web) = world().await;
    snapshot(&world, &web, "first", json!({})).await;
    crate::data::volume(&world, "ann", "data", json!({"phase": "Available"})).await;
    let token = async |scope: &str| {
        let body = json!({"name": scope.replace(':', "-"), "scopes": [scope]});
        let made = world.post("/api/v1/me/tokens", &ann, body).await;
        made.text("/token").to_owned()
    };
    let (write, access) = (token("vms:write").await, token("vms:access").await);
    let mut copy = new_vm("copy");
    copy["fromSnapshot"] = json!("first");
    let mut with_volume = new_vm("other");
    with_volume["volumes"] = json!([{"volume": "data"}]);
    let volumes = json!({"volumes": [{"volume": "data"}]});
    for answer in [
        world.post(VMS, &write, copy.clone()).await,
        world.post(VMS, &write, with_volume).await,
        world
            .patch("/api/v1/vms/web", &write, volumes.clone())
            .await,
    ] {
        answer.is_problem(403, "forbidden");
    }
    let body = json!({"name": "second", "vm": "web"});
    assert_eq!(world.post(SNAPSHOTS, &write, body).await.status, 201);
    assert_eq!(world.post(VMS, &access, copy).await.status, 201);
    let edited = world.patch("/api/v1/vms/web", &access, volumes).await;
    assert_eq!(edited.status, 200, "{edited:?}");
}
