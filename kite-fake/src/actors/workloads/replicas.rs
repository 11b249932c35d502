//! `ReplicaSet`s and `ReplicationController`s: as many Pods as are asked for.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::conditions::Conditions;
use super::making::{Made, TRY_AGAIN, make};
use super::owned::{Owner, Owners, controller};
use super::pod_state::{available_in, by_worth, is_active, is_over, is_ready};
use super::template::{self, Naming};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{Key, Kind, POD, REPLICA_SET, REPLICATION_CONTROLLER};
use crate::actors::labels::{has_all, labels};
use crate::actors::mirror::Found;
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[REPLICA_SET, REPLICATION_CONTROLLER, POD];
/// Most Pods that are made or deleted at a time.
const BURST: usize = 500;
/// The condition that tells that Pods cannot be made.
const FAILURE: &str = "ReplicaFailure";

/// Plays the controller of one of these kinds: an object has as many Pods of its
/// template as it asks for, and tells how many of them are ready.
#[derive(Debug)]
pub struct Replicas {
    kind: Kind,
    component: &'static str,
    owners: Mutex<Owners>,
}

impl Replicas {
    /// For `ReplicaSet`s.
    pub fn of_replica_sets() -> Self {
        Self::of(REPLICA_SET, "replicaset-controller")
    }

    /// For `ReplicationController`s.
    pub fn of_replication_controllers() -> Self {
        Self::of(REPLICATION_CONTROLLER, "replication-controller")
    }

    fn of(kind: Kind, component: &'static str) -> Self {
        let owners = Mutex::new(Owners::of_kind(kind.clone()));
        Self {
            kind,
            component,
            owners,
        }
    }
}

#[async_trait]
impl Actor for Replicas {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![self.kind.clone(), POD])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        self.owners.lock().saw(change)
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(set) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let owner = Owner::new(&self.kind, &set);
        let claimed = owner.claim(objects, &POD).await?;
        let mut terminating = claimed
            .iter()
            .filter(|it| is_deleting(it) && !is_over(it))
            .count();
        let mut pods: Vec<Found> = claimed.into_iter().filter(|it| is_active(it)).collect();
        let failure = if is_deleting(&set) {
            None
        } else {
            let before = pods.len();
            let failure = self.manage(context, objects, owner, &mut pods).await?;
            // They end from now on.
            terminating += before.saturating_sub(pods.len());
            failure
        };
        let seen = Seen {
            pods: &pods,
            terminating,
            failure: failure.as_ref(),
        };
        let now = context.clock.now();
        let (status, wait) = status(&self.kind, &set, &seen, now);
        ignore_missing(objects.set_status(key, &set, status).await)?;
        Ok(match (failure, wait) {
            (Some(_), _) => Next::Later(TRY_AGAIN),
            (None, Some(wait)) => Next::After(wait),
            (None, None) => Next::Done,
        })
    }
}

/// Why a Pod could not be made.
#[derive(Debug)]
struct Failed {
    message: String,
}

impl Replicas {
    /// Makes the Pods that are missing, or deletes those that are too many. `pods` are
    /// then those that there are.
    async fn manage(
        &self,
        context: &Context,
        objects: Objects<'_>,
        owner: Owner<'_>,
        pods: &mut Vec<Found>,
    ) -> Result<Option<Failed>, ActorError> {
        let spec = &owner.object.data["spec"];
        let wanted = spec["replicas"].as_u64().unwrap_or(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        for _ in 0..wanted.saturating_sub(pods.len()).min(BURST) {
            let body = template::pod(owner, &spec["template"], Naming::OfOwner);
            let about = (&self.kind, owner.object);
            match make(objects, owner.object, &POD, body).await? {
                Made::Object(pod) => {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    let message = format!("Created pod: {name}");
                    let said = events::normal("SuccessfulCreate", message);
                    events::tell(context, self.component, about, said).await;
                    pods.push(pod);
                }
                Made::Exists | Made::Nothing => break,
                Made::Refused(message) => {
                    let said = format!("Error creating: {message}");
                    let said = events::warning("FailedCreate", said);
                    events::tell(context, self.component, about, said).await;
                    return Ok(Some(Failed { message }));
                }
            }
        }
        let surplus = pods.len().saturating_sub(wanted).min(BURST);
        if surplus == 0 {
            return Ok(None);
        }
        let beside = self.beside(objects, owner.object, pods).await?;
        let crowd = |pod: &Found| beside.get(text(pod, "/spec/nodeName")).copied();
        pods.sort_by(|a, b| {
            let (a, b) = ((a, crowd(a)), (b, crowd(b)));
            by_worth((a.0, a.1.unwrap_or(0)), (b.0, b.1.unwrap_or(0)))
        });
        for pod in pods.drain(..surplus) {
            let key = Key::of(&POD, &pod);
            objects.delete(&key, &pod, Deletion::default()).await?;
            let said = events::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name));
            events::tell(context, self.component, (&self.kind, owner.object), said).await;
        }
        Ok(None)
    }

    /// How many active Pods each node has of the workload that the set belongs to: its
    /// own, and those of the sets of the same controller.
    async fn beside(
        &self,
        objects: Objects<'_>,
        set: &DynamicObject,
        pods: &[Found],
    ) -> Result<HashMap<String, usize>, ActorError> {
        let mut beside = HashMap::new();
        let mut count = |pod: &DynamicObject| {
            let node = text(pod, "/spec/nodeName").to_owned();
            *beside.entry(node).or_default() += 1;
        };
        for pod in pods {
            count(pod);
        }
        let Some(above) = controller(set) else {
            return Ok(beside);
        };
        let namespace = set.metadata.namespace.as_deref();
        let related: Vec<String> = objects
            .list(&self.kind, namespace, "")
            .await?
            .iter()
            .filter(|it| it.metadata.uid != set.metadata.uid)
            .filter(|it| controller(it).is_some_and(|of| of.uid == above.uid))
            .filter_map(|it| it.metadata.uid.clone())
            .collect();
        for pod in objects.list(&POD, namespace, "").await? {
            let of = controller(&pod).map(|it| it.uid);
            if is_active(&pod) && of.is_some_and(|uid| related.iter().any(|it| it == uid)) {
                count(&pod);
            }
        }
        Ok(beside)
    }
}

/// What a status is made of.
struct Seen<'a> {
    /// Active ones.
    pods: &'a [Found],
    terminating: usize,
    failure: Option<&'a Failed>,
}

/// The status of a set, and after which time it is another.
fn status(
    kind: &Kind,
    set: &DynamicObject,
    seen: &Seen<'_>,
    now: Timestamp,
) -> (Value, Option<Duration>) {
    let spec = &set.data["spec"];
    let minimum = spec["minReadySeconds"].as_i64().unwrap_or_default();
    let template = &spec["template"]["metadata"]["labels"];
    let labeled = seen.pods.iter().filter(|it| has_all(labels(it), template));
    let ready = seen.pods.iter().filter(|it| is_ready(it)).count();
    let waits: Vec<Duration> = seen
        .pods
        .iter()
        .filter_map(|it| available_in(it, minimum, now))
        .collect();
    let available = waits.iter().filter(|wait| wait.is_zero()).count();
    let wait = waits.into_iter().filter(|wait| !wait.is_zero()).min();
    let mut status = json!({
        "observedGeneration": set.metadata.generation.unwrap_or_default(),
        "replicas": seen.pods.len(),
    });
    let counts = [
        ("fullyLabeledReplicas", labeled.count()),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ];
    for (member, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[member] = json!(count);
    }
    if *kind == REPLICA_SET {
        status["terminatingReplicas"] = json!(seen.terminating);
    }
    // Those of others stay.
    let mut conditions = Conditions::of(&set.data["status"]);
    if let Some(failure) = seen.failure {
        // What has been told stays until it is over.
        if conditions.get(FAILURE).is_none() {
            conditions.put(json!({
                "type": FAILURE,
                "status": "True",
                "reason": "FailedCreate",
                "message": failure.message,
                "lastTransitionTime": crate::clock::rfc3339(now),
            }));
        }
    } else {
        conditions.remove(FAILURE);
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into_value();
    }
    (status, wait)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn object(value: Value) -> Found {
        serde_json::from_value::<DynamicObject>(value)
            .unwrap()
            .into()
    }

    #[test]
    fn a_status_tells_what_there_is() {
        let set = object(json!({
            "metadata": {"name": "s", "generation": 2},
            "spec": {"minReadySeconds": 5, "template": {"metadata": {"labels": {"a": "b"}}}},
        }));
        let ready = |since: &str| {
            object(json!({
                "metadata": {"name": "p", "labels": {"a": "b"}},
                "status": {"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": since},
                ]},
            }))
        };
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        let pods = [
            ready("2026-01-01T00:00:00Z"),
            ready("2026-01-01T00:00:07Z"),
            object(json!({"metadata": {"name": "q"}})),
        ];
        let seen = Seen {
            pods: &pods,
            terminating: 1,
            failure: None,
        };
        let (told, wait) = status(&REPLICA_SET, &set, &seen, now);
        let expected = json!({
            "observedGeneration": 2, "replicas": 3, "fullyLabeledReplicas": 2,
            "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 1,
        });
        assert_eq!(told, expected);
        assert_eq!(wait, Some(Duration::from_secs(2)));
    }
}
