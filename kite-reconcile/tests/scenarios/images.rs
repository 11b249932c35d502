//! The catalogue.

use std::sync::atomic::Ordering;

use k8s_openapi::api::{core::v1::Secret, networking::v1::NetworkPolicy};
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::{Cluster as _, FieldManager},
    conditions::find,
    crd::{ImagePhase, ImageSource, KiteImage, KitePlatform, NamedSource, OsFamily, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_reconcile::Settings;
use serde_json::json;

use crate::world::{World, image, vm_named};

#[tokio::test(start_paused = true)]
async fn an_image_is_imported_and_then_ready() {
    let world = World::new().await;
    world.create(image("debian-12")).await;
    world.pass().await;
    let seen = world.find::<KiteImage>("", "debian-12").await.unwrap();
    assert_eq!(seen.status.unwrap().phase, Some(ImagePhase::Pending));
    world.settle().await;
    let status = world
        .find::<KiteImage>("", "debian-12")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.phase, Some(ImagePhase::Ready));
    assert_eq!(status.namespace.as_deref(), Some("kite-images"));
    assert_eq!(status.size, Some("5Gi".parse().unwrap()));
    assert!(
        world
            .find::<DataSource>("kite-images", "debian-12")
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_waits_for_its_image() {
    let world = World::with_ann().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(image("fedora")).await;
    let mut vm = vm_named("web");
    vm.spec.image = "fedora".to_owned();
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let status = vm.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(VmPhase::Pending));
    assert_eq!(
        find(&status.conditions, "ImageReady").unwrap().reason,
        "ImageNotReady"
    );
    world.stage.fills_disks.store(true, Ordering::SeqCst);
    world.settle().await;
    assert_eq!(
        world.vm("web").await.status.unwrap().phase,
        Some(VmPhase::Running)
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_waits_for_an_image_that_failed_says_why() {
    let world = World::with_ann().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(image("fedora")).await;
    let mut vm = vm_named("web");
    vm.spec.image = "fedora".to_owned();
    world.create(vm).await;
    world.settle().await;
    let disk = world.find::<DataVolume>("kite-images", "fedora").await;
    world.stage.disk_says(&disk.unwrap(), "Failed", "N/A").await;
    world.settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    world.settle().await;
    let status = world.vm("web").await.status.unwrap();
    for condition in ["ImageReady", "Ready"] {
        let told = find(&status.conditions, condition).unwrap();
        assert_eq!(told.reason, "ImageFailed");
        assert!(
            told.message.contains("ImportFailed: the import failed"),
            "{}",
            told.message
        );
    }
    assert_eq!(
        status.phase,
        Some(VmPhase::Pending),
        "it goes on when it is"
    );
}

#[tokio::test(start_paused = true)]
async fn an_import_that_stands_still_tells_why() {
    let world = World::new().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(image("stuck")).await;
    world.settle().await;
    let disk = world.find::<DataVolume>("kite-images", "stuck").await;
    let mut disk = disk.unwrap();
    disk.metadata.managed_fields = None;
    disk.metadata.resource_version = None;
    for (phase, reason) in [
        ("ImportScheduled", "ImagePullBackOff"),
        ("ImportScheduled", "SomethingOfTomorrow"),
        ("Pending", "ErrExceededQuota"),
    ] {
        let condition = json!({
            "type": "Running", "status": "False", "reason": reason, "message": "in its words",
        });
        let status = json!({"phase": phase, "progress": "N/A", "conditions": [condition]});
        disk.status = Some(serde_json::from_value(status).unwrap());
        let player = FieldManager::new("cdi");
        world.cluster.apply_status(player, &disk).await.unwrap();
        // Other words of what stands still are progress, which need not be told at once.
        tokio::time::sleep(Settings::default().progress_every).await;
        world.settle().await;
        let seen = world.find::<KiteImage>("", "stuck").await.unwrap();
        let status = seen.status.unwrap();
        let ready = find(&status.conditions, "Ready").unwrap();
        assert_eq!(ready.reason, "ImportBlocked", "{ready:?}");
        let words = format!("{reason}: in its words");
        assert!(ready.message.contains(&words), "{}", ready.message);
        assert_ne!(status.phase, Some(ImagePhase::Failed), "it may come yet");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_import_says_what_to_do() {
    let world = World::new().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(image("broken")).await;
    world.settle().await;
    let disk = world
        .find::<DataVolume>("kite-images", "broken")
        .await
        .unwrap();
    world.stage.disk_says(&disk, "Failed", "N/A").await;
    world.settle().await;
    let status = world
        .find::<KiteImage>("", "broken")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.phase, Some(ImagePhase::Failed));
    assert!(
        find(&status.conditions, "Ready")
            .unwrap()
            .message
            .contains("spec.source")
    );
}

#[tokio::test(start_paused = true)]
async fn an_existing_claim_becomes_a_source_and_is_not_copied() {
    let world = World::new().await;
    let mut golden = image("golden");
    golden.spec.source = ImageSource {
        pvc: Some(NamedSource {
            name: "claim".to_owned(),
        }),
        ..ImageSource::default()
    };
    world.create(golden).await;
    world.settle().await;
    assert!(
        world
            .find::<DataVolume>("kite-images", "golden")
            .await
            .is_none()
    );
    let source = world
        .find::<DataSource>("kite-images", "golden")
        .await
        .unwrap();
    assert_eq!(source.spec.source.pvc.unwrap().name, "claim");
    let status = world
        .find::<KiteImage>("", "golden")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(
        status.phase,
        Some(ImagePhase::Pending),
        "CDI has not said that it is there"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_image_leaves_nothing() {
    let world = World::new().await;
    let made = world.create(image("debian-12")).await;
    world.settle().await;
    world.delete(&made).await;
    world.settle().await;
    assert!(world.find::<KiteImage>("", "debian-12").await.is_none());
    assert!(world.all::<DataVolume>().await.is_empty());
    assert!(world.all::<DataSource>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_image_stays_where_it_was_made_when_the_platform_moves_on() {
    let world = World::with_ann().await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let patch = serde_json::json!({"spec": {"imageNamespace": "golden"}});
    world.edit(&platform, patch).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let disk = world
        .find::<DataVolume>("kite-user-ann", "web-disk")
        .await
        .unwrap();
    let source = disk.spec.source_ref.unwrap();
    assert_eq!(source.namespace.as_deref(), Some("kite-images"));

    // The network policy admits clones from there and from where new images go.
    let policy = world
        .find::<NetworkPolicy>("kite-user-ann", "cdi-workers")
        .await
        .unwrap();
    let from = serde_json::to_string(&policy.spec.unwrap().ingress).unwrap();
    assert!(
        from.contains("kite-images") && from.contains("golden"),
        "{from}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_waits_for_clones_that_no_status_names_yet() {
    for by_claim in [false, true] {
        let world = World::with_ann().await;
        world.stage.fills_disks.store(false, Ordering::SeqCst);
        let spec = if by_claim {
            json!({"source": {"pvc": {"namespace": "kite-images", "name": "debian-12"}}})
        } else {
            json!({"sourceRef": {
                "kind": "DataSource", "namespace": "kite-images", "name": "debian-12",
            }})
        };
        let clone = json!({
            "metadata": {"name": "early-disk", "namespace": "kite-user-ann"}, "spec": spec,
        });
        let clone: DataVolume = world.create(serde_json::from_value(clone).unwrap()).await;
        let image = world.find::<KiteImage>("", "debian-12").await.unwrap();
        world.delete(&image).await;
        world.settle().await;
        let image = world.find::<KiteImage>("", "debian-12").await.unwrap();
        let status = image.status.unwrap();
        let ready = find(&status.conditions, "Ready").unwrap();
        let disk = "kite-user-ann/early-disk";
        assert!(ready.message.contains(disk), "{}", ready.message);
        let source = world.find::<DataVolume>("kite-images", "debian-12").await;
        assert!(source.is_some_and(|it| it.metadata.deletion_timestamp.is_none()));

        world.stage.disk_says(&clone, "Succeeded", "100.0%").await;
        world.settle().await;
        assert!(world.find::<KiteImage>("", "debian-12").await.is_none());
        assert!(
            world
                .find::<DataVolume>("kite-images", "debian-12")
                .await
                .is_none()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_image_of_another_family_changes_no_guest() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let made: VirtualMachine = world.find("kite-user-ann", "web").await.unwrap();
    let told: Secret = world
        .find("kite-user-ann", "web-cloud-init-userdata")
        .await
        .unwrap();

    let old = world.find::<KiteImage>("", "debian-12").await.unwrap();
    let edit = json!({"spec": {"osFamily": "Windows"}});
    let error = world.try_edit(&old, edit).await.unwrap_err();
    assert!(error.to_string().contains("osFamily cannot be changed"));

    world.delete(&old).await;
    world.settle().await;
    for family in [OsFamily::Windows, OsFamily::Alpine] {
        let mut other = image("debian-12");
        other.spec.os_family = family;
        let other = world.create(other).await;
        world.settle().await;
        let vm = world.vm("web").await;
        let key = json!({"spec": {"domainPrefix": format!("{family:?}").to_lowercase()}});
        world.edit(&vm, key).await;
        world.settle().await;
        let after: VirtualMachine = world.find("kite-user-ann", "web").await.unwrap();
        assert_eq!(after.spec.template, made.spec.template);
        let after: Secret = world
            .find("kite-user-ann", "web-cloud-init-userdata")
            .await
            .unwrap();
        assert_eq!(after.data, told.data);
        world.delete(&other).await;
        world.settle().await;
    }
}
