//! Conditions of a status.

use serde_json::{Value, json};

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    pub(super) type_: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// The conditions of a workload, which say when they were last looked at.
#[derive(Clone, Debug)]
pub(super) struct Conditions(Vec<Value>);

impl Conditions {
    /// Those of a status.
    pub(super) fn of(status: &Value) -> Self {
        let told = status["conditions"].as_array();
        Self(told.cloned().unwrap_or_default())
    }

    /// The one of a type.
    pub(super) fn get(&self, type_: &str) -> Option<&Value> {
        self.0.iter().find(|it| it["type"] == type_)
    }

    /// Says something. The same status for the same reason again is nothing new.
    pub(super) fn set(&mut self, said: Said<'_>, now: &str) {
        let before = self.get(said.type_);
        let same = before.filter(|it| it["status"] == said.status);
        if same.is_some_and(|it| it["reason"] == said.reason) {
            return;
        }
        self.renew(said, now);
    }

    /// Says something, also if it has been said.
    pub(super) fn renew(&mut self, said: Said<'_>, now: &str) {
        let before = self.get(said.type_);
        let same = before.filter(|it| it["status"] == said.status);
        let since = same.map_or_else(|| json!(now), |it| it["lastTransitionTime"].clone());
        self.put(json!({
            "type": said.type_,
            "status": said.status,
            "reason": said.reason,
            "message": said.message,
            "lastUpdateTime": now,
            "lastTransitionTime": since,
        }));
    }

    /// Puts a condition in the place of the one of its type.
    pub(super) fn put(&mut self, condition: Value) {
        self.0.retain(|it| it["type"] != condition["type"]);
        self.0.push(condition);
    }

    pub(super) fn remove(&mut self, type_: &str) {
        self.0.retain(|it| it["type"] != type_);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_value(self) -> Value {
        Value::Array(self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_condition_keeps_the_time_of_its_status() {
        let said = |status, reason| Said {
            type_: "Progressing",
            status,
            reason,
            message: "m",
        };
        let mut conditions = Conditions::of(&Value::Null);
        conditions.set(said("True", "a"), "T1");
        conditions.set(said("True", "a"), "T2");
        let told = |it: &Conditions| {
            let it = it.get("Progressing").unwrap();
            let word = |field: &str| it[field].as_str().unwrap().to_owned();
            (word("lastTransitionTime"), word("lastUpdateTime"))
        };
        assert_eq!(told(&conditions), ("T1".into(), "T1".into()));
        conditions.set(said("True", "b"), "T3");
        assert_eq!(told(&conditions), ("T1".into(), "T3".into()));
        conditions.set(said("False", "b"), "T4");
        assert_eq!(told(&conditions), ("T4".into(), "T4".into()));
        conditions.remove("Progressing");
        assert_eq!(conditions.into_value(), json!([]));
    }
}
