//! VMs and other objects whose status, or whose whole spec, cannot be read.

use std::time::Duration;

use kite_core::{
    cdi::DataVolume,
    conditions::find,
    crd::{KiteImage, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer, PowerState},
    kubevirt::VirtualMachine,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{ANN, change, is_switched_off_as_it_is, raw, raw_vms, run_strategy, says, suspend};
use crate::world::{World, vm_named};

/// Changes fields of a status as a later version would, whatever they are.
pub async fn tell(vms: &Api<DynamicObject>, name: &str, status: serde_json::Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    vms.patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn disk(world: &World) -> Option<DataVolume> {
    world.find(ANN, "web-disk").await
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_later_version_is_written_anew_and_hides_no_vm() {
    let world = World::with_ann().await;
    for name in ["web", "other"] {
        world.create(vm_named(name)).await;
    }
    world.settle().await;
    let before = world.vm("web").await.status.unwrap();
    let vms = raw_vms(&world.cluster).await;
    for name in ["web", "other"] {
        tell(&vms, name, json!({"phase": "Hibernating"})).await;
    }
    let read = world.vm("web").await.status.unwrap();
    assert!(read.unreadable.unwrap().why.contains("Hibernating"));
    world.settle().await;
    let after = world.vm("web").await.status.unwrap();
    assert_eq!(after.unreadable, None);
    assert_eq!((after.phase, after.disk), (before.phase, before.disk));
    assert_eq!(after.granted, before.granted);

    tell(&vms, "web", json!({"phase": "Hibernating"})).await;
    suspend(&world, true).await;
    assert_eq!(run_strategy(&world, "web").await, "Halted");
    // By its name, and the other with its user.
    for name in ["web", "other"] {
        tell(&vms, name, json!({"phase": "Hibernating"})).await;
    }
    vms.delete("web", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    assert!(vms.get_opt("web").await.unwrap().is_none());
    assert_eq!(disk(&world).await, None);
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert!(vms.get_opt("other").await.unwrap().is_none());
    assert_eq!(world.find::<KiteUser>("", "ann").await, None);
    let left = world.held().await;
    assert!(left.is_empty(), "{left:#?}");
}

/// A disk that was lost is not made anew because nobody can read that there was one.
#[tokio::test(start_paused = true)]
async fn a_vm_whose_disk_nobody_can_read_of_gets_no_other() {
    for status in [json!({"disk": "web-disk"}), json!("what")] {
        let world = World::played().await;
        world.create(vm_named("web")).await;
        world.settle().await;
        let made = disk(&world).await.unwrap();
        let vms = raw_vms(&world.cluster).await;
        tell(&vms, "web", status.clone()).await;
        world.settle().await;
        let (reason, message) = says(&world.vm("web").await);
        assert_eq!(reason, "Unreadable", "{message}");
        for part in ["status", "mend", "--subresource=status"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(run_strategy(&world, "web").await, "Always", "{status}");

        world.delete(&made).await;
        world.settle().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        world.settle().await;
        assert_eq!(disk(&world).await, None, "{status}");
        // What is stored is there for the version that can read it.
        let stored = vms.get("web").await.unwrap().data["status"]["disk"].clone();
        assert!(stored.is_string(), "{stored}");
        assert_eq!(says(&world.vm("web").await).0, "Unreadable");

        suspend(&world, true).await;
        assert_eq!(run_strategy(&world, "web").await, "Halted");
        suspend(&world, false).await;
        assert_eq!(disk(&world).await, None, "{status}");

        // Mended, it is known that there was one.
        let uid = made.metadata.uid.clone().unwrap();
        let had = json!({"name": "web-disk", "uid": uid, "phase": "Succeeded"});
        tell(&vms, "web", json!({"disk": had})).await;
        world.settle().await;
        assert_eq!(disk(&world).await, None, "{status}");
        let (reason, message) = says(&world.vm("web").await);
        assert!(reason.starts_with("Disk"), "{reason}: {message}");

        tell(&vms, "web", status.clone()).await;
        vms.delete("web", &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert!(vms.get_opt("web").await.unwrap().is_none(), "{status}");
        world.assert_no_trace_of("web").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_whose_grant_nobody_can_read_takes_no_other_ones() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    let has = vms.get("web").await.unwrap().data["status"]["granted"].clone();
    tell(&vms, "web", json!({"granted": {"cpu": "a few"}})).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await).0, "Unreadable");
    world.create(vm_named("new")).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("new").await);
    assert_eq!(reason, "QuotaUnknown", "{message}");
    assert!(
        message.contains("web") && message.contains("a few"),
        "{message}"
    );
    assert_eq!(world.find::<DataVolume>(ANN, "new-disk").await, None);

    tell(&vms, "web", json!({ "granted": has })).await;
    world.settle().await;
    assert_ne!(says(&world.vm("web").await).0, "Unreadable");
    assert!(world.find::<DataVolume>(ANN, "new-disk").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_runs_and_has_no_spec_any_more_is_switched_off_and_deleted() {
    let world = World::with_ann().await;
    for name in ["web", "other"] {
        world.create(vm_named(name)).await;
    }
    let mut off = vm_named("off");
    off.spec.power_state = PowerState::Off;
    world.create(off).await;
    world.settle().await;
    let before: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let vms = raw_vms(&world.cluster).await;
    for name in ["web", "other", "off"] {
        change(&vms, name, json!("a few")).await;
    }
    world.settle().await;
    let web = world.vm("web").await;
    let (reason, message) = says(&web);
    assert_eq!(reason, "Unreadable");
    for part in ["spec", "a few", "mend"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(web.charge().memory, 2 << 30, "{:?}", web.status);
    // As they were: no stand-in switches anything on.
    assert_eq!(run_strategy(&world, "web").await, "Always");
    assert_eq!(run_strategy(&world, "off").await, "Halted");

    is_switched_off_as_it_is(&world, &before).await;
    assert!(disk(&world).await.is_some());

    vms.delete("web", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    assert!(vms.get_opt("web").await.unwrap().is_none());
    assert_eq!(disk(&world).await, None);
    assert!(world.find::<DataVolume>(ANN, "other-disk").await.is_some());
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    for name in ["other", "off"] {
        assert!(vms.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    assert_eq!(world.find::<KiteUser>("", "ann").await, None);
    let left = world.held().await;
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test(start_paused = true)]
async fn users_images_and_offers_without_a_spec_say_so_and_can_be_deleted() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let users = raw::<KiteUser>(&world.cluster).await;
    let images = raw::<KiteImage>(&world.cluster).await;
    let offers = raw::<KiteVirtualMachineOffer>(&world.cluster).await;
    let resource = ApiResource::erase::<KiteVirtualMachineOffer>(&());
    let odd = DynamicObject::new("odd", &resource).data(json!({"spec": "what"}));
    offers.create(&PostParams::default(), &odd).await.unwrap();
    for (api, name) in [(&users, "ann"), (&images, "debian-12")] {
        change(api, name, json!("what")).await;
        tell(api, name, json!({"phase": "Asleep"})).await;
    }
    world.settle().await;
    let all = [(&offers, "odd"), (&users, "ann"), (&images, "debian-12")];
    for (api, name) in all {
        let status = api.get(name).await.unwrap().data["status"].clone();
        let said = status["conditions"].as_array().unwrap();
        let said = said.iter().find(|it| it["reason"] == "Unreadable");
        let message = said.unwrap()["message"].as_str().unwrap();
        assert!(message.contains("what"), "{name}: {message}");
        assert_ne!(status["phase"], "Asleep", "{name}");
    }
    // Nobody can say that the user is not suspended.
    assert_eq!(run_strategy(&world, "web").await, "Halted");
    for (api, name) in all {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    assert_eq!(world.find::<KiteVirtualMachine>(ANN, "web").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_offer_of_which_nobody_can_read_who_has_it_is_not_given_to_another() {
    let world = World::with_ann().await;
    let offers = raw::<KiteVirtualMachineOffer>(&world.cluster).await;
    let resource = ApiResource::erase::<KiteVirtualMachineOffer>(&());
    let plain = vm_named("web");
    let spec = json!({
        "cpu": plain.spec.cpu, "memory": plain.spec.memory, "disk": plain.spec.disk,
        "image": plain.spec.image,
    });
    let gold = DynamicObject::new("gold", &resource).data(json!({ "spec": spec }));
    offers.create(&PostParams::default(), &gold).await.unwrap();
    world.settle().await;
    let by = json!({"claimedBy": ["kite-user-bob/old"], "phase": "Lent"});
    tell(&offers, "gold", by.clone()).await;
    let mut web = plain;
    web.spec.offer = Some("gold".to_owned());
    world.create(web).await;
    world.settle().await;
    let stored = offers.get("gold").await.unwrap().data["status"].clone();
    assert_eq!(stored["claimedBy"], by["claimedBy"]);
    assert_eq!(stored["phase"], "Expired");
    let told = world.vm("web").await.status.unwrap().conditions;
    let told = find(&told, "OfferClaimed").unwrap();
    assert_eq!(told.reason, "OfferUnreadable", "{}", told.message);
    assert!(
        told.message.contains("status.claimedBy"),
        "{}",
        told.message
    );
    assert_eq!(disk(&world).await, None);
    offers
        .delete("gold", &DeleteParams::default())
        .await
        .unwrap();
    world.settle().await;
    assert!(offers.get_opt("gold").await.unwrap().is_none());
}
