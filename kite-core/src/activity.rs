//! When a VM was last used: a Lease beside it, which only the doors to the VM
//! (the SSH gateway, consoles) write, and only the controller reads.
//!
//! It is an object of its own, so that use of VMs neither wakes up everybody who
//! watches VMs, nor makes the controller's writes conflict.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::Resource as _;

use crate::{crd::KiteVirtualMachine, labels, names};

/// How often use of one VM is reported at most. A VM in use is reported again
/// before twice this time is over, which is why no idle timeout is shorter.
pub const REPORT_EVERY: Duration = Duration::from_secs(240);

/// What says that the VM `name` in `namespace` with this uid was used at `at`.
/// To be applied; it goes with the VM, and takes the place of what was reported
/// of an earlier VM of that name.
pub fn report(namespace: &str, name: &str, uid: &str, at: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(names::activity_lease(name)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels::for_vm(namespace, name)),
            owner_references: Some(vec![OwnerReference {
                api_version: KiteVirtualMachine::api_version(&()).into_owned(),
                kind: KiteVirtualMachine::kind(&()).into_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            renew_time: Some(MicroTime(at)),
            ..LeaseSpec::default()
        }),
    }
}

/// When the VM with this uid was last used, as `lease` has it; nothing if it is
/// about another VM.
pub fn last_used(lease: &Lease, uid: &str) -> Option<Timestamp> {
    let mut owners = lease.metadata.owner_references.iter().flatten();
    let is_hers = owners.any(|owner| owner.uid == uid);
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
    is_hers.then_some(renewed.0)
}
