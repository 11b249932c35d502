//! What changes a Pod that is there beside an update: ephemeral containers, which
//! debuggers add, and other resources for its containers.

use serde_json::{Value, json};

use super::pod::quality;
use crate::members::{copy, has, list, list_mut, members, object_mut, set, text, unset};
use crate::schema::{FieldError, Validation};

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
        "resize" => {
            let mut spec = old["spec"].clone();
            for containers in ["containers", "initContainers"] {
                for container in list_mut(&mut spec, containers) {
                    let name = text(container, "name").to_owned();
                    let mut wanted = list(&new["spec"], containers).iter();
                    let Some(wanted) = wanted.find(|it| text(it, "name") == name) else {
                        continue;
                    };
                    // Of those that end before the others start nothing is left to resize.
                    let goes_on =
                        containers == "containers" || text(wanted, "restartPolicy") == "Always";
                    for member in ["resources", "resizePolicy"] {
                        if goes_on && has(wanted, member) {
                            copy(container, wanted, member);
                        }
                    }
                }
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
    for containers in ["containers", "initContainers"] {
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
    for (amounts, what) in [("limits", "limits"), ("requests", "requests")] {
        let gone = members(before, amounts).any(|(name, _)| after[amounts].get(name).is_none());
        if gone {
            errors.push(FieldError::forbidden(
                format!("{path}.{amounts}"),
                format!("resource {what} cannot be removed"),
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
