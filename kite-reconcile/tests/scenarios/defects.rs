//! What the first Kite, written in Go, got wrong, and where it is shown that
//! this one does not. Each of its seventeen defects has a test whose name begins
//! with `defect_<number>_`, in the crate to which it belongs; here are those that
//! had no better place.

use std::{collections::BTreeSet, fs, path::Path};

use k8s_openapi::api::{core::v1::Secret, networking::v1::Ingress};
use kite_core::{
    cdi::DataVolume,
    conditions::find,
    crd::{KitePlatform, KiteVirtualMachine, VmPhase},
};
use kube::{
    Api, Resource as _,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::{Value, json};

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";
const BOB: &str = "kite-user-bob";

/// How many there are.
const DEFECTS: u32 = 17;

#[test]
fn each_defect_has_a_test_that_names_it() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut named = BTreeSet::new();
    for folder in fs::read_dir(root).unwrap() {
        let folder = folder.unwrap();
        // The crates, not what is built.
        if folder.file_name().to_string_lossy().starts_with("kite-") {
            collect(&folder.path(), &mut named);
        }
    }
    let missing: Vec<u32> = (1..=DEFECTS).filter(|it| !named.contains(it)).collect();
    assert!(missing.is_empty(), "no test names these: {missing:?}");
}

/// The numbers in the names of tests below `folder`.
fn collect(folder: &Path, named: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, named);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for name in text.split("fn defect_").skip(1) {
                let number = name.split('_').next().unwrap_or_default();
                named.extend(number.parse::<u32>().ok());
            }
        }
    }
}

/// A VM as somebody may send it who does not use our types.
async fn send(world: &World, name: &str, spec: Value) -> Result<DynamicObject, kube::Error> {
    let kind = ApiResource::erase::<KiteVirtualMachine>(&());
    let vms: Api<DynamicObject> = Api::namespaced_with(world.cluster.client().clone(), ANN, &kind);
    let mut vm = DynamicObject::new(name, &kind);
    vm.data = json!({ "spec": spec });
    vms.create(&PostParams::default(), &vm).await
}

fn spec(field: &str, value: &str) -> Value {
    let mut spec = json!({
        "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12", "sshId": "eve-web",
    });
    spec[field] = value.into();
    spec
}

#[tokio::test(start_paused = true)]
async fn defect_1_no_second_document_gets_in_by_a_field() {
    let world = World::with_ann().await;
    let document = "\n---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\n";
    for field in ["image", "memory", "disk", "sshId"] {
        let value = format!("{}{document}", spec("cpu", "1")[field].as_str().unwrap());
        let refused = send(&world, "web", spec(field, &value)).await;
        let Err(kube::Error::Api(status)) = refused else {
            panic!("spec.{field} may be {value:?}");
        };
        assert_eq!(status.code, 422, "{status:?}");
        assert!(status.message.contains(field), "{}", status.message);
    }
    world.settle().await;
    let disks = world.all::<DataVolume>().await;
    assert!(
        disks
            .iter()
            .all(|disk| disk.metadata.namespace.as_deref() != Some(ANN))
    );
}

#[tokio::test(start_paused = true)]
async fn defect_1_disks_are_cloned_from_the_catalogue_only() {
    let world = World::with_ann().await;
    // A disk of another tenant, whose name somebody has guessed.
    let mut disk = DataVolume::default();
    disk.metadata.name = Some("bob-disk".to_owned());
    disk.metadata.namespace = Some("kite-images".to_owned());
    disk.spec.storage = Some(
        serde_json::from_value(json!({"resources": {"requests": {"storage": "1Gi"}}})).unwrap(),
    );
    world.create(disk).await;
    for path in [
        "../kite-user-bob/bob-disk",
        "kite-user-bob/bob-disk",
        "Bob-Disk",
    ] {
        let refused = send(&world, "path", spec("image", path)).await;
        assert!(refused.is_err(), "spec.image may be {path:?}");
    }
    let mut thief = vm_named("thief");
    thief.spec.image = "bob-disk".to_owned();
    world.create(thief).await;
    world.create(vm_named("web")).await;
    world.settle().await;

    let thief = world.vm("thief").await;
    let ready = find(&thief.status.as_ref().unwrap().conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "UnknownImage");
    assert!(world.find::<DataVolume>(ANN, "thief-disk").await.is_none());
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    assert!(disk.spec.source.is_none(), "no claim is named as a source");
    let source = disk.spec.source_ref.unwrap();
    assert_eq!(
        (
            source.kind.as_str(),
            source.namespace.as_deref(),
            source.name.as_str()
        ),
        ("DataSource", Some("kite-images"), "debian-12")
    );
    assert_ne!(source.namespace.as_deref(), Some(BOB));
}

#[tokio::test(start_paused = true)]
async fn defect_8_no_certificate_is_copied_to_a_tenant() {
    let world = World::with_ann().await;
    let mut wildcard = Secret::default();
    wildcard.metadata.name = Some("wildcard".to_owned());
    wildcard.metadata.namespace = Some("kite".to_owned());
    wildcard.type_ = Some("kubernetes.io/tls".to_owned());
    wildcard.string_data = Some(
        [("tls.crt", "certificate"), ("tls.key", "key")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    );
    world.create(wildcard).await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let exposure = json!({"certificate": {"secretName": "wildcard"}});
    world
        .edit(&platform, json!({"spec": {"exposure": exposure}}))
        .await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
    let secrets: BTreeSet<String> = world
        .all::<Secret>()
        .await
        .into_iter()
        .filter(|secret| secret.meta().namespace.as_deref() == Some(ANN))
        .filter_map(|secret| secret.metadata.name)
        .collect();
    let own = ["web-cloud-init-userdata", "web-ssh-key"];
    assert_eq!(secrets, own.map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn defect_12_what_cannot_be_changed_is_refused_with_a_reason() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    for (field, value, says) in [
        ("image", "other", "image cannot be changed"),
        ("sshId", "other-web", "sshId cannot be changed"),
        ("disk", "5Gi", "disk can only grow"),
    ] {
        let refused = world.try_edit(&vm, json!({"spec": {field: value}})).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    world.settle().await;
    // A larger disk goes another way than by the DataVolume, which is immutable.
    world.edit(&vm, json!({"spec": {"disk": "12Gi"}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let status = vm.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Running));
    assert_eq!(status.observed_generation, vm.metadata.generation);
}
