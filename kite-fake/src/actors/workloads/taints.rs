//! Has Pods leave nodes that do not want them any more.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;

use super::placement::tolerates;
use super::pod_state::is_over;
use super::pod_status::{condition, conditions, with};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{Key, Kind, NODE, POD};
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text};
use crate::actors::rules::Stage;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[NODE, POD];
/// For how long a taint is tolerated.
const TOLERATED: Stage = Stage::new("TaintTolerated");
const COMPONENT: &str = "taint-eviction-controller";

/// Plays the taint eviction controller: a Pod that does not tolerate the `NoExecute`
/// taints of its node is deleted, one that does so for a time when that is over.
#[derive(Debug, Default)]
pub struct TaintEvictions {
    nodes: Mutex<BTreeMap<String, Taints>>,
}

/// Whether a node has such taints, and for which time: another time, tolerations
/// run anew.
#[derive(Debug, Default)]
struct Taints {
    there: bool,
    round: u64,
}

#[async_trait]
impl Actor for TaintEvictions {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![NODE, POD])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let mut nodes = self.nodes.lock();
        if change.kind == POD {
            let node = text(&change.object, "/spec/nodeName");
            let is_tainted = nodes.get(node).is_some_and(|it| it.there);
            let key = (is_tainted && !change.gone).then(|| Key::new(&NODE, None, node));
            return key.into_iter().collect();
        }
        let key = change.key();
        let there = !change.gone && no_execute(&change.object).next().is_some();
        if there {
            let taints = nodes.entry(key.name.clone()).or_default();
            if !taints.there {
                taints.there = true;
                taints.round += 1;
            }
            return vec![key];
        }
        if let Some(taints) = nodes.get_mut(&key.name) {
            taints.there = false;
        }
        Vec::new()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(node) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let taints: Vec<&Value> = no_execute(&node).collect();
        if taints.is_empty() {
            return Ok(Next::Done);
        }
        let round = self.nodes.lock().get(&key.name).map_or(0, |it| it.round);
        let mut first: Option<Duration> = None;
        for pod in objects.list(&POD, None, "").await? {
            if text(&pod, "/spec/nodeName") != key.name || is_deleting(&pod) || is_over(&pod) {
                continue;
            }
            let rest = match tolerated_for(&pod, &taints) {
                Tolerated::Always => continue,
                Tolerated::For(time) => context.pause(TOLERATED, &pod, &round.to_string(), time),
            };
            match rest {
                Some(rest) => first = Some(first.map_or(rest, |first| first.min(rest))),
                None => evict(context, objects, &pod).await?,
            }
        }
        Ok(first.map_or(Next::Done, Next::Later))
    }
}

fn no_execute(node: &DynamicObject) -> impl Iterator<Item = &Value> {
    let taints = node.data["spec"]["taints"].as_array();
    let taints = taints.into_iter().flatten();
    taints.filter(|taint| taint["effect"] == "NoExecute")
}

/// For how long a Pod tolerates taints.
#[derive(Debug, PartialEq, Eq)]
enum Tolerated {
    Always,
    For(Duration),
}

fn tolerated_for(pod: &DynamicObject, taints: &[&Value]) -> Tolerated {
    let tolerations = pod.data["spec"]["tolerations"].as_array();
    let tolerations = tolerations.map_or(&[][..], Vec::as_slice);
    let mut least = Tolerated::Always;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|it| tolerates(it, taint)) else {
            return Tolerated::For(Duration::ZERO);
        };
        let Some(seconds) = toleration["tolerationSeconds"].as_i64() else {
            continue;
        };
        let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        least = match least {
            Tolerated::For(other) => Tolerated::For(other.min(time)),
            Tolerated::Always => Tolerated::For(time),
        };
    }
    least
}

/// Says of a Pod that it is disrupted, and deletes it.
async fn evict(
    context: &Context,
    objects: Objects<'_>,
    pod: &DynamicObject,
) -> Result<(), ActorError> {
    let key = Key::of(&POD, pod);
    let said = format!("Marking for deletion Pod {}/{}", key.space(), key.name);
    let said = events::normal("TaintManagerEviction", said);
    events::tell(context, COMPONENT, (&POD, pod), said).await;
    let old = &pod.data["status"];
    let why = Some((
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    ));
    let target = condition(old, "DisruptionTarget", "True", why, &context.now());
    let status = with(old, &[("conditions", conditions(old, vec![target]))]);
    ignore_missing(objects.set_status(&key, pod, status).await)?;
    objects.delete(&key, pod, Deletion::default()).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shortest_toleration_decides() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let (a, b) = (taint("a"), taint("b"));
        let of = |tolerations: Value, taints: &[&Value]| {
            let pod = json!({"metadata": {}, "spec": {"tolerations": tolerations}});
            tolerated_for(&serde_json::from_value(pod).unwrap(), taints)
        };
        let a_for =
            |seconds: i64| json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
        let seconds = |seconds| Tolerated::For(Duration::from_secs(seconds));
        assert_eq!(of(json!([]), &[&a]), seconds(0));
        assert_eq!(of(json!([a_for(30)]), &[&a]), seconds(30));
        assert_eq!(of(json!([a_for(-1)]), &[&a]), seconds(0));
        assert_eq!(of(json!([a_for(30)]), &[&a, &b]), seconds(0));
        let both = json!([a_for(30), {"operator": "Exists"}]);
        assert_eq!(of(both, &[&a, &b]), seconds(30));
        assert_eq!(
            of(json!([{"operator": "Exists"}]), &[&a, &b]),
            Tolerated::Always
        );
    }
}
