//! Which changes of an object are worth telling others.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Mutex, PoisonError},
};

use kite_core::cluster::Object;
use kube::ResourceExt as _;

/// Tells edits of a spec and deletions from changes of a status: a user's status
/// changes with each of their VMs, and a VM's with each step of its start.
#[derive(Default)]
pub(super) struct Edits {
    /// Generations, and a hash of what else was told, by the hash of the object's uid.
    seen: Mutex<HashMap<u64, (Option<i64>, u64)>>,
    hasher: RandomState,
}

impl Edits {
    /// Whether it is an edit, a deletion, or a change of `fact`, something that
    /// the status says.
    pub(super) fn is_one<K: Object>(&self, object: &K, fact: impl Hash) -> bool {
        let metadata = object.meta();
        let id = self.hasher.hash_one(&metadata.uid);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Whatever is heard of these may be the last: they may be gone.
        if metadata.deletion_timestamp.is_some() || object.finalizers().is_empty() {
            seen.remove(&id);
            return true;
        }
        let now = (metadata.generation, self.hasher.hash_one(fact));
        seen.insert(id, now) != Some(now)
    }
}

#[cfg(test)]
mod tests {
    use kite_core::{
        crd::{KiteVirtualMachine, KiteVirtualMachineSpec},
        labels,
    };

    use super::*;

    fn vm(name: &str) -> KiteVirtualMachine {
        let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some("dev".to_owned());
        vm.metadata.uid = Some(format!("uid-of-{name}"));
        vm
    }

    #[test]
    fn edits_and_deletions_are_told_from_changes_of_a_status() {
        let edits = Edits::default();
        let mut vm = vm("first");
        vm.metadata.generation = Some(1);
        assert!(edits.is_one(&vm, false), "made");
        // Nothing holds it: this may be its end.
        assert!(edits.is_one(&vm, false));
        vm.metadata.finalizers = Some(vec![labels::VM_FINALIZER.to_owned()]);
        assert!(edits.is_one(&vm, false));
        vm.status = Some(kite_core::crd::KiteVirtualMachineStatus::default());
        assert!(!edits.is_one(&vm, false), "a status");
        vm.metadata.generation = Some(2);
        assert!(edits.is_one(&vm, false), "an edit");
        assert!(edits.is_one(&vm, true), "a fact in the status");
        assert!(edits.is_one(&vm, false), "and its end");
        assert!(!edits.is_one(&vm, false));
        vm.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        assert!(edits.is_one(&vm, false), "deleted");
        assert!(edits.is_one(&vm, false), "gone");
        assert!(edits.seen.lock().unwrap().is_empty());
    }
}
