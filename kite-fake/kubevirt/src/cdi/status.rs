//! The status of a `DataVolume`, as a function of where it stands.

use kite_fake::actors::Failure;
use serde_json::{Value, json};

/// Which names the phases have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// `ImportScheduled`, `ImportInProgress`.
    Import,
    /// `CloneScheduled`, `CloneInProgress`.
    Clone,
    /// `CloneScheduled`, `CloneFromSnapshotSourceInProgress`.
    Snapshot,
    /// `UploadScheduled`, `UploadReady`.
    Upload,
}

impl Family {
    pub(super) fn scheduled(self) -> &'static str {
        match self {
            Self::Import => "ImportScheduled",
            Self::Clone | Self::Snapshot => "CloneScheduled",
            Self::Upload => "UploadScheduled",
        }
    }

    pub(super) fn in_progress(self) -> &'static str {
        match self {
            Self::Import => "ImportInProgress",
            Self::Clone => "CloneInProgress",
            Self::Snapshot => "CloneFromSnapshotSourceInProgress",
            Self::Upload => "UploadReady",
        }
    }

    /// What is done, in one word.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Import => "Import",
            Self::Clone | Self::Snapshot => "Clone",
            Self::Upload => "Upload",
        }
    }

    /// The controller that tells of it.
    pub(super) fn component(self) -> &'static str {
        match self {
            Self::Import => "datavolume-import-controller",
            Self::Clone => "datavolume-pvc-clone-controller",
            Self::Snapshot => "datavolume-snapshot-clone-controller",
            Self::Upload => "datavolume-upload-controller",
        }
    }

    fn complete(self) -> &'static str {
        match self {
            Self::Import => "Import Complete",
            Self::Clone | Self::Snapshot => "Clone Complete",
            Self::Upload => "Upload Complete",
        }
    }
}

/// Where a `DataVolume` stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its source is missing.
    Pending {
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// Its claim cannot be made.
    Refused {
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// Its claim waits for a Pod that uses it.
    WaitForConsumer,
    /// Its worker has crashed so often, and is tried again.
    Crashed {
        /// Why.
        failure: Failure,
        /// How often.
        count: u64,
    },
    /// It cannot go on, and is tried again.
    Stuck {
        /// A sentence.
        message: String,
    },
    /// Its worker is scheduled, or waits for the source.
    Scheduled {
        /// A sentence about what is waited for.
        message: String,
    },
    /// It is being filled: so many steps of so many are done.
    InProgress {
        /// Steps done.
        done: u32,
        /// All steps.
        steps: u32,
    },
    /// It is filled.
    Succeeded,
    /// It will never be.
    Failed(Failure),
}

/// How many of `steps` a status that is in progress has done.
pub(super) fn steps_done(status: &Value, steps: u32) -> u32 {
    let percent = status["progress"]
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<f64>().ok())
        .unwrap_or_default();
    (1..=steps)
        .rev()
        .find(|done| percent + 0.01 >= 100.0 * f64::from(*done) / f64::from(steps))
        .unwrap_or_default()
}

struct Said {
    status: &'static str,
    reason: String,
    message: String,
}

fn said(status: &'static str, reason: &str, message: impl Into<String>) -> Said {
    Said {
        status,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// The condition of a type, where the conditions `before` were; of news, it was not
/// looked at before.
fn condition(type_: &str, said: &Said, before: &[Value], is_news: bool, now: &str) -> Value {
    let mut new = json!({"type": type_, "status": said.status});
    for (field, text) in [("reason", &said.reason), ("message", &said.message)] {
        if !text.is_empty() {
            new[field] = json!(text);
        }
    }
    let same = |c: &&Value, fields: &[&str]| fields.iter().all(|f| c[*f] == new[*f]);
    let since = before.iter().find(|c| same(c, &["type", "status"]));
    let looked = before
        .iter()
        .find(|c| same(c, &["type", "status", "reason", "message"]));
    let time =
        |from: Option<&Value>, field: &str| from.map_or_else(|| json!(now), |c| c[field].clone());
    new["lastTransitionTime"] = time(since, "lastTransitionTime");
    new["lastHeartbeatTime"] = time(looked.filter(|_| !is_news), "lastHeartbeatTime");
    new
}

/// The status of the `DataVolume` `name` that had the status `old`.
pub(super) fn status(
    old: &Value,
    name: &str,
    family: Family,
    standing: &Standing,
    now: &str,
) -> Value {
    let pending_claim = || said("False", "Pending", format!("PVC {name} Pending"));
    let (phase, progress, bound, ready, running) = match standing {
        Standing::Pending { reason, message } => (
            "Pending",
            "N/A".to_owned(),
            said("Unknown", "NotFound", "No PVC found"),
            said("False", reason, message),
            said("False", reason, message),
        ),
        Standing::Refused { reason, message } => (
            "Pending",
            "N/A".to_owned(),
            said("False", reason, message),
            said("False", reason, message),
            said("False", "", ""),
        ),
        Standing::WaitForConsumer => (
            "PendingPopulation",
            "N/A".to_owned(),
            pending_claim(),
            said("False", "", ""),
            said("False", "", ""),
        ),
        Standing::Crashed { failure, .. } => (
            family.in_progress(),
            old["progress"].as_str().unwrap_or("N/A").to_owned(),
            pending_claim(),
            said("False", "Error", &*failure.message),
            said("False", "Error", &*failure.message),
        ),
        Standing::Stuck { message } => (
            family.in_progress(),
            old["progress"].as_str().unwrap_or("N/A").to_owned(),
            pending_claim(),
            said("False", "Error", message),
            said("False", "Error", message),
        ),
        Standing::Scheduled { message } => (
            family.scheduled(),
            "N/A".to_owned(),
            pending_claim(),
            said("Unknown", "", ""),
            said("False", "Pending", message),
        ),
        Standing::InProgress { done, steps } => (
            family.in_progress(),
            if *done == 0 {
                "N/A".to_owned()
            } else {
                format!("{:.2}%", 100.0 * f64::from(*done) / f64::from(*steps))
            },
            pending_claim(),
            said("False", "TransferRunning", ""),
            said("True", "Pod is running", ""),
        ),
        Standing::Succeeded => (
            "Succeeded",
            "100.0%".to_owned(),
            said("True", "Bound", format!("PVC {name} Bound")),
            said("True", "", ""),
            said("False", "Completed", family.complete()),
        ),
        Standing::Failed(failure) => (
            "Failed",
            "N/A".to_owned(),
            pending_claim(),
            said("False", &failure.reason, &failure.message),
            said("False", &failure.reason, &failure.message),
        ),
    };
    let before = old["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    // Every crash is news.
    let crashed = matches!(standing, Standing::Crashed { .. });
    let mut status = json!({
        "phase": phase,
        "progress": progress,
        "conditions": [
            condition("Bound", &bound, before, false, now),
            condition("Ready", &ready, before, false, now),
            condition("Running", &running, before, crashed, now),
        ],
    });
    if !matches!(
        standing,
        Standing::Pending { .. } | Standing::Refused { .. }
    ) {
        status["claimName"] = json!(name);
    }
    if let Standing::Crashed { count, .. } = standing {
        status["restartCount"] = json!(count);
    } else if let Some(count) = old.get("restartCount") {
        status["restartCount"] = count.clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(old: &Value, standing: &Standing, now: &str) -> Value {
        status(old, "d", Family::Clone, standing, now)
    }

    #[test]
    fn progress_is_told_and_read_back() {
        for steps in [1, 3, 4, 7] {
            for done in 0..steps {
                let status = at(&Value::Null, &Standing::InProgress { done, steps }, "T");
                assert_eq!(status["phase"], "CloneInProgress");
                assert_eq!(steps_done(&status, steps), done, "{status}");
            }
        }
        assert_eq!(steps_done(&json!({"progress": "100.0%"}), 3), 3);
    }

    #[test]
    fn times_move_only_with_what_they_are_of() {
        let first = at(
            &Value::Null,
            &Standing::InProgress { done: 0, steps: 2 },
            "T1",
        );
        let again = at(&first, &Standing::InProgress { done: 0, steps: 2 }, "T2");
        assert_eq!(first, again);
        let done = at(&first, &Standing::Succeeded, "T3");
        assert_eq!(done["conditions"][1]["status"], "True");
        assert_eq!(done["conditions"][1]["lastTransitionTime"], "T3");
        assert_eq!(done["conditions"][2]["message"], "Clone Complete");
        assert_eq!(done["progress"], "100.0%");
        assert_eq!(done["claimName"], "d");
    }

    #[test]
    fn a_missing_source_is_told_in_a_condition() {
        let standing = Standing::Pending {
            reason: "DataSourceNotFound".to_owned(),
            message: "DataSource a/b not found".to_owned(),
        };
        let status = at(&Value::Null, &standing, "T");
        assert_eq!(status["phase"], "Pending");
        assert_eq!(status["conditions"][2]["reason"], "DataSourceNotFound");
        assert_eq!(status.get("claimName"), None);
    }
}
