//! Lists of actors that belong together.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::FakeCluster;

use super::{
    Actor, Actors, CdiAdmission, Certificates, ClaimBinder, Clones, CrdCleanup, DataImportCrons,
    DataSources, DataVolumes, Deployments, EndpointSlices, GarbageCollector, Gateways, Guests,
    HotplugVolumes, Instances, Jobs, KubeVirtAdmission, LauncherEvictions, LoadBalancers,
    MigrationAdmission, MigrationAgent, MigrationTriggers, Migrations, NamespaceDefaults,
    NamespaceLifecycle, NoGuests, NodeAgent, Nodes, Operators, Pods, Replicas, Restores, Rules,
    SUBRESOURCES, SnapshotAdmission, SnapshotContents, Snapshots, SshGuests, StorageProfiles,
    VirtualMachines, VmSubresources, VolumeSnapshots,
};

/// The controllers of Kubernetes itself: namespaces, garbage, definitions,
/// Services, storage, Deployments, a node and its Pods.
pub fn control_plane() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(NamespaceLifecycle::default()),
        Arc::new(NamespaceDefaults),
        Arc::new(GarbageCollector::default()),
        Arc::new(CrdCleanup),
        Arc::new(EndpointSlices::default()),
        Arc::new(LoadBalancers::default()),
        Arc::new(ClaimBinder),
        Arc::new(VolumeSnapshots::default()),
        Arc::new(Deployments),
        Arc::new(Replicas::of_replica_sets()),
        Arc::new(Replicas::of_stateful_sets()),
        Arc::new(Replicas::of_daemon_sets()),
        Arc::new(Jobs),
        Arc::new(Nodes),
        Arc::new(Pods::default()),
    ]
}

/// [`control_plane`], CDI and `KubeVirt`. With `guests` each running VM is a
/// real SSH server on a loopback port; without, nothing runs in it.
pub fn everything(guests: bool) -> Vec<Arc<dyn Actor>> {
    everything_with(guests, machines(guests))
}

/// What runs in VMs.
fn machines(guests: bool) -> Arc<dyn Guests> {
    if guests {
        Arc::new(SshGuests::default())
    } else {
        Arc::new(NoGuests)
    }
}

fn everything_with(guests: bool, machines: Arc<dyn Guests>) -> Vec<Arc<dyn Actor>> {
    let instances = if guests {
        Instances::with_real_guests()
    } else {
        Instances::default()
    };
    let mut all = control_plane();
    all.extend([
        Arc::new(DataSources::default()) as Arc<dyn Actor>,
        Arc::new(DataVolumes::default()),
        Arc::new(DataImportCrons::default()),
        Arc::new(StorageProfiles),
        Arc::new(Certificates),
        Arc::new(Gateways::default()),
        Arc::new(Operators),
        Arc::new(VirtualMachines::default()),
        Arc::new(instances),
        Arc::new(HotplugVolumes::default()),
        Arc::new(Snapshots::default()),
        Arc::new(SnapshotContents::default()),
        Arc::new(Restores::default()),
        Arc::new(Clones::default()),
        Arc::new(Migrations::default()),
        Arc::new(MigrationAgent),
        Arc::new(MigrationTriggers),
        Arc::new(NodeAgent::new(machines)),
    ]);
    all
}

/// Plays the rest of a cluster on `cluster`: [`everything`], what `KubeVirt` and
/// CDI refuse, and the subresources of VMs. The actors end when `shutdown` fires.
pub fn play(
    cluster: &FakeCluster,
    rules: &Arc<Rules>,
    guests: bool,
    shutdown: &CancellationToken,
) -> Actors {
    cluster.admit_by(Arc::new(CdiAdmission));
    cluster.admit_by(Arc::new(KubeVirtAdmission));
    cluster.admit_by(Arc::new(MigrationAdmission));
    cluster.admit_by(Arc::new(LauncherEvictions));
    cluster.admit_by(Arc::new(SnapshotAdmission));
    let machines = machines(guests);
    let subresources =
        VmSubresources::new(cluster.control_plane_client(), Arc::clone(cluster.clock()))
            .with_guests(Arc::clone(&machines));
    cluster.extend(SUBRESOURCES, Arc::new(subresources));
    let (client, clock) = (cluster.control_plane_client(), cluster.clock());
    let actors = everything_with(guests, machines);
    Actors::spawn(&client, clock, rules, actors, shutdown)
}
