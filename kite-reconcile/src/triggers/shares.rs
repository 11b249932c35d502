//! Who waits for what another VM of the same user gives back.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use kite_core::{
    crd::{Charge, KiteVirtualMachine},
    names,
};
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};

/// What the VMs of each user are charged with, and which of them want more.
#[derive(Default)]
pub(super) struct Shares {
    users: Mutex<HashMap<String, Share>>,
}

#[derive(Default)]
struct Share {
    charges: HashMap<String, Charge>,
    waiting: BTreeSet<String>,
}

impl Shares {
    /// The VMs that may have what `vm` gives back, if it gives back something.
    pub(super) fn freed(&self, vm: &KiteVirtualMachine) -> Vec<ObjectRef<KiteVirtualMachine>> {
        let namespace = vm.namespace().unwrap_or_default();
        if names::user_of_namespace(&namespace).is_none() {
            return Vec::new();
        }
        let name = vm.name_any();
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let share = users.entry(namespace.clone()).or_default();
        let charge = vm.charge();
        // Whatever is heard of one that goes may be the last.
        let is_leaving = vm.metadata.deletion_timestamp.is_some();
        let before = if is_leaving {
            share.charges.remove(&name)
        } else {
            share.charges.insert(name.clone(), charge)
        };
        let wants_more = charge.or_more(Charge::from(&vm.spec)) != charge;
        if wants_more && !is_leaving {
            share.waiting.insert(name.clone());
        } else {
            share.waiting.remove(&name);
        }
        let has_less = before.is_some_and(|before| before.or_more(charge) != charge);
        let due = if is_leaving || has_less {
            let waiting = share.waiting.iter().filter(|other| **other != name);
            waiting
                .map(|other| ObjectRef::new(other).within(&namespace))
                .collect()
        } else {
            Vec::new()
        };
        if share.charges.is_empty() {
            users.remove(&namespace);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::{KiteVirtualMachineSpec, KiteVirtualMachineStatus, VmSize};

    use super::*;

    fn vm(name: &str, cpu: u32, granted: u32) -> KiteVirtualMachine {
        let bytes = |text: &str| text.parse().unwrap();
        let spec = KiteVirtualMachineSpec::new(cpu, bytes("1Gi"), bytes("9Gi"), "debian", name);
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some("kite-user-ann".to_owned());
        vm.status = Some(KiteVirtualMachineStatus {
            granted: Some(VmSize {
                cpu: Some(granted),
                memory: Some(bytes("1Gi")),
                disk: Some(bytes("9Gi")),
            }),
            ..KiteVirtualMachineStatus::default()
        });
        vm
    }

    fn names(due: Vec<ObjectRef<KiteVirtualMachine>>) -> Vec<String> {
        due.into_iter().map(|vm| vm.name).collect()
    }

    #[test]
    fn those_who_want_more_hear_of_what_is_given_back() {
        let shares = Shares::default();
        let heard = |vm: &KiteVirtualMachine| names(shares.freed(vm));
        for vm in [vm("a", 2, 2), vm("b", 4, 2), vm("c", 9, 2), vm("d", 1, 1)] {
            assert!(heard(&vm).is_empty());
        }
        assert_eq!(heard(&vm("a", 1, 1)), ["b", "c"], "it has less");
        assert!(heard(&vm("a", 1, 1)).is_empty(), "it has as much");
        assert!(heard(&vm("b", 4, 4)).is_empty(), "it has more");
        let mut gone = vm("b", 4, 4);
        gone.metadata.deletion_timestamp = Some(gone_at());
        assert_eq!(heard(&gone), ["c"]);
        let mut elsewhere = vm("a", 1, 0);
        elsewhere.metadata.namespace = Some("kite-user-bob".to_owned());
        assert!(heard(&elsewhere).is_empty(), "another user's");
        for vm in ["a", "c", "d"].map(|name| vm(name, 1, 1)) {
            let mut gone = vm;
            gone.metadata.deletion_timestamp = Some(gone_at());
            heard(&gone);
        }
        elsewhere.metadata.deletion_timestamp = Some(gone_at());
        heard(&elsewhere);
        assert!(shares.users.lock().unwrap().is_empty(), "nothing is kept");
    }

    fn gone_at() -> Time {
        Time(jiff::Timestamp::UNIX_EPOCH)
    }
}
