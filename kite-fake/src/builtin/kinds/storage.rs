//! Claims, volumes and storage classes.

use serde_json::{Value, json};

use crate::builtin::{check, quantity};
use crate::members::{copy, default, has, list, members, object_mut, set, text, unset};
use crate::schema::{FieldError, Validation};

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

pub(in crate::builtin) fn default_claim(claim: &mut Value) {
    default(object_mut(claim, "status"), "phase", "Pending");
    default(object_mut(claim, "spec"), "volumeMode", "Filesystem");
}

/// A claim in use is held by a finalizer, which the server itself adds.
pub(in crate::builtin) fn prepare_claim(claim: &mut Value) {
    set(claim, "status", json!({"phase": "Pending"}));
    pair_sources(object_mut(claim, "spec"));
    protect(claim, "kubernetes.io/pvc-protection");
}

fn protect(object: &mut Value, finalizer: &str) {
    let metadata = object_mut(object, "metadata");
    let mut finalizers = list(metadata, "finalizers").to_vec();
    if !finalizers.iter().any(|held| held == finalizer) {
        finalizers.push(json!(finalizer));
        set(metadata, "finalizers", finalizers);
    }
}

/// What a claim is filled from is said twice, for old clients.
fn pair_sources(spec: &mut Value) {
    let from_claim_or_snapshot = |source: &Value| {
        matches!(
            (text(source, "apiGroup"), text(source, "kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if has(spec, "dataSource") && !from_claim_or_snapshot(&spec["dataSource"]) {
        // The old field never took anything else, and ignored it.
        unset(spec, "dataSource");
    }
    if has(spec, "dataSource") && !has(spec, "dataSourceRef") {
        let source = spec["dataSource"].clone();
        set(spec, "dataSourceRef", source);
    } else if has(spec, "dataSourceRef")
        && !has(spec, "dataSource")
        && text(&spec["dataSourceRef"], "namespace").is_empty()
    {
        let source = spec["dataSourceRef"].clone();
        set(spec, "dataSource", source);
    }
}

pub(in crate::builtin) fn validate_claim(claim: &Value, found: &mut Validation) {
    claim_spec(&claim["spec"], "spec", &mut found.errors);
}

/// Checks what somebody claims.
pub(super) fn claim_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.accessModes"),
            "at least 1 access mode is required",
        ));
    }
    access_modes(spec, path, errors);
    if has(spec, "selector") {
        super::network::selector(&spec["selector"], &format!("{path}.selector"), errors);
    }
    let field = format!("{path}.resources[storage]");
    let wanted = &spec["resources"]["requests"]["storage"];
    match wanted.as_str() {
        None => errors.push(FieldError::required(field, "")),
        Some(wanted_text) => positive(wanted_text, &field, errors),
    }
    class_name(spec, "storageClassName", path, errors);
    class_name(spec, "volumeAttributesClassName", path, errors);
    check::one_of(spec, "volumeMode", VOLUME_MODES, path, errors);
    for member in ["dataSource", "dataSourceRef"] {
        if has(spec, member) {
            source(&spec[member], &format!("{path}.{member}"), errors);
        }
    }
    let (one, other) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if one.is_object() && other.is_object() {
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|member| one.get(member) == other.get(member));
        let wrong = if !text(other, "namespace").is_empty() {
            "may not be specified when dataSourceRef.namespace is specified"
        } else if !same {
            "must match dataSourceRef"
        } else {
            return;
        };
        errors.push(FieldError::invalid(path, &json!({}), wrong));
    }
}

fn source(source: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check::required(source, "name", path, errors);
    check::required(source, "kind", path, errors);
    let group = text(source, "apiGroup");
    if group.is_empty() {
        if text(source, "kind") != "PersistentVolumeClaim" {
            errors.push(FieldError::invalid(
                path,
                &json!(text(source, "kind")),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ));
        }
    } else {
        check::subdomain(group, &format!("{path}.apiGroup"), errors);
    }
}

fn class_name(spec: &Value, member: &str, path: &str, errors: &mut Vec<FieldError>) {
    let class = text(spec, member);
    if !class.is_empty() {
        check::subdomain(class, &format!("{path}.{member}"), errors);
    }
}

fn positive(value: &str, field: &str, errors: &mut Vec<FieldError>) {
    if quantity::nano(value).is_some_and(|nano| nano <= 0) {
        errors.push(FieldError::invalid(
            field,
            &json!(value),
            "must be greater than zero",
        ));
    }
}

fn access_modes(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.accessModes");
    let modes = list(spec, "accessModes");
    let known = |mode: &Value| MODES.contains(&mode.as_str().unwrap_or_default());
    for mode in modes.iter().filter(|mode| !known(mode)) {
        errors.push(FieldError::not_supported(&*field, mode, MODES));
    }
    let exclusive = |mode: &&Value| **mode == "ReadWriteOncePod";
    if modes.iter().any(|mode| exclusive(&mode))
        && modes.iter().any(|mode| known(mode) && !exclusive(&mode))
    {
        errors.push(FieldError::forbidden(
            field,
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
}

/// A claim's specification stays, but for its size and class once it is bound,
/// and for the volume it gets.
pub(in crate::builtin) fn validate_claim_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let mut before = old["spec"].clone();
    let after = &new["spec"];
    if text(&before, "volumeName").is_empty() {
        copy(&mut before, after, "volumeName");
    }
    if !has(&before, "storageClassName") {
        // A claim without a class gets the default one later.
        copy(&mut before, after, "storageClassName");
    }
    if text(&old["status"], "phase") == "Bound" {
        if has(after, "volumeAttributesClassName") {
            copy(&mut before, after, "volumeAttributesClassName");
        }
        let wanted = &after["resources"]["requests"]["storage"];
        if has(&after["resources"], "requests") && !wanted.is_null() {
            let resources = object_mut(&mut before, "resources");
            set(object_mut(resources, "requests"), "storage", wanted.clone());
        }
    }
    if before != *after {
        errors.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |of: &Value| of["storage"].as_str().and_then(quantity::nano).unwrap_or(0);
    let wanted = size(&after["resources"]["requests"]);
    if wanted < size(&old["spec"]["resources"]["requests"])
        && wanted <= size(&old["status"]["capacity"])
    {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    if after.get("volumeMode") != old["spec"].get("volumeMode") {
        errors.push(FieldError::invalid(
            "volumeMode",
            &after["volumeMode"],
            check::IMMUTABLE,
        ));
    }
}

pub(in crate::builtin) fn default_volume(volume: &mut Value) {
    let spec = object_mut(volume, "spec");
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default(spec, "volumeMode", "Filesystem");
    if has(spec, "hostPath") {
        let path = object_mut(spec, "hostPath");
        if !has(path, "type") {
            set(path, "type", "");
        }
    }
    default(object_mut(volume, "status"), "phase", "Pending");
}

/// A new volume is pending since it was created, and held by a finalizer.
pub(in crate::builtin) fn prepare_volume(volume: &mut Value) {
    let since = volume["metadata"]["creationTimestamp"].clone();
    set(volume, "status", json!({"phase": "Pending"}));
    if since.is_string() {
        set(
            object_mut(volume, "status"),
            "lastPhaseTransitionTime",
            since,
        );
    }
    protect(volume, "kubernetes.io/pv-protection");
}

/// What the specification of a volume has beside its source.
const COMMON: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// What a volume is made of.
fn volume_source(volume: &Value) -> Vec<(&String, &Value)> {
    members(volume, "spec")
        .filter(|(name, _)| !COMMON.contains(&name.as_str()))
        .collect()
}

pub(in crate::builtin) fn validate_volume(volume: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &volume["spec"];
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    access_modes(spec, "spec", errors);
    let capacity = members(spec, "capacity").count();
    if capacity == 0 {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if capacity > 1 || spec["capacity"]["storage"].is_null() {
        errors.push(FieldError::not_supported(
            "spec.capacity",
            &spec["capacity"],
            &["storage"],
        ));
    }
    for (name, value) in members(spec, "capacity") {
        let field = format!("spec.capacity[{name}]");
        positive(value.as_str().unwrap_or_default(), &field, errors);
    }
    check::one_of(
        spec,
        "persistentVolumeReclaimPolicy",
        &["Delete", "Recycle", "Retain"],
        "spec",
        errors,
    );
    class_name(spec, "storageClassName", "spec", errors);
    check::one_of(spec, "volumeMode", VOLUME_MODES, "spec", errors);
    let sources = volume_source(volume);
    if sources.is_empty() {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
    for (name, _) in sources.iter().skip(1) {
        errors.push(FieldError::forbidden(
            format!("spec.{name}"),
            "may not specify more than 1 volume type",
        ));
    }
    for (name, source) in sources {
        volume_type(name, source, spec, errors);
    }
}

fn volume_type(name: &str, source: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("spec.{name}");
    match name {
        "hostPath" => host_path(source, &path, errors),
        "nfs" => {
            check::required(source, "server", &path, errors);
            if check::required(source, "path", &path, errors)
                && !text(source, "path").starts_with('/')
            {
                errors.push(FieldError::invalid(
                    format!("{path}.path"),
                    &source["path"],
                    "must be an absolute path",
                ));
            }
        }
        "csi" => {
            check::required(source, "driver", &path, errors);
            check::required(source, "volumeHandle", &path, errors);
        }
        "local" => {
            check::required(source, "path", &path, errors);
            if !has(&spec["nodeAffinity"], "required") {
                errors.push(FieldError::required(
                    "spec.nodeAffinity",
                    "Local volume requires node affinity",
                ));
            }
        }
        _ => {}
    }
}

/// Checks a directory of a node.
pub(super) fn host_path(source: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !check::required(source, "path", path, errors) {
        return;
    }
    if text(source, "path").split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(
            format!("{path}.path"),
            &source["path"],
            "must not contain '..'",
        ));
    }
    check::one_of(
        source,
        "type",
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
        path,
        errors,
    );
}

/// A volume keeps its source and its mode.
pub(in crate::builtin) fn validate_volume_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    if volume_source(new) != volume_source(old) {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    if new["spec"].get("volumeMode") != old["spec"].get("volumeMode") {
        errors.push(FieldError::invalid(
            "volumeMode",
            &new["spec"]["volumeMode"],
            check::IMMUTABLE,
        ));
    }
    let affinity = &old["spec"]["nodeAffinity"];
    if !affinity.is_null() && new["spec"]["nodeAffinity"] != *affinity {
        errors.push(FieldError::invalid(
            "nodeAffinity",
            &new["spec"]["nodeAffinity"],
            "field is immutable, except for updating from beta label to GA",
        ));
    }
}

pub(in crate::builtin) fn default_driver(driver: &mut Value) {
    let spec = object_mut(driver, "spec");
    default(spec, "attachRequired", true);
    default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default(spec, "podInfoOnMount", false);
    default(spec, "requiresRepublish", false);
    default(spec, "seLinuxMount", false);
    default(spec, "storageCapacity", false);
    if list(spec, "volumeLifecycleModes").is_empty() {
        set(spec, "volumeLifecycleModes", json!(["Persistent"]));
    }
}

/// Checks a driver's name and how its volumes live.
pub(in crate::builtin) fn validate_driver(driver: &Value, found: &mut Validation) {
    let name = text(&driver["metadata"], "name");
    let errors = &mut found.errors;
    if name.len() > 63 {
        errors.push(FieldError::too_long("metadata.name", 63));
    }
    let lower = name.to_lowercase();
    check::invalid(
        "metadata.name",
        &json!(name),
        crate::names::subdomain(&lower),
        errors,
    );
    let spec = &driver["spec"];
    check::one_of(
        spec,
        "fsGroupPolicy",
        &["File", "None", "ReadWriteOnceWithFSType"],
        "spec",
        errors,
    );
    for (place, mode) in list(spec, "volumeLifecycleModes").iter().enumerate() {
        let supported = &["Ephemeral", "Persistent"];
        if !supported.contains(&mode.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(
                format!("spec.volumeLifecycleModes[{place}]"),
                mode,
                supported,
            ));
        }
    }
}

pub(in crate::builtin) fn default_class(class: &mut Value) {
    default(class, "reclaimPolicy", "Delete");
    default(class, "volumeBindingMode", "Immediate");
}

/// Most parameters of a class, and most bytes of all of them.
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

pub(in crate::builtin) fn validate_class(class: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let provisioner = text(class, "provisioner");
    if provisioner.is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    } else {
        check::qualified(&provisioner.to_lowercase(), "provisioner", errors);
    }
    parameters(class, true, errors);
    for (member, supported) in [
        ("reclaimPolicy", &["Delete", "Retain"][..]),
        (
            "volumeBindingMode",
            &["Immediate", "WaitForFirstConsumer"][..],
        ),
    ] {
        if !supported.contains(&text(class, member)) {
            errors.push(FieldError::not_supported(member, &class[member], supported));
        }
    }
}

fn parameters(class: &Value, may_be_none: bool, errors: &mut Vec<FieldError>) {
    let all = || members(class, "parameters");
    if all().count() > MAX_PARAMETERS {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS as u64));
        return;
    }
    let mut size = 0;
    for (name, value) in all() {
        if name.is_empty() {
            errors.push(FieldError::invalid(
                "parameters",
                &json!(name),
                "field can not be empty.",
            ));
        }
        size += name.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETER_BYTES {
        errors.push(FieldError::too_long(
            "parameters",
            MAX_PARAMETER_BYTES as u64,
        ));
    }
    if !may_be_none && all().count() == 0 {
        errors.push(FieldError::required(
            "parameters",
            "must contain at least one key/value pair",
        ));
    }
}

pub(in crate::builtin) fn validate_class_update(new: &Value, old: &Value, found: &mut Validation) {
    for (member, name) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new.get(member) != old.get(member) {
            found.errors.push(FieldError::forbidden(member, name));
        }
    }
    check::immutable(new, old, "volumeBindingMode", "", &mut found.errors);
}

/// A class is held while volumes have it.
pub(in crate::builtin) fn prepare_attributes_class(class: &mut Value) {
    protect(class, "kubernetes.io/vac-protection");
}

/// Checks a class of volume attributes.
pub(in crate::builtin) fn validate_attributes_class(class: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    if check::required(class, "driverName", "", errors) {
        check::subdomain(text(class, "driverName"), "driverName", errors);
    }
    parameters(class, false, errors);
}

/// A class of volume attributes stays as it is.
pub(in crate::builtin) fn validate_attributes_class_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    for (member, name) in [
        ("driverName", "updates to driverName are forbidden."),
        ("parameters", "updates to parameters are forbidden."),
    ] {
        if new.get(member) != old.get(member) {
            found.errors.push(FieldError::forbidden(member, name));
        }
    }
}
