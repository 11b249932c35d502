//! `DaemonSet`s: a Pod on each node.

mod nodes;
mod plan;

use std::collections::BTreeSet;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;

use self::nodes::by_node;
use self::plan::View;
use super::making::{Made, TRY_AGAIN, make};
use super::owned::{Owner, Owners};
use super::revisions::{HASH, History, Label};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events::{self, Said};
use crate::actors::kind::{CONTROLLER_REVISION, DAEMON_SET, Key, Kind, NODE, POD};
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[DAEMON_SET, POD, CONTROLLER_REVISION, NODE];
const COMPONENT: &str = "daemonset-controller";

/// Plays the `DaemonSet` controller: each node that the template may go to has one Pod,
/// and the Pods follow the revisions of the template.
#[derive(Debug)]
pub struct DaemonSets {
    owners: Mutex<Owners>,
}

impl Default for DaemonSets {
    fn default() -> Self {
        Self {
            owners: Mutex::new(Owners::of_kind(DAEMON_SET)),
        }
    }
}

#[async_trait]
impl Actor for DaemonSets {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let mut owners = self.owners.lock();
        if change.kind == NODE {
            owners.all()
        } else {
            owners.saw(change)
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let set = objects.get(key).await?.filter(|it| !is_deleting(it));
        let Some(set) = set else {
            return Ok(Next::Done);
        };
        let kind = DAEMON_SET;
        let owner = Owner::new(&kind, &set);
        let claimed = owner.claim(objects, &CONTROLLER_REVISION).await?;
        let mut history = History::of(owner, claimed);
        let newest = history.newest(objects, owner, Label::OfDaemonSet).await?;
        let mut pods = by_node(owner.claim(objects, &POD).await?);
        let mut all = objects.list(&NODE, None, "").await?;
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let view = View {
            spec: &set.data["spec"],
            nodes: &all,
            pods: &pods,
            hash: newest.hash(),
            now: context.clock.now(),
        };
        let plan = view.plan();
        let wait = view.next_look();
        let say = async |warning, reason: &'static str, message: String| {
            let said = Said {
                warning,
                reason,
                message,
            };
            events::tell(context, COMPONENT, (&kind, &set), said).await;
        };
        for pod in &plan.delete {
            let name = Key::of(&POD, pod);
            objects.delete(&name, pod, Deletion::default()).await?;
            say(
                false,
                "SuccessfulDelete",
                format!("Deleted pod: {}", name.name),
            )
            .await;
        }
        let mut is_refused = false;
        for node in plan.create {
            match make(objects, &set, &POD, nodes::pod(owner, &node, newest.hash())).await? {
                Made::Object(pod) => {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    say(false, "SuccessfulCreate", format!("Created pod: {name}")).await;
                    pods.entry(node).or_default().push(pod);
                }
                Made::Exists | Made::Nothing => {}
                Made::Refused(why) => {
                    say(true, "FailedCreate", format!("Error creating: {why}")).await;
                    is_refused = true;
                    break;
                }
            }
        }
        let after = View {
            spec: &set.data["spec"],
            nodes: &all,
            pods: &pods,
            hash: newest.hash(),
            now: context.clock.now(),
        };
        let mut status = after.counts();
        status["observedGeneration"] = json!(set.metadata.generation.unwrap_or_default());
        if history.collisions > 0 {
            status["collisionCount"] = json!(history.collisions);
        }
        let labels = pods
            .values()
            .flatten()
            .filter_map(|it| it.metadata.labels.as_ref());
        let mut alive: BTreeSet<String> = labels.filter_map(|it| it.get(HASH).cloned()).collect();
        alive.insert(newest.name().to_owned());
        ignore_missing(objects.set_status(key, &set, status).await)?;
        history.forget(objects, owner, &alive).await?;
        Ok(match wait {
            _ if is_refused => Next::Later(TRY_AGAIN),
            Some(wait) => Next::After(wait),
            None => Next::Done,
        })
    }
}
