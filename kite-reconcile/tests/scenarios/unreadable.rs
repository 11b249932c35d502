//! Objects that a CRD admits and this version cannot read: they say so themselves, and are
//! switched off and deleted like others. What would depend on what cannot be read is not
//! decided.

mod as_a_whole;
mod own_crd;

use k8s_openapi::{
    api::{core::v1::Service, networking::v1::NetworkPolicy},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, KubeCluster, ObjectKey},
    conditions::find,
    crd::{
        KiteImage, KitePlatform, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer, VmPhase,
    },
    kubevirt::VirtualMachine,
};
use kube::{
    Api, CustomResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

/// VMs of which the API server admits anything, as a later version's CRD may.
pub async fn raw_vms(cluster: &KubeCluster) -> Api<DynamicObject> {
    let mut crd = KiteVirtualMachine::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
        version.selectable_fields = None;
    }
    let key = ObjectKey::cluster(crd.metadata.name.clone().unwrap());
    let patch = json!({"spec": {"versions": crd.spec.versions}});
    let edit =
        cluster.merge_patch::<CustomResourceDefinition>(FieldManager::new("later"), &key, &patch);
    edit.await.unwrap();
    let resource = ApiResource::erase::<KiteVirtualMachine>(&());
    Api::namespaced_with(cluster.client().clone(), ANN, &resource)
}

/// A VM of an unheard-of number of CPUs.
pub async fn create_odd(vms: &Api<DynamicObject>) {
    let resource = ApiResource::erase::<KiteVirtualMachine>(&());
    let mut spec = serde_json::to_value(vm_named("odd").spec).unwrap();
    spec["cpu"] = json!("a few");
    let odd = DynamicObject::new("odd", &resource).data(json!({"spec": spec}));
    vms.create(&PostParams::default(), &odd).await.unwrap();
}

/// A VM without a spec of which anything could be read. Somebody else's finalizer holds it
/// until [`let_go`].
pub async fn create_hopeless(vms: &Api<DynamicObject>) {
    let resource = ApiResource::erase::<KiteVirtualMachine>(&());
    let mut odd = DynamicObject::new("odd", &resource).data(json!({"spec": "a few"}));
    odd.metadata.finalizers = Some(vec!["example.org/held".to_owned()]);
    vms.create(&PostParams::default(), &odd).await.unwrap();
}

/// Takes the finalizers off a VM.
pub async fn let_go(vms: &Api<DynamicObject>, name: &str) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    vms.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Changes fields of the spec of a VM as a later version would, whatever they are.
async fn change(vms: &Api<DynamicObject>, name: &str, spec: serde_json::Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    vms.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn says(vm: &KiteVirtualMachine) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, "Ready").unwrap().clone();
    (found.reason, found.message)
}

async fn run_strategy(world: &World, name: &str) -> String {
    let machine: VirtualMachine = world.find(ANN, name).await.unwrap();
    machine.spec.run_strategy.unwrap()
}

async fn suspend(world: &World, suspended: bool) {
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let edit = json!({"spec": {"suspended": suspended}});
    world.edit(&ann, edit).await;
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_cannot_be_read_says_so_and_others_get_theirs() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    create_odd(&vms).await;
    world.create(vm_named("new")).await;
    world.settle().await;

    let odd = world.vm("odd").await;
    let (reason, message) = says(&odd);
    assert_eq!(reason, "Unreadable");
    for part in ["spec.cpu", "a few", "mend"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(odd.status.unwrap().phase, Some(VmPhase::Failed));
    // Nothing was made of it, and it takes nothing of the quota.
    assert_eq!(world.find::<DataVolume>(ANN, "odd-disk").await, None);
    assert!(world.find::<DataVolume>(ANN, "new-disk").await.is_some());

    // Once it is mended it is made like any other.
    change(&vms, "odd", json!({"cpu": 1})).await;
    world.settle().await;
    assert!(world.find::<DataVolume>(ANN, "odd-disk").await.is_some());
    assert_ne!(says(&world.vm("odd").await).0, "Unreadable");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_read_takes_nobodys_vm() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    change(&vms, "web", json!({"expiresAt": "soon"})).await;
    world.settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    world.settle().await;
    let web = world.vm("web").await;
    let (reason, message) = says(&web);
    assert_eq!(reason, "Unreadable");
    for part in ["spec.expiresAt", "does not expire"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(run_strategy(&world, "web").await, "Always");
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());
    assert_eq!(web.metadata.deletion_timestamp, None);
}

/// Its owner is suspended: web is switched off, keeps its sizes, and says so.
async fn is_switched_off_as_it_is(world: &World, before: &VirtualMachine) {
    suspend(world, true).await;
    assert_eq!(run_strategy(world, "web").await, "Halted");
    let off: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let domain = |machine: &VirtualMachine| machine.spec.template.spec.domain.clone();
    assert_eq!(domain(&off).memory, domain(before).memory);
    assert_eq!(domain(&off).cpu, domain(before).cpu);
    assert!(says(&world.vm("web").await).1.contains("suspended"));
}

#[tokio::test(start_paused = true)]
async fn what_runs_and_cannot_be_read_any_more_is_charged_and_switched_off_and_deleted() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    change(&vms, "web", json!({"memory": ["plenty"]})).await;
    world.settle().await;
    // It runs on as it did, and its owner can read why it does not change.
    let web = world.vm("web").await;
    assert_eq!(says(&web).0, "Unreadable");
    assert_eq!(web.charge().memory, 2 << 30, "{:?}", web.status);
    let before: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_eq!(before.spec.run_strategy.as_deref(), Some("Always"));

    is_switched_off_as_it_is(&world, &before).await;

    // The user goes, and it with them.
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert!(vms.get_opt("web").await.unwrap().is_none());
    assert_eq!(world.find::<DataVolume>(ANN, "web-disk").await, None);
    assert_eq!(world.find::<KiteUser>("", "ann").await, None);
    let left = world.held().await;
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_and_a_power_state_that_can_be_read_count() {
    let world = World::with_ann().await;
    for name in ["ends", "off"] {
        world.create(vm_named(name)).await;
    }
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    let end = world.now() + jiff::SignedDuration::from_mins(2);
    let ends = json!({"cpu": "a few", "expiresAt": format!("{end}"), "expiryGracePeriod": "1m"});
    change(&vms, "ends", ends).await;
    change(&vms, "off", json!({"cpu": "a few", "powerState": "Off"})).await;
    world.settle().await;
    assert_eq!(run_strategy(&world, "ends").await, "Always");
    assert_eq!(run_strategy(&world, "off").await, "Halted");
    tokio::time::sleep(std::time::Duration::from_secs(121)).await;
    world.settle().await;
    assert_eq!(run_strategy(&world, "ends").await, "Halted");
    // Its disk is not deleted for what is known by half.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    world.settle().await;
    assert!(world.find::<DataVolume>(ANN, "ends-disk").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_granted_beside_a_vm_of_which_nobody_knows_what_it_has() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    create_odd(&vms).await;
    // As a version wrote it that did not tell what was granted.
    let status = json!({"status": {"disk": {"name": "odd-disk"}}});
    vms.patch_status("odd", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();

    // Neither a new VM nor more for one that is there.
    world.create(vm_named("new")).await;
    let web = world.vm("web").await;
    let more = json!({"spec": {"cpu": web.spec.cpu + 1, "powerState": "Off"}});
    world.edit(&web, more).await;
    world.settle().await;
    let status = world.vm("new").await.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Failed));
    for name in ["new", "web"] {
        let (_, message) = says(&world.vm(name).await);
        for part in ["odd", "a few", "quota"] {
            assert!(message.contains(part), "{name} says no {part}: {message}");
        }
    }
    assert_eq!(says(&world.vm("new").await).0, "QuotaUnknown");
    assert_eq!(world.find::<DataVolume>(ANN, "new-disk").await, None);
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let cpu = machine.spec.template.spec.domain.cpu.unwrap();
    assert_eq!(cpu.sockets, Some(web.spec.cpu));
    // What asks for nothing is done.
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Halted"));

    vms.delete("odd", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    assert!(world.find::<DataVolume>(ANN, "new-disk").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_network_policies_of_a_vm_of_which_nothing_can_be_read_stay() {
    let world = World::with_ann().await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    create_hopeless(&vms).await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    for _ in 0..5 {
        world.pass().await;
    }
    assert!(vms.get_opt("odd").await.unwrap().is_some());
    let policies = world.all::<NetworkPolicy>().await;
    assert!(policies.len() >= 2, "{policies:#?}");
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let conditions = ann.status.unwrap().conditions;
    let ready = find(&conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "Unreadable");
    for part in ["odd", "a few", "mend"] {
        assert!(ready.message.contains(part), "{part}: {}", ready.message);
    }

    // It is asked to go like the others. Once it has, so do the network policies and the user.
    let odd = vms.get("odd").await.unwrap();
    assert!(odd.metadata.deletion_timestamp.is_some());
    let_go(&vms, "odd").await;
    world.settle().await;
    assert!(vms.get_opt("odd").await.unwrap().is_none());
    assert_eq!(world.find::<KiteUser>("", "ann").await, None);
}

/// Users, images and offers of which the API server admits anything.
async fn raw<K>(cluster: &KubeCluster) -> Api<DynamicObject>
where
    K: CustomResourceExt + kube::Resource<DynamicType = ()>,
{
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
    }
    let key = ObjectKey::cluster(crd.metadata.name.clone().unwrap());
    let patch = json!({"spec": {"versions": crd.spec.versions}});
    let edit =
        cluster.merge_patch::<CustomResourceDefinition>(FieldManager::new("later"), &key, &patch);
    edit.await.unwrap();
    Api::all_with(cluster.client().clone(), &ApiResource::erase::<K>(&()))
}

#[tokio::test(start_paused = true)]
async fn users_images_and_offers_that_cannot_be_read_say_so_and_can_be_deleted() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let users = raw::<KiteUser>(&world.cluster).await;
    let images = raw::<KiteImage>(&world.cluster).await;
    let offers = raw::<KiteVirtualMachineOffer>(&world.cluster).await;
    change(&users, "ann", json!({"quota": {"cpu": "plenty"}})).await;
    change(&images, "debian-12", json!({"minDisk": "large"})).await;
    let resource = ApiResource::erase::<KiteVirtualMachineOffer>(&());
    let spec = json!({"cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12",
                      "lifetime": "a while"});
    let odd = DynamicObject::new("odd", &resource).data(json!({ "spec": spec }));
    offers.create(&PostParams::default(), &odd).await.unwrap();
    world.settle().await;

    for (api, name, field) in [
        (&users, "ann", "spec.quota"),
        (&images, "debian-12", "spec.minDisk"),
        (&offers, "odd", "spec.lifetime"),
    ] {
        let status = api.get(name).await.unwrap().data["status"].clone();
        let said = status["conditions"].as_array().unwrap().iter();
        let said: Vec<_> = said.filter(|it| it["reason"] == "Unreadable").collect();
        assert_eq!(said.len(), 1, "{name}: {status}");
        assert!(
            said[0]["message"].as_str().unwrap().contains(field),
            "{status}"
        );
    }
    // What runs runs on; what is new is not granted out of a quota that nobody knows.
    assert_eq!(run_strategy(&world, "web").await, "Always");
    world.create(vm_named("new")).await;
    world.settle().await;
    assert_eq!(world.find::<DataVolume>(ANN, "new-disk").await, None);
    // It is suspended all the same.
    change(&users, "ann", json!({"suspended": true})).await;
    world.settle().await;
    assert_eq!(run_strategy(&world, "web").await, "Halted");

    for (api, name) in [(&offers, "odd"), (&users, "ann"), (&images, "debian-12")] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_to_end_ends_though_a_setting_cannot_be_read() {
    let world = World::with_ann().await;
    for name in ["web", "off", "gone"] {
        world.create(vm_named(name)).await;
    }
    world.settle().await;
    let platforms = raw::<KitePlatform>(&world.cluster).await;
    change(&platforms, "default", json!({"gateway": 22})).await;
    let passes = async || {
        for _ in 0..10 {
            world.pass().await;
            world.stage.play().await;
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        }
    };
    let off = world.vm("off").await;
    let edit = json!({"spec": {"powerState": "Off"}});
    world.edit(&off, edit).await;
    world.delete(&world.vm("gone").await).await;
    passes().await;
    assert_eq!(run_strategy(&world, "off").await, "Halted");
    assert_eq!(run_strategy(&world, "web").await, "Always");
    let gone = world.find::<KiteVirtualMachine>(ANN, "gone").await;
    assert!(gone.is_none());
    assert_eq!(world.find::<DataVolume>(ANN, "gone-disk").await, None);

    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let edit = json!({"spec": {"suspended": true}});
    world.edit(&ann, edit).await;
    passes().await;
    assert_eq!(run_strategy(&world, "web").await, "Halted");
    assert!(says(&world.vm("web").await).1.contains("suspended"));
    // The user goes, with all that is theirs.
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    for _ in 0..3 {
        passes().await;
    }
    assert_eq!(world.find::<KiteUser>("", "ann").await, None);
}

/// What keeps VMs apart, and what is exposed.
async fn policies_and_doors(world: &World) -> serde_json::Value {
    let policies = world.all::<NetworkPolicy>().await;
    let policies: Vec<_> = policies.iter().map(|it| json!(it.spec)).collect();
    let doors = world.all::<Service>().await;
    let doors: Vec<_> = doors.iter().map(|it| json!(it.spec)).collect();
    json!({"policies": policies, "doors": doors})
}

#[tokio::test(start_paused = true)]
async fn nobody_acts_on_what_stands_for_settings_that_cannot_be_read() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let networks = json!({"spec": {"blockedNetworks": ["198.51.100.0/24"]}});
    world.edit(&platform, networks).await;
    world.settle().await;
    let stood = policies_and_doors(&world).await;
    assert!(stood.to_string().contains("198.51.100.0/24"), "{stood}");

    let platforms = raw::<KitePlatform>(&world.cluster).await;
    let sound = platforms.get("default").await.unwrap().data["spec"].clone();
    world.create(vm_named("new")).await;
    for (spec, named) in [
        (
            json!({"blockedNetworks": "198.51.100.0/24"}),
            "spec.blockedNetworks",
        ),
        (
            json!({"blockedNetworks": [], "gateway": 22}),
            "spec.gateway",
        ),
        (json!("what"), "all of it"),
    ] {
        change(&platforms, "default", spec).await;
        // The same trouble in other words is told a minute later.
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        for _ in 0..3 {
            world.pass().await;
        }
        let status = platforms.get("default").await.unwrap().data["status"].clone();
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        let ready = conditions.find(|it| it["type"] == "Ready").unwrap();
        assert_eq!(ready["reason"], "Unreadable", "{status}");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains(named), "{named}: {message}");
        assert_eq!(policies_and_doors(&world).await, stood, "{named}");
        assert_eq!(run_strategy(&world, "web").await, "Always");
        // Whoever waits for it is told of it.
        let (reason, message) = says(&world.vm("new").await);
        assert_eq!(reason, "Unreadable", "{message}");
        assert!(message.contains(named), "{named}: {message}");
        assert_eq!(world.find::<DataVolume>(ANN, "new-disk").await, None);
    }

    let mut mended = sound;
    mended["blockedNetworks"] = json!(["203.0.113.0/24"]);
    change(&platforms, "default", mended).await;
    world.settle().await;
    let now = policies_and_doors(&world).await;
    assert!(now.to_string().contains("203.0.113.0/24"), "{now}");
    assert!(world.find::<DataVolume>(ANN, "new-disk").await.is_some());
}
