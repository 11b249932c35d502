//! Deployments: a `ReplicaSet` for each template, and the way from one to the next.

mod revision;
mod scale;
mod set;
mod status;
mod strategy;

use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::revision::asked;
use self::scale::{Sets, Size};
use self::set::{DESIRED, MAXIMUM, REVISION, Set};
use self::status::{Seen, Step, is_complete};
use self::strategy::Strategy;
use super::making::{Made, TRY_AGAIN, make};
use super::owned::{Owner, Owners};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{DEPLOYMENT, Key, Kind, REPLICA_SET};
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[DEPLOYMENT, REPLICA_SET];
const COMPONENT: &str = "deployment-controller";
/// After which time a name that seems taken is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Plays the deployment controller: it makes a `ReplicaSet` for each template, moves
/// the replicas to the newest as the strategy says, numbers the sets and forgets the
/// oldest, and tells how it gets on.
#[derive(Debug)]
pub struct Deployments {
    owners: Mutex<Owners>,
}

impl Default for Deployments {
    fn default() -> Self {
        Self {
            owners: Mutex::new(Owners::of_kind(DEPLOYMENT)),
        }
    }
}

#[async_trait]
impl Actor for Deployments {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![DEPLOYMENT, REPLICA_SET])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        self.owners.lock().saw(change)
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(deployment) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let kind = DEPLOYMENT;
        let owner = Owner::new(&kind, &deployment);
        let claimed = owner.claim(objects, &REPLICA_SET).await?;
        let sets = claimed.into_iter().map(Set::of).collect();
        let sets = revision::sets(&deployment, sets);
        let mut rollout = Rollout {
            context,
            objects,
            deployment: &deployment,
            strategy: Strategy::of(&deployment.data["spec"]),
            sets,
        };
        let done = rollout.advance().await?;
        rollout.tell(key, &done).await
    }
}

/// A Deployment on its way.
struct Rollout<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    deployment: &'a DynamicObject,
    strategy: Strategy,
    sets: Sets,
}

/// What a reconcile has done.
struct Done {
    step: Step,
    is_rolling: bool,
    has_collided: bool,
    /// Nobody knows yet what is there.
    is_unclear: bool,
}

impl Done {
    fn rolling(is_rolling: bool) -> Self {
        Self {
            step: Step::None,
            is_rolling,
            has_collided: false,
            is_unclear: false,
        }
    }
}

impl Rollout<'_> {
    /// Goes one step on.
    async fn advance(&mut self) -> Result<Done, ActorError> {
        let spec = &self.deployment.data["spec"];
        if is_deleting(self.deployment) {
            return Ok(Done::rolling(false));
        }
        self.number().await?;
        if spec["paused"] == true || self.sets.is_scaled(self.strategy) {
            let sizes = self.sets.scale(self.strategy);
            self.resize(sizes).await?;
            self.forget().await?;
            return Ok(Done::rolling(false));
        }
        let mut done = Done::rolling(true);
        if self.strategy.is_recreating {
            let sizes = self.sets.empty_old();
            let is_emptying = !sizes.is_empty();
            self.resize(sizes).await?;
            if is_emptying || !self.old_pods_are_gone() {
                return Ok(done);
            }
        }
        if self.sets.newest.is_none() {
            self.create(&mut done).await?;
        } else {
            let sizes = self.sets.roll(self.strategy);
            self.resize(sizes).await?;
        }
        if is_complete(
            self.deployment,
            self.strategy,
            &self.deployment.data["status"],
        ) {
            self.forget().await?;
        }
        Ok(done)
    }

    /// Gives the newest set its number and what it lacks of the Deployment.
    async fn number(&mut self) -> Result<(), ActorError> {
        let Some(newest) = &self.sets.newest else {
            return Ok(());
        };
        let revision = revision::next(&self.sets);
        let annotations = revision::annotations(self.deployment, newest, revision);
        let minimum = &self.deployment.data["spec"]["minReadySeconds"];
        let minimum = minimum.as_i64().unwrap_or_default();
        let has = &newest.object.data["spec"]["minReadySeconds"];
        let mut patch = json!({});
        if !annotations.is_empty() {
            patch["metadata"] = json!({"annotations": annotations});
        }
        if has.as_i64().unwrap_or_default() != minimum {
            patch["spec"] = json!({"minReadySeconds": minimum});
        }
        if patch == json!({}) {
            return Ok(());
        }
        let key = Key::of(&REPLICA_SET, &newest.object);
        let changed = self
            .objects
            .merge(&key, Some(&newest.object), patch)
            .await?;
        self.sets.newest = Some(Set::of(changed));
        Ok(())
    }

    /// Whether nothing runs any more that is of another template.
    fn old_pods_are_gone(&self) -> bool {
        self.sets
            .old
            .iter()
            .all(|set| set.is_empty() && set.count("terminatingReplicas") == 0)
    }

    async fn resize(&mut self, sizes: Vec<Size>) -> Result<(), ActorError> {
        for size in sizes {
            let all = self.sets.old.iter_mut().chain(&mut self.sets.newest);
            let Some(set) = all.into_iter().find(|set| set.name() == size.set) else {
                continue;
            };
            let mut patch = json!({});
            let annotations = asked(self.strategy);
            let knows = |name| set.annotation(name) == annotations.get(name).map(String::as_str);
            if !(knows(DESIRED) && knows(MAXIMUM)) {
                patch["metadata"] = json!({"annotations": annotations});
            }
            let before = set.replicas;
            if before != size.replicas {
                patch["spec"] = json!({"replicas": size.replicas});
            }
            if patch == json!({}) {
                continue;
            }
            let key = Key::of(&REPLICA_SET, &set.object);
            *set = Set::of(self.objects.merge(&key, Some(&set.object), patch).await?);
            self.say_scaled(&size, before).await;
        }
        Ok(())
    }

    async fn say_scaled(&self, size: &Size, before: i64) {
        let Size { set, replicas } = size;
        let way = if *replicas > before { "up" } else { "down" };
        if *replicas == before {
            return;
        }
        let message = format!("Scaled {way} replica set {set} from {before} to {replicas}");
        let said = events::normal("ScalingReplicaSet", message);
        let about = (&DEPLOYMENT, self.deployment);
        events::tell(self.context, COMPONENT, about, said).await;
    }

    /// Makes the set of the newest template.
    async fn create(&mut self, done: &mut Done) -> Result<(), ActorError> {
        let replicas = self.sets.grown(self.strategy, 0);
        let number = revision::next(&self.sets);
        let body = revision::new_set(self.deployment, self.strategy, replicas, number);
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let namespace = self.deployment.metadata.namespace.as_deref();
        match make(self.objects, self.deployment, &REPLICA_SET, body).await? {
            Made::Object(made) => {
                self.sets.newest = Some(Set::of(made));
                let size = Size {
                    set: name.clone(),
                    replicas,
                };
                self.say_scaled(&size, 0).await;
                done.step = Step::Created(name);
            }
            Made::Exists => {
                let live = self.objects.live();
                let there = live.find(&REPLICA_SET, namespace, &name).await?;
                let template = &self.deployment.data["spec"]["template"];
                let is_ours = there.is_none_or(|there| {
                    let owner = super::owned::controller(&there).map(|it| it.uid.to_owned());
                    owner == self.deployment.metadata.uid && Set::of(there).is_of(template)
                });
                // The watch is late, or somebody else has the name.
                done.is_unclear = is_ours;
                done.has_collided = !is_ours;
            }
            Made::Nothing => {}
            Made::Refused(why) => done.step = Step::NotCreated(name, why),
        }
        Ok(())
    }

    /// Deletes old sets beyond those that are to be remembered.
    async fn forget(&self) -> Result<(), ActorError> {
        for set in revision::forgotten(self.deployment, &self.sets) {
            let key = Key::of(&REPLICA_SET, &set.object);
            let options = Deletion::default();
            self.objects.delete(&key, &set.object, options).await?;
        }
        Ok(())
    }

    /// Writes how it stands.
    async fn tell(&self, key: &Key, done: &Done) -> Result<Next, ActorError> {
        if done.is_unclear {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let now = self.context.clock.now();
        let seen = Seen {
            deployment: self.deployment,
            sets: &self.sets,
            strategy: self.strategy,
            step: &done.step,
            is_rolling: done.is_rolling,
            has_collided: done.has_collided,
        };
        let status = status::status(seen, now);
        let mut deployment = self.deployment.clone();
        // The number is written with the status, so that it is no change of the spec.
        let number = self
            .sets
            .newest
            .as_ref()
            .and_then(|it| it.annotation(REVISION));
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        let is_numbered =
            number.is_none_or(|it| annotations.get(REVISION).is_some_and(|has| has == it));
        if let Some(number) = number {
            annotations.insert(REVISION.to_owned(), number.to_owned());
        }
        if !is_numbered {
            // Only a status that is another is written.
            deployment.data["status"] = Value::Null;
        }
        let next = status::next_look(self.deployment, self.strategy, &status, now);
        ignore_missing(self.objects.set_status(key, &deployment, status).await)?;
        Ok(match (&done.step, next) {
            (Step::NotCreated(..), _) => Next::Later(TRY_AGAIN),
            _ if done.has_collided => Next::After(LOOK_AGAIN),
            (_, Some(rest)) => Next::Later(rest),
            (_, None) => Next::Done,
        })
    }
}
