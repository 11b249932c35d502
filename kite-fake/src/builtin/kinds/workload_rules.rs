//! Validation of Deployments and the other kinds that hold a pod template.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::network::selector;
use super::pod_rules;
use super::small::count_or_percent;
use super::workload::selects;
use crate::builtin::check;
use crate::members::{has, list, number, text};
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// Checks a Deployment.
pub(in crate::builtin) fn validate_deployment(object: &Value, found: &mut Validation) {
    replicated(object, "deployment", found);
    let errors = &mut found.errors;
    let spec = &object["spec"];
    let strategy = &spec["strategy"];
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" => {
            if rolling.is_object() {
                errors.push(FieldError::forbidden(
                    "spec.strategy.rollingUpdate",
                    "may not be specified when strategy `type` is 'Recreate'",
                ));
            }
        }
        "RollingUpdate" => rolling_update(rolling, "spec.strategy.rollingUpdate", errors),
        _ => check::one_of(
            strategy,
            "type",
            &["Recreate", "RollingUpdate"],
            "spec.strategy",
            errors,
        ),
    }
    for member in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        check::not_negative(spec, member, "spec", errors);
    }
    if let Some(deadline) = number(spec, "progressDeadlineSeconds")
        && deadline <= number(spec, "minReadySeconds").unwrap_or(0)
    {
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &json!(deadline),
            "must be greater than minReadySeconds",
        ));
    }
}

/// Whether a number or a percentage is nothing.
fn is_nothing(value: &Value) -> bool {
    value.as_i64() == Some(0) || value == "0%"
}

fn rolling_update(rolling: &Value, path: &str, errors: &mut Errors) {
    let (surge, missing) = (&rolling["maxSurge"], &rolling["maxUnavailable"]);
    let field = format!("{path}.maxUnavailable");
    if !missing.is_null() {
        count_or_percent(missing, &field, true, errors);
    }
    if !surge.is_null() {
        count_or_percent(surge, &format!("{path}.maxSurge"), false, errors);
    }
    if is_nothing(surge) && is_nothing(missing) {
        errors.push(FieldError::invalid(
            field,
            missing,
            "may not be 0 when `maxSurge` is 0",
        ));
    }
}

/// Checks a `ReplicaSet`.
pub(in crate::builtin) fn validate_replica_set(object: &Value, found: &mut Validation) {
    replicated(object, "replicaset", found);
    check::not_negative(
        &object["spec"],
        "minReadySeconds",
        "spec",
        &mut found.errors,
    );
}

/// Checks a `StatefulSet`.
pub(in crate::builtin) fn validate_stateful_set(object: &Value, found: &mut Validation) {
    replicated(object, "statefulset", found);
    let errors = &mut found.errors;
    let spec = &object["spec"];
    pod_rules::one_of(
        spec,
        "podManagementPolicy",
        &["OrderedReady", "Parallel"],
        "spec",
        errors,
    );
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "" => errors.push(FieldError::required("spec.updateStrategy", "")),
        "OnDelete" => {
            if rolling.is_object() {
                errors.push(FieldError::invalid(
                    "spec.updateStrategy.rollingUpdate",
                    rolling,
                    "only allowed for updateStrategy 'RollingUpdate'",
                ));
            }
        }
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            check::not_negative(rolling, "partition", path, errors);
        }
        _ => errors.push(FieldError::invalid(
            "spec.updateStrategy",
            strategy,
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for member in ["whenDeleted", "whenScaled"] {
        check::one_of(
            retention,
            member,
            &["Delete", "Retain"],
            "spec.persistentVolumeClaimRetentionPolicy",
            errors,
        );
    }
    check::not_negative(spec, "minReadySeconds", "spec", errors);
    check::not_negative(spec, "revisionHistoryLimit", "spec", errors);
    check::not_negative(&spec["ordinals"], "start", "spec.ordinals", errors);
}

/// What a `StatefulSet` may change.
const CHANGING: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Most of a `StatefulSet` stays.
pub(in crate::builtin) fn validate_stateful_set_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(members) = spec.as_object_mut() {
            members.retain(|name, _| !CHANGING.contains(&name.as_str()));
        }
        spec
    };
    if fixed(new) != fixed(old) {
        found.errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

/// Checks a `DaemonSet`.
pub(in crate::builtin) fn validate_daemon_set(object: &Value, found: &mut Validation) {
    replicated(object, "daemonset", found);
    let errors = &mut found.errors;
    let spec = &object["spec"];
    let strategy = &spec["updateStrategy"];
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            let rolling = &strategy["rollingUpdate"];
            let (surge, missing) = (&rolling["maxSurge"], &rolling["maxUnavailable"]);
            for (member, value) in [("maxUnavailable", missing), ("maxSurge", surge)] {
                if !value.is_null() {
                    count_or_percent(value, &format!("{path}.{member}"), true, errors);
                }
            }
            if is_nothing(surge) && is_nothing(missing) {
                errors.push(FieldError::required(
                    format!("{path}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                ));
            } else if !is_nothing(surge) && !surge.is_null() && !is_nothing(missing) {
                errors.push(FieldError::invalid(
                    format!("{path}.maxSurge"),
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                ));
            }
        }
        _ => check::one_of(
            strategy,
            "type",
            &["RollingUpdate", "OnDelete"],
            "spec.updateStrategy",
            errors,
        ),
    }
    check::not_negative(spec, "minReadySeconds", "spec", errors);
    check::not_negative(spec, "revisionHistoryLimit", "spec", errors);
}

fn replicated(object: &Value, kind: &str, found: &mut Validation) {
    let spec = &object["spec"];
    check::not_negative(spec, "replicas", "spec", &mut found.errors);
    if has(spec, "selector") {
        selector(&spec["selector"], "spec.selector", &mut found.errors);
        let empty = spec["selector"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty);
        if empty {
            found.errors.push(FieldError::invalid(
                "spec.selector",
                &spec["selector"],
                format!("empty selector is invalid for {kind}"),
            ));
        }
    } else {
        found.errors.push(FieldError::required("spec.selector", ""));
    }
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    // An empty selector takes everything, none takes nothing.
    if !has(spec, "selector") || !selects(&spec["selector"], labels) {
        found.errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    lasting(&with_claims(spec), "ReplicaSet", found);
}

/// Checks the template of Pods that are always replaced.
pub(super) fn lasting(template: &Value, owner: &str, found: &mut Validation) {
    pod_rules::template(template, "spec.template", found);
    let policy = text(&template["spec"], "restartPolicy");
    if matches!(policy, "OnFailure" | "Never") {
        found.errors.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            &json!(policy),
            &["Always"],
        ));
    }
    if has(&template["spec"], "activeDeadlineSeconds") {
        found.errors.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            format!("activeDeadlineSeconds in {owner} is not Supported"),
        ));
    }
}

/// The template of a workload, with a volume for each claim that is made for a pod of
/// a `StatefulSet`.
fn with_claims(spec: &Value) -> Cow<'_, Value> {
    let template = &spec["template"];
    let claims = list(spec, "volumeClaimTemplates");
    if claims.is_empty() {
        return Cow::Borrowed(template);
    }
    let names: Vec<_> = claims
        .iter()
        .map(|it| text(&it["metadata"], "name"))
        .collect();
    let own = list(&template["spec"], "volumes");
    let mut volumes: Vec<_> = own
        .iter()
        // A claim stands before a volume of its name.
        .filter(|it| !names.contains(&text(it, "name")))
        .cloned()
        .collect();
    volumes.extend(
        names
            .iter()
            .map(|name| json!({"name": name, "emptyDir": {}})),
    );
    let mut template = template.clone();
    template["spec"]["volumes"] = volumes.into();
    Cow::Owned(template)
}

/// The selector stays.
pub(in crate::builtin) fn validate_selector_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    check::immutable(
        &new["spec"],
        &old["spec"],
        "selector",
        "spec",
        &mut found.errors,
    );
}

/// Numbers of a status are not negative, and parts are not more than the whole.
pub(in crate::builtin) fn validate_counts(new: &Value, _: &Value, found: &mut Validation) {
    let status = &new["status"];
    let members = status
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys);
    for member in members {
        check::not_negative(status, member, "status", &mut found.errors);
    }
    let count = |member: &str| number(status, member).unwrap_or(0);
    for (less, more) in [
        ("fullyLabeledReplicas", "replicas"),
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ] {
        if count(less) > count(more) {
            found.errors.push(FieldError::invalid(
                format!("status.{less}"),
                &json!(count(less)),
                format!("cannot be greater than {}", readable(more)),
            ));
        }
    }
}

fn readable(member: &str) -> &str {
    if member == "replicas" {
        "status.replicas"
    } else {
        member
    }
}

/// Checks an autoscaler.
pub(in crate::builtin) fn validate_autoscaler(object: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &object["spec"];
    let (least, most) = (
        number(spec, "minReplicas").unwrap_or(1),
        number(spec, "maxReplicas").unwrap_or(0),
    );
    check::at_least(spec, "minReplicas", 1, "spec", errors);
    if most < 0 {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            &json!(most),
            "must be greater than 0",
        ));
    }
    if most < least {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            &json!(most),
            "must be greater than or equal to `minReplicas`",
        ));
    }
    if most == 0 {
        let why = "must be set and greater than 0";
        errors.push(FieldError::required("spec.maxReplicas", why));
    }
    let (target, path) = (&spec["scaleTargetRef"], "spec.scaleTargetRef");
    for member in ["kind", "name"] {
        if check::required(target, member, path, errors) {
            let value = text(target, member);
            check::path_segment(value, &format!("{path}.{member}"), errors);
        }
    }
    // Only ReplicationControllers have no group.
    let version = text(target, "apiVersion");
    if !version.contains('/') && text(target, "kind") != "ReplicationController" {
        errors.push(FieldError::invalid(
            format!("{path}.apiVersion"),
            &json!(version),
            "apiVersion must specify API group",
        ));
    }
    for (place, metric) in list(spec, "metrics").iter().enumerate() {
        let path = format!("spec.metrics[{place}]");
        let supported = &[
            "ContainerResource",
            "External",
            "Object",
            "Pods",
            "Resource",
        ];
        if text(metric, "type").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.type"),
                "must specify a metric source type",
            ));
        } else {
            check::one_of(metric, "type", supported, &path, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::kinds::workload;

    fn wrongs(
        default: fn(&mut Value),
        rule: fn(&Value, &mut Validation),
        spec: &Value,
    ) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "x"}, "spec": spec});
        default(&mut object);
        let mut found = Validation::default();
        rule(&object, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn template() -> Value {
        json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    #[test]
    fn a_rollout_goes_on() {
        let of = |strategy: Value| {
            let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template(),
                "strategy": strategy});
            wrongs(workload::default_deployment, validate_deployment, &spec)
        };
        assert_eq!(of(json!({})), Vec::<String>::new());
        assert_eq!(
            of(json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
            ]
        );
        assert_eq!(
            of(json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})),
            [
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
            ]
        );
        assert_eq!(
            of(json!({"rollingUpdate": {"maxSurge": "a", "maxUnavailable": "101%"}})).len(),
            2
        );
    }

    #[test]
    fn what_a_claim_is_made_for_is_mounted() {
        let of = |volume: &str| {
            let mut template = template();
            template["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": volume, "mountPath": "/data"}]);
            let claim = json!({"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
            let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template,
                "serviceName": "x", "volumeClaimTemplates": [claim]});
            wrongs(workload::default_stateful_set, validate_stateful_set, &spec)
        };
        assert_eq!(of("data"), Vec::<String>::new());
        assert_eq!(
            of("other"),
            ["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"other\""]
        );
    }
}
