//! The one loop behind every reconciler: observe, plan, execute, and write the
//! status last.

mod execute;
mod moves;
mod report;

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::Claim,
};
use kube::{ResourceExt as _, core::object::HasStatus, runtime::controller::Action};

use self::{
    execute::{Done, execute},
    report::{Status, completed_status, report_failure, write_status},
};
use kite_runtime::Failure as _;

use crate::{
    Error,
    cache::{
        self, Newest, PATIENCE, live,
        memo::Holds,
        reading::{Account, going, last_look, noted},
    },
    context::{Context, Settings},
    pace::Urgency,
    plan::{Outcome, Plan, Refusal, Step},
};

/// Rounds of planning and executing in one reconcile. The longest way, from
/// nothing to a VM, takes half as many.
const MAX_ROUNDS: usize = 12;

/// A kind of object that is reconciled: what is to be looked at, and what
/// follows from it.
#[async_trait]
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Object + HasStatus<Status = Self::Status>;
    /// Its status.
    type Status: Status;
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

    /// Whether what is told in the object's status, as it was seen, was told before
    /// the others were seen that it is told to; see [`Step::Tell`].
    fn is_current(_observed: &Self::Observed) -> bool {
        true
    }

    /// Looks at the others once more, as the API server itself knows them.
    async fn look_at_others<C: Cluster>(
        _object: &Self::Object,
        _observed: &mut Self::Observed,
        _cluster: &C,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the step starts or stops something that people use: where views may
    /// be old, it would be started and stopped in turns by whoever has the older one.
    fn interrupts(_observed: &Self::Observed, _step: &Step) -> bool {
        false
    }

    /// Whether a step that destroys may be taken by what caches say. Such a step names
    /// by its uid what it destroys, and is right whatever else there is.
    fn may_be_old(_object: &Self::Object, _observed: &Self::Observed, _step: &Step) -> bool {
        false
    }

    /// Takes what came of a step into what was observed.
    fn absorb(observed: &mut Self::Observed, outcome: Outcome);

    /// Takes in what was refused a while ago, and is not to be tried again yet.
    fn recall(_observed: &mut Self::Observed, _refusal: Refusal) {}

    /// What to give back when the API server refuses a step for good, so that a
    /// failure uses nothing up.
    fn on_refusal(_object: &Self::Object, _observed: &Self::Observed) -> Option<Step> {
        None
    }

    /// How soon `new` has to be written in the place of `old`.
    fn urgency(_old: &Self::Status, _new: &Self::Status) -> Urgency {
        Urgency::Now
    }
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
        None => Box::pin(look::<R, C>(object, now, context)).await,
    };
    match &done {
        Ok(_) => context.backoff.reset(R::KIND, key),
        Err(error) => context.metrics.error(R::KIND, error.category()),
    }
    done
}

/// Reconciles an object of which something has changed, and tells a person if
/// that fails in a way that they should know of.
async fn look<R: Reconciler, C: Cluster>(
    object: &R::Object,
    now: Timestamp,
    context: &Context<C>,
) -> Result<Action, Error> {
    let mut object = newest(object, context).await?;
    context.memos.forget(R::KIND, &ObjectKey::of(&object));
    let mut failed = None;
    let done = rounds::<R, C>(&mut object, &mut failed, now, context).await;
    if let Err(error) = &done {
        report_failure::<R, C>(&object, failed, error, context).await;
    }
    done
}

/// Plans and carries out until nothing is left to do. `object` becomes what was
/// last seen of it, `failed` the plan that could not be carried out.
async fn rounds<R: Reconciler, C: Cluster>(
    object: &mut R::Object,
    failed: &mut Option<Plan<R::Status>>,
    now: Timestamp,
    context: &Context<C>,
) -> Result<Action, Error> {
    let (observed, account) = noted(observe::<R, C>(object, context)).await;
    let mut observed = observed?;
    R::at(&mut observed, now);
    // A cluster without caches does not tell what was read.
    let mut account = context.caches.as_ref().map(|_| account);
    let mut wanted = String::new();
    let mut is_live = false;
    // Without caches everything is.
    let mut is_observed_live = context.caches.is_none();
    let (mut is_contested, mut has_waited) = (false, false);
    'rounds: for _ in 0..MAX_ROUNDS {
        let plan = R::plan(object, &observed, &context.settings)?;
        let (late, is_guarded) = match plan.steps.first() {
            None if !has_waited && !R::is_current(&observed) => {
                has_waited = true;
                account = account.map(Account::outdated);
                (observed, is_live) = echoed::<R, C>(object, context).await?;
                continue;
            }
            None => match rest::<R, C>(object, &plan, &observed, account.take(), context).await {
                Err(error) if !is_live && is_conflict(&error) => (Some(error), false),
                rested => return rested,
            },
            Some(Step::Tell) => match tell::<R, C>(object, &plan, context).await {
                Ok(Some(told)) => {
                    account = account.map(Account::outdated);
                    wanted = Step::Tell.describe();
                    *object = told;
                    (observed, is_live) = echoed::<R, C>(object, context).await?;
                    has_waited = true;
                    continue;
                }
                Ok(None) => return Ok(Action::await_change()),
                Err(error) if !is_live && is_conflict(&error) => (Some(error), false),
                Err(error) => return Err(error),
            },
            Some(first) => {
                // It speaks of what was read before the steps.
                account = account.map(Account::outdated);
                wanted = first.describe();
                (None, is_guarded(object, &plan.steps))
            }
        };
        if !is_live && !is_guarded {
            is_live = true;
            match look_again(object, &context.cluster).await? {
                Liveness::Same => late.map_or(Ok(()), Err)?,
                Liveness::Changed(changed) => {
                    // It speaks of what was read for the object as it was.
                    account = account.map(Account::outdated);
                    *object = *changed;
                    observed = observe::<R, C>(object, context).await?;
                    R::at(&mut observed, (context.clock)());
                    continue;
                }
                Liveness::Gone => return Ok(Action::await_change()),
            }
        }
        let is_delicate = |step: &Step| {
            let destroys = step.is_destructive() && !R::may_be_old(object, &observed, step);
            destroys || R::interrupts(&observed, step)
        };
        if !is_observed_live && plan.steps.iter().any(is_delicate) {
            is_observed_live = true;
            observed = last_look(going(object), observe::<R, C>(object, context)).await?;
            R::at(&mut observed, (context.clock)());
            continue;
        }
        if let Some(Step::Restart { .. }) = plan.steps.first() {
            match tell::<R, C>(object, &plan, context).await? {
                Some(told) => *object = told,
                None => return Ok(Action::await_change()),
            }
        }
        for step in &plan.steps {
            match execute::<R, C>(step, object, context).await {
                Ok(Done::Outcome(outcome)) => R::absorb(&mut observed, *outcome),
                Ok(Done::Changed(changed)) => {
                    *object = *changed;
                    is_live = true;
                }
                Ok(Done::Finished) => return Ok(Action::await_change()),
                // Another object has the name than the one that was seen. Where
                // caches are behind in one thing, they may be in others.
                Err(error) if is_conflict(&error) && step.is_apply() && !is_contested => {
                    tracing::debug!(step = step.describe(), %error, "looks again");
                    (is_contested, is_observed_live) = (true, true);
                    observed = live(observe::<R, C>(object, context)).await?;
                    R::at(&mut observed, (context.clock)());
                    continue 'rounds;
                }
                Err(error) => {
                    tracing::debug!(step = step.describe(), %error, "step failed");
                    give_back::<R, C>(&error, object, &observed, context).await;
                    *failed = Some(plan);
                    return Err(error);
                }
            }
        }
    }
    Err(Error::Endless {
        rounds: MAX_ROUNDS,
        step: wanted,
    })
}

/// What there is, in a box: it is large, and handed on from future to future.
async fn observe<R: Reconciler, C: Cluster>(
    object: &R::Object,
    context: &Context<C>,
) -> Result<Box<R::Observed>, Error> {
    let observed = R::observe(object, &context.cluster, &context.settings).await?;
    let mut observed = Box::new(observed);
    let now = (context.clock)();
    if let Some(refusal) = context.refusals.known(R::KIND, &ObjectKey::of(object), now) {
        R::recall(&mut observed, refusal);
    }
    Ok(observed)
}

/// Undoes what was done for a step that was refused.
async fn give_back<R: Reconciler, C: Cluster>(
    error: &Error,
    object: &R::Object,
    observed: &R::Observed,
    context: &Context<C>,
) {
    if error.refusal().is_some()
        && let Some(back) = R::on_refusal(object, observed)
        && let Err(unmade) = execute::<R, C>(&back, object, context).await
    {
        // Done by the next reconcile, which is refused again.
        tracing::debug!(step = back.describe(), error = %unmade, "step failed");
    }
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

/// Whether the steps need no look at the object before them: the API server itself
/// refuses them for one that has changed or is gone, or that does not matter.
fn is_guarded<K: Object>(object: &K, steps: &[Step]) -> bool {
    let is_first = matches!(steps.first(), Some(Step::AddFinalizer(_)));
    is_first || steps.iter().all(|step| stands_by_itself(object, step))
}

/// Whether the step is as right if the object has been written since it was seen, or is
/// gone already. That one goes is final: what it has by its uid may go, and what it holds.
fn stands_by_itself<K: Object>(object: &K, step: &Step) -> bool {
    let meta = object.meta();
    let is_ours = |uid: &str| meta.uid.as_deref() == Some(uid);
    meta.deletion_timestamp.is_some()
        && match step {
            Step::Delete(what, _) => {
                let mut owners = what.metadata().owner_references.iter().flatten();
                owners.any(|owner| owner.controller == Some(true) && is_ours(&owner.uid))
            }
            // Whether an offer was had is told by the object's status.
            Step::Unclaim(claim) | Step::Keep(claim, _) => {
                claim.spec.claim != Claim::Offer && is_ours(&claim.spec.holder.uid)
            }
            // Nothing that is written after the deletionTimestamp makes it needed again:
            // where another version is there by now, it is taken off that one.
            Step::RemoveFinalizer(_) => true,
            _ => false,
        }
}

/// How long to wait for what was told to come back by the watch. The first pause
/// is mostly enough.
const ECHO: [Duration; 8] = {
    let ms = Duration::from_millis;
    [
        ms(2),
        ms(4),
        ms(8),
        ms(16),
        ms(32),
        ms(64),
        ms(128),
        ms(256),
    ]
};

/// Tells the plan's status. Gives the object with it; none if it is gone.
async fn tell<R: Reconciler, C: Cluster>(
    object: &R::Object,
    plan: &Plan<R::Status>,
    context: &Context<C>,
) -> Result<Option<R::Object>, Error> {
    let status = completed_status::<R, C>(object, plan, context);
    let told = write_status::<R, C>(object, status, context).await?;
    let now = (context.clock)();
    context.pace.written(R::KIND, ObjectKey::of(object), now);
    Ok(told)
}

/// Looks at everything as it was after what is told in the object's status. Gives
/// also whether the object is still as it was told, so that it need not be read again
/// before anything is made for it: much may have happened to it meanwhile.
async fn echoed<R: Reconciler, C: Cluster>(
    object: &R::Object,
    context: &Context<C>,
) -> Result<(Box<R::Observed>, bool), Error> {
    let mut is_live = true;
    if let Some(caches) = &context.caches {
        for pause in ECHO {
            if cache::has_shown(caches, object) {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        is_live = cache::has_shown(caches, object) && cache::is_newest(caches, object);
    }
    let mut observed = observe::<R, C>(object, context).await?;
    R::at(&mut observed, (context.clock)());
    if !R::is_current(&observed) {
        R::look_at_others(object, &mut observed, &context.cluster).await?;
    }
    Ok((observed, is_live))
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
    let old = object.status();
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
