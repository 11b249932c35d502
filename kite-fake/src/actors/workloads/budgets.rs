//! How many Pods may be disrupted.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::expected::{Expected, expected};
use super::pod_state::is_ready;
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{BUDGET, Key, Kind, POD};
use crate::actors::labels::selects;
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, ignore_missing, is_deleting};
use crate::actors::selecting::Selecting;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[BUDGET, POD];
/// For how long a Pod that was to be evicted is waited for.
const EXPECTED: SignedDuration = SignedDuration::from_mins(2);
const COMPONENT: &str = "controllermanager";

/// Plays the disruption controller: a `PodDisruptionBudget` tells how many of its Pods are
/// healthy, how many have to be, and so how many may be evicted.
#[derive(Debug, Default)]
pub struct DisruptionBudgets {
    selecting: Mutex<Selecting>,
}

#[async_trait]
impl Actor for DisruptionBudgets {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let mut selecting = self.selecting.lock();
        if change.kind == BUDGET {
            selecting.saw_selector(change, change.object.data["spec"]["selector"].clone())
        } else {
            selecting.saw_pod(change)
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(budget) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let selector = &budget.data["spec"]["selector"];
        let mut pods = objects.list(&POD, key.namespace.as_deref(), "").await?;
        pods.retain(|pod| selects(selector, pod));
        if pods.is_empty() {
            let said = events::normal("NoPods", "No matching pods found");
            events::tell(context, COMPONENT, (&BUDGET, &budget), said).await;
        }
        let old = &budget.data["status"];
        let now = context.clock.now();
        let expected = expected(context, objects, &budget.data["spec"], &pods).await?;
        let (status, next) = match expected {
            Ok(expected) => {
                let (disrupted, wait) = disrupted(&old["disruptedPods"], &pods, now);
                let tally = Tally {
                    generation: budget.metadata.generation.unwrap_or_default(),
                    healthy: healthy(&pods, &disrupted),
                    expected,
                    disrupted,
                };
                (tally.status(old, now), wait.map_or(Next::Done, Next::Later))
            }
            // Better none than too many.
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                let said = events::warning("CalculateExpectedPodCountFailed", message);
                events::tell(context, COMPONENT, (&BUDGET, &budget), said).await;
                (failed(old, &why, now), Next::Done)
            }
        };
        ignore_missing(objects.set_status(key, &budget, status).await)?;
        Ok(next)
    }
}

/// The Pods that are about to go, by name; those that are there after their time do not
/// count any more. And how long the next one is waited for.
fn disrupted(
    told: &Value,
    pods: &[Found],
    now: Timestamp,
) -> (Map<String, Value>, Option<Duration>) {
    let (mut kept, mut wait) = (Map::new(), None);
    for pod in pods.iter().filter(|pod| !is_deleting(pod)) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(at) = told[name].as_str() else {
            continue;
        };
        let end = at.parse::<Timestamp>().ok();
        let end = end.and_then(|at| at.checked_add(EXPECTED).ok());
        let rest = end.and_then(|end| Duration::try_from(end.duration_since(now)).ok());
        if let Some(rest) = rest {
            // Times are told in whole seconds.
            let rest = rest + Duration::from_secs(1);
            wait = Some(wait.map_or(rest, |wait: Duration| wait.min(rest)));
            kept.insert(name.to_owned(), json!(at));
        }
    }
    (kept, wait)
}

fn healthy(pods: &[Found], disrupted: &Map<String, Value>) -> i64 {
    let healthy = pods.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        !is_deleting(pod) && !disrupted.contains_key(name) && is_ready(pod)
    });
    i64::try_from(healthy.count()).unwrap_or(i64::MAX)
}

/// What a status is made of.
#[derive(Debug)]
struct Tally {
    generation: i64,
    healthy: i64,
    expected: Expected,
    disrupted: Map<String, Value>,
}

impl Tally {
    fn status(self, old: &Value, now: Timestamp) -> Value {
        let Expected { pods, desired } = self.expected;
        let allowed = if pods > 0 {
            (self.healthy - desired).max(0)
        } else {
            0
        };
        let (word, reason) = if allowed > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let mut status = json!({
            "observedGeneration": self.generation,
            "currentHealthy": self.healthy,
            "desiredHealthy": desired,
            "expectedPods": pods,
            "disruptionsAllowed": allowed,
            "conditions": conditions(old, (word, reason, ""), self.generation, now),
        });
        if !self.disrupted.is_empty() {
            status["disruptedPods"] = Value::Object(self.disrupted);
        }
        status
    }
}

/// That nobody knows how many Pods there should be.
fn failed(old: &Value, why: &str, now: Timestamp) -> Value {
    let mut status = old.clone();
    let generation = old["observedGeneration"].as_i64().unwrap_or_default();
    status["disruptionsAllowed"] = json!(0);
    let said = ("False", "SyncFailed", why);
    status["conditions"] = conditions(old, said, generation, now);
    status
}

fn conditions(
    old: &Value,
    (word, reason, message): (&str, &str, &str),
    generation: i64,
    now: Timestamp,
) -> Value {
    const TYPE: &str = "DisruptionAllowed";
    let mut all = old["conditions"].as_array().cloned().unwrap_or_default();
    let before = all.iter_mut().find(|it| it["type"] == TYPE);
    let since = before
        .as_ref()
        .filter(|it| it["status"] == word)
        .map(|it| it["lastTransitionTime"].clone());
    let mut new = json!({
        "type": TYPE,
        "status": word,
        "lastTransitionTime": since.unwrap_or_else(|| json!(crate::clock::rfc3339(now))),
        "reason": reason,
        "message": message,
    });
    if generation > 0 {
        new["observedGeneration"] = json!(generation);
    }
    match before {
        Some(before) => *before = new,
        None => all.push(new),
    }
    json!(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::api::DynamicObject;

    use super::*;

    fn pod(name: &str, ready: &str) -> Found {
        let pod = json!({"metadata": {"name": name}, "status":
            {"conditions": [{"type": "Ready", "status": ready}]}});
        serde_json::from_value::<DynamicObject>(pod).unwrap().into()
    }

    #[test]
    fn pods_that_are_about_to_go_are_not_healthy_for_a_time() {
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "False")];
        let told = json!({"a": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"});
        let at = |now: &str| {
            let (kept, wait) = disrupted(&told, &pods, now.parse().unwrap());
            (healthy(&pods, &kept), kept.len(), wait)
        };
        let wait = Some(Duration::from_secs(61));
        assert_eq!(at("2026-01-01T00:01:00Z"), (1, 1, wait));
        assert_eq!(at("2026-01-01T00:02:01Z"), (2, 0, None));
    }

    #[test]
    fn a_settled_status_does_not_change() {
        let status = |old: &Value, healthy, now: &str| {
            let expected = Expected {
                pods: 3,
                desired: 2,
            };
            let tally = Tally {
                generation: 1,
                healthy,
                expected,
                disrupted: Map::new(),
            };
            tally.status(old, now.parse().unwrap())
        };
        let first = status(&Value::Null, 3, "2026-01-01T00:00:00Z");
        assert_eq!(first["disruptionsAllowed"], 1);
        assert_eq!(first["conditions"][0]["reason"], "SufficientPods");
        assert_eq!(status(&first, 3, "2026-01-01T00:00:09Z"), first);
        let less = status(&first, 1, "2026-01-01T00:00:09Z");
        assert_eq!(less["disruptionsAllowed"], 0);
        assert_eq!(
            less["conditions"][0]["lastTransitionTime"],
            "2026-01-01T00:00:09Z"
        );
    }
}
