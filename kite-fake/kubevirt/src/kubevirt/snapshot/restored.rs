//! What a restored VM and its claims look like, as functions of the content.

use kite_core::cdi;
use kite_fake::actors::objects::{text, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::kubevirt::run::strategy;

/// On a VM: which restore it was last given, by name and uid.
const LAST_RESTORE: &str = "restore.kubevirt.io/lastRestoreUID";
/// On a claim: the restore that made it.
const RESTORE_NAME: &str = "restore.kubevirt.io/name";
/// Annotations of a claim that do not belong to another one.
const NOT_KEPT: [&str; 6] = [
    "pv.kubernetes.io",
    "volume.beta.kubernetes.io",
    "cdi.kubevirt.io",
    "volume.kubernetes.io",
    "k8s.io/CloneRequest",
    "k8s.io/CloneOf",
];

fn mark(restore: &DynamicObject) -> String {
    let name = restore.metadata.name.as_deref().unwrap_or_default();
    format!("{name}-{}", uid(restore))
}

/// Whether `object` was made or changed by `restore`.
pub(super) fn is_by(object: &DynamicObject, restore: &DynamicObject) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    let by = annotations.and_then(|a| a.get(LAST_RESTORE));
    by.is_some_and(|by| *by == mark(restore))
}

/// Whether claims are restored under the names that they had.
pub(super) fn is_in_place(restore: &DynamicObject) -> bool {
    text(restore, "/spec/volumeRestorePolicy") == "InPlace"
}

/// The claims that a restore makes, by the backups of the content.
pub(super) fn restores(restore: &DynamicObject, content: &DynamicObject) -> Vec<Value> {
    let backups = content.data["spec"]["volumeBackups"].as_array();
    let restores = backups.into_iter().flatten().map(|backup| {
        let volume = backup["volumeName"].as_str().unwrap_or_default();
        let claim = &backup["persistentVolumeClaim"]["metadata"]["name"];
        json!({
            "volumeName": volume,
            "persistentVolumeClaim": name_for(restore, volume, claim.as_str().unwrap_or_default()),
            "volumeSnapshotName": backup["volumeSnapshotName"],
        })
    });
    restores.collect()
}

/// Name of what takes the place of a volume's claim or `DataVolume`.
pub(super) fn name_for(restore: &DynamicObject, volume: &str, before: &str) -> String {
    let overrides = restore.data["spec"]["volumeRestoreOverrides"].as_array();
    let mut overrides = overrides.into_iter().flatten();
    let wanted = overrides.find(|o| o["volumeName"] == volume);
    let wanted = wanted.and_then(|o| o["restoreName"].as_str());
    match wanted.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None if is_in_place(restore) => before.to_owned(),
        None => format!("restore-{}-{volume}", uid(restore)),
    }
}

/// The claim of one of the [`restores`]. `owner` is what it goes with.
pub(super) fn claim(
    restore: &DynamicObject,
    content: &DynamicObject,
    entry: &Value,
    size: Option<&str>,
    owner: Option<Value>,
) -> Value {
    let backups = content.data["spec"]["volumeBackups"].as_array();
    let mut backups = backups.into_iter().flatten();
    let backup = backups.find(|b| b["volumeName"] == entry["volumeName"]);
    let before = backup.map_or(&Value::Null, |b| &b["persistentVolumeClaim"]);
    let mut spec = json!({});
    for field in ["accessModes", "resources", "storageClassName", "volumeMode"] {
        if !before["spec"][field].is_null() {
            spec[field] = before["spec"][field].clone();
        }
    }
    let bytes = |text: &str| text.parse::<kite_core::quantity::Bytes>().ok();
    let asked = spec["resources"]["requests"]["storage"].as_str();
    if let Some(size) = size
        && asked.and_then(bytes) < bytes(size)
    {
        spec["resources"]["requests"]["storage"] = json!(size);
    }
    spec["dataSource"] = json!({
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": entry["volumeSnapshotName"],
    });
    let mut annotations = json!({});
    let kept = before["metadata"]["annotations"].as_object();
    for (name, value) in kept.into_iter().flatten() {
        if !NOT_KEPT.iter().any(|prefix| name.contains(prefix)) {
            annotations[name] = value.clone();
        }
    }
    annotations[RESTORE_NAME] = json!(restore.metadata.name);
    annotations[LAST_RESTORE] = json!(mark(restore));
    if entry["dataVolumeName"].is_string() {
        annotations[cdi::POPULATED_FOR] = entry["dataVolumeName"].clone();
    }
    let mut labels = match &before["metadata"]["labels"] {
        Value::Object(labels) => Value::Object(labels.clone()),
        _ => json!({}),
    };
    let vm = &content.data["spec"]["source"]["virtualMachine"]["metadata"];
    labels["restore.kubevirt.io/source-vm-name"] = vm["name"].clone();
    labels["restore.kubevirt.io/source-vm-namespace"] = vm["namespace"].clone();
    let mut metadata = json!({
        "name": entry["persistentVolumeClaim"],
        "namespace": restore.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
    });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([owner]);
    }
    json!({"metadata": metadata, "spec": spec})
}

/// The [`restores`] with the names of the `DataVolume`s that the VM's own
/// templates become.
pub(super) fn with_data_volumes(
    restore: &DynamicObject,
    kept: &Value,
    restores: &[Value],
) -> Vec<Value> {
    let mut restores = restores.to_vec();
    for entry in &mut restores {
        let volume = entry["volumeName"].as_str().unwrap_or_default();
        let volumes = kept["spec"]["template"]["spec"]["volumes"].as_array();
        let of = volumes
            .into_iter()
            .flatten()
            .find(|v| v["name"] == volume)
            .and_then(|v| v["dataVolume"]["name"].as_str());
        if let Some(of) = of.filter(|name| is_template(kept, name)) {
            entry["dataVolumeName"] = json!(name_for(restore, volume, of));
        }
    }
    restores
}

fn is_template(kept: &Value, name: &str) -> bool {
    let templates = kept["spec"]["dataVolumeTemplates"].as_array();
    let mut templates = templates.into_iter().flatten();
    templates.any(|template| template["metadata"]["name"] == name)
}

/// The VM as it is restored: `target` where it is there, else a new one.
pub(super) fn machine(
    restore: &DynamicObject,
    kept: &Value,
    restores: &[Value],
    target: Option<&DynamicObject>,
) -> Value {
    let mut spec = kept["spec"].clone();
    let entry = |volume: &Value| restores.iter().find(|e| e["volumeName"] == volume["name"]);
    let templates = spec["dataVolumeTemplates"].as_array().cloned();
    let mut templates = templates.unwrap_or_default();
    let volumes = spec["template"]["spec"]["volumes"].as_array().cloned();
    let mut volumes = volumes.unwrap_or_default();
    volumes.retain(|volume| !volume["memoryDump"].is_object());
    for volume in &mut volumes {
        let Some(entry) = entry(volume) else {
            continue;
        };
        if let Some(of) = volume["dataVolume"]["name"].as_str().map(str::to_owned) {
            if entry["dataVolumeName"].is_string() {
                let own = templates
                    .iter_mut()
                    .find(|template| template["metadata"]["name"] == of);
                if let Some(own) = own {
                    own["metadata"]["name"] = entry["dataVolumeName"].clone();
                }
                volume["dataVolume"]["name"] = entry["dataVolumeName"].clone();
            } else {
                *volume = json!({
                    "name": volume["name"],
                    "persistentVolumeClaim": {"claimName": entry["persistentVolumeClaim"]},
                });
            }
        } else if volume["persistentVolumeClaim"].is_object() {
            volume["persistentVolumeClaim"]["claimName"] = entry["persistentVolumeClaim"].clone();
        }
    }
    spec["template"]["spec"]["volumes"] = json!(volumes);
    if !templates.is_empty() {
        spec["dataVolumeTemplates"] = json!(templates);
    }
    let running = |spec: &mut Value, word: &str, old: bool| {
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("running");
            fields.remove("runStrategy");
        }
        if old {
            spec["running"] = json!(false);
        } else {
            spec["runStrategy"] = json!(word);
        }
    };
    let mut metadata = if let Some(target) = target {
        let old = !target.data["spec"]["running"].is_null();
        running(&mut spec, strategy(target), old);
        json!(target.metadata)
    } else {
        let old = !spec["running"].is_null();
        running(&mut spec, "Halted", old);
        let mut metadata = json!({
            "name": text(restore, "/spec/target/name"),
            "namespace": restore.metadata.namespace,
        });
        for field in ["labels", "annotations"] {
            if kept["metadata"][field].is_object() {
                metadata[field] = kept["metadata"][field].clone();
            }
        }
        metadata
    };
    metadata["annotations"][LAST_RESTORE] = json!(mark(restore));
    json!({"metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn restore(spec: &Value) -> DynamicObject {
        let object = json!({"metadata": {"name": "r", "namespace": "a", "uid": "u"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn kept() -> Value {
        json!({
            "metadata": {"name": "v", "labels": {"x": "y"}},
            "spec": {
                "runStrategy": "Always",
                "dataVolumeTemplates": [{"metadata": {"name": "own"}, "spec": {}}],
                "template": {"spec": {"volumes": [
                    {"name": "one", "dataVolume": {"name": "own"}},
                    {"name": "two", "dataVolume": {"name": "other"}},
                    {"name": "init", "cloudInitNoCloud": {}},
                ]}},
            },
        })
    }

    fn entries(restore: &DynamicObject) -> Vec<Value> {
        let backup = |volume: &str, claim: &str| {
            json!({
                "volumeName": volume,
                "persistentVolumeClaim": {"metadata": {"name": claim}},
                "volumeSnapshotName": format!("s-{volume}"),
            })
        };
        let content = json!({"metadata": {"name": "c"}, "spec": {
            "volumeBackups": [backup("one", "own"), backup("two", "other")],
        }});
        let content: DynamicObject = serde_json::from_value(content).unwrap();
        with_data_volumes(restore, &kept(), &restores(restore, &content))
    }

    #[test]
    fn a_new_vm_is_off_and_has_disks_of_its_own() {
        let restore = restore(&json!({"target": {"name": "w"}}));
        let entries = entries(&restore);
        assert_eq!(entries[0]["dataVolumeName"], "restore-u-one");
        assert!(entries[1]["dataVolumeName"].is_null());
        let vm = machine(&restore, &kept(), &entries, None);
        assert_eq!(vm["metadata"]["name"], "w");
        assert_eq!(vm["metadata"]["labels"]["x"], "y");
        assert_eq!(vm["spec"]["runStrategy"], "Halted");
        let volumes = &vm["spec"]["template"]["spec"]["volumes"];
        assert_eq!(volumes[0]["dataVolume"]["name"], "restore-u-one");
        // A disk that is not the VM's own becomes a plain claim.
        let claim = &volumes[1]["persistentVolumeClaim"]["claimName"];
        assert_eq!(*claim, "restore-u-two");
        let template = &vm["spec"]["dataVolumeTemplates"][0];
        assert_eq!(template["metadata"]["name"], "restore-u-one");
    }

    #[test]
    fn a_restore_names_its_claims_as_it_is_told() {
        let in_place = restore(&json!({"volumeRestorePolicy": "InPlace"}));
        assert_eq!(name_for(&in_place, "one", "own"), "own");
        let named = restore(&json!({
            "volumeRestoreOverrides": [{"volumeName": "one", "restoreName": "mine"}],
        }));
        assert_eq!(name_for(&named, "one", "own"), "mine");
        assert_eq!(name_for(&named, "two", "own"), "restore-u-two");
    }
}
