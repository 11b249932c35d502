//! Writing notices that are written by themselves: what others changed is found out, and what
//! was seen is put away.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{Object, ObjectKey},
    crd::{KiteUser, KiteVirtualMachine},
    names,
};
use kite_identity::notices::{
    store::{Seen, applied, put_away, tell},
    told::found,
    write::{annotate, write_seen},
};
use kite_rest::{Cache, Problem};
use kube::ResourceExt as _;
use serde_json::{Map, Value};

use super::{
    NoticeKind, all_vms_of,
    expiry::{self, kept},
    told::found_of_vm,
    vms_of,
};
use crate::state::ApiState;

/// Most objects of which one sweep notes for the first time what there is: after an upgrade
/// these are all accounts and all VMs.
const MOST_FIRST: usize = 1000;
/// The time between two of them: the API server has others to answer.
const PAUSE: Duration = Duration::from_millis(20);

/// How much a sweep may still write that tells of nothing.
struct Pace(usize);

impl Pace {
    /// Whether `notes` are written by this sweep. What tells of something always is: what
    /// it is about may be gone by the next one.
    fn lets(&mut self, notes: &Map<String, Value>) -> bool {
        if tell(notes) {
            return true;
        }
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// Writes down what was changed by others than the API, with `kubectl` or from a
/// repository, so that it is told. Several replicas may do so at a time.
pub(crate) async fn find_out(state: &ApiState) {
    let caches = state.caches();
    if !caches.users.is_live() || !caches.vms.is_live() {
        return;
    }
    let is_sound = |user: &KiteUser| {
        user.spec.unreadable.is_none() && user.metadata.deletion_timestamp.is_none()
    };
    let mut pace = Pace(MOST_FIRST);
    for user in caches.users.list(is_sound) {
        let now = Timestamp::now();
        let mut notes = found(&user, now);
        let vms = all_vms_of(state, &user);
        let vms: Vec<&KiteVirtualMachine> = vms.iter().map(AsRef::as_ref).collect();
        let there = applied(user.annotations(), &notes);
        notes.append(&mut kept(&there, &vms, now));
        write_found(state, &caches.users, user.as_ref(), &notes, &mut pace).await;
    }
    let is_sound = |vm: &KiteVirtualMachine| {
        vm.spec.unreadable.is_none() && vm.metadata.deletion_timestamp.is_none()
    };
    for vm in caches.vms.list(|vm| is_sound(vm) && has_owner(vm)) {
        let notes = found_of_vm(&vm, Timestamp::now());
        write_found(state, &caches.vms, vm.as_ref(), &notes, &mut pace).await;
    }
}

/// Whether somebody is told of `vm`: of one elsewhere than in a user's namespace nobody is,
/// and there the API may not write it.
fn has_owner(vm: &KiteVirtualMachine) -> bool {
    let namespace = vm.metadata.namespace.as_deref();
    namespace.is_some_and(|it| names::user_of_namespace(it).is_some())
}

async fn write_found<K: Object>(
    state: &ApiState,
    cache: &Cache<K>,
    object: &K,
    notes: &Map<String, Value>,
    pace: &mut Pace,
) {
    if notes.is_empty() || !pace.lets(notes) {
        return;
    }
    // What somebody wrote meanwhile the next sweep sees.
    if let Err(error) = annotate(state.store(), cache, object, notes).await {
        let object = ObjectKey::of(object);
        tracing::warn!(%error, %object, "what is to be told waits for the next sweep");
    }
    if !tell(notes) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Forgets what the account of `owner` keeps for when the time of `vm` is over, as somebody
/// has deleted it. Where that fails, and its time is nearly over, that is told all the same.
pub(crate) async fn forget_end(state: &ApiState, owner: &KiteUser, vm: &KiteVirtualMachine) {
    // Nothing is kept of one without an end, nor of one that the controller deletes already.
    if vm.spec.expires_at.is_none() || vm.metadata.deletion_timestamp.is_some() {
        return;
    }
    let of = |user: &KiteUser| (expiry::without(user.annotations(), vm), 0);
    if let Err(problem) = write_seen(state.store(), &state.caches().users, owner, of).await {
        let why = problem.detail();
        tracing::warn!(
            why,
            "a notice stays of the end of a VM that somebody has deleted"
        );
    }
}

/// Puts away of the notices of `user` what they have `seen`.
pub(super) async fn see(state: &ApiState, user: &KiteUser, seen: &Seen) -> Result<(), Problem> {
    let mut left = seen.more;
    for vm in vms_of(state, user) {
        let rest = left;
        let of = move |vm: &KiteVirtualMachine| seen_of_vm(vm, seen, rest);
        // What is in no copy was shown to nobody.
        if !of(vm.as_ref()).0.is_empty() {
            left -= write_seen(state.store(), &state.caches().vms, vm.as_ref(), of).await?;
        }
    }
    let of = |user: &KiteUser| {
        let mut notes = found(user, Timestamp::now());
        let there = applied(user.annotations(), &notes);
        let (mut gone, off) = put_away::<NoticeKind>(&there, seen, left);
        notes.append(&mut gone);
        (notes, off)
    };
    write_seen(state.store(), &state.caches().users, user, of).await?;
    Ok(())
}

fn seen_of_vm(vm: &KiteVirtualMachine, seen: &Seen, left: u32) -> (Map<String, Value>, u32) {
    let now = Timestamp::now();
    let found = found_of_vm(vm, now);
    let there = applied(vm.annotations(), &found);
    let (mut notes, off) = put_away::<NoticeKind>(&there, seen, left);
    if !notes.is_empty() {
        notes = found.into_iter().chain(notes).collect();
    }
    let end = expiry::of_vm(vm, now).filter(|(id, record)| seen.has(id, record.at));
    if let Some((id, _)) = end.filter(|(id, _)| !expiry::is_seen(vm, id)) {
        notes.extend([expiry::note_seen(&id)]);
    }
    (notes, off)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use kite_identity::notices::store::{Record, annotation_of, id_of, put};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sweep_writes_what_tells_of_something_and_only_so_much_else() {
        let first = Map::from_iter([("hy3ons.github.io/told".to_owned(), json!("x"))]);
        let mut news = first.clone();
        let record = Record::new(NoticeKind::Key, "web", Timestamp::UNIX_EPOCH);
        let id = id_of(NoticeKind::Key, "web");
        put(&BTreeMap::new(), &mut news, &id, &record);
        let away = Map::from_iter([(annotation_of(&id), Value::Null)]);
        let mut pace = Pace(2);
        let let_on = [&first, &first, &first, &news, &away, &first].map(|it| pace.lets(it));
        assert_eq!(let_on, [true, true, false, true, true, false]);
    }

    #[test]
    fn of_a_vm_in_nobodys_namespace_nothing_is_written() {
        let within = |namespace: &str| -> KiteVirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachine",
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {"cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
                         "sshId": "web"},
            }))
            .unwrap()
        };
        assert!(has_owner(&within("kite-user-ann")));
        for other in ["default", "kite", "kite-user-"] {
            assert!(!has_owner(&within(other)), "{other}");
        }
    }
}
