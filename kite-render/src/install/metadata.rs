//! Names and labels of what is installed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::Process;

/// The label that all of an installation has.
pub const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "kite");

/// Metadata of what belongs to no one process.
pub(super) fn common(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(part_of()),
        ..ObjectMeta::default()
    }
}

/// Metadata of what belongs to `process`, under its name.
pub(super) fn of(process: Process, namespace: Option<&str>) -> ObjectMeta {
    named(process, process.name(), namespace)
}

/// Metadata of what belongs to `process`, under another name.
pub(super) fn named(process: Process, name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        labels: Some(labels(process)),
        ..common(name, namespace)
    }
}

/// The labels of what belongs to `process`.
pub(super) fn labels(process: Process) -> BTreeMap<String, String> {
    let mut labels = part_of();
    labels.extend(process.selector());
    labels
}

/// Selects the pods of `process`.
pub(super) fn selects(process: Process) -> LabelSelector {
    LabelSelector {
        match_labels: Some(process.selector()),
        match_expressions: None,
    }
}

fn part_of() -> BTreeMap<String, String> {
    let (key, value) = PART_OF;
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}
