//! Whether anybody can log in to a VM. It is no fault of the VM's if nobody can:
//! its image may have users of its own, for its consoles.

use kite_core::{
    conditions::NewCondition,
    crd::{SshLogin, vm_condition::ACCESSIBLE},
};
use kite_render::Vm;

use super::observe::Observed;

/// What lets somebody in.
const KEY: &str = "a key in spec.sshPublicKeys of the VM or of its owner";
/// The same.
const PASSWORD: &str = "a password (spec.sshPasswordHash)";

/// What is said of a VM that the gateway can let nobody into: the keys that it goes
/// by are the VM's and its owner's. Nothing is said of one that has what it takes.
pub(super) fn condition(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    let spec = &vm.object.spec;
    let owner = seen.owner.as_ref();
    let has_owners_key = owner.is_some_and(|owner| !owner.spec.ssh_public_keys.is_empty());
    let has_key = has_owners_key || !spec.ssh_public_keys.is_empty();
    let has_password = spec.ssh_password_hash.is_some();
    let (lacks, remedy) = match (spec.ssh_login, has_key, has_password) {
        (SshLogin::KeyOrPassword, false, false) => (
            "it has neither a password nor a public key",
            format!("set {KEY}, or {PASSWORD}"),
        ),
        (SshLogin::KeyAndPassword, false, false) => (
            "a login takes a key and a password, and it has neither",
            format!("set {KEY}, and {PASSWORD}"),
        ),
        (SshLogin::KeyAndPassword, true, false) => (
            "a login takes a key and a password, and it has no password",
            format!("set {PASSWORD}, or spec.sshLogin to KeyOrPassword"),
        ),
        (SshLogin::KeyAndPassword, false, true) => (
            "a login takes a key and a password, and it has no public key",
            format!("set {KEY}, or spec.sshLogin to KeyOrPassword"),
        ),
        (SshLogin::KeyOrPassword, true, _)
        | (SshLogin::KeyOrPassword, _, true)
        | (SshLogin::KeyAndPassword, true, true) => return None,
    };
    Some(NewCondition::new(
        ACCESSIBLE,
        false,
        "NoCredentials",
        format!("nobody can log in to the VM by SSH: {lacks}; {remedy}, which counts at once"),
    ))
}
