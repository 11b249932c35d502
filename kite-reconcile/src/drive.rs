//! The one loop behind every reconciler: observe, plan, execute, and write the
//! status last.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, FieldManager, Object, ObjectKey},
    conditions::{self, NewCondition},
    kubevirt::{self, VirtualMachine, VirtualMachineInstance},
};
use kube::{Resource as _, ResourceExt as _, runtime::controller::Action};

use crate::{
    Error,
    cache::{
        self, Newest, PATIENCE, live,
        memo::Holds,
        reading::{Account, noted},
    },
    claims,
    context::{Context, Settings},
    objects::AnyObject,
    pace::Urgency,
    plan::{Outcome, Plan, Step},
    standing::{Standing, standing},
};

/// Rounds of planning and executing in one reconcile. The longest way, from
/// nothing to a VM, takes half as many.
const MAX_ROUNDS: usize = 12;

/// A kind of object that is reconciled: what is to be looked at, and what
/// follows from it.
#[async_trait]
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Object;
    /// Its status.
    type Status: Clone + PartialEq + Send + Sync;
    /// What is looked at.
    type Observed: Send + Sync;

    /// The kind's name.
    const KIND: &'static str;

    /// Looks at all that the plan depends on: a fixed, small set of reads.
    async fn observe<C: Cluster>(
        object: &Self::Object,
        cluster: &C,
        settings: &Settings,
    ) -> Result<Self::Observed, Error>;

    /// Takes in what time it is, for kinds whose plan depends on that.
    fn at(_observed: &mut Self::Observed, _now: Timestamp) {}

    /// The next moment at which time alone changes the plan, if there is one;
    /// `again` is when the plan asked to be made again.
    fn holds_until(
        _object: &Self::Object,
        _observed: &Self::Observed,
        again: Timestamp,
    ) -> Option<Timestamp> {
        Some(again)
    }

    /// What to do. Pure.
    fn plan(
        object: &Self::Object,
        observed: &Self::Observed,
        settings: &Settings,
    ) -> Result<Plan<Self::Status>, Error>;

    /// Takes what came of a step into what was observed.
    fn absorb(observed: &mut Self::Observed, outcome: Outcome);

    /// What to give back when the API server refuses a step for good, so that a
    /// failure uses nothing up.
    fn on_refusal(_object: &Self::Object, _observed: &Self::Observed) -> Option<Step> {
        None
    }

    /// The status that the object has.
    fn status(object: &Self::Object) -> Option<&Self::Status>;

    /// How soon `new` has to be written in the place of `old`.
    fn urgency(_old: &Self::Status, _new: &Self::Status) -> Urgency {
        Urgency::Now
    }

    /// The conditions in a status.
    fn conditions(status: &Self::Status) -> &[Condition];

    /// The generation that a status speaks of.
    fn observed_generation(status: &Self::Status) -> Option<i64>;

    /// `status` with these conditions and this generation.
    fn complete(
        status: Self::Status,
        conditions: Vec<Condition>,
        generation: Option<i64>,
    ) -> Self::Status;

    /// The object with nothing but what an apply of its status needs.
    fn carrier(object: &Self::Object, status: Self::Status) -> Self::Object;
}

/// Reconciles `object` until there is nothing left to do but wait.
pub(crate) async fn reconcile<R: Reconciler, C: Cluster>(
    object: &R::Object,
    context: &Context<C>,
) -> Result<Action, Error> {
    let _timer = context.metrics.start(R::KIND);
    let key = ObjectKey::of(object);
    let now = (context.clock)();
    let done = match context.memos.settled_for(R::KIND, object, now) {
        Some(left) => Ok(Action::requeue(left)),
        // Large, and most reconciles do without.
        None => Box::pin(rounds::<R, C>(object, now, context)).await,
    };
    match &done {
        Ok(_) => context.backoff.reset(R::KIND, key),
        Err(error) => context.metrics.error(R::KIND, error.category()),
    }
    done
}

async fn rounds<R: Reconciler, C: Cluster>(
    object: &R::Object,
    now: Timestamp,
    context: &Context<C>,
) -> Result<Action, Error> {
    let mut object = newest(object, context).await?;
    context.memos.forget(R::KIND, &ObjectKey::of(&object));
    let (observed, account) = noted(R::observe(&object, &context.cluster, &context.settings)).await;
    let mut observed = observed?;
    R::at(&mut observed, now);
    // A cluster without caches does not tell what was read.
    let mut account = context.caches.as_ref().map(|_| account);
    let mut wanted = String::new();
    let mut is_live = false;
    // Without caches everything is.
    let mut is_observed_live = context.caches.is_none();
    for _ in 0..MAX_ROUNDS {
        let plan = R::plan(&object, &observed, &context.settings)?;
        let (late, is_guarded) = match plan.steps.first() {
            None => match rest::<R, C>(&object, &plan, &observed, account.take(), context).await {
                Err(error) if !is_live && is_conflict(&error) => (Some(error), false),
                rested => return rested,
            },
            Some(first) => {
                // It speaks of what was read before the steps.
                account = account.map(Account::outdated);
                wanted = first.describe();
                (None, is_guarded(first))
            }
        };
        if !is_live && !is_guarded {
            is_live = true;
            match look_again(&object, &context.cluster).await? {
                Liveness::Same => late.map_or(Ok(()), Err)?,
                Liveness::Changed(changed) => {
                    object = *changed;
                    observed = R::observe(&object, &context.cluster, &context.settings).await?;
                    R::at(&mut observed, (context.clock)());
                    continue;
                }
                Liveness::Gone => return Ok(Action::await_change()),
            }
        }
        if !is_observed_live && plan.steps.iter().any(Step::is_destructive) {
            is_observed_live = true;
            observed = live(R::observe(&object, &context.cluster, &context.settings)).await?;
            R::at(&mut observed, (context.clock)());
            continue;
        }
        for step in &plan.steps {
            match execute::<R, C>(step, &object, context).await {
                Ok(Done::Outcome(outcome)) => R::absorb(&mut observed, *outcome),
                Ok(Done::Changed(changed)) => {
                    object = *changed;
                    is_live = true;
                }
                Ok(Done::Finished) => return Ok(Action::await_change()),
                Err(error) => {
                    tracing::debug!(step = step.describe(), %error, "step failed");
                    if error.refusal().is_some()
                        && let Some(back) = R::on_refusal(&object, &observed)
                        && let Err(unmade) = execute::<R, C>(&back, &object, context).await
                    {
                        // Done by the next reconcile, which is refused again.
                        tracing::debug!(step = back.describe(), error = %unmade, "step failed");
                    }
                    return Err(report_refusal::<R, C>(&object, plan, error, context).await);
                }
            }
        }
    }
    Err(Error::Endless {
        rounds: MAX_ROUNDS,
        step: wanted,
    })
}

/// The newest that is known of the object that a controller was handed: another
/// store, or a reconcile a moment ago, may know more.
async fn newest<K: Object, C: Cluster>(
    object: &K,
    context: &Context<C>,
) -> Result<K, ClusterError> {
    let Some(caches) = &context.caches else {
        return Ok(object.clone());
    };
    Ok(match cache::newest(caches, object) {
        Newest::Given => object.clone(),
        Newest::Newer(newer) => *newer,
        Newest::Ask => {
            let known = context.cluster.find::<K>(&ObjectKey::of(object)).await?;
            known
                .filter(|known| known.uid() == object.uid())
                .unwrap_or_else(|| object.clone())
        }
    })
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Cluster(ClusterError::Conflict { .. }))
}

/// Whether the API server itself refuses the step for an object that has changed
/// or is gone.
fn is_guarded(step: &Step) -> bool {
    matches!(step, Step::AddFinalizer(_))
}

/// Nothing is left to do but to report, and to wait.
async fn rest<R: Reconciler, C: Cluster>(
    object: &R::Object,
    plan: &Plan<R::Status>,
    observed: &R::Observed,
    account: Option<Account>,
    context: &Context<C>,
) -> Result<Action, Error> {
    let key = ObjectKey::of(object);
    let now = (context.clock)();
    let status = completed_status::<R, C>(object, plan, context);
    let mut again = plan.again;
    let reads = match account {
        Some(account) => {
            if account.is_ahead {
                // Should the watch never show what was written, it is looked for.
                again = again.min(PATIENCE.saturating_add(Duration::from_secs(1)));
            }
            account.reads
        }
        None => None,
    };
    let old = R::status(object);
    if old == Some(&status) {
        let planned = SignedDuration::try_from(again).map(|again| now.saturating_add(again));
        if let (Some(reads), Ok(Ok(planned))) = (reads.filter(|_| again >= PATIENCE), planned) {
            let until = R::holds_until(object, observed, planned);
            let holds = Holds { until, again };
            context.memos.settled(R::KIND, object, reads, holds);
        }
        return Ok(Action::requeue(again));
    }
    let urgency = old.map_or(Urgency::Now, |old| R::urgency(old, &status));
    let pause = urgency.pause(&context.settings);
    if let Some(wait) = context.pace.wait(R::KIND, key.clone(), now, pause) {
        return Ok(Action::requeue(again.min(wait)));
    }
    write_status::<R, C>(object, status, context).await?;
    context.pace.written(R::KIND, key, now);
    Ok(Action::requeue(again))
}

/// What the API server itself says of an object that a cache gave.
enum Liveness<K> {
    Same,
    Changed(Box<K>),
    /// Gone, or another of the same name.
    Gone,
}

/// Reads the object before the first change that is made for it. What a
/// controller is handed may be old: for an object that is gone nothing is made
/// any more, since nobody would be left to remove it.
async fn look_again<K: Object, C: Cluster>(
    object: &K,
    cluster: &C,
) -> Result<Liveness<K>, ClusterError> {
    let key = ObjectKey::of(object);
    Ok(match live(cluster.find::<K>(&key)).await? {
        Some(live) if live.uid() != object.uid() => Liveness::Gone,
        Some(live) if live.resource_version() != object.resource_version() => {
            Liveness::Changed(Box::new(live))
        }
        Some(_) => Liveness::Same,
        None => Liveness::Gone,
    })
}

enum Done<K> {
    /// Something else changed.
    Outcome(Box<Outcome>),
    /// The reconciled object changed.
    Changed(Box<K>),
    /// The reconciled object may be gone.
    Finished,
}

impl<K> Done<K> {
    fn outcome(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

async fn execute<R: Reconciler, C: Cluster>(
    step: &Step,
    object: &R::Object,
    context: &Context<C>,
) -> Result<Done<R::Object>, Error> {
    let cluster = &context.cluster;
    tracing::debug!(step = step.describe(), "step");
    context.metrics.write(R::KIND);
    Ok(match step {
        Step::AddFinalizer(name) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push((*name).to_owned());
            match cluster.set_finalizers(object, finalizers).await {
                Ok(changed) => Done::Changed(Box::new(changed)),
                // Gone meanwhile: there is nothing to do for it.
                Err(ClusterError::NotFound { .. }) => Done::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::RemoveFinalizer(name) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.retain(|finalizer| finalizer != name);
            match cluster.set_finalizers(object, finalizers).await {
                Ok(_) | Err(ClusterError::NotFound { .. }) => Done::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::DeleteSelf => {
            let propagation = kube::api::PropagationPolicy::Background;
            match cluster.delete_unchanged(object, propagation).await {
                Ok(()) | Err(ClusterError::NotFound { .. }) => Done::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::Claim(claim) => {
            let state = claims::make(cluster, claim).await?;
            Done::outcome(Outcome::claimed(claim, state))
        }
        Step::Unclaim(claim) => {
            cluster
                .remove(claim, kube::api::PropagationPolicy::Background)
                .await?;
            Done::outcome(Outcome::claimed(claim, claims::ClaimState::Free))
        }
        Step::CreateKeys(template) => {
            let stored = create_keys(template, context).await?;
            Done::outcome(Outcome::Stored(stored))
        }
        Step::Apply(desired) => {
            let manager = context.settings.manager;
            Done::outcome(Outcome::Stored(desired.apply(cluster, manager).await?))
        }
        Step::Grow(claim) => {
            let manager = context.settings.manager;
            let grown = cluster.apply(manager, &**claim).await.map_err(Error::from);
            match grown {
                Ok(grown) => Done::outcome(Outcome::Stored(grown.into())),
                Err(error) => match error.refusal() {
                    Some(refusal) => Done::outcome(Outcome::GrowthRefused(refusal.to_string())),
                    None => return Err(error),
                },
            }
        }
        Step::Expose(desired) => {
            let manager = context.settings.manager;
            // A kind may have been installed a moment ago, and what others made of
            // it be unknown yet.
            if matches!(desired, AnyObject::HttpRoute(_))
                && let Some(there) = live(desired.find(cluster)).await?
                && standing(there.metadata(), desired.metadata()) != Standing::Ours
            {
                return Ok(Done::outcome(Outcome::Stored(there)));
            }
            match desired.apply(cluster, manager).await {
                Ok(stored) => Done::outcome(Outcome::Stored(stored)),
                Err(
                    refusal @ (ClusterError::Invalid { .. }
                    | ClusterError::Forbidden { .. }
                    | ClusterError::NotFound { .. }),
                ) => Done::outcome(Outcome::ExposureRefused(refusal.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        Step::Restart { machine, instance } => {
            restart(cluster, machine, instance).await?;
            Done::outcome(Outcome::RestartAsked)
        }
        Step::Delete(object, propagation) => {
            object.remove(cluster, propagation.clone()).await?;
            Done::outcome(match object.find(cluster).await? {
                Some(left) => Outcome::Stored(left),
                None => Outcome::Gone(object.clone()),
            })
        }
    })
}

/// Restarts a VM, unless another instance runs already. `KubeVirt` takes the name
/// of a VM and no uid, so this looks right before it asks.
async fn restart<C: Cluster>(
    cluster: &C,
    machine: &ObjectKey,
    instance: &str,
) -> Result<(), ClusterError> {
    let running = live(cluster.find::<VirtualMachineInstance>(machine)).await?;
    let is_meant = running.is_some_and(|running| {
        running.uid().as_deref() == Some(instance) && running.metadata.deletion_timestamp.is_none()
    });
    if !is_meant {
        return Ok(());
    }
    let options = serde_json::json!({});
    let asked =
        cluster.invoke::<VirtualMachine>(kubevirt::SUBRESOURCES, machine, "restart", &options);
    match asked.await {
        // It is restarting already, or is not running any more.
        Ok(()) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates the key Secret of a VM, or reads the one that another was first to
/// create: keys are never replaced.
async fn create_keys<C: Cluster>(
    template: &k8s_openapi::api::core::v1::Secret,
    context: &Context<C>,
) -> Result<AnyObject, Error> {
    let vm = template.labels().get(kite_core::labels::VM_NAME);
    let keys = context
        .keys
        .generate(vm.map(String::as_str).unwrap_or_default())?;
    let secret = AnyObject::from(kite_render::keys::fill(template.clone(), &keys));
    match secret.create(&context.cluster).await {
        Ok(made) => Ok(made),
        Err(error @ ClusterError::AlreadyExists { .. }) => {
            // Gone again within the same breath: let it be tried anew.
            Ok(secret.find(&context.cluster).await?.ok_or(error)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// The status to report, with the times of its conditions.
fn completed_status<R: Reconciler, C: Cluster>(
    object: &R::Object,
    plan: &Plan<R::Status>,
    context: &Context<C>,
) -> R::Status {
    let old = R::status(object).map(R::conditions).unwrap_or_default();
    let generation = object.meta().generation.unwrap_or_default();
    let now = (context.clock)();
    let conditions = conditions::merge(old, &plan.conditions, generation, now);
    R::complete(plan.status.clone(), conditions, Some(generation))
}

/// Writes a status on the condition that the object is still as it was read: a
/// report that was made of an older view must not cover a newer one.
async fn write_status<R: Reconciler, C: Cluster>(
    object: &R::Object,
    status: R::Status,
    context: &Context<C>,
) -> Result<(), Error> {
    context.metrics.write(R::KIND);
    let old = R::status(object).map(R::conditions).unwrap_or_default();
    let new = R::conditions(&status).to_vec();
    let carrier = R::carrier(object, status);
    let manager: FieldManager = context.settings.manager;
    match context.cluster.apply_status(manager, &carrier).await {
        Ok(_) => {
            context.events.tell(object, old, &new, &context.clock);
            Ok(())
        }
        // Deleted meanwhile: nobody is left to read it.
        Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Shows a person that the API server refused a step: in the `Ready` condition.
/// Gives `error` back.
async fn report_refusal<R: Reconciler, C: Cluster>(
    object: &R::Object,
    mut plan: Plan<R::Status>,
    error: Error,
    context: &Context<C>,
) -> Error {
    let Some(refusal) = error.refusal() else {
        return error;
    };
    plan.conditions
        .retain(|condition| condition.type_ != "Ready");
    plan.conditions.insert(
        0,
        NewCondition::new("Ready", false, "Refused", refusal.to_string()),
    );
    let status = completed_status::<R, C>(object, &plan, context);
    // The spec was not carried out: the status does not speak of it yet.
    let spoken_of = R::status(object).and_then(R::observed_generation);
    let conditions = R::conditions(&status).to_vec();
    let status = R::complete(status, conditions, spoken_of);
    if R::status(object) == Some(&status) {
        return error;
    }
    // The status is a courtesy; the error is what counts.
    if let Err(unwritten) = write_status::<R, C>(object, status, context).await {
        tracing::debug!(error = %unwritten, "refusal could not be shown in the status");
    }
    error
}

/// Metadata that an apply of a status needs: what names the object, and its
/// version so that a newer one, or another of the same name, gets nothing.
pub(crate) fn carrier_metadata(of: &kube::api::ObjectMeta) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        resource_version: of.resource_version.clone(),
        ..kube::api::ObjectMeta::default()
    }
}
