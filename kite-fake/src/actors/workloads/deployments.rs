//! Deployments, as far as being ready.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{DEPLOYMENT, Key};
use crate::actors::objects::{Objects, ignore_missing, is_deleting};
use crate::actors::rules::{Failure, Gate, Stage};

/// Plays the deployment controller without `ReplicaSets` and Pods: a Deployment
/// has the replicas that it asks for after a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deployments;

#[async_trait]
impl Actor for Deployments {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![DEPLOYMENT])
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
        let Some(deployment) = objects.get(key).await?.filter(|d| !is_deleting(d)) else {
            return Ok(Next::Done);
        };
        let old = &deployment.data["status"];
        let generation = deployment.metadata.generation.unwrap_or_default();
        let wanted = deployment.data["spec"]["replicas"].as_u64().unwrap_or(1);
        let has = old["readyReplicas"].as_u64().unwrap_or_default();
        let now = context.now();
        if old["observedGeneration"] == generation && has == wanted && old["conditions"].is_array()
        {
            return Ok(Next::Done);
        }
        let round = generation.to_string();
        let (ready, failure, next) = match context.gate(Stage::DeploymentReady, &deployment, &round)
        {
            Gate::Open => (wanted, None, Next::Done),
            Gate::Wait(rest) => (has.min(wanted), None, Next::After(rest)),
            Gate::Held => (has.min(wanted), None, Next::Held),
            Gate::Fail(why) => (0, Some(why), Next::Held),
        };
        let new = status(old, generation, (wanted, ready), failure.as_ref(), &now);
        ignore_missing(objects.set_status(key, &deployment, new).await)?;
        Ok(next)
    }
}

fn status(
    old: &Value,
    generation: i64,
    (wanted, ready): (u64, u64),
    failure: Option<&Failure>,
    now: &str,
) -> Value {
    let before = old["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let condition = |type_: &str, holds: bool, reason: &str, message: &str| {
        let word = if holds { "True" } else { "False" };
        let same = before
            .iter()
            .find(|c| c["type"] == type_ && c["status"] == word);
        let since = same.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
        let updated = same
            .filter(|c| c["reason"] == reason && c["message"] == message)
            .map_or_else(|| json!(now), |c| c["lastUpdateTime"].clone());
        json!({
            "type": type_,
            "status": word,
            "reason": reason,
            "message": message,
            "lastUpdateTime": updated,
            "lastTransitionTime": since,
        })
    };
    let available = if ready >= wanted {
        condition(
            "Available",
            true,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        condition(
            "Available",
            false,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let progressing = match failure {
        Some(why) => condition("Progressing", false, &why.reason, &why.message),
        None if ready >= wanted => condition(
            "Progressing",
            true,
            "NewReplicaSetAvailable",
            "The Deployment has successfully progressed.",
        ),
        None => condition(
            "Progressing",
            true,
            "ReplicaSetUpdated",
            "The Deployment is progressing.",
        ),
    };
    let mut status = json!({
        "observedGeneration": generation,
        "conditions": [available, progressing],
    });
    let counts = [
        ("replicas", wanted),
        ("updatedReplicas", wanted),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", wanted.saturating_sub(ready)),
    ];
    for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[field] = json!(count);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_status_does_not_change() {
        let first = status(&Value::Null, 2, (3, 3), None, "T1");
        assert_eq!(first["readyReplicas"], 3);
        assert_eq!(first.get("unavailableReplicas"), None);
        assert_eq!(status(&first, 2, (3, 3), None, "T2"), first);
    }

    #[test]
    fn what_is_missing_is_told() {
        let status = status(&Value::Null, 1, (3, 1), None, "T");
        assert_eq!(status["unavailableReplicas"], 2);
        assert_eq!(status["conditions"][0]["status"], "False");
    }
}
