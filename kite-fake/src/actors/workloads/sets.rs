//! `StatefulSet`s and `DaemonSet`s, as far as being ready.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{DAEMON_SET, Key, Kind, NODE, STATEFUL_SET};
use crate::actors::objects::{Objects, ignore_missing, is_deleting};
use crate::actors::rules::{Gate, Stage};

/// Plays the controllers of one of these kinds without Pods: after a moment an
/// object has the replicas that it asks for, a `DaemonSet` one for each node.
#[derive(Clone, Debug)]
pub struct Sets {
    kind: Kind,
}

impl Sets {
    /// For `StatefulSet`s.
    pub fn of_stateful_sets() -> Self {
        Self { kind: STATEFUL_SET }
    }

    /// For `DaemonSet`s.
    pub fn of_daemon_sets() -> Self {
        Self { kind: DAEMON_SET }
    }
}

#[async_trait]
impl Actor for Sets {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![self.kind.clone()])
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
        let Some(object) = objects.get(key).await?.filter(|o| !is_deleting(o)) else {
            return Ok(Next::Done);
        };
        let generation = object.metadata.generation.unwrap_or_default();
        let wanted = if self.kind == DAEMON_SET {
            objects.list(&NODE, None, "").await?.len() as u64
        } else {
            object.data["spec"]["replicas"].as_u64().unwrap_or(1)
        };
        let old = &object.data["status"];
        let has = ready_of(&self.kind, old);
        if old["observedGeneration"] == generation && has == wanted {
            return Ok(Next::Done);
        }
        let round = generation.to_string();
        let (ready, next) = match context.gate(Stage::DEPLOYMENT_READY, &object, &round) {
            Gate::Open => (wanted, Next::Done),
            Gate::Wait(rest) => (has.min(wanted), Next::After(rest)),
            Gate::Held => (has.min(wanted), Next::Held),
            Gate::Fail(_) => (0, Next::Held),
        };
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let new = status(&self.kind, name, generation, wanted, ready);
        ignore_missing(objects.set_status(key, &object, new).await)?;
        Ok(next)
    }
}

fn ready_of(kind: &Kind, status: &Value) -> u64 {
    let member = if *kind == DAEMON_SET {
        "numberReady"
    } else {
        "readyReplicas"
    };
    status[member].as_u64().unwrap_or_default()
}

fn status(kind: &Kind, name: &str, generation: i64, wanted: u64, ready: u64) -> Value {
    let mut status = json!({"observedGeneration": generation});
    let mut counts: Vec<(&str, u64)> = Vec::new();
    if *kind == DAEMON_SET {
        for (member, count) in [
            ("currentNumberScheduled", wanted),
            ("desiredNumberScheduled", wanted),
            ("numberMisscheduled", 0),
            ("numberReady", ready),
        ] {
            status[member] = json!(count);
        }
        counts.extend([
            ("numberAvailable", ready),
            ("updatedNumberScheduled", wanted),
            ("numberUnavailable", wanted.saturating_sub(ready)),
        ]);
    } else {
        status["replicas"] = json!(wanted);
        counts.extend([("readyReplicas", ready), ("availableReplicas", ready)]);
    }
    if *kind == STATEFUL_SET {
        // Which template its Pods have: there is one for each generation.
        let revision = json!(format!("{name}-{generation}"));
        status["currentRevision"] = revision.clone();
        status["updateRevision"] = revision;
        status["collisionCount"] = json!(0);
        status["availableReplicas"] = json!(ready);
        counts.extend([("currentReplicas", wanted), ("updatedReplicas", wanted)]);
    }
    for (member, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[member] = json!(count);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_counts_in_its_own_words() {
        let of = |kind: &Kind| status(kind, "x", 2, 3, 3);
        assert_eq!(of(&STATEFUL_SET)["updateRevision"], "x-2");
        let daemons = of(&DAEMON_SET);
        assert_eq!(
            (&daemons["numberReady"], &daemons["replicas"]),
            (&json!(3), &Value::Null)
        );
    }
}
