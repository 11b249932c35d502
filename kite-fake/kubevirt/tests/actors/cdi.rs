//! Disks: where they come from, what they wait for, who may clone them.

use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{
    CLAIM, NAMESPACE, POD, STORAGE_CLASS, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS,
};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::cdi::CdiAdmission;
use kite_fake_kubevirt::cdi_definitions;
use kite_fake_kubevirt::kinds::{
    DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME, STORAGE_PROFILE, VIRTUAL_MACHINE,
};
use kite_fake_kubevirt::stages;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

fn import(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "source": {"http": {"url": "https://example.org/image.qcow2"}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }})
}

fn class(name: &str, mode: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "csi.example.org",
        "volumeBindingMode": mode,
    })
}

async fn phase(world: &World, name: &str) -> String {
    let disk = world.get(&DATA_VOLUME, NS, name).await.unwrap();
    text(&disk, "/status/phase").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_crashes_is_tried_again_after_growing_pauses() {
    let world = World::new().await;
    world.rules.add(Rule::fail(
        stages::DISK_WORKER,
        Selector::named("d"),
        "Error",
        "Unable to process data: checksum mismatch",
    ));
    world.create(&DATA_VOLUME, NS, import("d")).await;
    let count = async |seconds| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let disk = world.get(&DATA_VOLUME, NS, "d").await.unwrap();
        let running = &disk.data["status"]["conditions"][2];
        assert_eq!(running["reason"], "Error");
        let why = running["message"].as_str().unwrap();
        assert!(why.ends_with("checksum mismatch"), "{why}");
        disk.data["status"]["restartCount"].as_u64().unwrap()
    };
    assert_eq!(count(5).await, 1);
    assert_eq!(count(10).await, 2);
    assert_eq!(count(10).await, 2);
    assert_eq!(count(10).await, 3);
    assert_eq!(phase(&world, "d").await, "ImportInProgress");
    world.rules.clear(stages::DISK_WORKER);
    world.settle().await;
    assert_eq!(phase(&world, "d").await, "Succeeded");
    let disk = world.get(&DATA_VOLUME, NS, "d").await.unwrap();
    assert_eq!(disk.data["status"]["restartCount"], 3);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn storage_that_waits_for_a_consumer_is_filled_when_a_vm_starts() {
    let world = World::new().await;
    let late = class("late", "WaitForFirstConsumer");
    world.create(&STORAGE_CLASS, None, late).await;
    world.create(&DATA_VOLUME, NS, import("d")).await;
    world.settle().await;
    assert_eq!(phase(&world, "d").await, "PendingPopulation");
    let vm = json!({"metadata": {"name": "v"}, "spec": {"runStrategy": "Halted", "template": {
        "spec": {
            "domain": {"memory": {"guest": "1Gi"}, "devices": {}},
            "volumes": [{"name": "root", "dataVolume": {"name": "d"}}],
        },
    }}});
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Stopped");
    let on = json!({"spec": {"runStrategy": "Always"}});
    let hold = Rule::hold(Stage::POD_SCHEDULED, Selector::all());
    world.rules.add(hold);
    world.merge(&VIRTUAL_MACHINE, NS, "v", on).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let said = text(&vm, "/status/printableStatus");
    assert_eq!(said, "WaitingForVolumeBinding");
    world.rules.clear(Stage::POD_SCHEDULED);
    world.settle().await;
    assert_eq!(phase(&world, "d").await, "Succeeded");
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    assert_eq!(
        world.list(&POD, NS).await.len(),
        1,
        "it is filled for the launcher itself"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_plain_claim_waits_for_its_pod_too() {
    let world = World::new().await;
    let late = class("late", "WaitForFirstConsumer");
    world.create(&STORAGE_CLASS, None, late).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "storageClassName": "late",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create(&CLAIM, NS, claim).await;
    world.settle().await;
    let claim = world.get(&CLAIM, NS, "c").await.unwrap();
    assert_eq!(text(&claim, "/status/phase"), "Pending");
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }});
    world.create(&POD, NS, pod).await;
    world.settle().await;
    let claim = world.get(&CLAIM, NS, "c").await.unwrap();
    assert_eq!(text(&claim, "/status/phase"), "Bound");
    let pod = world.get(&POD, NS, "p").await.unwrap();
    assert_eq!(text(&pod, "/status/phase"), "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_can_come_from_a_snapshot() {
    let world = World::new().await;
    let class = class("fast", "Immediate");
    world.create(&STORAGE_CLASS, None, class).await;
    let disk = json!({"metadata": {"name": "copy"}, "spec": {
        "source": {"snapshot": {"namespace": "default", "name": "s"}},
        "storage": {},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    world.settle().await;
    let copy = world.get(&DATA_VOLUME, NS, "copy").await.unwrap();
    let why = text(&copy, "/status/conditions/1/message");
    assert!(why.contains("snapshot default/s doesn't exist"), "{why}");
    world.create(&DATA_VOLUME, NS, import("image")).await;
    let snaps = json!({
        "metadata": {"name": "snap"}, "driver": "csi.example.org", "deletionPolicy": "Delete",
    });
    world.create(&VOLUME_SNAPSHOT_CLASS, None, snaps).await;
    let snapshot = json!({"metadata": {"name": "s"}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": "image"},
    }});
    world.create(&VOLUME_SNAPSHOT, NS, snapshot).await;
    world.settle().await;
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    let size = |claim: &DynamicObject| text(claim, "/spec/resources/requests/storage").to_owned();
    let image = world.get(&CLAIM, NS, "image").await.unwrap();
    let copy = world.get(&CLAIM, NS, "copy").await.unwrap();
    assert_eq!(size(&image), size(&copy));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_storage_can_do_decides_what_a_disk_asks_for() {
    let world = World::new().await;
    let class = class("shared", "Immediate");
    world.create(&STORAGE_CLASS, None, class).await;
    world.settle().await;
    let profile = world.get(&STORAGE_PROFILE, None, "shared").await.unwrap();
    assert_eq!(text(&profile, "/status/provisioner"), "csi.example.org");
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]);
    let wish = json!({"spec": {"claimPropertySets": sets}});
    world.merge(&STORAGE_PROFILE, None, "shared", wish).await;
    world.settle().await;
    world.create(&DATA_VOLUME, NS, import("d")).await;
    world.settle().await;
    let claim = world.get(&CLAIM, NS, "d").await.unwrap();
    assert_eq!(claim.data["spec"]["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(text(&claim, "/spec/volumeMode"), "Block");
    world.end().await;
}

fn cron() -> Value {
    json!({"metadata": {"name": "debian"}, "spec": {
        "schedule": "0 3 * * *",
        "managedDataSource": "debian",
        "garbageCollect": "Outdated",
        "importsToKeep": 2,
        "template": {"spec": {
            "source": {"registry": {"url": "docker://example.org/debian"}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        }},
    }})
}

async fn publish(world: &World, digest: &str) {
    let name = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
    let patch = json!({"metadata": {"annotations": {name: format!("sha256:{digest}")}}});
    world.merge(&DATA_IMPORT_CRON, NS, "debian", patch).await;
    // Images of one second are told apart by name only.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.settle().await;
}

async fn leads_to(world: &World) -> String {
    let source = world.get(&DATA_SOURCE, NS, "debian").await.unwrap();
    text(&source, "/spec/source/pvc/name").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_cron_keeps_an_image_fresh() {
    let world = World::new().await;
    world.create(&DATA_IMPORT_CRON, NS, cron()).await;
    world.settle().await;
    let first = leads_to(&world).await;
    assert!(first.starts_with("debian-"), "{first}");
    assert_eq!(phase(&world, &first).await, "Succeeded");
    let told = world.get(&DATA_IMPORT_CRON, NS, "debian").await.unwrap();
    assert_eq!(text(&told, "/status/lastImportedPVC/name"), first);
    assert_eq!(text(&told, "/status/conditions/1/reason"), "UpToDate");

    // It looks again in the night.
    let looked = text(&told, "/status/lastExecutionTimestamp").to_owned();
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    world.settle().await;
    let told = world.get(&DATA_IMPORT_CRON, NS, "debian").await.unwrap();
    let again = text(&told, "/status/lastExecutionTimestamp");
    assert!(again.ends_with("T03:00:00Z") && again != looked, "{again}");

    for digest in ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"] {
        publish(&world, digest).await;
        assert_eq!(leads_to(&world).await, format!("debian-{}", &digest[..12]));
    }
    let left = world.list(&DATA_VOLUME, NS).await;
    let left: Vec<&str> = left
        .iter()
        .map(|d| d.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(left, ["debian-aaaaaaaaaaaa", "debian-bbbbbbbbbbbb"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_import_that_fails_is_told_and_the_old_image_stays() {
    let world = World::new().await;
    world.create(&DATA_IMPORT_CRON, NS, cron()).await;
    world.settle().await;
    let first = leads_to(&world).await;
    let fail = Rule::fail(
        stages::DISK_STEP,
        Selector::named("debian-cccccccccccc"),
        "ImportFailed",
        "no",
    );
    world.rules.add(fail);
    publish(&world, "cccccccccccccccc").await;
    let told = world.get(&DATA_IMPORT_CRON, NS, "debian").await.unwrap();
    assert_eq!(text(&told, "/status/conditions/1/reason"), "ImportFailed");
    assert_eq!(leads_to(&world).await, first);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn images_are_kept_as_snapshots_where_the_storage_says_so() {
    let world = World::new().await;
    let class = class("fast", "Immediate");
    world.create(&STORAGE_CLASS, None, class).await;
    let class = json!({
        "metadata": {"name": "snap"}, "driver": "csi.example.org", "deletionPolicy": "Delete",
    });
    world.create(&VOLUME_SNAPSHOT_CLASS, None, class).await;
    world.settle().await;
    let wish = json!({"spec": {"dataImportCronSourceFormat": "snapshot"}});
    world.merge(&STORAGE_PROFILE, None, "fast", wish).await;
    world.settle().await;
    world.create(&DATA_IMPORT_CRON, NS, cron()).await;
    world.settle().await;
    let source = world.get(&DATA_SOURCE, NS, "debian").await.unwrap();
    let name = text(&source, "/spec/source/snapshot/name").to_owned();
    assert!(name.starts_with("debian-"), "{:#}", source.data);
    assert_eq!(text(&source, "/status/conditions/0/status"), "True");
    assert!(world.get(&VOLUME_SNAPSHOT, NS, &name).await.is_some());
    assert!(world.get(&DATA_VOLUME, NS, &name).await.is_none());
    let disk = json!({"metadata": {"name": "d"}, "spec": {
        "sourceRef": {"kind": "DataSource", "name": "debian"}, "storage": {},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    world.settle().await;
    assert_eq!(phase(&world, "d").await, "Succeeded");
    world.end().await;
}

async fn clone_as(cluster: &FakeCluster, user: &str, name: &str) -> Result<(), String> {
    let disk: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": name},
        "spec": {
            "source": {"pvc": {"namespace": "images", "name": "debian"}},
            "storage": {},
        },
    }))
    .unwrap();
    let api = DATA_VOLUME.api(&cluster.client_as(user), NS);
    let created = api.create(&PostParams::default(), &disk).await;
    created.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_clone_from_another_namespace_needs_a_right_there() {
    let cluster = FakeCluster::builder()
        .crds(cdi_definitions())
        .rbac(true)
        .build()
        .unwrap();
    cluster.admit_by(std::sync::Arc::new(CdiAdmission));
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = |name: &str, namespace: &str, resource: &str| {
        json!({
            "apiVersion": rbac, "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": [{
                "apiGroups": ["cdi.kubevirt.io"], "resources": [resource], "verbs": ["create"],
            }],
        })
    };
    let binding = |name: &str, namespace: &str, user: &str| {
        json!({
            "apiVersion": rbac, "kind": "RoleBinding",
            "metadata": {"name": format!("{name}-{user}"), "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user,
            }],
        })
    };
    let images = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "images"}});
    cluster.create(&images).unwrap();
    assert_eq!(NAMESPACE.plural, "namespaces");
    for object in [
        role("disks", "default", "datavolumes"),
        role("clone", "images", "datavolumes/source"),
        binding("disks", "default", "ann"),
        binding("disks", "default", "bob"),
        binding("clone", "images", "ann"),
    ] {
        cluster.create(&object).unwrap();
    }
    clone_as(&cluster, "ann", "a").await.unwrap();
    let why = clone_as(&cluster, "bob", "b").await.unwrap_err();
    assert!(
        why.contains("User bob has insufficient permissions in clone source namespace images"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cron_needs_a_schedule() {
    let world = World::new().await;
    let mut wrong = cron();
    wrong["apiVersion"] = json!("cdi.kubevirt.io/v1beta1");
    wrong["kind"] = json!("DataImportCron");
    wrong["spec"]["schedule"] = json!("now and then");
    let wrong: DynamicObject = serde_json::from_value(wrong).unwrap();
    let api = DATA_IMPORT_CRON.api(&world.cluster.client(), NS);
    let refused = api.create(&PostParams::default(), &wrong).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("Illegal cron schedule"), "{why}");
    world.end().await;
}
