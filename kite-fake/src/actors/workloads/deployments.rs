//! Deployments, as far as being ready.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{DEPLOYMENT, Key};
use crate::actors::objects::{Objects, ignore_missing, is_deleting};
use crate::actors::rules::{Failure, Gate, Stage};

use super::rollout::{Replicas, Rollout};

/// Plays the deployment controller without `ReplicaSets` and Pods: a Deployment
/// has the replicas that it asks for after a moment. Until then, one whose template
/// changed has as many of its old replicas as its strategy lets it have.
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
        let rollout = Rollout::of(&key.name, &deployment.data["spec"]);
        let old = &deployment.data["status"];
        let generation = deployment.metadata.generation.unwrap_or_default();
        let has = count(old, "readyReplicas");
        let is_told = progress(old) == Some(&*done(&rollout.replica_set));
        if old["observedGeneration"] == generation && has == rollout.wanted && is_told {
            return Ok(Next::Done);
        }
        let round = generation.to_string();
        let (failure, next) = match context.gate(Stage::DEPLOYMENT_READY, &deployment, &round) {
            Gate::Open => (None, Next::Done),
            Gate::Wait(rest) => (None, Next::After(rest)),
            Gate::Held => (None, Next::Held),
            Gate::Fail(why) => (Some(why), Next::Held),
        };
        let replicas = if matches!(next, Next::Done) {
            rollout.settled()
        } else {
            rollout.under_way(has, is_of_older(old, &rollout.replica_set))
        };
        let new = status(
            old,
            generation,
            &rollout,
            replicas,
            failure.as_ref(),
            &context.now(),
        );
        ignore_missing(objects.set_status(key, &deployment, new).await)?;
        Ok(next)
    }
}

/// What is said of the newest `ReplicaSet` when all of it is there.
fn done(replica_set: &str) -> String {
    format!("ReplicaSet \"{replica_set}\" has successfully progressed.")
}

fn going_on(replica_set: &str) -> String {
    format!("ReplicaSet \"{replica_set}\" is progressing.")
}

/// What a status says of how the newest `ReplicaSet` gets on.
fn progress(status: &Value) -> Option<&str> {
    let conditions = status["conditions"].as_array()?;
    let progressing = conditions.iter().find(|it| it["type"] == "Progressing")?;
    progressing["message"].as_str()
}

/// Whether the replicas of which a status tells are, all or in part, of another
/// `ReplicaSet`.
fn is_of_older(status: &Value, replica_set: &str) -> bool {
    let told = progress(status).filter(|it| it.starts_with("ReplicaSet "));
    let is_another = told.is_some_and(|it| it != done(replica_set) && it != going_on(replica_set));
    is_another || count(status, "updatedReplicas") < count(status, "replicas")
}

fn count(status: &Value, field: &str) -> u64 {
    status[field].as_u64().unwrap_or_default()
}

fn status(
    old: &Value,
    generation: i64,
    rollout: &Rollout,
    replicas: Replicas,
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
    let available = if replicas.ready >= rollout.least() {
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
    let set = &rollout.replica_set;
    let progressing = match failure {
        Some(why) => condition("Progressing", false, &why.reason, &why.message),
        None if replicas == rollout.settled() => {
            condition("Progressing", true, "NewReplicaSetAvailable", &done(set))
        }
        None => condition("Progressing", true, "ReplicaSetUpdated", &going_on(set)),
    };
    let mut status = json!({
        "observedGeneration": generation,
        "conditions": [available, progressing],
    });
    let counts = [
        ("replicas", replicas.all),
        ("updatedReplicas", replicas.updated),
        ("readyReplicas", replicas.ready),
        ("availableReplicas", replicas.ready),
        ("unavailableReplicas", replicas.all - replicas.ready),
    ];
    for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[field] = json!(count);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(image: &str) -> Rollout {
        Rollout::of("web", &json!({"replicas": 3, "template": {"image": image}}))
    }

    #[test]
    fn a_settled_status_does_not_change() {
        let web = rollout("a");
        let first = status(&Value::Null, 2, &web, web.settled(), None, "T1");
        assert_eq!(first["readyReplicas"], 3);
        assert_eq!(first.get("unavailableReplicas"), None);
        assert_eq!(status(&first, 2, &web, web.settled(), None, "T2"), first);
    }

    #[test]
    fn what_is_missing_is_told() {
        let web = rollout("a");
        let status = status(&Value::Null, 1, &web, web.under_way(1, false), None, "T");
        assert_eq!(status["unavailableReplicas"], 2);
        assert_eq!(status["conditions"][0]["status"], "False");
    }

    #[test]
    fn replicas_are_older_until_those_of_the_newest_template_are_there() {
        let (before, after) = (rollout("a"), rollout("b"));
        let settled = status(&Value::Null, 1, &before, before.settled(), None, "T");
        assert!(!is_of_older(&settled, &before.replica_set));
        assert!(is_of_older(&settled, &after.replica_set));
        let begun = status(&settled, 2, &after, after.under_way(3, true), None, "T");
        assert_eq!(
            (count(&begun, "replicas"), count(&begun, "updatedReplicas")),
            (4, 1)
        );
        assert!(is_of_older(&begun, &after.replica_set));
        assert_eq!(begun["conditions"][0]["status"], "True");
        let why = Failure {
            reason: "ProgressDeadlineExceeded".to_owned(),
            message: "no such image".to_owned(),
        };
        let failed = status(&begun, 2, &after, after.under_way(3, true), Some(&why), "T");
        assert!(is_of_older(&failed, &after.replica_set));
        let settled = status(&failed, 2, &after, after.settled(), None, "T");
        assert!(!is_of_older(&settled, &after.replica_set));
    }
}
