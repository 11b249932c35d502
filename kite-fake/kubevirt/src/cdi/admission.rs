//! What CDI's webhook demands of `DataVolume`s.

use kite_fake::schedule::Schedule;
use kite_fake::server::{Review, Webhook};
use kite_fake::status::Cause;
use serde_json::Value;

use super::source::Source;

/// Refuses a `DataVolume` that is ambiguous, and any change of its spec: a disk
/// grows through its claim. A clone of what is in another namespace needs the
/// right to `create` `datavolumes/source`, or Pods, there. A `DataImportCron`
/// needs a schedule that is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct CdiAdmission;

impl Webhook for CdiAdmission {
    fn name(&self) -> &'static str {
        "datavolume-validate.cdi.kubevirt.io"
    }

    fn review(&self, review: &Review<'_>) -> Vec<Cause> {
        if review.group == "cdi.kubevirt.io" && review.kind == "DataImportCron" {
            return cron(review).into_iter().collect();
        }
        if review.group != "cdi.kubevirt.io" || review.kind != "DataVolume" {
            return Vec::new();
        }
        let spec = &review.object["spec"];
        let refusal = match review.old {
            Some(old) if old["spec"] != *spec => Some((
                "FieldValueDuplicate",
                "Cannot update DataVolume Spec",
                "DataVolume.Spec",
            )),
            Some(_) => None,
            None => ambiguity(spec),
        };
        if refusal.is_none()
            && review.old.is_none()
            && let Some(message) = theft(review)
        {
            let field = "spec.source";
            return vec![Cause::new("FieldValueInvalid", message, field)];
        }
        refusal
            .map(|(reason, message, field)| Cause::new(reason, message, field))
            .into_iter()
            .collect()
    }
}

/// What speaks against a cron.
fn cron(review: &Review<'_>) -> Option<Cause> {
    let spec = &review.object["spec"];
    match review.old {
        Some(old) if old["spec"] != *spec => Some(Cause::new(
            "FieldValueDuplicate",
            "Cannot update DataImportCron Spec",
            "DataImportCron.Spec",
        )),
        Some(_) => None,
        None => {
            let schedule = spec["schedule"].as_str().unwrap_or_default();
            let bad = !schedule.is_empty() && Schedule::parse_with_seven(schedule).is_err();
            bad.then(|| {
                let message = "Illegal cron schedule";
                Cause::new("FieldValueInvalid", message, "spec.schedule")
            })
        }
    }
}

/// Why who writes may not clone what they name.
fn theft(review: &Review<'_>) -> Option<String> {
    let around = review.around?;
    let spec = &review.object["spec"];
    let here = review.object["metadata"]["namespace"].as_str()?;
    let source = match spec["sourceRef"]["name"].as_str() {
        Some(name) => {
            let within = spec["sourceRef"]["namespace"].as_str().unwrap_or(here);
            let found = around.object("cdi.kubevirt.io", "datasources", within, name)?;
            Source::read(&found["spec"]["source"], within)
        }
        None => Source::read(&spec["source"], here),
    };
    let (Source::Claim { namespace, name } | Source::Snapshot { namespace, name }) = source? else {
        return None;
    };
    let may = |group: &str, resource: &str, name: &str| {
        around.may("create", group, resource, &namespace, name)
    };
    let allowed = namespace == here
        || may("cdi.kubevirt.io", "datavolumes/source", &name)
        || may("", "pods", "");
    (!allowed).then(|| {
        let user = &around.user().name;
        format!("User {user} has insufficient permissions in clone source namespace {namespace}")
    })
}

fn ambiguity(spec: &Value) -> Option<(&'static str, &'static str, &'static str)> {
    let invalid = |message, field| Some(("FieldValueInvalid", message, field));
    let set = |field: &str| spec[field].is_object();
    match (set("pvc"), set("storage")) {
        (false, false) => {
            return invalid("Missing Data volume PVC or Storage", "spec.pvc");
        }
        (true, true) => {
            return invalid(
                "Duplicate storage definition, both target storage and target pvc defined",
                "spec.pvc",
            );
        }
        _ => {}
    }
    if set("pvc")
        && spec["pvc"]["accessModes"]
            .as_array()
            .is_none_or(Vec::is_empty)
    {
        return Some((
            "FieldValueRequired",
            "Required value: at least 1 access mode is required",
            "spec.pvc.accessModes",
        ));
    }
    match (set("source"), set("sourceRef")) {
        (false, false) => {
            return invalid(
                "Data volume should have either Source, SourceRef, or PopulatorSource set",
                "spec.source",
            );
        }
        (true, true) => {
            return invalid("Both Source and SourceRef are set", "spec.source");
        }
        (false, true) if spec["sourceRef"]["kind"] != "DataSource" => {
            return Some((
                "FieldValueNotSupported",
                "Unsupported sourceRef kind, currently only DataSource is supported",
                "spec.sourceRef.Kind",
            ));
        }
        _ => {}
    }
    let sources = spec["source"].as_object();
    let count = sources.map_or(1, |s| s.values().filter(|v| !v.is_null()).count());
    if count != 1 {
        return invalid("Multiple or no Data volume sources", "spec.source");
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(spec: &Value, old: Option<&Value>) -> String {
        let object = json!({"spec": spec});
        let old = old.map(|spec| json!({"spec": spec}));
        let review = Review {
            group: "cdi.kubevirt.io",
            kind: "DataVolume",
            object: &object,
            old: old.as_ref(),
            around: None,
        };
        let causes = CdiAdmission.review(&review);
        causes.into_iter().map(|c| c.message).collect()
    }

    #[test]
    fn a_disk_has_one_source_and_one_target() {
        let good = json!({"storage": {}, "source": {"blank": {}}});
        assert_eq!(says(&good, None), "");
        let both = json!({"storage": {}, "pvc": {}, "source": {"blank": {}}});
        assert!(says(&both, None).contains("both target storage and target pvc"));
        let none = json!({"storage": {}, "source": {}});
        assert!(says(&none, None).contains("no Data volume sources"));
        let two = json!({"storage": {}, "source": {"blank": {}, "http": {}}});
        assert!(says(&two, None).contains("Multiple"));
        let modes = json!({"pvc": {}, "source": {"blank": {}}});
        assert!(says(&modes, None).contains("access mode"));
    }

    #[test]
    fn its_spec_never_changes() {
        let old = json!({"storage": {}, "source": {"blank": {}}});
        assert_eq!(says(&old, Some(&old)), "");
        let new = json!({"storage": {"x": 1}, "source": {"blank": {}}});
        assert_eq!(says(&new, Some(&old)), "Cannot update DataVolume Spec");
    }
}
