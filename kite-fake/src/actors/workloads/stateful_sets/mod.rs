//! `StatefulSet`s: Pods with numbers, each with claims of its own.

mod claims;
mod member;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::claims::Prepared;
use self::plan::{Action, Wanted};
use super::making::{Made, TRY_AGAIN, make};
use super::owned::{Owner, Owners};
use super::pod_state::is_ready;
use super::revisions::{History, Label, Revision};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{CLAIM, CONTROLLER_REVISION, Key, Kind, POD, STATEFUL_SET};
use crate::actors::mirror::Found;
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[STATEFUL_SET, POD, CONTROLLER_REVISION, CLAIM];
const COMPONENT: &str = "statefulset-controller";
/// After which time it is looked again whether a claim of before is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Plays the `StatefulSet` controller: Pods come and go by their numbers, have their
/// claims, and follow the revisions of the template.
#[derive(Debug)]
pub struct StatefulSets {
    owners: Mutex<Owners>,
}

impl Default for StatefulSets {
    fn default() -> Self {
        Self {
            owners: Mutex::new(Owners::of_kind(STATEFUL_SET)),
        }
    }
}

#[async_trait]
impl Actor for StatefulSets {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        self.owners.lock().saw(change)
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        // Of one that ends nothing is made any more, its revisions neither.
        let set = objects.get(key).await?.filter(|set| !is_deleting(set));
        let Some(set) = set else {
            return Ok(Next::Done);
        };
        let kind = STATEFUL_SET;
        let owner = Owner::new(&kind, &set);
        let claimed = owner.claim(objects, &CONTROLLER_REVISION).await?;
        let mut history = History::of(owner, claimed);
        let is_member = |pod: &kube::api::DynamicObject| member::ordinal(&key.name, pod).is_some();
        let pods = owner.claim_of(objects, &POD, is_member).await?;
        let by_ordinal = |pod: Found| Some((member::ordinal(&key.name, &pod)?, pod));
        let pods: BTreeMap<i64, Found> = pods.into_iter().filter_map(by_ordinal).collect();
        let newest = history.newest(objects, owner, Label::OfStatefulSet).await?;
        let told = set.data["status"]["currentRevision"].as_str();
        let current = told.and_then(|name| history.named(name)).unwrap_or(&newest);
        let mut round = Round {
            context,
            objects,
            owner,
            wanted: Wanted::of(&set.data["spec"], newest.name(), context.clock.now()),
            current: current.clone(),
            newest: newest.clone(),
            pods,
            next: Next::Done,
        };
        round.act().await?;
        let status = round.status(history.collisions);
        ignore_missing(objects.set_status(key, &set, status).await)?;
        let mut alive: BTreeSet<String> = round
            .pods
            .values()
            .map(|pod| member::revision(pod).to_owned())
            .collect();
        alive.extend([round.current.name().to_owned(), newest.name().to_owned()]);
        history.forget(objects, owner, &alive).await?;
        Ok(match (round.next, round.wanted.next_look(&round.pods)) {
            (Next::Done, Some(wait)) => Next::After(wait),
            (next, _) => next,
        })
    }
}

/// One reconcile of a set.
struct Round<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    owner: Owner<'a>,
    wanted: Wanted<'a>,
    current: Revision,
    newest: Revision,
    pods: BTreeMap<i64, Found>,
    next: Next,
}

impl Round<'_> {
    async fn act(&mut self) -> Result<(), ActorError> {
        for (ordinal, pod) in &self.pods {
            let is_condemned = !self.wanted.has(*ordinal);
            claims::retain(self.objects, self.owner, pod, *ordinal, is_condemned).await?;
            if text(pod, "/status/phase") == "Pending" && !is_deleting(pod) {
                claims::prepare(self.context, self.objects, self.owner, *ordinal).await?;
            }
        }
        for action in self.wanted.plan(&self.pods) {
            match action {
                Action::Create { ordinal, is_newest } => self.create(ordinal, is_newest).await?,
                Action::Delete(pod) => self.delete(&pod).await?,
            }
        }
        Ok(())
    }

    async fn create(&mut self, ordinal: i64, is_newest: bool) -> Result<(), ActorError> {
        match claims::prepare(self.context, self.objects, self.owner, ordinal).await? {
            Prepared::Ready => {}
            Prepared::NotYet => {
                self.next = Next::After(LOOK_AGAIN);
                return Ok(());
            }
            Prepared::Refused => {
                self.next = Next::Later(TRY_AGAIN);
                return Ok(());
            }
        }
        let revision = if is_newest {
            &self.newest
        } else {
            &self.current
        };
        let body = member::pod(self.owner, revision, ordinal);
        let name = member::name(self.owner, ordinal);
        match make(self.objects, self.owner.object, &POD, body).await? {
            Made::Object(pod) => {
                self.pods.insert(ordinal, pod);
                self.say(
                    false,
                    "SuccessfulCreate",
                    &format!("create Pod {name}"),
                    "successful",
                )
                .await;
            }
            Made::Exists | Made::Nothing => {}
            Made::Refused(why) => {
                let why = format!("failed error: {why}");
                self.say(true, "FailedCreate", &format!("create Pod {name}"), &why)
                    .await;
                self.next = Next::Later(TRY_AGAIN);
            }
        }
        Ok(())
    }

    async fn delete(&self, pod: &Found) -> Result<(), ActorError> {
        let key = Key::of(&POD, pod);
        self.objects.delete(&key, pod, Deletion::default()).await?;
        let what = format!("delete Pod {}", key.name);
        self.say(false, "SuccessfulDelete", &what, "successful")
            .await;
        Ok(())
    }

    async fn say(&self, warning: bool, reason: &str, what: &str, outcome: &str) {
        let set = self
            .owner
            .object
            .metadata
            .name
            .as_deref()
            .unwrap_or_default();
        let said = events::Said {
            warning,
            reason,
            message: format!("{what} in StatefulSet {set} {outcome}"),
        };
        let about = (self.owner.kind, self.owner.object);
        events::tell(self.context, COMPONENT, about, said).await;
    }

    fn status(&self, collisions: u64) -> Value {
        let set = self.owner.object;
        let count = |is_meant: &dyn Fn(&Found) -> bool| {
            let meant = self.pods.values().filter(|pod| is_meant(pod));
            i64::try_from(meant.count()).unwrap_or(i64::MAX)
        };
        let all = count(&|_| true);
        let runs = |pod: &Found| text(pod, "/status/phase") == "Running" && is_ready(pod);
        let ready = count(&runs);
        let of = |revision: &Revision| {
            count(&|pod| !is_deleting(pod) && member::revision(pod) == revision.name())
        };
        let updated = of(&self.newest);
        let mut current = (self.current.name(), of(&self.current));
        let replicas = self.wanted.replicas;
        if self.wanted.is_rolling && [all, ready, updated].iter().all(|it| *it == replicas) {
            // The update is through.
            current = (self.newest.name(), updated);
        }
        let mut status = json!({
            "observedGeneration": set.metadata.generation.unwrap_or_default(),
            "replicas": all,
            "availableReplicas": count(&|pod| self.wanted.is_available(pod)),
            "currentRevision": current.0,
            "updateRevision": self.newest.name(),
            "collisionCount": collisions,
        });
        let counts = [
            ("readyReplicas", ready),
            ("currentReplicas", current.1),
            ("updatedReplicas", updated),
        ];
        for (member, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            status[member] = json!(count);
        }
        status
    }
}
