//! What is told of the end of a VM. It follows from the VM for as long as that is there,
//! which has the last such notice that was seen; the account keeps it for afterwards.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    crd::{EXPIRY_GRACE_PERIOD, KiteVirtualMachine},
    span::Span,
};
use kite_identity::{
    SWEEP_INTERVAL,
    notices::store::{Annotations, Record, annotation_of, applied, has_room, id_of, put, stored},
};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::{NoticeKind, told::note_access};

/// The annotation of a VM that tells since when it has its end.
const END: &str = "hy3ons.github.io/end-since";
/// The annotation of a VM that tells which notice of its end was seen last.
const SEEN: &str = "hy3ons.github.io/seen-end";
/// How long before its end a VM is told of.
const AHEAD: Duration = Duration::from_secs(24 * 3600);
/// How much earlier than by this process's clock a VM may be deleted, as its time is over
/// by the controller's.
const CLOCKS: Duration = Duration::from_secs(60);

/// What is written with an edit of the spec of `vm`, so that its owner is told of it.
pub(crate) fn note_vm_edit(
    vm: &KiteVirtualMachine,
    edit: &Map<String, Value>,
) -> Map<String, Value> {
    let mut notes = note_access(vm, edit);
    if edit.contains_key("expiresAt") {
        notes.insert(END.to_owned(), json!(Timestamp::now().to_string()));
    }
    notes
}

/// What is told of the end of `vm`, by id. Another end is told anew, whoever set it.
pub(super) fn of_vm(
    vm: &KiteVirtualMachine,
    now: Timestamp,
) -> Option<(String, Record<NoticeKind>)> {
    let end = vm.spec.expires_at.as_ref()?.0;
    let (name, uid) = (vm.name_any(), vm.uid().unwrap_or_default());
    let expiry = vm.status.as_ref().and_then(|it| it.expiry.as_ref());
    let (kind, at, until) = if let Some(expiry) = expiry {
        let (at, until) = (expiry.expired_at.0, expiry.delete_at.0);
        (NoticeKind::VmDeleted, at, until)
    } else {
        // One that was given its end a moment ago is told of then, and not before.
        let since = vm.annotations().get(END);
        let since = since.and_then(|it| it.parse::<Timestamp>().ok());
        let since = since.or_else(|| Some(vm.creation_timestamp()?.0));
        let at = since.map_or(end - AHEAD, |since| since.max(end - AHEAD));
        (NoticeKind::VmExpires, at, end)
    };
    if at > now {
        return None;
    }
    let mut record = Record::new(kind, &name, at);
    record.until = Some(until);
    let id = id_of(kind, &format!("{uid}\n{end}\n{until}"));
    record.of = Some(uid);
    Some((id, record))
}

/// What is kept of a VM that may expire and be deleted until the next sweep but one, and
/// was not seen to have expired yet: then nothing else tells of it. As long as it is there
/// [nobody is told](is_told).
fn ahead(vm: &KiteVirtualMachine, now: Timestamp) -> Option<(String, Record<NoticeKind>)> {
    if vm.status.as_ref().is_some_and(|it| it.expiry.is_some()) {
        return None;
    }
    let end = vm.spec.expires_at.as_ref()?.0;
    let grace = vm.spec.expiry_grace_period.as_ref();
    let grace = grace.map_or(EXPIRY_GRACE_PERIOD, Span::duration);
    let until = end.checked_add(grace).ok()?;
    if until > now + 2 * SWEEP_INTERVAL {
        return None;
    }
    let uid = vm.uid().unwrap_or_default();
    let mut record = Record::new(NoticeKind::VmDeleted, &vm.name_any(), end);
    record.until = Some(until);
    let id = id_of(record.kind, &format!("{uid}\n{end}\n{until}"));
    record.of = Some(uid);
    Some((id, record))
}

/// Whether the owner has seen the notice called `id` of the end of `vm`.
pub(super) fn is_seen(vm: &KiteVirtualMachine, id: &str) -> bool {
    vm.annotations().get(SEEN).is_some_and(|seen| seen == id)
}

/// What says that they have.
pub(super) fn note_seen(id: &str) -> (String, Value) {
    (SEEN.to_owned(), json!(id))
}

/// Whether a notice that the account has is told beside those of `vms`, which are all that
/// it has: one of a VM that expired is where that was deleted, as its time was over.
pub(super) fn is_told(
    record: &Record<NoticeKind>,
    vms: &[&KiteVirtualMachine],
    now: Timestamp,
) -> bool {
    let is_over = |until: Timestamp, at: Timestamp| until <= at + CLOCKS;
    // Somebody may have it deleted before: then it is not over, however long that takes.
    let keeps_silent = |vm: &&KiteVirtualMachine| {
        let deleted = vm.metadata.deletion_timestamp.as_ref();
        let is_early = |at: Timestamp| record.until.is_some_and(|until| !is_over(until, at));
        record.of.is_some() && vm.uid() == record.of && deleted.is_none_or(|it| is_early(it.0))
    };
    record.kind != NoticeKind::VmDeleted
        || (!vms.iter().any(keeps_silent) && record.until.is_none_or(|until| is_over(until, now)))
}

/// What forgets all that an account with `annotations` keeps for when the time of `vm` is
/// over, as somebody has deleted it.
pub(super) fn without(annotations: &Annotations, vm: &KiteVirtualMachine) -> Map<String, Value> {
    let uid = vm.uid();
    let of_vm =
        |record: &Record<NoticeKind>| record.kind == NoticeKind::VmDeleted && record.of == uid;
    let gone = stored(annotations).into_iter();
    gone.filter(|(_, record)| uid.is_some() && of_vm(record))
        .map(|(id, _)| (annotation_of(&id), Value::Null))
        .collect()
}

/// What an account with `annotations` is to keep for when one of `vms`, which are all that
/// it has, is gone, and to forget. Those for which there is no room are told of as long as
/// they are there.
pub(super) fn kept(
    annotations: &Annotations,
    vms: &[&KiteVirtualMachine],
    now: Timestamp,
) -> Map<String, Value> {
    let of_vm = |vm: &KiteVirtualMachine| of_vm(vm, now).filter(|(id, _)| !is_seen(vm, id));
    let stay = vms.iter().copied();
    let stay = stay.filter(|vm| vm.metadata.deletion_timestamp.is_none());
    let mut ends: Vec<_> = stay.clone().filter_map(of_vm).collect();
    ends.retain(|(_, record)| record.kind == NoticeKind::VmDeleted);
    ends.extend(stay.filter_map(|vm| ahead(vm, now)));
    let mut notes = Map::new();
    for (id, record) in stored(annotations) {
        let is_so = ends.iter().any(|(of, _)| *of == id);
        // Its owner has seen or deleted it, or given it another end.
        if !is_so && !is_told(&record, vms, now) {
            notes.insert(annotation_of(&id), Value::Null);
        }
    }
    for (id, record) in &ends {
        if has_room(&applied(annotations, &notes), record.kind) {
            put(annotations, &mut notes, id, record);
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_vm_that_goes_between_two_sweeps_is_told_of() {
        let end: Timestamp = "2026-05-04T08:00:00Z".parse().unwrap();
        let vm = |grace: &str| -> KiteVirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachine",
                "metadata": {"name": "web", "namespace": "kite-user-ann", "uid": "u-1"},
                "spec": {"cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
                         "sshId": "web", "expiresAt": "2026-05-04T08:00:00Z",
                         "expiryGracePeriod": grace},
            }))
            .unwrap()
        };
        let none = Annotations::new();
        let (brief, long) = (vm("30s"), vm("72h"));
        // The last sweep that has found it.
        let sweep = end - Duration::from_secs(25);
        assert!(kept(&none, &[&long], sweep).is_empty());
        assert!(kept(&none, &[&brief], end - Duration::from_secs(3600)).is_empty());
        let there = applied(&none, &kept(&none, &[&brief], sweep));
        let (_, record) = stored(&there).pop().unwrap();
        assert_eq!(record.kind, NoticeKind::VmDeleted);
        assert!(!is_told(&record, &[&brief], sweep));
        assert!(kept(&there, &[&brief], sweep).is_empty());
        // It was given another end.
        let mut later = brief.clone();
        later.spec.expires_at = None;
        assert_eq!(kept(&there, &[&later], sweep).len(), 1);
        let gone = end + Duration::from_secs(31);
        assert!(is_told(&record, &[], gone));
        assert!(kept(&there, &[], gone).is_empty());
    }

    #[test]
    fn a_vm_that_was_deleted_just_before_its_time_is_not_told_of() {
        let until: Timestamp = "2026-05-04T08:00:30Z".parse().unwrap();
        let deleted = |at: Option<Timestamp>| -> KiteVirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachine",
                "metadata": {"name": "web", "namespace": "kite-user-ann", "uid": "u-1",
                             "deletionTimestamp": at.map(|at| at.to_string())},
                "spec": {"cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
                         "sshId": "web", "expiresAt": "2026-05-04T08:00:00Z",
                         "expiryGracePeriod": "30s"},
            }))
            .unwrap()
        };
        let none = Annotations::new();
        let before = |seconds: u64| until - Duration::from_secs(seconds);
        let vm = deleted(None);
        let there = applied(&none, &kept(&none, &[&vm], before(100)));
        let (_, record) = stored(&there).pop().unwrap();
        // Its owner deletes it, and it takes a while until it is gone.
        let early = deleted(Some(before(70)));
        for now in [before(60), before(10), until + Duration::from_secs(10)] {
            assert!(!is_told(&record, &[&early], now), "{now}");
            assert_eq!(kept(&there, &[&early], now).len(), 1, "{now}");
            assert!(kept(&none, &[&early], now).is_empty(), "{now}");
        }
        assert_eq!(without(&there, &vm).len(), 1);
        // As its time is over it is told of at once.
        let expired = deleted(Some(before(1)));
        assert!(is_told(&record, &[&expired], until));
        assert!(kept(&there, &[&expired], until).is_empty());
        let mut other = vm;
        other.metadata.uid = Some("u-2".to_owned());
        assert!(without(&there, &other).is_empty());
    }

    #[test]
    fn a_vm_that_went_as_its_time_was_over_is_told_of_though_clocks_differ() {
        let now = Timestamp::UNIX_EPOCH;
        let until = now + Duration::from_secs(3600);
        let mut record = Record::new(NoticeKind::VmDeleted, "web", now);
        (record.until, record.of) = (Some(until), Some("u-1".to_owned()));
        let mut notes = Map::new();
        put(&Annotations::new(), &mut notes, "x", &record);
        let there = applied(&Annotations::new(), &notes);
        // It is gone, and this process is behind the one that deleted it.
        for behind in [0, 1, 60] {
            let now = until - Duration::from_secs(behind);
            assert!(is_told(&record, &[], now), "{behind}");
            assert!(kept(&there, &[], now).is_empty(), "{behind}");
        }
        // Its owner has deleted it before.
        let before = until - Duration::from_secs(120);
        assert!(!is_told(&record, &[], before));
        assert_eq!(kept(&there, &[], before).len(), 1);
    }
}
