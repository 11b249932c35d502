//! Objects that a CRD admits and this version cannot read: what depends on all
//! objects of a kind is not decided without them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, KubeCluster, ObjectKey},
    conditions::find,
    crd::{KiteUser, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use kube::{
    Api, CustomResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
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
    let edit = cluster.edit::<CustomResourceDefinition>(FieldManager::new("later"), &key, &patch);
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

fn says(vm: &KiteVirtualMachine) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, "Ready").unwrap().clone();
    (found.reason, found.message)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_granted_beside_a_vm_that_cannot_be_read() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    create_odd(&vms).await;

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
async fn the_walls_of_a_vm_that_cannot_be_read_stay() {
    let world = World::with_ann().await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    create_odd(&vms).await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    for _ in 0..5 {
        world.pass().await;
    }
    assert!(vms.get_opt("odd").await.unwrap().is_some());
    let walls = world
        .all::<k8s_openapi::api::networking::v1::NetworkPolicy>()
        .await;
    assert!(walls.len() >= 2, "{walls:#?}");
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let conditions = ann.status.unwrap().conditions;
    let ready = find(&conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "Unreadable");
    for part in ["odd", "a few", "mend"] {
        assert!(ready.message.contains(part), "{part}: {}", ready.message);
    }
}
