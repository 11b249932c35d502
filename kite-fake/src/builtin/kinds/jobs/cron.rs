//! Validation of `CronJob`s.

use serde_json::{Value, json};

use super::{Errors, job_spec};
use crate::builtin::check;
use crate::builtin::kinds::pod_rules;
use crate::members::{flag, has, text};
use crate::schedule::Schedule;
use crate::schema::{FieldError, Validation};

/// Longest name of a `CronJob`: its Jobs' names have eleven characters more.
const MAX_NAME: usize = 52;

/// Checks a new `CronJob` beside what [`validate_cron_job`] says.
pub(in crate::builtin) fn validate_new_cron_job(object: &Value, found: &mut Validation) {
    let spec = &object["spec"];
    let errors = &mut found.errors;
    if !text(spec, "schedule").is_empty() {
        schedule(text(spec, "schedule"), false, has(spec, "timeZone"), errors);
    }
    if has(spec, "timeZone") {
        zone(text(spec, "timeZone"), errors);
    }
    let name = text(&object["metadata"], "name");
    if name.len() > MAX_NAME {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be no more than 52 characters",
        ));
    }
}

/// What once was right stays right: zones that a schedule names, and zones that have gone.
pub(in crate::builtin) fn validate_cron_job_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    let errors = &mut found.errors;
    let (after, before) = (&new["spec"], &old["spec"]);
    if !text(after, "schedule").is_empty() {
        let may_name_zone = text(before, "schedule").contains("TZ");
        let has_zone = has(after, "timeZone");
        schedule(text(after, "schedule"), may_name_zone, has_zone, errors);
    }
    if has(after, "timeZone") && after["timeZone"] != before["timeZone"] {
        zone(text(after, "timeZone"), errors);
    }
}

/// Checks a `CronJob`.
pub(in crate::builtin) fn validate_cron_job(object: &Value, found: &mut Validation) {
    let spec = &object["spec"];
    let errors = &mut found.errors;
    check::required(spec, "schedule", "spec", errors);
    check::not_negative(spec, "startingDeadlineSeconds", "spec", errors);
    pod_rules::one_of(
        spec,
        "concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
        "spec",
        errors,
    );
    let (job, path) = (&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec");
    job_spec(job, path, found);
    let errors = &mut found.errors;
    if has(job, "selector") {
        errors.push(FieldError::invalid(
            format!("{path}.selector"),
            &job["selector"],
            "`selector` will be auto-generated",
        ));
    }
    if flag(job, "manualSelector") {
        errors.push(FieldError::not_supported(
            format!("{path}.manualSelector"),
            &json!(true),
            &["nil", "false"],
        ));
    }
    for member in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        check::not_negative(spec, member, "spec", errors);
    }
}

fn schedule(given: &str, may_name_zone: bool, has_zone: bool, errors: &mut Errors) {
    let mut refuse = |wrong: &str| {
        errors.push(FieldError::invalid("spec.schedule", &json!(given), wrong));
    };
    // What is read before a zone is left to the time zone of its own.
    let timed = match given.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest,
        _ => given,
    };
    if let Err(wrong) = Schedule::parse(timed.trim()) {
        refuse(&wrong.to_string());
    }
    if given.contains("TZ") {
        if !may_name_zone {
            refuse("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if has_zone {
            refuse("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
}

fn zone(name: &str, errors: &mut Errors) {
    let fits = |part: &str| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
        let length = (1..=14).contains(&part.len());
        length && part.bytes().all(legal) && ![".", ".."].contains(&part) && !part.starts_with('-')
    };
    let wrong = if name.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if !name.split('/').all(fits) {
        format!("unknown time zone {name}")
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

#[cfg(test)]
mod tests {
    use super::super::tests::wrongs;
    use super::*;
    use crate::builtin::kinds::workload;

    #[test]
    fn schedules_are_read() {
        let of = |schedule: &str| {
            let spec = json!({"schedule": schedule, "jobTemplate": {"spec": {"template":
                {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
            wrongs(workload::default_cron_job, validate_new_cron_job, &spec)
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
