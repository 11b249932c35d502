//! The status of a Job.

use serde_json::{Value, json};

/// How far a Job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) active: u64,
    pub(super) ready: u64,
    pub(super) terminating: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) start_time: Option<String>,
    pub(super) completion_time: Option<String>,
    pub(super) completed_indexes: String,
    pub(super) failed_indexes: Option<String>,
    /// Pods that have ended, are told of here, and are counted once they have let go of
    /// their finalizer.
    pub(super) uncounted: Uncounted,
    pub(super) conditions: Vec<Value>,
}

/// Pods by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uncounted {
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
}

/// A condition that is about to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) type_: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Outcome {
    pub(super) fn new(
        type_: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// The same under another type.
    pub(super) fn as_type(&self, type_: &'static str) -> Self {
        Self {
            type_,
            ..self.clone()
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|it| it.as_str().map(str::to_owned))
        .collect()
}

impl Progress {
    /// Reads a status.
    pub(super) fn of(status: &Value) -> Self {
        let count = |name: &str| status[name].as_u64().unwrap_or_default();
        let text = |name: &str| status[name].as_str().map(str::to_owned);
        let uncounted = &status["uncountedTerminatedPods"];
        Self {
            active: count("active"),
            ready: count("ready"),
            terminating: count("terminating"),
            succeeded: count("succeeded"),
            failed: count("failed"),
            start_time: text("startTime"),
            completion_time: text("completionTime"),
            completed_indexes: text("completedIndexes").unwrap_or_default(),
            failed_indexes: text("failedIndexes"),
            uncounted: Uncounted {
                succeeded: texts(&uncounted["succeeded"]),
                failed: texts(&uncounted["failed"]),
            },
            conditions: status["conditions"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// Writes it.
    pub(super) fn value(&self) -> Value {
        let mut uncounted = json!({});
        for (name, uids) in [
            ("succeeded", &self.uncounted.succeeded),
            ("failed", &self.uncounted.failed),
        ] {
            if !uids.is_empty() {
                uncounted[name] = json!(uids);
            }
        }
        let mut status = json!({
            "ready": self.ready,
            "terminating": self.terminating,
            "uncountedTerminatedPods": uncounted,
        });
        let counts = [
            ("active", self.active),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            status[name] = json!(count);
        }
        let completed = Some(&self.completed_indexes).filter(|it| !it.is_empty());
        let texts = [
            ("startTime", self.start_time.as_ref()),
            ("completionTime", self.completion_time.as_ref()),
            ("completedIndexes", completed),
            ("failedIndexes", self.failed_indexes.as_ref()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                status[name] = json!(text);
            }
        }
        if !self.conditions.is_empty() {
            status["conditions"] = json!(self.conditions);
        }
        status
    }

    /// The condition of this type that holds.
    pub(super) fn holding(&self, type_: &'static str) -> Option<Outcome> {
        let mut all = self.conditions.iter();
        let found = all.find(|it| it["type"] == type_ && it["status"] == "True")?;
        let word = |name: &str| found[name].as_str().unwrap_or_default();
        Some(Outcome::new(type_, word("reason"), word("message")))
    }

    /// Sets a condition; one that does not hold only where it was there. True where that
    /// changed something.
    pub(super) fn set(&mut self, outcome: &Outcome, holds: bool, now: &str) -> bool {
        let word = if holds { "True" } else { "False" };
        let new = json!({
            "type": outcome.type_,
            "status": word,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": outcome.reason,
            "message": outcome.message,
        });
        let found = self
            .conditions
            .iter_mut()
            .find(|it| it["type"] == outcome.type_);
        match found {
            Some(old)
                if old["status"] == word
                    && old["reason"] == outcome.reason
                    && old["message"] == outcome.message =>
            {
                false
            }
            Some(old) => {
                *old = new;
                true
            }
            None if holds => {
                self.conditions.push(new);
                true
            }
            None => false,
        }
    }

    /// Counts the Pods among the uncounted that have let go of their finalizer: all
    /// but those that `holding` says still have it.
    pub(super) fn count_those_without(&mut self, holding: impl Fn(&str) -> bool) {
        let take = |uids: &mut Vec<String>| {
            let before = uids.len();
            uids.retain(|uid| holding(uid));
            (before - uids.len()) as u64
        };
        self.succeeded += take(&mut self.uncounted.succeeded);
        self.failed += take(&mut self.uncounted.failed);
    }
}

/// Whether a Job has come to its end, by its status.
pub(super) fn is_finished(status: &Value) -> bool {
    finished_at(status).is_some()
}

/// When a Job came to its end.
pub(super) fn finished_at(status: &Value) -> Option<&str> {
    let end = ending(status)?;
    Some(end["lastTransitionTime"].as_str().unwrap_or_default())
}

/// The condition by which a Job is at its end: `Complete` or `Failed`.
pub(in crate::actors::workloads) fn ending(status: &Value) -> Option<&Value> {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|it| it["status"] == "True" && (it["type"] == "Complete" || it["type"] == "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_it_is_read() {
        let mut progress = Progress {
            succeeded: 1,
            start_time: Some("T".to_owned()),
            ..Progress::default()
        };
        progress.uncounted.failed.push("u".to_owned());
        let outcome = Outcome::new("Failed", "BackoffLimitExceeded", "too often");
        assert!(progress.set(&outcome, true, "T"));
        assert!(!progress.set(&outcome, true, "T2"));
        let value = progress.value();
        assert_eq!(Progress::of(&value), progress);
        assert!(is_finished(&value));
        progress.count_those_without(|_| false);
        assert_eq!((progress.failed, progress.succeeded), (1, 1));
    }

    #[test]
    fn what_does_not_hold_is_only_told_where_it_held() {
        let mut progress = Progress::default();
        let resumed = Outcome::new("Suspended", "JobResumed", "Job resumed");
        assert!(!progress.set(&resumed, false, "T"));
        let suspended = Outcome::new("Suspended", "JobSuspended", "Job suspended");
        assert!(progress.set(&suspended, true, "T"));
        assert!(progress.set(&resumed, false, "T"));
    }
}
