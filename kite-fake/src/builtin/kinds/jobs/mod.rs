//! Validation of Jobs and `CronJob`s.

mod cron;
mod indexes;
mod policies;
mod status;

use serde_json::{Value, json};

pub(in crate::builtin) use self::cron::{
    validate_cron_job, validate_cron_job_update, validate_new_cron_job,
};
pub(in crate::builtin) use self::status::validate_status;
use super::network::selector;
use super::pod_rules;
use super::workload::selects;
use crate::builtin::check;
use crate::members::{flag, has, list_mut, number, object_mut, text, unset};
use crate::names;
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// Most Pods at a time, and most failed indexes, of an indexed Job.
const MOST: i64 = 100_000;
/// Most of either, when there are more than [`MOST`] completions and each has a limit.
const MOST_OF_MANY: i64 = 10_000;
const MAX_MANAGER: usize = 63;

/// Checks a Job.
pub(in crate::builtin) fn validate_job(object: &Value, found: &mut Validation) {
    let spec = &object["spec"];
    if !flag(spec, "manualSelector") && has(spec, "selector") {
        generated(object, &mut found.errors);
    }
    job_spec(spec, "spec", found);
    let errors = &mut found.errors;
    if has(spec, "selector") {
        selector(&spec["selector"], "spec.selector", errors);
    } else {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if has(spec, "selector") && !selects(&spec["selector"], labels) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    let last = number(spec, "completions").unwrap_or(0) - 1;
    if is_indexed(spec) && last >= 0 {
        let name = text(&object["metadata"], "name");
        let host = format!("{name}-{last}");
        if !names::label(&host).is_empty() {
            errors.push(FieldError::invalid(
                "metadata.name",
                &json!(name),
                format!("will not able to create pod with invalid DNS label: {host}"),
            ));
        }
    }
}

/// The labels by which a Job knows its Pods are those that the server gave.
fn generated(object: &Value, errors: &mut Errors) {
    let meta = &object["metadata"];
    let (uid, name) = (text(meta, "uid"), text(meta, "name"));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let spec = &object["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    for (key, value) in expected {
        let (given, wanted) = (labels.get(key), format!("must be '{value}'"));
        let field = format!("spec.template.metadata.labels[{key}]");
        match given {
            None => errors.push(FieldError::required(field, &wanted)),
            Some(given) if given != value => {
                errors.push(FieldError::invalid(field, labels, wanted));
            }
            Some(_) => {}
        }
    }
    let expected: Value = expected.into_iter().map(|(k, v)| (k, json!(v))).collect();
    if !selects(&spec["selector"], &expected) {
        errors.push(FieldError::invalid(
            "spec.selector",
            &spec["selector"],
            "`selector` not auto-generated",
        ));
    }
}

fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

fn job_spec(spec: &Value, path: &str, found: &mut Validation) {
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
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        errors.push(FieldError::required(
            format!("{path}.backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    if has(spec, "managedBy") {
        let (manager, field) = (text(spec, "managedBy"), format!("{path}.managedBy"));
        check::domain_path(manager, &field, errors);
        if manager.len() > MAX_MANAGER {
            errors.push(FieldError::too_long(field, MAX_MANAGER as u64));
        }
    }
    check::one_of(
        spec,
        "completionMode",
        &["NonIndexed", "Indexed"],
        path,
        errors,
    );
    if is_indexed(spec) {
        indexed(spec, path, errors);
    } else if ["", "NonIndexed"].contains(&text(spec, "completionMode")) {
        for member in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            policies::needs_indexes(spec, member, path, errors);
        }
    }
    policies::validate(spec, path, errors);
    let replaces: &[&str] = if has(spec, "podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    check::one_of(spec, "podReplacementPolicy", replaces, path, errors);
    pod_rules::template(&spec["template"], &format!("{path}.template"), found);
    let field = format!("{path}.template.spec.restartPolicy");
    let errors = &mut found.errors;
    match text(&spec["template"]["spec"], "restartPolicy") {
        "Never" => {}
        "Always" | "" => errors.push(FieldError::required(
            field,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        policy @ "OnFailure" => {
            if has(spec, "podFailurePolicy") {
                errors.push(FieldError::invalid(
                    field,
                    &json!(policy),
                    "only \"Never\" is supported when podFailurePolicy is specified",
                ));
            }
        }
        other => errors.push(FieldError::not_supported(
            field,
            &json!(other),
            &["OnFailure", "Never"],
        )),
    }
}

/// Checks the numbers of an indexed Job.
fn indexed(spec: &Value, path: &str, errors: &mut Errors) {
    let completions = number(spec, "completions");
    if completions.is_none() {
        errors.push(FieldError::required(
            format!("{path}.completions"),
            "when completion mode is Indexed",
        ));
    }
    let mut not_above = |member: &str, most: i64, why: &str| {
        if let Some(value) = number(spec, member).filter(|value| *value > most) {
            let field = format!("{path}.{member}");
            errors.push(FieldError::invalid(field, &json!(value), why));
        }
    };
    let why = format!("must be less than or equal to {MOST}");
    let of_indexed = format!("{why} when completion mode is Indexed");
    not_above("parallelism", MOST, &of_indexed);
    if let Some(completions) = completions {
        let why = "must be less than or equal to completions";
        not_above("maxFailedIndexes", completions, why);
    }
    not_above("maxFailedIndexes", MOST, &why);
    if completions.is_none_or(|n| n <= MOST) || !has(spec, "backoffLimitPerIndex") {
        return;
    }
    let why = format!(
        "must be less than or equal to {MOST_OF_MANY} when completions are above {MOST} and used with backoff limit per index"
    );
    not_above("parallelism", MOST_OF_MANY, &why);
    not_above("maxFailedIndexes", MOST_OF_MANY, &why);
    if !has(spec, "maxFailedIndexes") {
        errors.push(FieldError::required(
            format!("{path}.maxFailedIndexes"),
            &format!("must be specified when completions is above {MOST}"),
        ));
    }
}

/// A Job keeps what it does.
pub(in crate::builtin) fn validate_job_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let (after, before) = (&new["spec"], &old["spec"]);
    if !is_indexed(after) {
        check::immutable(after, before, "completions", "spec", errors);
    } else if number(after, "completions") != number(before, "completions")
        && number(after, "completions") != number(after, "parallelism")
    {
        errors.push(FieldError::invalid(
            "spec.completions",
            &after["completions"],
            "can only be modified in tandem with spec.parallelism",
        ));
    }
    check::immutable(after, before, "selector", "spec", errors);
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
    for member in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        check::immutable(after, before, member, "spec", errors);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::kinds::workload;

    pub(super) fn wrongs(
        default: fn(&mut Value),
        rule: fn(&Value, &mut Validation),
        spec: &Value,
    ) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "x", "uid": "u"}, "spec": spec});
        default(&mut object);
        let mut found = Validation::default();
        rule(&object, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn of(more: &Value) -> Vec<String> {
        let mut spec = json!({"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}});
        for (member, value) in more.as_object().into_iter().flatten() {
            spec[member] = value.clone();
        }
        let prepared = |object: &mut Value| {
            workload::default_job(object);
            workload::prepare_job(object);
        };
        wrongs(prepared, validate_job, &spec)
    }

    #[test]
    fn a_plain_job_is_right() {
        assert_eq!(of(&json!({})), Vec::<String>::new());
        assert_eq!(
            of(
                &json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1,
                "maxFailedIndexes": 2, "successPolicy": {"rules": [{"succeededIndexes": "0,2"}]}})
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn selectors_are_the_servers_own() {
        let wrong = of(&json!({"selector": {"matchLabels": {"a": "b"}}}));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].ends_with("`selector` not auto-generated"),
            "{wrong:?}"
        );
        assert!(
            wrong[1].ends_with("`selector` does not match template `labels`"),
            "{wrong:?}"
        );
    }

    #[test]
    fn indexes_have_bounds() {
        assert_eq!(
            of(&json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
            [
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ]
        );
        assert_eq!(
            of(
                &json!({"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3,
                "parallelism": 100_001})
            ),
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
            ]
        );
        assert_eq!(
            of(&json!({"completionMode": "Indexed", "completions": 100_001,
                "backoffLimitPerIndex": 1, "parallelism": 1})),
            [
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"
            ]
        );
    }

    #[test]
    fn who_manages_is_named_by_a_domain() {
        assert_eq!(
            of(&json!({"managedBy": "me"})),
            [
                "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")"
            ]
        );
    }

    #[test]
    fn with_a_failure_policy_pods_are_never_restarted_and_failed_before_they_are_replaced() {
        let policy = json!({"rules": [{"action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
        let template = json!({"spec": {"restartPolicy": "OnFailure",
            "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(
            of(&json!({"podFailurePolicy": policy, "template": template,
                "podReplacementPolicy": "TerminatingOrFailed"})),
            [
                "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ]
        );
    }

    #[test]
    fn what_a_job_does_stays() {
        let job = |spec: Value| json!({"spec": spec});
        let wrongs = |new: Value, old: Value| {
            let mut found = Validation::default();
            validate_job_update(&job(new), &job(old), &mut found);
            let errors = found.errors.iter().map(|it| it.field.clone());
            errors.collect::<Vec<String>>()
        };
        for member in ["managedBy", "successPolicy", "completionMode", "selector"] {
            assert_eq!(
                wrongs(json!({member: "a"}), json!({member: "b"})),
                [format!("spec.{member}")]
            );
        }
        let elastic =
            |n: i64| json!({"completionMode": "Indexed", "completions": n, "parallelism": 2});
        assert_eq!(wrongs(elastic(2), elastic(3)), Vec::<String>::new());
        assert_eq!(wrongs(elastic(4), elastic(3)), ["spec.completions"]);
    }
}
