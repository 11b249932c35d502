//! The status of a `CronJob`.

use serde_json::{Value, json};

/// What a `CronJob` tells of its Jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// References to those that are not over.
    pub(super) active: Vec<Value>,
    pub(super) last_schedule: Option<String>,
    pub(super) last_success: Option<String>,
}

impl State {
    pub(super) fn of(status: &Value) -> Self {
        let text = |name: &str| status[name].as_str().map(str::to_owned);
        Self {
            active: status["active"].as_array().cloned().unwrap_or_default(),
            last_schedule: text("lastScheduleTime"),
            last_success: text("lastSuccessfulTime"),
        }
    }

    /// As it is written: `old` where nothing is new.
    pub(super) fn written(&self, old: &Value) -> Value {
        if Self::of(old) == *self {
            return old.clone();
        }
        let mut status = json!({});
        if !self.active.is_empty() {
            status["active"] = json!(self.active);
        }
        for (name, text) in [
            ("lastScheduleTime", &self.last_schedule),
            ("lastSuccessfulTime", &self.last_success),
        ] {
            if let Some(text) = text {
                status[name] = json!(text);
            }
        }
        status
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.active.iter().any(|it| it["uid"] == uid)
    }

    pub(super) fn drop_job(&mut self, uid: &str) {
        self.active.retain(|it| it["uid"] != uid);
    }

    /// A Job has succeeded at this time.
    pub(super) fn succeeded(&mut self, at: &str) {
        // Times in one form: texts compare as they do.
        if self.last_success.as_deref().is_none_or(|last| last < at) {
            self.last_success = Some(at.to_owned());
        }
    }
}
