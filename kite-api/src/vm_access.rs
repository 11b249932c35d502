//! Which VMs of an account somebody may get into beside its password.

use jiff::Timestamp;
use kite_core::{
    cluster::Cluster as _,
    crd::{KiteUser, KiteVirtualMachine},
    names,
};
use kube::{ResourceExt as _, api::ListParams};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access_dates::date_in,
    notices::{noted_of_vm, vms_of},
    state::ApiState,
};

/// A VM that has keys or a password of its own.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VmAccess")]
pub(crate) struct AccessView {
    /// Name of the VM.
    name: String,
    /// When the last of these came: where others than this API put them there, when that
    /// was found. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    changed_at: Option<String>,
}

/// The VMs of `user` that keys or a password of their own open which came after `since`,
/// and those of which nobody knows when. Also one that was made since then: whoever had the
/// password of before may have made it, or made it anew.
///
/// A copy may be behind what another replica has just written for a session in other hands,
/// and the password after this one would not tell of it: the API server is asked.
pub(crate) async fn access_since(
    state: &ApiState,
    user: &KiteUser,
    since: Option<Timestamp>,
) -> Vec<AccessView> {
    let now = Timestamp::now();
    let namespace = names::user_namespace(&user.name_any());
    let all = ListParams::default();
    let there = state.cluster();
    let there = there.list::<KiteVirtualMachine>(Some(namespace), &all);
    let view = |vm: &KiteVirtualMachine| view_of(vm, since, now);
    let mut views: Vec<_> = match there.await {
        Ok(there) => there.items.iter().filter_map(view).collect(),
        // The password is another by now, and that has to be answered.
        Err(error) => {
            tracing::warn!(%error, "who may log in to VMs is told by a copy of them");
            let copy = vms_of(state, user);
            copy.iter().filter_map(|vm| view(vm.as_ref())).collect()
        }
    };
    views.sort_by(|one, other| one.name.cmp(&other.name));
    views
}

fn view_of(
    vm: &KiteVirtualMachine,
    since: Option<Timestamp>,
    now: Timestamp,
) -> Option<AccessView> {
    if vm.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let changed = if vm.spec.unreadable.is_some() {
        // What stands for its keys are not its own.
        None
    } else if vm.spec.ssh_public_keys.is_empty() && vm.spec.ssh_password_hash.is_none() {
        return None;
    } else {
        date_in(&noted_of_vm(vm, now))
    };
    let is_older = changed
        .zip(since)
        .is_some_and(|(changed, since)| changed <= since);
    (!is_older).then(|| AccessView {
        name: vm.name_any(),
        changed_at: changed.map(|at| at.to_string()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::crd::KiteVirtualMachineSpec;

    use super::*;
    use crate::access_dates::{SINCE, note_access};

    const KEY: &str = "ssh-ed25519 AAAA ann@laptop";

    fn vm(keys: &[&str]) -> KiteVirtualMachine {
        let (memory, disk) = ("1Gi".parse().unwrap(), "4Gi".parse().unwrap());
        let mut spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        spec.ssh_public_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        KiteVirtualMachine::new("web", spec)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_vm_is_told_of_when_what_opens_it_came_later_or_nobody_knows_when() {
        let before = at("2026-05-01T00:00:00Z");
        let (since, later) = (at("2026-05-02T00:00:00Z"), at("2026-05-03T00:00:00Z"));
        let tells = |vm: &KiteVirtualMachine| view_of(vm, Some(since), later);
        assert_eq!(tells(&vm(&[])), None);

        let mut web = vm(&[KEY]);
        // What nobody has noted yet is found now.
        let found = tells(&web).unwrap();
        assert_eq!(found.changed_at, Some(later.to_string()));
        for (noted, is_told) in [(before, false), (since, false), (later, true)] {
            // With all else that the API notes.
            *web.annotations_mut() = noted_of_vm(&web, noted);
            web.annotations_mut().extend([note_access(noted)]);
            assert_eq!(tells(&web).is_some(), is_told, "{noted}");
        }
        // Of an account of which nobody knows anything, all is told.
        web.annotations_mut().extend([note_access(before)]);
        assert!(view_of(&web, None, later).is_some());

        web.spec.unreadable = Some("spec.sshPublicKeys: it is no list".to_owned());
        assert_eq!(tells(&web).unwrap().changed_at, None);
    }

    #[test]
    fn what_cannot_be_read_as_a_date_is_dated_anew() {
        let mut web = vm(&[KEY]);
        let now = at("2026-05-03T00:00:00Z");
        let forged = (SINCE.to_owned(), "long ago".to_owned());
        *web.annotations_mut() = noted_of_vm(&web, at("2026-05-01T00:00:00Z"));
        web.annotations_mut().extend([forged]);
        assert_eq!(date_in(&noted_of_vm(&web, now)), Some(now));
    }
}
