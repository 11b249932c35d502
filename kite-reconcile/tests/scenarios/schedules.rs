//! Images that CDI fetches again by a schedule, and what becomes of VMs when an
//! image is fetched again, fails, or goes.

use kite_fake_kubevirt::stages;
use std::{sync::atomic::Ordering, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kite_core::{
    cdi::{DataImportCron, DataImportCronSpec, DataSource, DataVolume},
    conditions::find,
    crd::{ImagePhase, ImageSource, KiteImage, KiteImageStatus, RegistrySource, VmPhase},
};
use kite_fake::actors::{Rule, Selector};
use kube::api::ObjectMeta;
use serde_json::json;

use crate::world::{World, image, named, vm_named};

const ANN: &str = "kite-user-ann";
const IMAGES: &str = "kite-images";

fn fresh(name: &str) -> KiteImage {
    let mut image = image(name);
    image.spec.source = ImageSource {
        registry: Some(RegistrySource {
            url: format!("docker://images.example.org/{name}"),
        }),
        ..ImageSource::default()
    };
    image.spec.refresh_schedule = Some("0 3 * * *".to_owned());
    image
}

async fn status(world: &World, name: &str) -> KiteImageStatus {
    let image = world.find::<KiteImage>("", name).await.unwrap();
    image.status.unwrap()
}

/// Has the registry show an image with this digest from now on.
async fn publish(world: &World, digest: &str) {
    // Imports of one second are told apart by name only.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let cron = world.find::<DataImportCron>(IMAGES, "fresh").await.unwrap();
    let name = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
    let digest = format!("sha256:{digest}");
    world
        .edit(&cron, json!({"metadata": {"annotations": {name: digest}}}))
        .await;
    world.settle().await;
}

async fn leads_to(world: &World) -> String {
    let source = world.find::<DataSource>(IMAGES, "fresh").await.unwrap();
    source.spec.source.pvc.unwrap().name
}

async fn world() -> World {
    let world = World::played().await;
    world.create(fresh("fresh")).await;
    world.settle().await;
    world
}

async fn vm_of_fresh(world: &World, name: &str) {
    let mut vm = vm_named(name);
    "fresh".clone_into(&mut vm.spec.image);
    world.create(vm).await;
    world.settle().await;
    let phase = world.vm(name).await.status.unwrap().phase;
    assert_eq!(phase, Some(VmPhase::Running), "{name}");
}

#[tokio::test(start_paused = true)]
async fn new_vms_are_cloned_from_the_newest_image_and_old_ones_stay() {
    let world = world().await;
    let seen = status(&world, "fresh").await;
    assert_eq!(seen.phase, Some(ImagePhase::Ready));
    assert_eq!(seen.size, Some("5Gi".parse().unwrap()));
    assert_eq!(find(&seen.conditions, "UpToDate").unwrap().status, "True");
    let first = leads_to(&world).await;
    vm_of_fresh(&world, "old").await;
    let disk = world.find::<PersistentVolumeClaim>(ANN, "old-disk").await;
    let before = disk.unwrap().metadata.uid;

    for digest in ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"] {
        publish(&world, digest).await;
    }
    assert_eq!(leads_to(&world).await, "fresh-bbbbbbbbbbbb");
    vm_of_fresh(&world, "new").await;
    // Two are kept, and the first is none of them.
    let cron = world.find::<DataImportCron>(IMAGES, "fresh").await.unwrap();
    assert_eq!(cron.spec.imports_to_keep, Some(2));
    let imports = world.all::<DataVolume>().await;
    let names: Vec<_> = imports
        .iter()
        .filter_map(|it| it.metadata.name.as_deref())
        .collect();
    assert!(
        names.contains(&"fresh-aaaaaaaaaaaa") && !names.contains(&first.as_str()),
        "{names:?}"
    );
    let disk = world.find::<PersistentVolumeClaim>(ANN, "old-disk").await;
    assert_eq!(disk.unwrap().metadata.uid, before);
    let old = world.vm("old").await.status.unwrap();
    assert_eq!(old.phase, Some(VmPhase::Running));

    assert!(world.pass().await.is_empty());
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_newer_image_that_fails_leaves_the_one_before_in_use() {
    let world = world().await;
    let first = leads_to(&world).await;
    world.rules.add(Rule::fail(
        stages::DISK_STEP,
        Selector::named("fresh-cccccccccccc"),
        "ImportFailed",
        "no such manifest",
    ));
    publish(&world, "cccccccccccccccc").await;
    let seen = status(&world, "fresh").await;
    assert_eq!(seen.phase, Some(ImagePhase::Ready));
    let fresh = find(&seen.conditions, "UpToDate").unwrap();
    assert_eq!(
        (fresh.status.as_str(), fresh.reason.as_str()),
        ("False", "ImportFailed")
    );
    assert!(
        fresh.message.contains("spec.source.registry.url"),
        "{}",
        fresh.message
    );
    assert_eq!(leads_to(&world).await, first);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_image_goes_with_its_imports_and_leaves_disks_alone() {
    let world = world().await;
    vm_of_fresh(&world, "web").await;
    publish(&world, "aaaaaaaaaaaaaaaa").await;
    let image = world.find::<KiteImage>("", "fresh").await.unwrap();
    world.delete(&image).await;
    world.settle().await;
    assert!(world.find::<KiteImage>("", "fresh").await.is_none());
    assert!(
        world
            .find::<DataImportCron>(IMAGES, "fresh")
            .await
            .is_none()
    );
    assert!(world.find::<DataSource>(IMAGES, "fresh").await.is_none());
    let left = world.all::<DataVolume>().await;
    let left = left.iter().filter_map(|it| it.metadata.name.as_deref());
    assert!(
        left.clone().all(|name| !name.starts_with("fresh")),
        "{:?}",
        left.collect::<Vec<_>>()
    );
    let vm = world.vm("web").await.status.unwrap();
    assert_eq!(vm.phase, Some(VmPhase::Running));
    assert!(
        world
            .find::<PersistentVolumeClaim>(ANN, "web-disk")
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_schedule_stays_as_it_was_made() {
    let world = world().await;
    let image = world.find::<KiteImage>("", "fresh").await.unwrap();
    let once = world.find::<KiteImage>("", "debian-12").await.unwrap();
    for (image, spec) in [
        (&image, json!({"refreshSchedule": "0 4 * * *"})),
        (&image, json!({"refreshSchedule": null})),
        (&image, json!({"importsToKeep": 5})),
        (
            &image,
            json!({"source": {"registry": {"url": "docker://elsewhere/x"}}}),
        ),
        (&once, json!({"importsToKeep": 5})),
    ] {
        let error = world
            .try_edit(image, json!({"spec": spec}))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("create another image") || text.contains("importsToKeep is for"),
            "{text}"
        );
    }
    let mut wrong = fresh("wrong");
    wrong.spec.refresh_schedule = Some("now and then".to_owned());
    let error = world.try_create(wrong).await.unwrap_err().to_string();
    assert!(error.contains("refreshSchedule"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_import_that_keeps_failing_says_what_to_check() {
    let world = World::played().await;
    world.rules.add(Rule::fail(
        stages::DISK_WORKER,
        Selector::named("broken"),
        "Error",
        "Unable to process data: checksum mismatch",
    ));
    world.create(image("broken")).await;
    world.pass().await;
    // CDI tries again after growing pauses.
    tokio::time::sleep(Duration::from_secs(40)).await;
    world.pass().await;
    let seen = status(&world, "broken").await;
    let ready = find(&seen.conditions, "Ready").unwrap();
    assert_eq!(
        (seen.phase, ready.reason.as_str()),
        (Some(ImagePhase::Failed), "ImportFailing")
    );
    assert!(
        ready.message.contains("checksum mismatch") && ready.message.contains("spec.source.http"),
        "{}",
        ready.message
    );
    world.rules.clear(stages::DISK_WORKER);
    tokio::time::sleep(Duration::from_secs(400)).await;
    world.settle().await;
    assert_eq!(
        status(&world, "broken").await.phase,
        Some(ImagePhase::Ready)
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_that_goes_waits_for_the_disks_that_are_being_cloned_from_it() {
    let world = World::with_ann().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(vm_named("web")).await;
    world.settle().await;
    let image = world.find::<KiteImage>("", "debian-12").await.unwrap();
    world.delete(&image).await;
    world.settle().await;
    let seen = status(&world, "debian-12").await;
    assert_eq!(seen.phase, Some(ImagePhase::Deleting));
    let ready = find(&seen.conditions, "Ready").unwrap();
    assert!(
        ready.message.contains("kite-user-ann/web"),
        "{}",
        ready.message
    );
    assert!(
        world
            .find::<DataSource>(IMAGES, "debian-12")
            .await
            .is_some()
    );

    world.stage.fills_disks.store(true, Ordering::SeqCst);
    world.settle().await;
    assert!(world.find::<KiteImage>("", "debian-12").await.is_none());
    let vm = world.vm("web").await.status.unwrap();
    assert_eq!(vm.phase, Some(VmPhase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_namespace_is_named() {
    let world = World::new().await;
    let namespace = world.find::<Namespace>("", IMAGES).await.unwrap();
    world.delete(&namespace).await;
    world.create(image("debian-12")).await;
    world.settle().await;
    let seen = status(&world, "debian-12").await;
    let ready = find(&seen.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "NamespaceMissing");
    assert!(ready.message.contains(IMAGES), "{}", ready.message);
    world
        .create(Namespace {
            metadata: named(IMAGES),
            ..Namespace::default()
        })
        .await;
    world.settle().await;
    assert_eq!(
        status(&world, "debian-12").await.phase,
        Some(ImagePhase::Ready)
    );
}

/// What CDI keeps for somebody else's schedule is theirs, whatever image has the name.
#[tokio::test(start_paused = true)]
async fn what_is_kept_for_a_schedule_of_others_outlives_an_image_of_its_name() {
    for is_scheduled in [true, false] {
        let world = world().await;
        let ours = world.find::<DataImportCron>(IMAGES, "fresh").await.unwrap();
        let theirs = DataImportCron {
            metadata: ObjectMeta {
                name: Some("theirs".to_owned()),
                namespace: Some(IMAGES.to_owned()),
                ..ObjectMeta::default()
            },
            spec: DataImportCronSpec {
                managed_data_source: "theirs".to_owned(),
                ..ours.spec
            },
            ..DataImportCron::default()
        };
        world.create(theirs).await;
        world.settle().await;
        let kept = world.find::<DataSource>(IMAGES, "theirs").await.unwrap();
        let mut image = fresh("theirs");
        if !is_scheduled {
            image.spec.refresh_schedule = None;
        }
        let image = world.create(image).await;
        world.settle().await;
        let seen = status(&world, "theirs").await;
        assert_eq!(find(&seen.conditions, "Ready").unwrap().reason, "NameTaken");
        world.delete(&image).await;
        world.settle().await;
        assert_eq!(world.find::<KiteImage>("", "theirs").await, None);
        let left = world.find::<DataSource>(IMAGES, "theirs").await.unwrap();
        assert_eq!(left.metadata.uid, kept.metadata.uid, "{is_scheduled}");
        assert!(
            world
                .find::<DataImportCron>(IMAGES, "theirs")
                .await
                .is_some()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_else_leads_elsewhere_is_no_image() {
    let world = World::played().await;
    let mut theirs = DataSource {
        metadata: named("fresh"),
        ..DataSource::default()
    };
    theirs.metadata.namespace = Some(IMAGES.to_owned());
    world.create(theirs).await;
    world.create(fresh("fresh")).await;
    world.settle().await;
    let seen = status(&world, "fresh").await;
    let ready = find(&seen.conditions, "Ready").unwrap();
    assert_eq!(
        (seen.phase, ready.reason.as_str()),
        (Some(ImagePhase::Failed), "NameTaken")
    );
    let image = world.find::<KiteImage>("", "fresh").await.unwrap();
    world.delete(&image).await;
    world.settle().await;
    assert!(world.find::<DataSource>(IMAGES, "fresh").await.is_some());
}
