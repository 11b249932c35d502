//! Node: its taints, its block of addresses, what it has.

use serde_json::{Value, json};

use crate::builtin::check::{self, Block};
use crate::field_error::{CauseReason, quote};
use crate::members::{list, members, object_mut, set, text};
use crate::names;
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// The single block and the first of several are the same.
pub(in crate::builtin) fn default_node(node: &mut Value) {
    let spec = object_mut(node, "spec");
    let single = text(spec, "podCIDR").to_owned();
    let first = list(spec, "podCIDRs").first().cloned();
    if single.is_empty() {
        if let Some(first) = first {
            set(spec, "podCIDR", first);
        }
    } else if first != Some(json!(single)) {
        set(spec, "podCIDRs", json!([single]));
    }
}

/// Checks a new Node.
pub(in crate::builtin) fn validate_new(node: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    taints(node, errors);
    resources(node, errors);
    blocks(&node["spec"], errors);
}

/// Checks a changed Node.
pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    validate_new(new, found);
    validate_status(new, old, found);
}

/// Checks what both a kubelet and others change: some of a Node stays.
pub(in crate::builtin) fn validate_status(new: &Value, old: &Value, found: &mut Validation) {
    const BLOCKS: &str = "node updates may not change podCIDR except from \"\" to valid";
    let errors = &mut found.errors;
    resources(new, errors);
    addresses(&new["status"], errors);
    let (now, was) = (&new["spec"], &old["spec"]);
    let [ours, theirs] = [now, was].map(|spec| list(spec, "podCIDRs"));
    if !theirs.is_empty() {
        let changes = if ours.len() == theirs.len() {
            ours.iter().zip(theirs).filter(|(a, b)| a != b).count()
        } else {
            1
        };
        for _ in 0..changes {
            errors.push(FieldError::forbidden("spec.podCIDRs", BLOCKS));
        }
    }
    let id = |spec| text(spec, "providerID");
    if !id(was).is_empty() && id(now) != id(was) {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    taints(new, errors);
    if text(now, "externalID") != text(was, "externalID") {
        let why = "may not be updated";
        errors.push(FieldError::forbidden("spec.externalID", why));
    }
}

/// Checks taints, which the server looks for in the metadata when it tells of them.
fn taints(node: &Value, errors: &mut Errors) {
    const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let all = list(&node["spec"], "taints");
    for (i, taint) in all.iter().enumerate() {
        let path = format!("metadata.taints[{i}]");
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        check::qualified(key, &format!("{path}.key"), errors);
        let wrongs = names::label_value(text(taint, "value"));
        if !wrongs.is_empty() {
            let field = format!("{path}.value");
            errors.push(FieldError::invalid(
                field,
                &taint["value"],
                wrongs.join(";"),
            ));
        }
        if check::required(taint, "effect", &path, errors) {
            check::one_of(taint, "effect", EFFECTS, &path, errors);
        }
        let is_same = |other: &Value| text(other, "key") == key && text(other, "effect") == effect;
        if all[..i].iter().any(is_same) {
            errors.push(FieldError::with(
                CauseReason::Duplicate,
                path,
                format!(
                    "Duplicate value: {{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}: taints must be unique by key and effect pair",
                    json!(key),
                    json!(text(taint, "value")),
                    json!(effect),
                    quote(&taint["timeAdded"]),
                ),
            ));
        }
    }
}

fn resources(node: &Value, errors: &mut Errors) {
    for kind in ["capacity", "allocatable"] {
        for (name, value) in members(&node["status"], kind) {
            check::resource_value(name, value, &format!("status.{kind}.{name}"), errors);
        }
    }
}

fn addresses(status: &Value, errors: &mut Errors) {
    let all = list(status, "addresses");
    for (i, address) in all.iter().enumerate() {
        if all[..i].contains(address) {
            let parts = ["type", "address"].map(|member| json!(text(address, member)));
            errors.push(FieldError::with(
                CauseReason::Duplicate,
                format!("status.addresses[{i}]"),
                format!(
                    "Duplicate value: {{\"Type\":{},\"Address\":{}}}",
                    parts[0], parts[1]
                ),
            ));
        }
    }
}

/// Checks the blocks of a Node's Pods: one of each family.
fn blocks(spec: &Value, errors: &mut Errors) {
    const PATH: &str = "spec.podCIDRs";
    let all = list(spec, "podCIDRs");
    let parsed: Vec<Option<Block>> = all
        .iter()
        .enumerate()
        .map(|(i, value)| check::cidr(value, &format!("{PATH}[{i}]"), errors))
        .collect();
    if all.len() < 2 {
        return;
    }
    let dual = matches!(parsed.as_slice(), [Some(a), Some(b)] if a.is_v4() != b.is_v4());
    if !dual {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(PATH, &spec["podCIDRs"], why));
    }
    for (i, value) in all.iter().enumerate() {
        if all[..i].contains(value) {
            errors.push(FieldError::duplicate(format!("{PATH}[{i}]"), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: &Validation) -> Vec<String> {
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn wrongs(node: &Value) -> Vec<String> {
        let mut node = node.clone();
        default_node(&mut node);
        let mut found = Validation::default();
        validate_new(&node, &mut found);
        texts(&found)
    }

    #[test]
    fn a_node_may_be_but_a_name() {
        assert_eq!(
            wrongs(&json!({"metadata": {"name": "n"}})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn taints_are_unique() {
        let taints = json!([
            {"key": "a", "effect": "NoSchedule", "value": "x"},
            {"key": "a", "effect": "NoSchedule"},
            {"key": "a"},
            {"key": "b", "effect": "Sometimes", "value": "/"},
        ]);
        assert_eq!(
            wrongs(&json!({"spec": {"taints": taints}})),
            [
                "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Required value",
                "metadata.taints[3].value: Invalid value: \"/\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                "metadata.taints[3].effect: Unsupported value: \"Sometimes\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ]
        );
    }

    #[test]
    fn a_node_has_a_block_of_each_family() {
        let of = |blocks: Value| wrongs(&json!({"spec": {"podCIDRs": blocks}}));
        assert_eq!(
            of(json!(["10.0.0.0/24", "fd00::/64"])),
            Vec::<String>::new()
        );
        assert_eq!(
            of(json!(["10.0.0.0/24", "10.0.0.0/24"])),
            [
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.0.0/24\"]: may specify no more than one CIDR for each IP family",
                "spec.podCIDRs[1]: Duplicate value: \"10.0.0.0/24\"",
            ]
        );
        assert_eq!(
            wrongs(&json!({"spec": {"podCIDR": "x"}})),
            [
                "spec.podCIDRs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            ]
        );
    }

    #[test]
    fn resources_are_not_negative() {
        assert_eq!(
            wrongs(
                &json!({"status": {"capacity": {"cpu": "-1"}, "allocatable": {"pods": "1500m"}}})
            ),
            [
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.allocatable.pods: Invalid value: \"1500m\": must be an integer",
            ]
        );
    }

    #[test]
    fn some_of_a_node_stays() {
        let node = |spec: Value, status: Value| json!({"spec": spec, "status": status});
        let old = node(
            json!({"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}),
            json!({}),
        );
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let new = node(
            json!({"podCIDRs": ["10.0.1.0/24"], "providerID": "b", "externalID": "c"}),
            json!({"addresses": [address, address]}),
        );
        let mut found = Validation::default();
        validate_update(&new, &old, &mut found);
        assert_eq!(
            texts(&found),
            [
                "status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"10.0.0.1\"}",
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
                "spec.externalID: Forbidden: may not be updated",
            ]
        );
        let mut found = Validation::default();
        validate_update(&old, &node(json!({}), json!({})), &mut found);
        assert_eq!(texts(&found), Vec::<String>::new());
    }
}
