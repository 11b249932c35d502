//! Invariants of volumes.

use kite_core::names;
use kite_fake::{
    sim::{Builder, Event},
    state::Snapshot,
    store::{Change, Object},
};
use serde_json::Value;

use super::{KITE, KUBEVIRT, by_others, find, is_deletion, text, within};

/// Adds all of them.
pub(super) fn always(builder: Builder) -> Builder {
    builder
        .always("one VM at a time has a volume", volumes_are_exclusive)
        .always("a volume's data goes by a word", data_stays)
        .always("no empty disk takes a volume's place", data_is_made_once)
        .always("volumes outlive accounts where asked", kept_outlive)
}

/// The volumes among those of a machine or an instance.
fn volumes(object: &Object, place: &str) -> Vec<String> {
    let all = object.value().pointer(place).and_then(Value::as_array);
    let disks = all.into_iter().flatten();
    let disks = disks.flat_map(|it| {
        let names = [
            &it["dataVolume"]["name"],
            &it["persistentVolumeClaim"]["claimName"],
        ];
        names.map(|it| text(it).to_owned())
    });
    disks
        .filter(|it| names::volume_of_disk(it).is_some())
        .collect()
}

/// Whether neither the machine nor what runs of the reservation's holder has the volume.
pub(super) fn is_let_go(state: &Snapshot, event: &Event) -> bool {
    let holder = &event.object.value()["spec"]["holder"];
    let (namespace, name) = (text(&holder["namespace"]), text(&holder["name"]));
    let volume = event.name.rsplit('.').next().unwrap_or_default();
    let disk = names::volume_disk(volume);
    [
        ("virtualmachines", "/spec/template/spec/volumes"),
        ("virtualmachineinstances", "/spec/volumes"),
    ]
    .into_iter()
    .all(|(plural, place)| {
        let found = find(state, KUBEVIRT, plural, namespace, name);
        found.is_none_or(|it| !volumes(it, place).contains(&disk))
    })
}

/// No two machines, nor what runs of them, have one disk.
fn volumes_are_exclusive(state: &Snapshot, event: &Event) -> bool {
    if !event.resource.ends_with(KUBEVIRT) || event.change == Change::Deleted {
        return true;
    }
    let namespace = &event.namespace;
    let of = |plural: &'static str, place: &'static str| {
        let all = within(state, KUBEVIRT, plural, namespace);
        all.flat_map(move |it| {
            let name = it.meta("name").to_owned();
            volumes(it, place)
                .into_iter()
                .map(move |disk| (disk, name.clone()))
        })
    };
    let machines = of("virtualmachines", "/spec/template/spec/volumes");
    let instances = of("virtualmachineinstances", "/spec/volumes");
    let mut has = std::collections::BTreeMap::new();
    machines
        .chain(instances)
        .all(|(disk, vm)| *has.entry(disk).or_insert_with(|| vm.clone()) == vm)
}

/// No controller deletes the data of a volume that is not deleted, or that a machine has.
fn data_stays(state: &Snapshot, event: &Event) -> bool {
    let is_disk = ["DataVolume", "PersistentVolumeClaim"].contains(&&*event.kind);
    let is_disk = is_disk && is_deletion(event) && !by_others(event);
    let Some(volume) = names::volume_of_disk(&event.name).filter(|_| is_disk) else {
        return true;
    };
    let namespace = find(state, "", "namespaces", "", &event.namespace);
    if namespace.is_none_or(|it| it.is_deleting()) {
        return true;
    }
    let was_going = event.previous.as_ref().is_some_and(|it| it.is_deleting());
    let volume = find(state, KITE, "kitevolumes", &event.namespace, volume);
    let is_asked = volume.is_none_or(|it| it.is_deleting());
    let mut machines = within(state, KUBEVIRT, "virtualmachines", &event.namespace);
    let is_had = machines.any(|it| {
        let volumes = volumes(it, "/spec/template/spec/volumes");
        !it.is_deleting() && volumes.contains(&event.name)
    });
    was_going || is_asked && !is_had
}

/// Where it was told that there was a claim, no disk is made.
fn data_is_made_once(state: &Snapshot, event: &Event) -> bool {
    let is_new = event.kind == "DataVolume" && event.change == Change::Added && !by_others(event);
    let Some(volume) = names::volume_of_disk(&event.name).filter(|_| is_new) else {
        return true;
    };
    let volume = find(state, KITE, "kitevolumes", &event.namespace, volume);
    let told = volume.map(|it| it.value()["status"]["disk"]["claimUid"].clone());
    told.is_none_or(|told| told.is_null())
}

/// No controller deletes a volume that is to outlive its account, nor the namespace that one is
/// in.
fn kept_outlive(state: &Snapshot, event: &Event) -> bool {
    if !is_deletion(event) || by_others(event) {
        return true;
    }
    let is_kept =
        |it: &Object| it.value()["spec"]["onAccountDeletion"] == "Keep" && !it.is_deleting();
    match &*event.kind {
        "KiteVolume" => !event.previous.as_ref().is_some_and(is_kept),
        "Namespace" => !within(state, KITE, "kitevolumes", &event.name).any(is_kept),
        _ => true,
    }
}
