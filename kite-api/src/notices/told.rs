//! What an owner was last told of who may log in to a VM, as hashes in an annotation, by the
//! means of [`kite_identity::notices::told`]. A VM of which nothing was written down yet
//! begins without news.

use jiff::Timestamp;
use kite_core::{
    crd::{KiteVirtualMachine, KiteVirtualMachineSpec},
    names,
};
use kite_identity::notices::{
    store::{Record, id_of, put},
    told::{Mark, joined, mark, mark_of_key, merged, told},
};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::NoticeKind;
use crate::access_dates;

/// The annotation of a VM that tells with what one may log in.
const ACCESS: &str = "hy3ons.github.io/told-access";
/// The fields that say so.
const ACCESS_FIELDS: [&str; 2] = ["sshPublicKeys", "sshPasswordHash"];
fn marks_of_vm(spec: &KiteVirtualMachineSpec) -> Vec<Mark> {
    let keys = spec.ssh_public_keys.iter().map(|key| mark_of_key(key));
    let password = spec.ssh_password_hash.iter();
    keys.chain(password.map(|hash| mark(&names::credential(hash), "")))
        .collect()
}

/// Tells of who may log in to `vm` by `after`, and notes when that came.
fn compare_vm(
    vm: &KiteVirtualMachine,
    after: &KiteVirtualMachineSpec,
    now: Timestamp,
) -> Map<String, Value> {
    let mut notes = Map::new();
    let before = told(vm, ACCESS, &marks_of_vm(&vm.spec));
    let marks = marks_of_vm(after);
    let mut news = marks.clone();
    news.retain(|(hash, _)| !before.contains(hash));
    if !news.is_empty() {
        let of = format!("{}\n{}", joined(&news), before.join(","));
        let record = Record::new(NoticeKind::VmAccess, &vm.name_any(), now);
        let id = id_of(NoticeKind::VmAccess, &of);
        put(vm.annotations(), &mut notes, &id, &record);
    }
    let is_dated = access_dates::date_in(vm.annotations()).is_some();
    if !news.is_empty() || (!is_dated && !marks.is_empty()) {
        let (since, at) = access_dates::note_access(now);
        notes.insert(since, json!(at));
    }
    let is_written = vm.annotations().contains_key(ACCESS);
    if !(is_written && news.is_empty() && marks.len() == before.len()) {
        notes.insert(ACCESS.to_owned(), json!(joined(&marks)));
    }
    notes
}

/// What is to be written down of `vm` as it is. Of one that cannot be read nobody knows
/// who may log in.
pub(super) fn found_of_vm(vm: &KiteVirtualMachine, now: Timestamp) -> Map<String, Value> {
    if vm.spec.unreadable.is_some() {
        return Map::new();
    }
    compare_vm(vm, &vm.spec, now)
}

/// What is written with an edit of the spec of `vm`, so that its owner is told of it.
pub(super) fn note_access(
    vm: &KiteVirtualMachine,
    edit: &Map<String, Value>,
) -> Map<String, Value> {
    if vm.spec.unreadable.is_some() {
        return Map::new();
    }
    if !ACCESS_FIELDS.iter().any(|field| edit.contains_key(*field)) {
        return Map::new();
    }
    let after = merged(&vm.spec, edit);
    after.map_or_else(Map::new, |after| compare_vm(vm, &after, Timestamp::now()))
}

/// Notes with what one may log in to a VM that is about to be made, which is no news.
pub(crate) fn note_new_vm(vm: &mut KiteVirtualMachine) {
    let marks = marks_of_vm(&vm.spec);
    let annotations = vm.annotations_mut();
    if !marks.is_empty() {
        annotations.extend([access_dates::note_access(Timestamp::now())]);
    }
    annotations.insert(ACCESS.to_owned(), joined(&marks));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_identity::notices::store::{Annotations, applied, stored};

    use super::*;

    const A: &str = "ssh-ed25519 AAAA ann@laptop";
    const B: &str = "ssh-ed25519 BBBB ann@desk";

    fn kinds(annotations: &Annotations) -> Vec<NoticeKind> {
        let kinds = stored(annotations).into_iter();
        kinds.map(|(_, it)| it.kind).collect()
    }

    #[test]
    fn a_vm_tells_who_may_log_in() {
        let spec = KiteVirtualMachineSpec::new(
            1,
            "1Gi".parse().unwrap(),
            "4Gi".parse().unwrap(),
            "debian-12",
            "web",
        );
        let mut vm = KiteVirtualMachine::new("web", spec);
        note_new_vm(&mut vm);
        assert!(found_of_vm(&vm, Timestamp::UNIX_EPOCH).is_empty());
        let notes = note_access(&vm, json!({"sshPublicKeys": [A]}).as_object().unwrap());
        let by_api = applied(vm.annotations(), &notes);
        assert_eq!(kinds(&by_api), [NoticeKind::VmAccess]);
        vm.spec.ssh_public_keys = vec![A.to_owned()];
        let notes = found_of_vm(&vm, Timestamp::UNIX_EPOCH);
        assert_eq!(applied(vm.annotations(), &notes).len(), by_api.len());
        *vm.annotations_mut() = by_api;
        assert!(found_of_vm(&vm, Timestamp::UNIX_EPOCH).is_empty());
        let notes = note_access(&vm, json!({"cpu": 2}).as_object().unwrap());
        assert!(notes.is_empty());
    }

    #[test]
    fn a_vm_is_dated_when_what_opens_it_comes_and_not_when_it_goes() {
        let (memory, disk) = ("1Gi".parse().unwrap(), "4Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        let mut vm = KiteVirtualMachine::new("web", spec);
        let mut found_at = |keys: &[&str], at: i64| {
            let at = Timestamp::from_second(at).unwrap();
            vm.spec.ssh_public_keys = keys.iter().map(|key| (*key).to_owned()).collect();
            *vm.annotations_mut() = applied(vm.annotations(), &found_of_vm(&vm, at));
            let since = access_dates::date_in(vm.annotations());
            since.map(Timestamp::as_second)
        };
        assert_eq!(found_at(&[], 1), None);
        assert_eq!(found_at(&[A], 2), Some(2));
        assert_eq!(found_at(&[A, B], 3), Some(3));
        // Fewer keys, or the same one by another name.
        assert_eq!(found_at(&["ssh-ed25519 AAAA x"], 4), Some(3));
        assert_eq!(found_at(&[A, B], 5), Some(5));
    }

    #[test]
    fn a_vm_that_cannot_be_read_is_not_forgotten_who_may_log_in() {
        let (memory, disk) = ("1Gi".parse().unwrap(), "4Gi".parse().unwrap());
        let mut spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        spec.ssh_public_keys = vec![A.to_owned()];
        let mut vm = KiteVirtualMachine::new("web", spec.clone());
        note_new_vm(&mut vm);
        // What stands for its keys is none.
        vm.spec.ssh_public_keys.clear();
        vm.spec.unreadable = Some("spec.sshPublicKeys: it is no list".to_owned());
        assert!(found_of_vm(&vm, Timestamp::UNIX_EPOCH).is_empty());
        // Mended, it has the key that it had.
        vm.spec = spec;
        assert!(found_of_vm(&vm, Timestamp::UNIX_EPOCH).is_empty());
    }
}
