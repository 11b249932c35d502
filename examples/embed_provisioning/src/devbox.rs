//! The custom resource of this operator, and the one function that carries it
//! out.

use std::{sync::Arc, time::Duration};

use kite_core::{
    cluster::{Cluster, ClusterError, FieldManager},
    crd::{KiteVirtualMachine, KiteVirtualMachineSpec, PowerState},
    names::unique_ssh_id,
};
use kube::{CustomResource, Resource as _, ResourceExt as _, runtime::controller::Action};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields that this operator applies are its own, not Kite's.
const MANAGER: FieldManager = FieldManager::new("devbox-operator");

/// A machine to develop on. All that a developer says is how large it is.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "DevBox",
    namespaced,
    doc = "A machine to develop on."
)]
pub struct DevBoxSpec {
    /// How large it is.
    pub size: Size,
    /// Whether it sleeps.
    #[serde(default)]
    pub asleep: bool,
}

/// Sizes to choose from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug)]
pub enum Size {
    /// For reading code.
    Small,
    /// For compiling it.
    Large,
}

/// Why a `DevBox` could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum DevBoxError {
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A size of ours is not one that Kite can read.
    #[error(transparent)]
    Size(#[from] kite_core::quantity::ParseQuantityError),
}

/// The VM that a `DevBox` stands for. Pure, like Kite's own renderers.
pub fn virtual_machine(dev_box: &DevBox) -> Result<KiteVirtualMachine, DevBoxError> {
    let name = dev_box.name_any();
    let namespace = dev_box.namespace().unwrap_or_default();
    let (cpu, memory, disk) = match dev_box.spec.size {
        Size::Small => (2, "4Gi", "20Gi"),
        Size::Large => (16, "64Gi", "200Gi"),
    };
    let mut vm = KiteVirtualMachine::new(
        &name,
        KiteVirtualMachineSpec {
            power_state: if dev_box.spec.asleep {
                PowerState::Off
            } else {
                PowerState::On
            },
            ..KiteVirtualMachineSpec::new(
                cpu,
                memory.parse()?,
                disk.parse()?,
                "debian-12",
                unique_ssh_id(&namespace, &name),
            )
        },
    );
    vm.metadata.namespace = Some(namespace);
    // The VM goes with its DevBox; Kite's finalizer sees to everything below it.
    vm.metadata.owner_references = dev_box.controller_owner_ref(&()).map(|owner| vec![owner]);
    Ok(vm)
}

/// Applies the VM. Kite's reconciler, which runs in this process too, does the
/// rest and reports in the VM's status.
pub async fn reconcile<C: Cluster>(
    dev_box: Arc<DevBox>,
    cluster: Arc<C>,
) -> Result<Action, DevBoxError> {
    cluster.apply(MANAGER, &virtual_machine(&dev_box)?).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}
