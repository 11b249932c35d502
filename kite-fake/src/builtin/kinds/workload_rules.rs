//! Validation of Deployments and the other kinds that hold a pod template.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::network::selector;
use super::pod_rules;
use super::small::count_or_percent;
use super::workload::selects;
use crate::builtin::check;
use crate::members::{has, list, list_mut, number, object_mut, text, unset};
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
    pod_rules::template(&with_claims(spec), "spec.template", found);
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
            "activeDeadlineSeconds in ReplicaSet is not Supported",
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

/// Numbers of a status are not negative.
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
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ] {
        if has(status, more) && count(less) > count(more) {
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

/// Checks a Job.
pub(in crate::builtin) fn validate_job(object: &Value, found: &mut Validation) {
    job_spec(&object["spec"], "spec", found);
    let spec = &object["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    if has(spec, "selector") && !selects(&spec["selector"], labels) {
        found.errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
}

fn job_spec(spec: &Value, path: &str, found: &mut Validation) {
    pod_rules::template(&spec["template"], &format!("{path}.template"), found);
    let errors = &mut found.errors;
    for member in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check::not_negative(spec, member, path, errors);
    }
    check::one_of(
        spec,
        "completionMode",
        &["NonIndexed", "Indexed"],
        path,
        errors,
    );
    if text(spec, "completionMode") == "Indexed" && !has(spec, "completions") {
        errors.push(FieldError::required(
            format!("{path}.completions"),
            "when completion mode is Indexed",
        ));
    }
    check::one_of(
        spec,
        "podReplacementPolicy",
        &["Failed", "TerminatingOrFailed"],
        path,
        errors,
    );
    if text(&spec["template"]["spec"], "restartPolicy") == "Always" {
        errors.push(FieldError::required(
            format!("{path}.template.spec.restartPolicy"),
            "valid values: \"OnFailure\", \"Never\"",
        ));
    }
}

/// A Job keeps what it does.
pub(in crate::builtin) fn validate_job_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let (after, before) = (&new["spec"], &old["spec"]);
    check::immutable(after, before, "selector", "spec", errors);
    check::immutable(after, before, "completionMode", "spec", errors);
    check::immutable(after, before, "podFailurePolicy", "spec", errors);
    check::immutable(after, before, "backoffLimitPerIndex", "spec", errors);
    let elastic = text(after, "completionMode") == "Indexed"
        && number(after, "completions") == number(after, "parallelism");
    if !elastic {
        check::immutable(after, before, "completions", "spec", errors);
    }
    // Where its Pods run may still be said before it has started.
    let waits = before["suspend"] == true && !has(&old["status"], "startTime");
    if waits {
        let templates = [after, before].map(|spec| immutable_part(&spec["template"]));
        check::immutable(
            &templates[0],
            &templates[1],
            "spec",
            "spec.template",
            errors,
        );
    } else {
        check::immutable(after, before, "template", "spec", errors);
    }
}

/// What a suspended Job may not change of its Pods: all but where they run and which
/// resources they have.
fn immutable_part(template: &Value) -> Value {
    let mut template = template.clone();
    let spec = object_mut(&mut template, "spec");
    for member in ["nodeSelector", "tolerations", "schedulingGates"] {
        unset(spec, member);
    }
    for list in ["containers", "initContainers"] {
        for container in list_mut(spec, list) {
            unset(container, "resources");
        }
    }
    if has(spec, "affinity") {
        let affinity = object_mut(spec, "affinity");
        unset(affinity, "nodeAffinity");
        if affinity.as_object().is_some_and(serde_json::Map::is_empty) {
            unset(spec, "affinity");
        }
    }
    template
}

/// Longest name of a `CronJob`: its Jobs' names have eleven characters more.
const MAX_CRON_NAME: usize = 52;

/// Checks a `CronJob`.
pub(in crate::builtin) fn validate_cron_job(object: &Value, found: &mut Validation) {
    let spec = &object["spec"];
    let errors = &mut found.errors;
    let name = text(&object["metadata"], "name");
    if name.len() > MAX_CRON_NAME {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be no more than 52 characters",
        ));
    }
    if check::required(spec, "schedule", "spec", errors) {
        schedule(text(spec, "schedule"), errors);
    }
    if has(spec, "timeZone") {
        zone(text(spec, "timeZone"), errors);
    }
    for member in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        check::not_negative(spec, member, "spec", errors);
    }
    pod_rules::one_of(
        spec,
        "concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
        "spec",
        errors,
    );
    job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", found);
}

fn schedule(given: &str, errors: &mut Errors) {
    const NAMED: [&str; 7] = [
        "@annually",
        "@daily",
        "@hourly",
        "@midnight",
        "@monthly",
        "@weekly",
        "@yearly",
    ];
    let mut refuse = |wrong: String| {
        errors.push(FieldError::invalid("spec.schedule", &json!(given), wrong));
    };
    if given.contains("TZ") {
        refuse("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
        return;
    }
    if given.starts_with('@') {
        if !NAMED.contains(&given) && !given.starts_with("@every ") {
            refuse(format!("unrecognized descriptor: {given}"));
        }
        return;
    }
    let fields: Vec<&str> = given.split_whitespace().collect();
    if fields.len() != 5 {
        refuse(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
        return;
    }
    let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    for (field, (least, most)) in fields.iter().zip(bounds) {
        if let Some(wrong) = cron_field(field, least, most) {
            refuse(wrong);
            return;
        }
    }
}

/// What is wrong with one field of a schedule.
fn cron_field(field: &str, least: u32, most: u32) -> Option<String> {
    field.split(',').find_map(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        if step.parse::<u32>().is_err() {
            return Some(format!(
                "failed to parse int from {step}: strconv.Atoi: parsing {step:?}: invalid syntax"
            ));
        }
        if matches!(range, "*" | "?") {
            return None;
        }
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let named = |text: &str| text.len() == 3 && text.bytes().all(|b| b.is_ascii_alphabetic());
        let mut ends = [0, 0];
        for (end, text) in ends.iter_mut().zip([from, to]) {
            match text.parse::<u32>() {
                Ok(number) => *end = number,
                Err(_) if named(text) && most != 59 && most != 23 && most != 31 => return None,
                Err(_) => {
                    return Some(format!(
                        "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
                    ));
                }
            }
        }
        if ends[0] < least {
            return Some(format!(
                "beginning of range ({}) below minimum ({least}): {part}",
                ends[0]
            ));
        }
        if ends[1] > most {
            return Some(format!(
                "end of range ({}) above maximum ({most}): {part}",
                ends[1]
            ));
        }
        (ends[0] > ends[1]).then(|| {
            format!(
                "beginning of range ({}) beyond end of range ({}): {part}",
                ends[0], ends[1]
            )
        })
    })
}

fn zone(name: &str, errors: &mut Errors) {
    let wrong = if name.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if name.eq_ignore_ascii_case("local") {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            .to_owned()
    } else if jiff::tz::TimeZone::get(name).is_err() {
        format!("unknown time zone {name}")
    } else {
        return;
    };
    errors.push(FieldError::invalid("spec.timeZone", &json!(name), wrong));
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

    #[test]
    fn schedules_are_read() {
        let of = |schedule: &str| {
            let spec = json!({"schedule": schedule, "jobTemplate": {"spec": {"template":
                {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
            wrongs(workload::default_cron_job, validate_cron_job, &spec)
        };
        for fine in ["*/5 * * * *", "0 0 1-5,7 JAN mon", "@hourly", "@every 1h"] {
            assert_eq!(of(fine), Vec::<String>::new(), "{fine}");
        }
        assert_eq!(
            of("a b"),
            ["spec.schedule: Invalid value: \"a b\": expected exactly 5 fields, found 2: [a b]"]
        );
        assert_eq!(
            of("60 * * * *"),
            [
                "spec.schedule: Invalid value: \"60 * * * *\": end of range (60) above maximum (59): 60"
            ]
        );
    }
}
