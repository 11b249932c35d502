//! What changes a Pod that is there beside an update: ephemeral containers, which
//! debuggers add, and other resources for its containers.

use serde_json::{Value, json};

use super::pod::quality;
use crate::members::{copy, has, list, list_mut, members, object_mut, set, text, unset};
use crate::schema::{FieldError, Validation};

/// The lists of containers that have resources.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Keeps all of a Pod but what the subresource changes.
pub(in crate::builtin) fn prepare(new: &mut Value, old: &Value, subresource: &str) {
    let changed = match subresource {
        "ephemeralcontainers" => {
            let mut spec = old["spec"].clone();
            if has(&new["spec"], "ephemeralContainers") {
                copy(&mut spec, &new["spec"], "ephemeralContainers");
            } else {
                unset(&mut spec, "ephemeralContainers");
            }
            spec
        }
        // Other containers are refused later.
        "resize" if names(new) != names(old) => new["spec"].clone(),
        "resize" => {
            let mut spec = old["spec"].clone();
            for containers in CONTAINERS {
                let wanted = list(&new["spec"], containers);
                for (container, wanted) in list_mut(&mut spec, containers).iter_mut().zip(wanted) {
                    for member in ["resources", "resizePolicy"] {
                        if has(wanted, member) {
                            copy(container, wanted, member);
                        }
                    }
                }
            }
            if has(&new["spec"], "resources") {
                copy(&mut spec, &new["spec"], "resources");
            }
            spec
        }
        _ => return,
    };
    set(new, "spec", changed);
    let metadata = object_mut(new, "metadata");
    for member in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if has(&old["metadata"], member) {
            copy(metadata, &old["metadata"], member);
        } else {
            unset(metadata, member);
        }
    }
}

/// The names of a Pod's containers, list by list.
fn names(pod: &Value) -> [Vec<&str>; 2] {
    CONTAINERS.map(|member| {
        let containers = list(&pod["spec"], member).iter();
        containers
            .map(|container| text(container, "name"))
            .collect()
    })
}

/// Existing ephemeral containers stay as they are.
pub(in crate::builtin) fn validate_ephemeral(new: &Value, old: &Value, found: &mut Validation) {
    const FIELD: &str = "spec.ephemeralContainers";
    for container in list(&old["spec"], "ephemeralContainers") {
        let name = text(container, "name");
        let mut others = list(&new["spec"], "ephemeralContainers").iter();
        let other = others.find(|other| text(other, "name") == name);
        let what = match other {
            None => "removed",
            Some(other) if other != container => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers \"{name}\" may not be {what}\n");
        found.errors.push(FieldError::forbidden(FIELD, why));
    }
}

/// A new Pod has none.
pub(in crate::builtin) fn validate_new(pod: &Value, found: &mut Validation) {
    if !list(&pod["spec"], "ephemeralContainers").is_empty() {
        let why = "cannot be set on create";
        found
            .errors
            .push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
}

/// Processor time and memory may change, within the class of the Pod.
pub(in crate::builtin) fn validate_resize(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let class = quality(&old["spec"]);
    if quality(&new["spec"]) != class {
        errors.push(FieldError::invalid(
            "spec",
            &json!(class),
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
    for (member, (after, before)) in CONTAINERS
        .iter()
        .zip(names(new).iter().zip(names(old).iter()))
    {
        let why = match (after.len() == before.len(), after == before) {
            (true, true) => continue,
            (true, false) => "containers may not be renamed or reordered on resize",
            (false, _) => "containers may not be added or removed on resize",
        };
        errors.push(FieldError::forbidden(format!("spec.{member}"), why));
    }
    if names(new) != names(old) {
        return;
    }
    for containers in CONTAINERS {
        let pairs = list(&new["spec"], containers)
            .iter()
            .zip(list(&old["spec"], containers));
        for (place, (after, before)) in pairs.enumerate() {
            let path = format!("spec.{containers}[{place}].resources");
            resized(&after["resources"], &before["resources"], &path, errors);
        }
    }
}

fn resized(after: &Value, before: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for amounts in ["limits", "requests"] {
        let gone = members(before, amounts).any(|(name, _)| after[amounts].get(name).is_none());
        if gone {
            errors.push(FieldError::forbidden(
                format!("{path}.{amounts}"),
                format!("resource {amounts} cannot be removed"),
            ));
        }
        let is_fixed = |name: &str| !matches!(name, "cpu" | "memory");
        let changed = members(after, amounts)
            .any(|(name, amount)| is_fixed(name) && before[amounts].get(name) != Some(amount));
        if changed {
            let why = "only cpu and memory resources are mutable";
            errors.push(FieldError::forbidden("spec", why));
        }
    }
    if after.get("claims") != before.get("claims") {
        let why = "only cpu and memory resources are mutable";
        errors.push(FieldError::forbidden("spec", why));
    }
}
