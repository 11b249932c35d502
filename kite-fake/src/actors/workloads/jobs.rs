//! Jobs, as far as being done.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{JOB, Key};
use crate::actors::objects::{Objects, ignore_missing, is_deleting};
use crate::actors::rules::{Failure, Gate, Stage};

/// Plays the Job controller without Pods: a Job that is not suspended is
/// complete after a moment, or fails where a rule says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jobs;

#[async_trait]
impl Actor for Jobs {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![JOB])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.gone {
            Vec::new()
        } else {
            vec![change.key()]
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(job) = objects.get(key).await?.filter(|j| !is_deleting(j)) else {
            return Ok(Next::Done);
        };
        let old = &job.data["status"];
        let spec = &job.data["spec"];
        if is_over(old) || spec["suspend"] == true {
            return Ok(Next::Done);
        }
        let now = context.now();
        let completions = spec["completions"].as_u64().unwrap_or(1);
        let running = spec["parallelism"].as_u64().unwrap_or(1).min(completions);
        let (status, next) = match context.gate(Stage::DEPLOYMENT_READY, &job, "") {
            // That it has begun shows first.
            _ if old["startTime"].is_null() => (begun(running, &now), Next::Done),
            Gate::Open => (complete(old, completions, &now), Next::Done),
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => (failed(old, &why, &now), Next::Done),
        };
        ignore_missing(objects.set_status(key, &job, status).await)?;
        Ok(next)
    }
}

fn is_over(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|c| c["status"] == "True")
        .any(|c| c["type"] == "Complete" || c["type"] == "Failed")
}

fn begun(running: u64, now: &str) -> Value {
    json!({
        "active": running,
        "ready": running,
        "startTime": now,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    })
}

fn condition(kind: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    })
}

fn complete(old: &Value, completions: u64, now: &str) -> Value {
    const REASON: &str = "CompletionsReached";
    const MESSAGE: &str = "Reached expected number of succeeded pods";
    json!({
        "startTime": old["startTime"],
        "completionTime": now,
        "succeeded": completions,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [
            condition("SuccessCriteriaMet", REASON, MESSAGE, now),
            condition("Complete", REASON, MESSAGE, now),
        ],
    })
}

fn failed(old: &Value, why: &Failure, now: &str) -> Value {
    json!({
        "startTime": old["startTime"],
        "failed": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [
            condition("FailureTarget", &why.reason, &why.message, now),
            condition("Failed", &why.reason, &why.message, now),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_begins_before_it_ends() {
        let begun = begun(2, "T1");
        assert!(!is_over(&begun));
        let done = complete(&begun, 2, "T2");
        assert!(is_over(&done));
        assert_eq!(
            (&done["startTime"], &done["succeeded"]),
            (&json!("T1"), &json!(2))
        );
    }
}
