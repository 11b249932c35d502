//! Volumes: one VM after the other has one, while it grows; another goes with its owner.

use kite_core::{
    cdi::DataVolume,
    crd::{
        KiteReservation, KiteUser, KiteVirtualMachine, KiteVolume, KiteVolumeSpec,
        OnAccountDeletion, VmPhase, VolumeAttachment, VolumePhase,
    },
};
use kite_fake::sim::{Builder, World};
use kube::ResourceExt;
use serde_json::json;

use crate::{
    scenarios::{ANN, Done, nothing_is_left_of, settle_in},
    stage::{vm, with_volumes},
};

fn stage(copies: usize) -> Builder {
    with_volumes(copies)
        .protect_from_rivals("virtualmachines.kubevirt.io")
        .protect_from_rivals("kitevolumes.hy3ons.github.io")
        .ignore_field("PersistentVolume", "/spec/claimRef")
        .ignore_counts()
}

fn volume(name: &str) -> KiteVolume {
    let size = "10Gi".parse().expect("it is a size");
    let mut volume = KiteVolume::new(name, KiteVolumeSpec::new(size));
    volume.metadata.namespace = Some(ANN.to_owned());
    volume
}

fn vm_with(name: &str, volume: &str) -> KiteVirtualMachine {
    let mut vm = vm("ann", name);
    vm.spec.volumes = vec![VolumeAttachment {
        volume: volume.to_owned(),
        path: Some("/data".to_owned()),
    }];
    vm
}

async fn settle_as(world: &World, name: &str, expected: VolumePhase) -> Done {
    world.settle().await?;
    let found: Option<KiteVolume> = world.get(ANN, name).await?;
    let status = found.and_then(|it| it.status);
    let phase = status.as_ref().and_then(|it| it.phase);
    let text = format!("volume {name} should be {expected:?}, and is {status:?}");
    world.expect(phase == Some(expected), &text).await;
    Ok(())
}

async fn nothing_is_left(world: &World) -> Done {
    let left = world.list::<KiteVolume>().await?;
    world.expect(left.is_empty(), "no volume is left").await;
    for left in world.list::<DataVolume>().await? {
        let is_its = left.name_any().ends_with("-volume");
        world.expect(!is_its, "no disk of one is left").await;
    }
    for left in world.list::<KiteReservation>().await? {
        let is_its = left.name_any().starts_with("volume.");
        world.expect(!is_its, "no VM has one any more").await;
    }
    Ok(())
}

/// A VM has it and another waits for it; it grows; it is handed on, and deleted while it is had.
pub fn volume_handed_on(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        let data = world.create(&volume("data")).await?;
        let web = world.create(&vm_with("web", "data")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        settle_as(&world, "data", VolumePhase::Attached).await?;
        let late = world.create(&vm_with("late", "data")).await?;
        world.steps(4).await?;
        world
            .patch(&data, json!({"spec": {"size": "12Gi"}}))
            .await?;
        settle_in(&world, &late, VmPhase::Pending).await?;
        world
            .patch(&web, json!({"spec": {"volumes": [], "powerState": "Off"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        settle_in(&world, &late, VmPhase::Running).await?;
        let found: Option<KiteVolume> = world.get(ANN, "data").await?;
        let status = found.and_then(|it| it.status).unwrap_or_default();
        let has = status.attached_to.map(|it| it.vm);
        let text = format!("late has it, and {has:?} does");
        world.expect(has.as_deref() == Some("late"), &text).await;
        let size = status.disk.and_then(|it| it.size);
        let is_grown = size.as_ref().is_some_and(|it| it.as_str() == "12Gi");
        world.expect(is_grown, "it has grown").await;
        world.delete(&data).await?;
        settle_as(&world, "data", VolumePhase::Deleting).await?;
        world.delete(&late).await?;
        world.settle().await?;
        nothing_is_left(&world).await?;
        nothing_is_left_of(&world, "late").await
    })
}

/// A user goes while one is being made, another is had, and one is to be kept; an administrator
/// decides on that.
pub fn volume_that_outlives_its_account(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        let mut kept = volume("kept");
        kept.spec.on_account_deletion = OnAccountDeletion::Keep;
        let kept = world.create(&kept).await?;
        let web = world.create(&vm_with("web", "kept")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.create(&volume("new")).await?;
        world.steps(3).await?;
        let ann: Option<KiteUser> = world.get("", "ann").await?;
        if let Some(ann) = ann {
            world.delete(&ann).await?;
        }
        settle_as(&world, "kept", VolumePhase::Available).await?;
        let left = world.list::<KiteVolume>().await?;
        world.expect(left.len() == 1, "the other is gone").await;
        let ann: Option<KiteUser> = world.get("", "ann").await?;
        world
            .expect(ann.is_some(), "the account has its name")
            .await;
        world
            .patch(&kept, json!({"spec": {"onAccountDeletion": "Delete"}}))
            .await?;
        world.settle().await?;
        nothing_is_left(&world).await?;
        let ann: Option<KiteUser> = world.get("", "ann").await?;
        world.expect(ann.is_none(), "the account is gone").await;
        nothing_is_left_of(&world, "web").await
    })
}

/// A user goes while one is being made and another is had.
pub fn volumes_of_one_who_goes(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        world.create(&volume("data")).await?;
        let web = world.create(&vm_with("web", "data")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.create(&volume("new")).await?;
        world.steps(3).await?;
        let ann: Option<KiteUser> = world.get("", "ann").await?;
        if let Some(ann) = ann {
            world.delete(&ann).await?;
        }
        world.settle().await?;
        nothing_is_left(&world).await?;
        nothing_is_left_of(&world, "web").await
    })
}
