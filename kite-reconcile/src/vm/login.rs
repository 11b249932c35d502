//! Whether anybody can log in to a VM. It is no fault of the VM's if nobody can:
//! its image may have users of its own, for its consoles.

use kite_core::{
    conditions::NewCondition,
    crd::{KiteVirtualMachineStatus, Principals, SshLogin, vm_condition::ACCESSIBLE},
    labels, names,
    password::PasswordHash,
    public_key::PublicKey,
};
use kite_render::{Vm, keys::VmKeys};

use super::{draft::VmDraft, exposed, judge::DiskState, lost, observe::Observed};
use crate::stage::Stage;

/// Goes by `owner`, `platform`, `key_secret`, `disk` and `claim`.
pub(super) struct Login;

impl Stage<VmDraft<'_>> for Login {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        condition(draft.vm, draft.seen)
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.guest_key = guest_key(draft.vm, draft.seen);
    }
}

/// What lets somebody in.
const KEY: &str = "a key in spec.sshPublicKeys of the VM or of its owner";
/// The same.
const PASSWORD: &str = "a password (spec.sshPasswordHash)";

/// What is said of a VM that the gateway can let nobody into: the keys that it goes
/// by are the VM's and its owner's, and those of authorities. Nothing is said of one that has what it takes.
fn condition(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    if let Some(present) = unknown_key(vm, seen) {
        let (secret, key) = (names::ssh_key_secret(vm.name), labels::GUEST_KEY);
        return Some(NewCondition::new(
            ACCESSIBLE,
            false,
            KEYS_REPLACED,
            format!(
                "the gateway cannot log in to the VM: Secret {secret} was lost, and the keys that \
                 were made anew are not those of the guest. Restore the Secret from a backup; or \
                 run `cloud-init clean --reboot` in the guest, which takes the new ones over, and \
                 say so: kubectl annotate kitevirtualmachine -n {} {} {key}='{present}'",
                vm.namespace, vm.name
            ),
        ));
    }
    let spec = &vm.object.spec;
    let owner = seen.owner.as_ref();
    let of_owner = owner.map(|owner| owner.spec.ssh_public_keys.as_slice());
    let of_owner = of_owner.unwrap_or_default();
    let mut keys = spec.ssh_public_keys.iter().chain(of_owner);
    // Whoever an authority vouches for has a key, too.
    let authorities = &seen.platform.gateway.user_authorities;
    let is_vouched_for = authorities.iter().any(|it| {
        let names_somebody = it.principals == Principals::LoginNames || owner.is_some();
        names_somebody && it.key().is_ok()
    });
    let has_key = is_vouched_for || keys.any(|key| PublicKey::parse(key).is_ok());
    let hash = spec.ssh_password_hash.as_ref();
    let is_too_costly = hash.is_some_and(PasswordHash::is_too_costly);
    let has_password = hash.is_some() && !is_too_costly;
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
    let unusable = unusable("spec.sshPublicKeys", &spec.ssh_public_keys)
        .or_else(|| unusable("the owner's spec.sshPublicKeys", of_owner))
        .filter(|_| !has_key);
    let (reason, mut why) = match unusable {
        Some(why) => ("UnusableKeys", format!("; {why}")),
        None => ("NoCredentials", String::new()),
    };
    if is_too_costly {
        why.insert_str(
            0,
            " (the hash of the one that was set costs more than any may, and verifies nothing)",
        );
    }
    Some(NewCondition::new(
        ACCESSIBLE,
        false,
        reason,
        format!("nobody can log in to the VM by SSH: {lacks}{why}; {remedy}, which counts at once"),
    ))
}

/// The first of the keys with which nobody can log in, and why.
fn unusable(field: &str, keys: &[String]) -> Option<String> {
    let mut faults = keys.iter().enumerate();
    faults.find_map(|(at, key)| {
        let why = PublicKey::parse(key).err()?;
        Some(format!("{field}[{at}] {why}"))
    })
}

/// Reason of the condition where the guest has other keys than the gateway.
pub(crate) const KEYS_REPLACED: &str = "KeysReplaced";

/// The gateway's public key that the guest knows: that with which it was made, unless
/// somebody says that it has another one by now. It was made when its disk was filled.
fn guest_key(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let told = vm
        .object
        .status
        .as_ref()
        .and_then(|it| it.guest_key.clone());
    match lost::disk_state(vm, seen) {
        DiskState::Lost => return told,
        DiskState::Filled => {}
        _ => return None,
    }
    let present = present_key(vm, seen);
    let annotations = vm.object.metadata.annotations.as_ref();
    let said = annotations.and_then(|all| all.get(labels::GUEST_KEY));
    if said.is_some_and(|said| Some(said.trim()) == present.as_deref()) {
        return present;
    }
    told.or(present)
}

/// The present public key, if the guest does not know it.
fn unknown_key(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let known = guest_key(vm, seen)?;
    present_key(vm, seen).filter(|present| *present != known)
}

fn present_key(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let secret = exposed::own(vm, seen.key_secret.as_ref())?;
    let keys = VmKeys::from_secret(secret).ok()?;
    Some(keys.client_public.trim().to_owned())
}
