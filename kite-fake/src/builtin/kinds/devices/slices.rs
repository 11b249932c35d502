//! What a driver says of its devices. Of what a device has, the policies of its
//! capacity, its counters and its conditions are not checked.

use serde_json::{Value, json};

use super::{Errors, each, each_once, pool, requests};
use crate::builtin::check;
use crate::members::{flag, has, list, members, number, text};
use crate::schema::{FieldError, Validation};

/// Most devices of a slice; fewer, where they have taints, counters or lists.
const MOST_DEVICES: usize = 128;
const MOST_ELABORATE: usize = 64;
/// Most sets of counters.
const MOST_SETS: usize = 8;
const MOST_TAINTS: usize = 16;
/// Most attributes and capacities of a device.
const MOST_PROPERTIES: usize = 32;
const LONGEST_VALUE: usize = 64;

/// Checks a new slice.
pub(in crate::builtin) fn validate_new_slice(slice: &Value, found: &mut Validation) {
    spec(&slice["spec"], None, &mut found.errors);
}

/// Checks a changed slice: it stays where it is.
pub(in crate::builtin) fn validate_slice_update(new: &Value, old: &Value, found: &mut Validation) {
    spec(&new["spec"], Some(&old["spec"]), &mut found.errors);
}

fn spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    check::driver(spec, "driver", "spec", errors);
    let group = &spec["pool"];
    pool(group, "name", "spec.pool", errors);
    let mut refuse = |member: &str, wrong: &str| {
        let field = format!("spec.pool.{member}");
        let given = number(group, member).unwrap_or(0);
        errors.push(FieldError::invalid(field, &json!(given), wrong));
    };
    if number(group, "resourceSliceCount").unwrap_or(0) <= 0 {
        refuse("resourceSliceCount", "must be greater than zero");
    }
    if number(group, "generation").unwrap_or(0) < 0 {
        refuse("generation", "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        check::immutable(group, &old["pool"], "name", "spec.pool", errors);
        check::immutable(spec, old, "driver", "spec", errors);
        check::immutable(spec, old, "nodeName", "spec", errors);
    }
    place(spec, errors);
    if has(spec, "sharedCounters") && has(spec, "devices") {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid("spec", &json!(""), why));
    }
    let elaborate = list(spec, "devices").iter().any(is_elaborate);
    let most = if elaborate {
        MOST_ELABORATE
    } else {
        MOST_DEVICES
    };
    let own = flag(spec, "perDeviceNodeSelection");
    each_once(
        (spec, "devices", most),
        |it| &it["name"],
        "spec",
        errors,
        |one, path, errors| device(one, own, path, errors),
    );
    each_once(
        (spec, "sharedCounters", MOST_SETS),
        |it| &it["name"],
        "spec",
        errors,
        |set, path, errors| {
            if check::required(set, "name", path, errors) {
                check::label(text(set, "name"), &format!("{path}.name"), errors);
            }
            if members(set, "counters").next().is_none() {
                errors.push(FieldError::required(format!("{path}.counters"), ""));
            }
        },
    );
}

fn is_elaborate(device: &Value) -> bool {
    let lists = ["bools", "ints", "strings", "versions"];
    !list(device, "taints").is_empty()
        || !list(device, "consumesCounters").is_empty()
        || members(device, "attributes").any(|(_, it)| lists.iter().any(|list| has(it, list)))
}

/// What of `of` says where devices are, as the server writes it.
fn places(of: &Value, flags: &[&str], empty: &str, path: &str, errors: &mut Errors) -> String {
    let mut set = Vec::new();
    if has(of, "nodeName") {
        let field = format!("{path}.nodeName");
        let name = text(of, "nodeName");
        if name.is_empty() {
            errors.push(FieldError::invalid(field, &json!(name), empty));
        } else {
            set.push("`nodeName`".to_owned());
            check::subdomain(name, &field, errors);
        }
    }
    if has(of, "nodeSelector") {
        set.push("`nodeSelector`".to_owned());
    }
    for member in flags {
        if flag(of, member) {
            set.push(format!("`{member}`"));
        } else if has(of, member) {
            let why = "must be either unset or set to true";
            let field = format!("{path}.{member}");
            errors.push(FieldError::invalid(field, &json!(false), why));
        }
    }
    set.join(", ")
}

/// The devices of a slice are at one Node, at some or at all, or each says where it is.
fn place(spec: &Value, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let empty = "must be either unset or set to a non-empty string";
    let flags = &["allNodes", "perDeviceNodeSelection"];
    let set = places(spec, flags, empty, "spec", errors);
    if set.is_empty() {
        errors.push(FieldError::required("spec", ONE));
    } else if set.contains(',') {
        let why = format!("{ONE}, but multiple fields are set");
        errors.push(FieldError::invalid(
            "spec",
            &json!(format!("{{{set}}}")),
            why,
        ));
    }
}

fn device(device: &Value, says_where: bool, path: &str, errors: &mut Errors) {
    check::label(text(device, "name"), &format!("{path}.name"), errors);
    let kinds = ["attributes", "capacity"];
    let properties: usize = kinds.map(|kind| members(device, kind).count()).iter().sum();
    if properties > MOST_PROPERTIES {
        let why = format!(
            "the total number of attributes and capacities must not exceed {MOST_PROPERTIES}"
        );
        errors.push(FieldError::invalid(path, &json!(properties), why));
    }
    for kind in kinds {
        let field = format!("{path}.{kind}");
        for (name, value) in members(device, kind) {
            requests::name_of(name, &field, errors);
            if kind == "attributes" {
                attribute(value, &format!("{field}[{name}]"), errors);
            }
        }
    }
    each(device, "taints", MOST_TAINTS, path, errors, taint);
    if says_where {
        const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        let set = places(device, &["allNodes"], "must not be empty", path, errors);
        if set.is_empty() {
            errors.push(FieldError::required(path, ONE));
        } else if set.contains(',') {
            let given = json!(format!("{{{set}}}"));
            errors.push(FieldError::invalid(path, &given, ONE));
        }
    } else if ["nodeName", "nodeSelector", "allNodes"]
        .iter()
        .any(|member| has(device, member))
    {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(FieldError::invalid(path, &json!("null"), why));
    }
}

/// An attribute has one value.
fn attribute(attribute: &Value, path: &str, errors: &mut Errors) {
    const ONE: &str = "exactly one value must be specified";
    for member in ["string", "version"] {
        if text(attribute, member).len() > LONGEST_VALUE {
            let field = format!("{path}.{member}");
            errors.push(FieldError::too_long(field, LONGEST_VALUE as u64));
        }
    }
    match attribute.as_object().map_or(0, serde_json::Map::len) {
        0 => errors.push(FieldError::invalid(path, &json!(""), ONE)),
        1 => {}
        _ => errors.push(FieldError::invalid(path, attribute, ONE)),
    }
}

fn taint(taint: &Value, path: &str, errors: &mut Errors) {
    check::qualified(text(taint, "key"), &format!("{path}.key"), errors);
    let value = text(taint, "value");
    let wrongs = crate::names::label_value(value);
    check::invalid(&format!("{path}.value"), &json!(value), wrongs, errors);
    if check::required(taint, "effect", path, errors) {
        let effects = &["NoExecute", "NoSchedule", "None"];
        check::one_of(taint, "effect", effects, path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(more: &Value, old: Option<&Value>) -> Vec<String> {
        let full = |more: &Value| {
            let mut spec = json!({"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}});
            for (member, value) in more.as_object().into_iter().flatten() {
                spec[member] = value.clone();
            }
            spec
        };
        let mut errors = Vec::new();
        spec(&full(more), old.map(full).as_ref(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_slice_is_somewhere_and_stays_there() {
        assert_eq!(of(&json!({"nodeName": "n"}), None), Vec::<String>::new());
        assert_eq!(
            of(
                &json!({"pool": {"name": "", "generation": -1}, "driver": "A_",
                    "allNodes": false}),
                None
            ),
            [
                "spec.driver: Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
                "spec.allNodes: Invalid value: false: must be either unset or set to true",
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ]
        );
        assert_eq!(
            of(
                &json!({"nodeName": "m", "allNodes": true}),
                Some(&json!({"nodeName": "n"}))
            ),
            [
                "spec.nodeName: Invalid value: \"m\": field is immutable",
                "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
            ]
        );
    }

    #[test]
    fn devices_have_names_and_attributes() {
        assert_eq!(
            of(
                &json!({"allNodes": true, "devices": [
                    {"name": "a", "attributes": {"x": {"int": 1}, "d/y": {"string": "s"}}},
                    {"name": "a", "nodeName": "n", "attributes": {"x": {}}},
                    {"name": "b", "taints": [{"key": "k", "effect": "Some"}]},
                ]}),
                None
            ),
            [
                "spec.devices[1].attributes[x]: Invalid value: \"\": exactly one value must be specified",
                "spec.devices[1]: Invalid value: \"null\": `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
                "spec.devices[2].taints[0].effect: Unsupported value: \"Some\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
                "spec.devices[1]: Duplicate value: \"a\"",
            ]
        );
        assert_eq!(
            of(
                &json!({"perDeviceNodeSelection": true, "devices": [{"name": "a"},
                    {"name": "b", "nodeName": "n"}],
                    "sharedCounters": [{"name": "c"}]}),
                None
            ),
            [
                "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
                "spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
                "spec.sharedCounters[0].counters: Required value",
            ]
        );
    }
}
