//! The migration by which an instance gets more than its launcher has.

use kite_core::{
    kubevirt::{
        VirtualMachineInstance, VirtualMachineInstanceMigration,
        VirtualMachineInstanceMigrationSpec,
    },
    names,
};

use crate::Vm;

/// Name of the migration of this number for what `instance` is to have now; none if it is
/// not in the cluster. It tells which instance it is for, what that is to get, and how many
/// there were before: another one for the same is refused.
pub fn name_for_resize(instance: &VirtualMachineInstance, number: u32) -> Option<String> {
    let uid = instance.metadata.uid.as_deref()?;
    let domain = &instance.spec.domain;
    let sockets = domain.cpu.as_ref().and_then(|cpu| cpu.sockets);
    let memory = domain
        .memory
        .as_ref()
        .and_then(|memory| memory.guest.as_ref());
    let change = format!("{sockets:?} {memory:?}");
    Some(names::resize_migration(uid, &change, number))
}

/// The migration of this number for what the instance of `vm` is to have now; none if it is
/// not in the cluster. See [`name_for_resize`].
///
/// It has no priority, which `KubeVirt` lets nobody set but itself, and is not marked as
/// one of `KubeVirt`'s own, which it breaks off when it finds them needless.
pub fn for_resize(
    vm: &Vm<'_>,
    instance: &VirtualMachineInstance,
    number: u32,
) -> Option<VirtualMachineInstanceMigration> {
    let mut metadata = vm.metadata(name_for_resize(instance, number)?);
    for owner in metadata.owner_references.iter_mut().flatten() {
        // KubeVirt lets go of it when it has ended, which may take a while.
        owner.block_owner_deletion = None;
    }
    Some(VirtualMachineInstanceMigration {
        metadata,
        spec: VirtualMachineInstanceMigrationSpec {
            vmi_name: vm.name.to_owned(),
        },
        status: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
    use serde_json::json;

    use super::*;

    fn instance(uid: &str, sockets: u32) -> VirtualMachineInstance {
        let domain = json!({"cpu": {"sockets": sockets}, "memory": {"guest": "4Gi"}});
        let object = json!({"metadata": {"uid": uid}, "spec": {"domain": domain}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn its_name_is_that_of_the_instance_the_change_and_its_number() {
        let size = |text: &str| text.parse().unwrap();
        let spec = KiteVirtualMachineSpec::new(1, size("1Gi"), size("5Gi"), "debian-12", "web");
        let mut object = KiteVirtualMachine::new("web", spec);
        object.metadata.namespace = Some("kite-user-ann".to_owned());
        object.metadata.uid = Some("u".to_owned());
        let vm = Vm::of(&object).unwrap();
        let made = |uid, sockets| for_resize(&vm, &instance(uid, sockets), 1).unwrap();
        assert_eq!(made("a", 2), made("a", 2));
        assert_ne!(made("a", 2).metadata.name, made("a", 4).metadata.name);
        assert_ne!(made("a", 2).metadata.name, made("b", 2).metadata.name);
        let second = for_resize(&vm, &instance("a", 2), 2).unwrap();
        assert_ne!(made("a", 2).metadata.name, second.metadata.name);
        let made = made("a", 2);
        assert_eq!(made.spec.vmi_name, "web");
        assert_eq!(made.metadata.namespace.as_deref(), Some("kite-user-ann"));
        let owners = made.metadata.owner_references.unwrap();
        assert!(
            owners
                .iter()
                .all(|it| it.uid == "u" && it.block_owner_deletion.is_none())
        );
        assert_eq!(for_resize(&vm, &VirtualMachineInstance::default(), 1), None);
    }
}
