//! Validation of the volumes of Pods.

use serde_json::{Value, json};

use super::storage;
use crate::builtin::{check, quantity};
use crate::members::{has, list, text};
use crate::schema::FieldError;

type Errors = Vec<FieldError>;

/// Checks all volumes; the volumes that containers can name.
pub(super) fn volumes<'a>(spec: &'a Value, path: &str, errors: &mut Errors) -> Vec<&'a Value> {
    let mut known: Vec<&Value> = Vec::new();
    for (place, volume) in list(spec, "volumes").iter().enumerate() {
        let path = format!("{path}[{place}]");
        let name = text(volume, "name");
        source(volume, &path, errors);
        let field = format!("{path}.name");
        if check::required(volume, "name", &path, errors) {
            check::label(name, &field, errors);
        }
        if known.iter().any(|other| text(other, "name") == name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
        known.push(volume);
    }
    known
}

/// In which order the server looks at sources.
const ORDER: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Value, path: &str, errors: &mut Errors) {
    let all = volume
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys);
    let mut given: Vec<&String> = all.filter(|name| *name != "name").collect();
    given.sort_by_key(|name| ORDER.iter().position(|known| known == name));
    let Some((first, others)) = given.split_first() else {
        errors.push(FieldError::required(path, "must specify a volume type"));
        return;
    };
    for other in others {
        errors.push(FieldError::forbidden(
            format!("{path}.{other}"),
            "may not specify more than 1 volume type",
        ));
    }
    one(
        first,
        &volume[first.as_str()],
        &format!("{path}.{first}"),
        errors,
    );
}

fn one(kind: &str, source: &Value, path: &str, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let limit = source["sizeLimit"].as_str().and_then(quantity::nano);
            if limit.is_some_and(|nano| nano < 0) {
                errors.push(FieldError::forbidden(
                    format!("{path}.sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                ));
            }
        }
        "hostPath" => storage::host_path(source, path, errors),
        "secret" => {
            check::required(source, "secretName", path, errors);
            files(source, path, errors);
        }
        "configMap" => {
            check::required(source, "name", path, errors);
            files(source, path, errors);
        }
        "persistentVolumeClaim" => {
            check::required(source, "claimName", path, errors);
        }
        "nfs" => {
            check::required(source, "server", path, errors);
            check::required(source, "path", path, errors);
        }
        "csi" => {
            check::required(source, "driver", path, errors);
        }
        "ephemeral" => {
            if has(source, "volumeClaimTemplate") {
                let path = format!("{path}.volumeClaimTemplate.spec");
                storage::claim_spec(&source["volumeClaimTemplate"]["spec"], &path, errors);
            } else {
                errors.push(FieldError::required(
                    format!("{path}.volumeClaimTemplate"),
                    "",
                ));
            }
        }
        "projected" => projected(source, path, errors),
        "downwardAPI" => mode(source, "defaultMode", path, errors),
        _ => {}
    }
}

fn projected(source: &Value, path: &str, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for (place, part) in list(source, "sources").iter().enumerate() {
        let path = format!("{path}.sources[{place}]");
        let given = part.as_object().map_or(0, serde_json::Map::len);
        if given > 1 {
            errors.push(FieldError::forbidden(
                path.as_str(),
                "may not specify more than 1 volume type",
            ));
        }
        for (member, name) in [("secret", "name"), ("configMap", "name")] {
            if has(part, member) {
                let path = format!("{path}.{member}");
                check::required(&part[member], name, &path, errors);
                files(&part[member], &path, errors);
            }
        }
        let token = &part["serviceAccountToken"];
        if token.is_object() {
            let path = format!("{path}.serviceAccountToken");
            let seconds = token["expirationSeconds"].as_i64();
            if let Some(seconds) = seconds.filter(|n| *n < 600) {
                errors.push(FieldError::invalid(
                    format!("{path}.expirationSeconds"),
                    &json!(seconds),
                    "may not specify a duration less than 10 minutes",
                ));
            }
            check::required(token, "path", &path, errors);
        }
    }
}

/// Checks which keys become which files.
fn files(source: &Value, path: &str, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for (place, item) in list(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{place}]");
        check::required(item, "key", &path, errors);
        if check::required(item, "path", &path, errors) {
            relative(item, "path", &path, errors);
        }
        mode(item, "mode", &path, errors);
    }
}

/// A path that stays below where it begins.
pub(super) fn relative(of: &Value, member: &str, path: &str, errors: &mut Errors) {
    let field = format!("{path}.{member}");
    let value = text(of, member);
    if value.starts_with('/') {
        errors.push(FieldError::invalid(
            &*field,
            &json!(value),
            "must be a relative path",
        ));
    }
    if value.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(
            field,
            &json!(value),
            "must not contain '..'",
        ));
    }
}

fn mode(of: &Value, member: &str, path: &str, errors: &mut Errors) {
    if let Some(bits) = of[member].as_i64().filter(|n| !(0..=0o777).contains(n)) {
        errors.push(FieldError::invalid(
            format!("{path}.{member}"),
            &json!(bits),
            "must be a number between 0 and 0777 (octal), both inclusive",
        ));
    }
}
