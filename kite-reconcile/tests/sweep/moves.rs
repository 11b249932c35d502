//! A VM that grows while it runs, where Kite has to have it moved for that.

use kite_core::{
    crd::VmPhase,
    kubevirt::{KubeVirt, KubeVirtSpec, VirtualMachineInstance, VirtualMachineInstanceMigration},
    names,
};
use kite_fake::sim::{Builder, ScenarioError};
use kite_fake_kubevirt::kinds::STORAGE_PROFILE;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scenarios::{ANN, settle_in},
    stage::{vm, with_migrations},
};

/// A VM whose disk several nodes can have is given more, with `KubeVirt` configured as it is
/// by default: it is moved for that, once, and has it without a restart.
pub fn vm_resize_by_default(copies: usize) -> Builder {
    // A machine that a rival had made anew begins with its new size; and an order that one
    // made anew moves the VM once more.
    let stage = with_migrations(copies)
        .protect_from_rivals("virtualmachines.kubevirt.io")
        .protect_from_rivals("virtualmachineinstancemigrations.kubevirt.io")
        // The uid of the instance is in the order's name.
        .ignore_counts()
        .ignore_field("Pod", "/metadata/annotations/kubevirt.io~1migrationJobName");
    stage.scenario(async |world| {
        world.settle().await?;
        let profiles = STORAGE_PROFILE.api(world.client(), None);
        let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]);
        let patch = Patch::Merge(json!({"spec": {"claimPropertySets": sets}}));
        let params = PatchParams::default();
        profiles
            .patch(names::STORAGE_CLASS, &params, &patch)
            .await?;
        let mut kubevirt = KubeVirt::new("kubevirt", KubeVirtSpec::default());
        kubevirt.metadata.namespace = Some(names::PLATFORM_NAMESPACE.to_owned());
        world.create(&kubevirt).await?;
        world.settle().await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let instance = async || -> Result<VirtualMachineInstance, ScenarioError> {
            let found = world.get(ANN, "web").await?;
            found.ok_or_else(|| ScenarioError::Unmet("there is no instance".to_owned()))
        };
        let before = instance().await?;
        world.patch(&web, json!({"spec": {"cpu": 3}})).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let after = instance().await?;
        let is_same = before.uid() == after.uid();
        world.expect(is_same, "it was not restarted").await;
        let node = |it: &VirtualMachineInstance| it.status.as_ref()?.node_name.clone();
        let has_moved = node(&before) != node(&after);
        world.expect(has_moved, "it was moved").await;
        let sockets = after.spec.domain.cpu.and_then(|cpu| cpu.sockets);
        world.expect(sockets == Some(3), "it has its size").await;
        let conditions = after.status.map(|it| it.conditions).unwrap_or_default();
        let waits = conditions.iter().any(|it| it.type_ == "HotVCPUChange");
        world.expect(!waits, "it waits for nothing").await;
        let left = world.list::<VirtualMachineInstanceMigration>().await?;
        world
            .expect(left.is_empty(), "the order is cleared away")
            .await;
        Ok(())
    })
}
