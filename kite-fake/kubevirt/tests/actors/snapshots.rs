//! Snapshots of VMs, restores and clones.

use std::time::Duration;

use kite_fake::actors::kind::{CLAIM, STORAGE_CLASS, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::kinds::{
    DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE, VM_CLONE, VM_RESTORE, VM_SNAPSHOT, VM_SNAPSHOT_CONTENT,
};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

/// A VM with a disk of its own, on storage that snapshots can be taken of.
async fn world(strategy: &str) -> World {
    let world = World::new().await;
    let class = json!({
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "csi.example.org",
    });
    world.create(&STORAGE_CLASS, None, class).await;
    let class = json!({
        "metadata": {"name": "snap"}, "driver": "csi.example.org", "deletionPolicy": "Delete",
    });
    world.create(&VOLUME_SNAPSHOT_CLASS, None, class).await;
    let vm = json!({
        "metadata": {"name": "v", "labels": {"app": "v"}},
        "spec": {
            "runStrategy": strategy,
            "dataVolumeTemplates": [{
                "metadata": {"name": "v-root"},
                "spec": {
                    "source": {"blank": {}},
                    "storage": {"resources": {"requests": {"storage": "1Gi"}}},
                },
            }],
            "template": {"spec": {
                "domain": {"memory": {"guest": "1Gi"}, "devices": {}},
                "volumes": [
                    {"name": "root", "dataVolume": {"name": "v-root"}},
                    {"name": "init", "cloudInitNoCloud": {"userData": "#cloud-config"}},
                ],
            }},
        },
    });
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
    world
}

fn snapshot(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"source": {
        "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "v",
    }}})
}

fn restore(target: &str, policy: Option<&str>) -> Value {
    let mut restore = json!({"metadata": {"name": "r"}, "spec": {
        "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target},
        "virtualMachineSnapshotName": "s",
    }});
    if let Some(policy) = policy {
        restore["spec"]["targetReadinessPolicy"] = json!(policy);
    }
    restore
}

fn condition<'a>(object: &'a DynamicObject, type_: &str) -> &'a Value {
    let all = object.data["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|c| c["type"] == type_).unwrap_or(&Value::Null)
}

async fn take(world: &World) {
    world.create(&VM_SNAPSHOT, NS, snapshot("s")).await;
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_a_running_vm_freezes_its_guest_and_is_ready() {
    let world = world("Always").await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let told = &vm.data["status"]["volumeSnapshotStatuses"];
    assert_eq!(told[0], json!({"name": "root", "enabled": true}));
    assert_eq!(told[1]["enabled"], false);
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_CUT, Selector::all()));
    world.create(&VM_SNAPSHOT, NS, snapshot("s")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/snapshotInProgress"), "s");
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/fsFreezeStatus"), "frozen");
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    assert_eq!(text(&taken, "/status/phase"), "InProgress");
    let progress = condition(&taken, "Progressing");
    assert_eq!(
        progress["reason"],
        "Source locked and operation in progress"
    );

    world.rules.clear(Stage::SNAPSHOT_CUT);
    world.settle().await;
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    let status = &taken.data["status"];
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(status["readyToUse"], true);
    assert_eq!(status["indications"], json!(["GuestAgent", "Online"]));
    assert_eq!(
        status["snapshotVolumes"],
        json!({"includedVolumes": ["root"], "excludedVolumes": ["init"]})
    );
    assert_eq!(condition(&taken, "Ready")["status"], "True");
    let name = text(&taken, "/status/virtualMachineSnapshotContentName");
    let content = world.get(&VM_SNAPSHOT_CONTENT, NS, name).await.unwrap();
    let kept = &content.data["spec"]["source"]["virtualMachine"];
    assert_eq!(kept["spec"]["runStrategy"], "Always");
    assert_eq!(world.list(&VOLUME_SNAPSHOT, NS).await.len(), 1);
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert!(vm.data["status"]["snapshotInProgress"].is_null());
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/fsFreezeStatus"), "");

    // It takes all that it made along.
    world.delete(&VM_SNAPSHOT, NS, "s").await;
    world.settle().await;
    assert!(world.get(&VM_SNAPSHOT, NS, "s").await.is_none());
    assert!(world.list(&VM_SNAPSHOT_CONTENT, NS).await.is_empty());
    assert!(world.list(&VOLUME_SNAPSHOT, NS).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_takes_too_long_fails() {
    let world = world("Halted").await;
    let hold = Rule::hold(Stage::SNAPSHOT_CUT, Selector::all());
    world.rules.add(hold);
    let mut short = snapshot("s");
    short["spec"]["failureDeadline"] = json!("1m0s");
    world.create(&VM_SNAPSHOT, NS, short).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    assert_eq!(text(&taken, "/status/phase"), "InProgress");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    assert_eq!(text(&taken, "/status/phase"), "Failed");
    assert_eq!(
        condition(&taken, "Failure")["reason"],
        "snapshot deadline exceeded"
    );
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert!(vm.data["status"]["snapshotInProgress"].is_null());
    assert!(world.list(&VM_SNAPSHOT_CONTENT, NS).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn storage_says_why_it_takes_no_snapshot() {
    let world = world("Halted").await;
    world.rules.add(Rule::fail(
        Stage::SNAPSHOT_READY,
        Selector::all(),
        "Full",
        "no room for a snapshot",
    ));
    world.create(&VM_SNAPSHOT, NS, snapshot("s")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    let why = text(&taken, "/status/error/message");
    assert!(why.contains("no room for a snapshot"), "{why}");
    assert_eq!(condition(&taken, "Progressing")["reason"], "In error state");
    world.rules.clear(Stage::SNAPSHOT_READY);
    world.settle().await;
    let taken = world.get(&VM_SNAPSHOT, NS, "s").await.unwrap();
    assert_eq!(text(&taken, "/status/phase"), "Succeeded");
    assert!(taken.data["status"]["error"].is_null());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_gets_its_disks_back() {
    let world = world("Halted").await;
    take(&world).await;
    let more = json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", more).await;
    world.create(&VM_RESTORE, NS, restore("v", None)).await;
    world.settle().await;
    let done = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(done.data["status"]["complete"], true);
    assert_eq!(condition(&done, "Ready")["status"], "True");
    let entry = &done.data["status"]["restores"][0];
    let name = format!("restore-{}-root", done.metadata.uid.as_ref().unwrap());
    assert_eq!(entry["persistentVolumeClaim"], *name);
    assert_eq!(entry["dataVolumeName"], *name);
    assert_eq!(done.data["status"]["deletedDataVolumes"], json!(["v-root"]));
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let spec = &vm.data["spec"];
    assert_eq!(
        spec["template"]["spec"]["volumes"][0]["dataVolume"]["name"],
        *name
    );
    assert_eq!(spec["template"]["spec"]["domain"]["memory"]["guest"], "1Gi");
    assert_eq!(spec["dataVolumeTemplates"][0]["metadata"]["name"], *name);
    assert!(vm.data["status"]["restoreInProgress"].is_null());
    assert!(world.get(&DATA_VOLUME, NS, "v-root").await.is_none());
    let claim = world.get(&CLAIM, NS, &name).await.unwrap();
    assert_eq!(text(&claim, "/status/phase"), "Bound");
    // And it runs.
    let on = json!({"spec": {"runStrategy": "Always"}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", on).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_target_is_waited_for_stopped_or_refused() {
    let world = world("Always").await;
    take(&world).await;
    let policy = Some("FailImmediate");
    world.create(&VM_RESTORE, NS, restore("v", policy)).await;
    world.settle().await;
    let failed = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(
        condition(&failed, "Failure")["reason"],
        "Restore target VMI must be powered off before restore operation"
    );
    world.delete(&VM_RESTORE, NS, "r").await;
    world.settle().await;

    world.create(&VM_RESTORE, NS, restore("v", None)).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let waiting = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(waiting.data["status"]["complete"], false);
    let why = condition(&waiting, "Ready")["reason"].as_str().unwrap();
    assert!(
        why.ends_with("or the operation will fail after 5m0s"),
        "{why}"
    );
    tokio::time::sleep(Duration::from_secs(200)).await;
    let failed = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(condition(&failed, "Failure")["status"], "True");
    world.delete(&VM_RESTORE, NS, "r").await;
    world.settle().await;

    let policy = Some("StopTarget");
    world.create(&VM_RESTORE, NS, restore("v", policy)).await;
    world.settle().await;
    let done = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(done.data["status"]["complete"], true, "{:#}", done.data);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_in_place_keeps_the_names() {
    let world = world("Halted").await;
    let before = world.get(&CLAIM, NS, "v-root").await.unwrap();
    take(&world).await;
    let mut restore = restore("v", None);
    restore["spec"]["volumeRestorePolicy"] = json!("InPlace");
    world.create(&VM_RESTORE, NS, restore).await;
    world.settle().await;
    let done = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(done.data["status"]["complete"], true, "{:#}", done.data);
    let after = world.get(&CLAIM, NS, "v-root").await.unwrap();
    assert_ne!(before.metadata.uid, after.metadata.uid);
    assert_eq!(text(&after, "/status/phase"), "Bound");
    assert!(world.get(&DATA_VOLUME, NS, "v-root").await.is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_needs_a_snapshot_that_is_ready() {
    let world = world("Halted").await;
    world.create(&VM_RESTORE, NS, restore("v", None)).await;
    world.settle().await;
    let waiting = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(
        condition(&waiting, "Ready")["reason"],
        "VMSnapshot default/s does not exist"
    );
    take(&world).await;
    let done = world.get(&VM_RESTORE, NS, "r").await.unwrap();
    assert_eq!(done.data["status"]["complete"], true);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_a_vm_with_disks_of_its_own() {
    let world = world("Always").await;
    let clone = json!({"metadata": {"name": "c"}, "spec": {
        "source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "v"},
        "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "w"},
        "labelFilters": ["*", "!app"],
    }});
    world.create(&VM_CLONE, NS, clone).await;
    world.settle().await;
    let done = world.get(&VM_CLONE, NS, "c").await.unwrap();
    assert_eq!(text(&done, "/status/phase"), "Succeeded", "{:#}", done.data);
    assert_eq!(text(&done, "/status/targetName"), "w");
    let copy = world.get(&VIRTUAL_MACHINE, NS, "w").await.unwrap();
    assert_eq!(text(&copy, "/spec/runStrategy"), "Halted");
    assert!(copy.metadata.labels.unwrap_or_default().is_empty());
    // The means are gone, and the copy starts.
    assert!(world.list(&VM_SNAPSHOT, NS).await.is_empty());
    assert!(world.list(&VM_RESTORE, NS).await.is_empty());
    let on = json!({"spec": {"runStrategy": "Always"}});
    world.merge(&VIRTUAL_MACHINE, NS, "w", on).await;
    world.settle().await;
    let copy = world.get(&VIRTUAL_MACHINE, NS, "w").await.unwrap();
    assert_eq!(text(&copy, "/status/printableStatus"), "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_of_a_vm_and_stays_as_it_was_asked_for() {
    let world = world("Halted").await;
    let mut wrong = snapshot("s");
    wrong["apiVersion"] = json!("snapshot.kubevirt.io/v1beta1");
    wrong["kind"] = json!("VirtualMachineSnapshot");
    wrong["spec"]["source"]["kind"] = json!("Pod");
    let wrong: DynamicObject = serde_json::from_value(wrong).unwrap();
    let api = VM_SNAPSHOT.api(&world.cluster.client(), NS);
    let refused = api.create(&PostParams::default(), &wrong).await;
    assert!(refused.unwrap_err().to_string().contains("invalid kind"));
    world.end().await;
}
