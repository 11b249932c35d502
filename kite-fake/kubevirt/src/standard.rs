//! All actors together.

use std::sync::Arc;

use kite_fake::FakeCluster;
use kite_fake::actors::{Actor, Actors, Certificates, Gateways, Rules, control_plane};
use tokio_util::sync::CancellationToken;

use crate::cdi::{CdiAdmission, DataImportCrons, DataSources, DataVolumes, StorageProfiles};
use crate::kubevirt::{
    Clones, Guests, HotplugVolumes, Instances, KubeVirtAdmission, LauncherEvictions,
    MigrationAdmission, MigrationAgent, MigrationTriggers, Migrations, NoGuests, NodeAgent,
    Restores, SUBRESOURCES, SnapshotAdmission, SnapshotContents, Snapshots, SshGuests, VirtHandler,
    VirtualMachines, VmSubresources,
};
use crate::operators::Operators;

/// [`control_plane`], CDI, `KubeVirt`, and what else is beside them in a cluster. Nothing
/// runs in VMs.
///
/// ```
/// use kite_fake::FakeCluster;
/// use kite_fake_kubevirt::{cdi_definitions, everything, kubevirt_definitions};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let cluster = FakeCluster::builder()
///     .crds(kubevirt_definitions())
///     .crds(cdi_definitions())
///     .actors(everything())
///     .build()?;
/// # drop(cluster);
/// # Ok::<(), kite_fake::BuildError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn everything() -> Vec<Arc<dyn Actor>> {
    everything_with(false, machines(false))
}

/// [`everything`], and each running VM is a real SSH server on a loopback port.
pub fn everything_with_guests() -> Vec<Arc<dyn Actor>> {
    everything_with(true, machines(true))
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
        Arc::new(VirtHandler),
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
            .with_guests(Arc::clone(&machines))
            .with_rules(rules);
    cluster.extend(SUBRESOURCES, Arc::new(subresources));
    let (client, clock) = (cluster.control_plane_client(), cluster.clock());
    let actors = everything_with(guests, machines);
    Actors::spawn(&client, clock, rules, actors, shutdown)
}
