//! Whose an object is: by Kite's labels, by where it lies, by its owner.

use kite_core::{
    cdi::DATA_IMPORT_CRON_LABEL,
    cluster::Object,
    crd::{KiteImage, KitePlatform, KiteSnapshot, KiteUser, KiteVirtualMachine, KiteVolume},
    labels, names,
};
use kube::{Resource as _, ResourceExt as _, runtime::reflector::ObjectRef};

/// The VM that an object belongs to: by its labels, and by its owner, should a
/// label have been taken off or changed.
pub(super) fn vm_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let labels = object.labels();
    let name = labels.get(labels::VM_NAME);
    let namespace = labels.get(labels::VM_NAMESPACE);
    let by_label = name
        .zip(namespace)
        .map(|(name, namespace)| ObjectRef::new(name).within(namespace));
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == KiteVirtualMachine::kind(&())
    });
    let by_owner = owner
        .zip(object.namespace())
        .map(|(owner, namespace)| ObjectRef::new(&owner.name).within(&namespace))
        .filter(|vm| by_label.as_ref() != Some(vm));
    by_label.into_iter().chain(by_owner).collect()
}

/// The user whose namespace it is or lies in, and whom its label names: somebody
/// may have taken the label off together with what it was there for.
pub(super) fn user_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteUser>> {
    let namespace = object.namespace().unwrap_or_else(|| object.name_any());
    let by_place = names::user_of_namespace(&namespace);
    let by_label = object.labels().get(labels::USER_NAME).map(String::as_str);
    let others = by_label.filter(|name| Some(*name) != by_place);
    by_place
        .into_iter()
        .chain(others)
        .map(ObjectRef::new)
        .collect()
}

pub(super) fn platform_of<K: Object>(object: &K) -> Vec<ObjectRef<KitePlatform>> {
    let name = object.labels().get(labels::PLATFORM_NAME);
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

pub(super) fn image_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteImage>> {
    let labels = object.labels();
    let name = labels
        .get(labels::IMAGE_NAME)
        .or_else(|| labels.get(DATA_IMPORT_CRON_LABEL));
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

/// The snapshot that an object beside it belongs to.
pub(super) fn snapshot_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteSnapshot>> {
    beside(object, labels::SNAPSHOT_NAME)
}

/// The volume that an object beside it belongs to, by its name where somebody has taken the label
/// off.
pub(super) fn volume_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteVolume>> {
    let by_label = beside(object, labels::VOLUME_NAME);
    if !by_label.is_empty() {
        return by_label;
    }
    let name = object.name_any();
    let found = names::volume_of_disk(&name).zip(object.namespace());
    let found = found.map(|(name, namespace)| ObjectRef::new(name).within(&namespace));
    found.into_iter().collect()
}

/// The object in its namespace that a label of it names.
fn beside<K: Object, O>(object: &K, label: &str) -> Vec<ObjectRef<O>>
where
    O: kube::Resource<DynamicType = ()>,
{
    let found = object.labels().get(label).zip(object.namespace());
    let found = found.map(|(name, namespace)| ObjectRef::new(name).within(&namespace));
    found.into_iter().collect()
}
