//! The claim of a `DataVolume`.

use kite_core::cdi;
use kite_fake::actors::ActorError;
use kite_fake::actors::kind::STORAGE_CLASS;
use kite_fake::actors::objects::{Objects, controller_reference, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::smart_clone::{FINALIZER, SOURCE_NAMESPACE};
use super::status::Family;
use crate::kinds::DATA_VOLUME;

/// What a file system takes of its volume, by CDI's default.
const OVERHEAD: f64 = 0.055;
const MIB: f64 = 1024.0 * 1024.0;

/// The storage class that claims get which name none.
pub(super) async fn default_class(objects: Objects<'_>) -> Result<Option<String>, ActorError> {
    let classes = objects.list(&STORAGE_CLASS, None, "").await?;
    let default = classes.into_iter().find(|class| {
        let annotations = class.metadata.annotations.iter().flatten();
        annotations.into_iter().any(|(name, value)| {
            name == "storageclass.kubernetes.io/is-default-class" && value == "true"
        })
    });
    Ok(default.and_then(|class| class.metadata.name.clone()))
}

/// The claim that `volume` gets. `class` is the cluster's default storage
/// class, `profile` what the profile of its own class says, `source_size` the
/// size of what it is cloned from, `cloned_within` the namespace where a snapshot is that it
/// is cloned from.
pub(super) fn claim_of(
    volume: &DynamicObject,
    family: Family,
    class: Option<&str>,
    profile: &Value,
    source_size: Option<&str>,
    cloned_within: Option<&str>,
) -> Value {
    let spec = &volume.data["spec"];
    let storage = &spec["storage"];
    let given = if storage.is_object() {
        storage
    } else {
        &spec["pvc"]
    };
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": given["resources"],
        "dataSourceRef": {
            "apiGroup": "cdi.kubevirt.io",
            "kind": match family {
                Family::Import => "VolumeImportSource",
                Family::Clone | Family::Snapshot => "VolumeCloneSource",
                Family::Upload => "VolumeUploadSource",
            },
            "name": format!("{}-{}", match family {
                Family::Import => "volume-import-source",
                Family::Clone | Family::Snapshot => "volume-clone-source",
                Family::Upload => "volume-upload-source",
            }, uid(volume)),
        },
    });
    let wanted = |set: &&Value| {
        let modes = given["accessModes"].as_array();
        modes.is_none_or(|modes| modes.is_empty() || set["accessModes"] == json!(modes))
            && (given["volumeMode"].is_null() || set["volumeMode"] == given["volumeMode"])
    };
    let sets = profile["claimPropertySets"].as_array();
    let set = sets.filter(|_| storage.is_object());
    if let Some(set) = set.and_then(|sets| sets.iter().find(wanted)) {
        claim["accessModes"] = set["accessModes"].clone();
        if set["volumeMode"].is_string() {
            claim["volumeMode"] = set["volumeMode"].clone();
        }
    }
    for field in ["accessModes", "volumeMode"] {
        if given[field].as_array().is_some_and(|a| !a.is_empty()) || given[field].is_string() {
            claim[field] = given[field].clone();
        }
    }
    if let Some(class) = given["storageClassName"].as_str().or(class) {
        claim["storageClassName"] = json!(class);
    }
    let asked = given["resources"]["requests"]["storage"].as_str();
    if let Some(size) = asked.or(source_size) {
        let inflated =
            storage.is_object() && asked.is_some() && claim["volumeMode"] == "Filesystem";
        let size = if inflated {
            inflate(size)
        } else {
            size.to_owned()
        };
        claim["resources"] = json!({"requests": {"storage": size}});
    }
    let mut claim = json!({
        "metadata": {
            "name": volume.metadata.name,
            "namespace": volume.metadata.namespace,
            "labels": labels(volume),
            "annotations": {
                "cdi.kubevirt.io/storage.usePopulator": "true",
                (cdi::MADE_FOR): uid(volume),
            },
            "ownerReferences": [controller_reference(&DATA_VOLUME, volume)],
        },
        "spec": claim,
    });
    if let Some(within) = cloned_within {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
        claim["metadata"]["annotations"][SOURCE_NAMESPACE] = json!(within);
    }
    claim
}

fn labels(volume: &DynamicObject) -> Value {
    let mut labels = json!(volume.metadata.labels.clone().unwrap_or_default());
    labels["app"] = json!("containerized-data-importer");
    labels["app.kubernetes.io/component"] = json!("storage");
    labels["app.kubernetes.io/managed-by"] = json!("cdi-controller");
    labels
}

/// The size of a volume whose file system has room for `size`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of disks are far below 2^53 bytes"
)]
fn inflate(size: &str) -> String {
    let Ok(wanted) = size.parse::<kite_core::quantity::Bytes>() else {
        return size.to_owned();
    };
    let aligned = (wanted.bytes() as f64 / MIB).ceil() * MIB;
    format!("{}", (aligned / (1.0 - OVERHEAD)).ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn volume(spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "d", "namespace": "a", "uid": "u", "labels": {"x": "y"}},
            "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn storage_is_completed_and_makes_room_for_the_file_system() {
        let resources = json!({"requests": {"storage": "20Gi"}});
        let volume = volume(&json!({"storage": {"resources": resources}}));
        let claim = claim_of(
            &volume,
            Family::Clone,
            Some("fast"),
            &Value::Null,
            None,
            None,
        );
        assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
        assert_eq!(claim["spec"]["storageClassName"], "fast");
        assert_eq!(
            claim["spec"]["resources"]["requests"]["storage"],
            "22724694688"
        );
        assert_eq!(claim["metadata"]["labels"]["x"], "y");
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn a_pvc_is_taken_as_it_stands() {
        let volume = volume(&json!({"pvc": {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}},
        }}));
        let claim = claim_of(&volume, Family::Import, None, &Value::Null, None, None);
        assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert_eq!(claim["spec"].get("storageClassName"), None);
    }

    #[test]
    fn what_is_not_said_is_as_the_profile_of_the_storage_has_it() {
        let profile = json!({"claimPropertySets": [
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ]});
        let of = |storage: Value| {
            let volume = volume(&json!({"storage": storage}));
            let claim = claim_of(&volume, Family::Import, None, &profile, None, None);
            (
                claim["spec"]["accessModes"][0].clone(),
                claim["spec"]["volumeMode"].clone(),
            )
        };
        assert_eq!(of(json!({})), (json!("ReadWriteMany"), json!("Block")));
        let once = json!({"accessModes": ["ReadWriteOnce"]});
        assert_eq!(of(once), (json!("ReadWriteOnce"), json!("Filesystem")));
    }

    #[test]
    fn a_clone_without_a_size_takes_the_source_s() {
        let volume = volume(&json!({"storage": {}}));
        let claim = claim_of(
            &volume,
            Family::Clone,
            None,
            &Value::Null,
            Some("3Gi"),
            None,
        );
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "3Gi");
    }
}
