//! `ReplicationController`: the older form of a `ReplicaSet`, which selects by a plain map.

use serde_json::Value;

use super::pod;
use super::workload_rules::lasting;
use crate::builtin::check;
use crate::members::{default, has, members, object_mut, set};
use crate::schema::{FieldError, Validation};

/// A controller without selector or labels has those of its Pods.
pub(in crate::builtin) fn default_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        for owner in ["spec", "metadata"] {
            let member = if owner == "spec" {
                "selector"
            } else {
                "labels"
            };
            let of = object_mut(object, owner);
            if members(of, member).next().is_none() {
                set(of, member, labels.clone());
            }
        }
    }
    let spec = object_mut(object, "spec");
    default(spec, "replicas", 1);
    if has(spec, "template") {
        pod::default_template(object_mut(spec, "template"));
    }
}

/// Checks a controller.
pub(in crate::builtin) fn validate(object: &Value, found: &mut Validation) {
    let spec = &object["spec"];
    let errors = &mut found.errors;
    check::not_negative(spec, "minReadySeconds", "spec", errors);
    let selects = members(spec, "selector").next().is_some();
    if !selects {
        errors.push(FieldError::required("spec.selector", ""));
    }
    check::not_negative(spec, "replicas", "spec", errors);
    if !has(spec, "template") {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if members(spec, "selector").any(|(key, value)| labels.get(key) != Some(value)) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    lasting(&spec["template"], "ReplicationController", found);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::workload_rules::validate_counts;
    use super::*;

    fn wrongs(spec: &Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "x"}, "spec": spec});
        default_controller(&mut object);
        let mut found = Validation::default();
        validate(&object, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn template(labels: &Value) -> Value {
        json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    #[test]
    fn a_controller_selects_its_pods() {
        let labels = json!({"a": "b"});
        assert_eq!(
            wrongs(&json!({"template": template(&labels)})),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(&json!({"replicas": -1, "minReadySeconds": -2})),
            [
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.selector: Required value",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.template: Required value",
            ]
        );
        assert_eq!(
            wrongs(&json!({"selector": {"a": "c"}, "template": template(&labels)})),
            [
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"
            ]
        );
        let mut ends = template(&labels);
        ends["spec"]["restartPolicy"] = json!("Never");
        ends["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(
            wrongs(&json!({"template": ends})),
            [
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
            ]
        );
    }

    #[test]
    fn a_controller_takes_its_labels_from_its_pods() {
        let mut object = json!({"spec": {"template": template(&json!({"a": "b"}))}});
        default_controller(&mut object);
        assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(object["spec"]["selector"], json!({"a": "b"}));
    }

    #[test]
    fn parts_are_not_more_than_the_whole() {
        let status = json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": -1,
            "availableReplicas": 1});
        let mut found = Validation::default();
        validate_counts(&json!({"status": status}), &json!({}), &mut found);
        let texts: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
            ]
        );
    }
}
