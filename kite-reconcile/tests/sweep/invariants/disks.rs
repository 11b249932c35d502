//! Invariants of disks and snapshots.

use kite_core::{labels, names};
use kite_fake::{
    sim::{Builder, Event},
    state::Snapshot,
    store::{Change, Object},
};
use serde_json::Value;

use super::{
    CDI, KITE, KUBEVIRT, by_others, by_rival, controller, find, is_deletion, is_kept, own_disk,
    owner_goes, root_of, text, vm, within,
};

/// Adds all of them.
pub(super) fn always(builder: Builder) -> Builder {
    builder
        .always("a disk goes only because its VM was deleted", disks_stay)
        .always("a disk stays that snapshots need", needed_disks_stay)
        .always("what was taken goes by a word", snapshots_stay)
        .always(
            "what is told of a snapshot is true",
            snapshots_tell_the_truth,
        )
        .always("nobody writes to a disk that goes", disks_go_unused)
        .always("the last good disk is kept", former_disks_are_kept)
        .always("what is copied stays until a guest has run", copied_stays)
}

fn disks_stay(state: &Snapshot, event: &Event) -> bool {
    let is_disk = matches!(event.kind.as_str(), "DataVolume" | "PersistentVolumeClaim");
    // How that began was judged then.
    let was_going = event.previous.as_ref().is_some_and(|it| it.is_deleting());
    if !is_disk || !is_deletion(event) || by_others(event) || was_going {
        return true;
    }
    let Some(vm_name) = vm_of_disk(&event.name) else {
        return true;
    };
    if is_replaced(state, event, vm_name) {
        return true;
    }
    // The claim follows its DataVolume, about which was asked before.
    if event.kind == "PersistentVolumeClaim" {
        let disk = find(state, CDI, "datavolumes", &event.namespace, &event.name);
        let owner = &event.object.value()["metadata"]["ownerReferences"][0]["uid"];
        let follows = disk.is_none_or(|disk| disk.meta("uid") != text(owner));
        if owner.is_string() && follows {
            return true;
        }
    }
    // Of one that the VM does not have any more it is asked elsewhere.
    let machine = find(
        state,
        KUBEVIRT,
        "virtualmachines",
        &event.namespace,
        vm_name,
    );
    let pointed = machine.and_then(|it| root_of(it, "/spec/template/spec/volumes"));
    let is_another = pointed.is_some_and(|it| it != event.name);
    is_another || !is_kept(state, &event.namespace, vm_name)
}

/// Whether a disk has lost its claim, and somebody has asked for another one in its place.
fn is_replaced(state: &Snapshot, event: &Event, vm_name: &str) -> bool {
    let claim = find(
        state,
        "",
        "persistentvolumeclaims",
        &event.namespace,
        &event.name,
    );
    let asked = vm(state, &event.namespace, vm_name);
    let asked = asked.map(|it| text(&it.value()["metadata"]["annotations"][labels::REPLACE_DISK]));
    let is_asked = asked == Some(event.object.meta("uid"));
    event.kind == "DataVolume" && claim.is_none() && is_asked
}

/// The VM whose disk has this name.
fn vm_of_disk(name: &str) -> Option<&str> {
    let (vm, _) = name.rsplit_once("-disk")?;
    names::number_of_disk(vm, name).map(|_| vm)
}

const STORAGE: &str = "snapshot.storage.k8s.io";

/// No controller deletes a disk that a snapshot needs which is to be kept, and was taken.
fn needed_disks_stay(state: &Snapshot, event: &Event) -> bool {
    let is_disk = matches!(event.kind.as_str(), "DataVolume" | "PersistentVolumeClaim");
    if !is_disk || !is_deletion(event) || by_others(event) || owner_goes(state, &event.namespace) {
        return true;
    }
    let mut snapshots = within(state, KITE, "kitesnapshots", &event.namespace);
    !snapshots.any(|it| {
        let it = it.value();
        let source = &it["status"]["source"];
        text(&source["claim"]) == event.name
            && source["outlivesDisk"].is_null()
            && !it["status"]["consistency"].is_null()
            && it["spec"]["protected"] == true
    })
}

/// What storage has of a snapshot that was taken goes only once that is deleted, and not while
/// it is protected.
fn snapshots_stay(state: &Snapshot, event: &Event) -> bool {
    let is_its = event.kind == "VolumeSnapshot" && is_deletion(event) && !by_others(event);
    if !is_its || owner_goes(state, &event.namespace) {
        return true;
    }
    let was_going = event.previous.as_ref().is_some_and(|it| it.is_deleting());
    let of = find(state, KITE, "kitesnapshots", &event.namespace, &event.name);
    was_going
        || of.is_none_or(|of| {
            let value = of.value();
            let was_taken = !value["status"]["consistency"].is_null();
            !was_taken || of.is_deleting() && value["spec"]["protected"] != true
        })
}

/// Once it is told how consistent a snapshot is, storage has cut while that was so, and it is
/// told for good.
fn snapshots_tell_the_truth(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "KiteSnapshot" || event.change == Change::Deleted || by_rival(event) {
        return true;
    }
    let told = &event.object.value()["status"]["consistency"];
    let before = event.previous.as_ref().map(|it| it.value());
    let before = before.map_or(&Value::Null, |it| &it["status"]["consistency"]);
    if told == before {
        return true;
    }
    let taken = find(
        state,
        STORAGE,
        "volumesnapshots",
        &event.namespace,
        &event.name,
    );
    let content = taken.map(|it| text(&it.value()["status"]["boundVolumeSnapshotContentName"]));
    let content = content.and_then(|it| find(state, STORAGE, "volumesnapshotcontents", "", it));
    let Some(content) = content.filter(|_| before.is_null()) else {
        return false;
    };
    let truth = text(&content.value()["metadata"]["annotations"]["kite-fake/taken"]);
    match text(told) {
        "Offline" => truth == "unused",
        "Quiesced" => truth == "still",
        _ => true,
    }
}

/// Whether a disk that is copied from a snapshot is copied from one of its own VM, or from the
/// one that its VM is made from.
pub(super) fn is_of_its_vm(state: &Snapshot, event: &Event, source: &Value) -> bool {
    if source.is_null() || event.change != Change::Added || by_rival(event) {
        return true;
    }
    let (namespace, name) = (text(&source["namespace"]), text(&source["name"]));
    let of_disk = vm_of_disk(&event.name).and_then(|of| vm(state, namespace, of));
    let made_from = of_disk.map(|it| text(&it.value()["spec"]["fromSnapshot"]));
    let snapshot = find(state, KITE, "kitesnapshots", namespace, name);
    namespace == event.namespace
        && snapshot.is_none_or(|it| {
            let of = &it.value()["status"]["source"]["vmUid"];
            let is_own = of.is_null() || Some(text(of)) == controller(&event.object);
            is_own || made_from == Some(name)
        })
}

/// What a snapshot has on storage does not go, nor the disk that it needs, while a disk was
/// copied from it on which no guest has run: storage may call a copy done that is not.
fn copied_stays(state: &Snapshot, event: &Event) -> bool {
    let is_its = event.kind == "VolumeSnapshot" && is_deletion(event) && !by_others(event);
    if !is_its || owner_goes(state, &event.namespace) {
        return true;
    }
    let namespace = &event.namespace;
    let mut disks = within(state, CDI, "datavolumes", namespace);
    !disks.any(|disk| {
        let value = disk.value();
        let is_copy = text(&value["spec"]["source"]["snapshot"]["name"]) == event.name;
        let is_done = text(&value["status"]["phase"]) == "Succeeded";
        let of = vm_of_disk(disk.meta("name")).and_then(|it| vm(state, namespace, it));
        let stays = of.is_some_and(|it| !it.is_deleting());
        let claim = find(
            state,
            "",
            "persistentvolumeclaims",
            namespace,
            disk.meta("name"),
        );
        let proof = text(&value["metadata"]["annotations"][labels::HAS_RUN_ON]);
        let has_run = claim.is_none_or(|it| it.meta("uid") == proof);
        is_copy && is_done && stays && !disk.is_deleting() && !has_run
    })
}

/// A disk that was a VM's goes when a guest has run on another one that the VM has, or with
/// the VM; and not while a snapshot needs it that is not gone.
fn former_disks_are_kept(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "DataVolume" || !is_deletion(event) || by_others(event) {
        return true;
    }
    let namespace = &event.namespace;
    let owner = controller(&event.object);
    let mut vms = within(state, KITE, "kitevirtualmachines", namespace);
    let Some(vm) = vms.find(|it| Some(it.meta("uid")) == owner && !it.is_deleting()) else {
        return true;
    };
    let notes = &event.object.value()["metadata"]["annotations"];
    let is_first = event.name == names::disk(vm.meta("name"));
    if notes[labels::DISK_MARK].is_null() && !is_first {
        // It never was the VM's.
        return true;
    }
    let claim_of = |disk: &str| find(state, "", "persistentvolumeclaims", namespace, disk);
    let claim = claim_of(&event.name).map(|it| it.meta("uid"));
    let mut snapshots = within(state, KITE, "kitesnapshots", namespace);
    let is_needed = snapshots.any(|it| {
        let source = &it.value()["status"]["source"];
        let is_of_it = claim.is_some_and(|uid| text(&source["claimUid"]) == uid);
        is_of_it && source["outlivesDisk"] != true && !it.is_deleting()
    });
    let Some(present) = own_disk(state, vm) else {
        // One that was filled by nothing yet is made again.
        return event.object.value()["status"]["phase"] != "Succeeded";
    };
    let name = present.meta("name");
    let uid = claim_of(name).map(|it| it.meta("uid"));
    let proof = &present.value()["metadata"]["annotations"][labels::HAS_RUN_ON];
    let told = &vm.value()["status"]["disk"]["hasRunOn"];
    let has_run = uid.is_some_and(|uid| [proof, told].iter().any(|it| text(it) == uid));
    let is_filled = event.object.value()["status"]["phase"] == "Succeeded";
    !is_filled || (name != event.name && has_run && !is_needed)
}

/// A disk goes after the machine that has it, and after its instance; the claim
/// after the disk, and the VM after both.
fn disks_go_unused(state: &Snapshot, event: &Event) -> bool {
    if by_rival(event) {
        return true;
    }
    let namespace = &event.namespace;
    if event.kind == "KiteVirtualMachine" && event.change == Change::Deleted {
        let name = names::disk(&event.name);
        let claim = find(state, "", "persistentvolumeclaims", namespace, &name);
        // With a disk of somebody else's, the claim is that one's.
        return find(state, CDI, "datavolumes", namespace, &name).is_some()
            || claim.and_then(controller).is_none();
    }
    let vm_name = vm_of_disk(&event.name);
    let (Some(vm_name), "DataVolume", true) = (vm_name, event.kind.as_str(), is_deletion(event))
    else {
        return true;
    };
    let machine = find(state, KUBEVIRT, "virtualmachines", namespace, vm_name);
    let owner = controller(&event.object);
    let has_it =
        |it: &&Object, volumes: &str| root_of(it, volumes).as_deref() == Some(event.name.as_str());
    let machine = machine.filter(|it| has_it(it, "/spec/template/spec/volumes"));
    let is_foreign = machine.is_some_and(|machine| controller(machine) != owner);
    let instance = find(
        state,
        KUBEVIRT,
        "virtualmachineinstances",
        namespace,
        vm_name,
    );
    let instance = instance.filter(|it| has_it(it, "/spec/volumes"));
    // Whoever deletes a namespace deletes all in it at once; Kubernetes keeps the claim
    // for as long as it is used.
    let namespace = find(state, "", "namespaces", "", namespace);
    let with_all =
        namespace.is_some_and(|it| it.is_deleting()) && event.by == "kube-controller-manager";
    is_foreign
        || with_all
        || by_others(event)
        || is_replaced(state, event, vm_name)
        || (machine.is_none() && instance.is_none())
}
