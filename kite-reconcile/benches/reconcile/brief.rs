//! `KubeVirt` and CDI in as few words as Kite needs: each object is written once
//! and then is what it is to be.
//!
//! With everything that plays a cluster (schedulers, kubelets, binders, the many
//! steps of an instance), three in four requests of a fleet are not Kite's. With
//! these, what a fleet takes is what Kite and the API server take.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use kite_core::{
    cdi::{DataVolume, DataVolumeStatus},
    cluster::{Cluster, ClusterError, FieldManager, KubeCluster, Object, ObjectKey},
    kubevirt::{
        InterfaceStatus, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec,
        VirtualMachineInstanceStatus, VirtualMachineStatus,
    },
};
use kube::{
    Api, Client,
    api::ObjectMeta,
    runtime::{WatchStreamExt as _, watcher},
};
use tokio_util::sync::CancellationToken;

const PLAYER: FieldManager = FieldManager::new("brief");
/// Objects that are written at a time.
const AT_ONCE: usize = 16;

/// Begins to play; it ends with `stop`.
pub fn play(client: &Client, stop: &CancellationToken) {
    let disks = each::<DataVolume, _, _>(client.clone(), |cluster, disk| async move {
        if disk.status.as_ref().is_none_or(|it| it.phase.is_none()) {
            fill(&cluster, &disk).await?;
        }
        Ok(())
    });
    let machines = each::<VirtualMachine, _, _>(client.clone(), |cluster, machine| async move {
        if machine.status.is_none() && machine.spec.run_strategy.as_deref() == Some("Always") {
            run(&cluster, &machine).await?;
        }
        Ok(())
    });
    tokio::spawn(stop.clone().run_until_cancelled_owned(disks));
    tokio::spawn(stop.clone().run_until_cancelled_owned(machines));
}

/// Does `work` for each object that the watch shows.
async fn each<K, W, F>(client: Client, work: W)
where
    K: Object + 'static,
    W: Fn(KubeCluster, K) -> F,
    F: Future<Output = Result<(), ClusterError>>,
{
    let cluster = KubeCluster::new(client.clone());
    watcher(Api::<K>::all(client), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .for_each_concurrent(AT_ONCE, |shown| async {
            let Ok(object) = shown else { return };
            match work(cluster.clone(), object).await {
                // Done when it was shown before.
                Ok(()) | Err(ClusterError::AlreadyExists { .. }) => {}
                Err(error) => panic!("nobody interferes: {error}"),
            }
        })
        .await;
}

/// What an object of Kite's gives rise to: of its name, and gone with it.
fn made_by<K: Object>(owner: &K) -> ObjectMeta {
    ObjectMeta {
        name: owner.meta().name.clone(),
        namespace: owner.meta().namespace.clone(),
        owner_references: owner.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// The object's name and namespace, to say its status.
fn named<K: Object>(object: &K) -> ObjectMeta {
    let key = ObjectKey::of(object);
    ObjectMeta {
        name: Some(key.name),
        namespace: key.namespace,
        ..ObjectMeta::default()
    }
}

async fn fill(cluster: &KubeCluster, disk: &DataVolume) -> Result<(), ClusterError> {
    let storage = disk.spec.storage.clone().unwrap();
    let mut claim = PersistentVolumeClaim {
        metadata: made_by(disk),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: storage.resources,
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    };
    cluster.create(&claim).await?;
    claim.metadata = named(&claim);
    claim.spec = None;
    claim.status = Some(PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        ..PersistentVolumeClaimStatus::default()
    });
    cluster.apply_status(PLAYER, &claim).await?;
    let mut disk = DataVolume {
        metadata: named(disk),
        ..disk.clone()
    };
    disk.status = Some(DataVolumeStatus {
        phase: Some("Succeeded".to_owned()),
        progress: Some("100.0%".to_owned()),
        ..DataVolumeStatus::default()
    });
    cluster.apply_status(PLAYER, &disk).await.map(drop)
}

async fn run(cluster: &KubeCluster, machine: &VirtualMachine) -> Result<(), ClusterError> {
    let template = machine.spec.template.metadata.clone();
    let mut instance = VirtualMachineInstance {
        metadata: ObjectMeta {
            labels: template.and_then(|metadata| metadata.labels),
            ..made_by(machine)
        },
        spec: VirtualMachineInstanceSpec::default(),
        status: None,
    };
    cluster.create(&instance).await?;
    instance.metadata = named(&instance);
    instance.status = Some(VirtualMachineInstanceStatus {
        phase: Some("Running".to_owned()),
        node_name: Some("node-a".to_owned()),
        interfaces: vec![InterfaceStatus {
            name: Some("default".to_owned()),
            ip_address: Some("10.0.0.1".to_owned()),
            ip_addresses: Vec::new(),
        }],
        ..VirtualMachineInstanceStatus::default()
    });
    cluster.apply_status(PLAYER, &instance).await?;
    let mut machine = VirtualMachine {
        metadata: named(machine),
        ..machine.clone()
    };
    machine.status = Some(VirtualMachineStatus {
        printable_status: Some("Running".to_owned()),
        ..VirtualMachineStatus::default()
    });
    cluster.apply_status(PLAYER, &machine).await.map(drop)
}
