//! The loop behind every reconcile by plans: observe, plan, execute, and write the
//! status last.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use kite_cluster::{Cluster, ClusterError, Object, ObjectKey};
use kube::{core::object::HasStatus as _, runtime::controller::Action};

use super::{
    Change, ChangeOf, ErrorOf, Executor as _, Plan, PlanError as _, Planner, Step, Urgency,
    fresh::{Liveness, look_again, newest},
    report::{completed_status, report_failure, write_status},
    step::{Ended, execute, give_back},
};
use crate::{
    Failure, Listener, Reconciler, Shared,
    cache::{
        self, PATIENCE,
        memo::Holds,
        reading::{Account, going, last_look, noted},
        uncached,
    },
    context::kind_of,
    queue::Progress,
};

/// Rounds of planning and executing in one reconcile. The longest way, from
/// nothing to a VM, takes half as many.
const MAX_ROUNDS: usize = 12;

/// Reconciles `object` until there is nothing left to do but wait, and counts it.
///
/// # Errors
///
/// What observing, planning or a change came to; that a plan never came to its end
/// ([`PlanError::endless`](super::PlanError::endless)).
pub async fn reconcile<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    shared: &Shared<C>,
) -> Result<Action, ErrorOf<R>> {
    let done = async {
        if let Some(rest) = at_rest(object, shared) {
            return Ok(rest);
        }
        let newest = newest(object, shared).await?;
        Box::pin(look(planner, newest, shared)).await
    };
    shared.counted(object, done).await
}

/// A planner of a kind is a reconciler of it.
#[async_trait]
impl<R: Planner + 'static> Reconciler for R {
    type Object = R::Object;
    type Error = ErrorOf<R>;

    fn watches<L: Listener<R::Object>>(listener: L) -> L {
        <R as Planner>::watches(listener)
    }

    fn progress(object: &R::Object) -> Progress {
        <R as Planner>::progress(object)
    }

    async fn reconcile<C: Cluster>(
        &self,
        newest: Arc<R::Object>,
        shared: &Shared<C>,
    ) -> Result<Action, ErrorOf<R>> {
        match at_rest(&*newest, shared) {
            Some(rest) => Ok(rest),
            None => Box::pin(look(self, R::Object::clone(&newest), shared)).await,
        }
    }
}

/// What a plan of before came to, if all that it was made of is as it was.
fn at_rest<K: Object, C: Cluster>(object: &K, shared: &Shared<C>) -> Option<Action> {
    let left = shared
        .memos
        .settled_for(kind_of::<K>(), object, (shared.clock)());
    left.map(Action::requeue)
}

/// Reconciles the newest of an object of which something has changed, and tells a person if
/// that fails in a way that they should know of. Large, and most reconciles do without.
async fn look<R: Planner, C: Cluster>(
    planner: &R,
    mut object: R::Object,
    shared: &Shared<C>,
) -> Result<Action, ErrorOf<R>> {
    shared
        .memos
        .forget(kind_of::<R::Object>(), &ObjectKey::of(&object));
    let mut failed = None;
    let done = rounds(planner, &mut object, &mut failed, shared).await;
    if let Err(error) = &done {
        report_failure(planner, &object, failed, error, shared).await;
    }
    done
}

/// Plans and carries out until nothing is left to do. `object` becomes what was
/// last seen of it, `failed` the plan that could not be carried out.
async fn rounds<R: Planner, C: Cluster>(
    planner: &R,
    object: &mut R::Object,
    failed: &mut Option<Plan<R::Status, ChangeOf<R>>>,
    shared: &Shared<C>,
) -> Result<Action, ErrorOf<R>> {
    let (observed, account) = noted(observe(planner, object, shared)).await;
    let mut observed = observed?;
    // A cluster without caches does not tell what was read.
    let mut account = shared.caches.as_ref().map(|_| account);
    let mut wanted = String::new();
    let mut is_live = false;
    // Without caches everything is.
    let mut is_observed_live = shared.caches.is_none();
    let (mut is_contested, mut has_waited) = (false, false);
    'rounds: for _ in 0..MAX_ROUNDS {
        let plan = planner.plan(object, &observed)?;
        let (late, is_guarded) = match plan.steps.first() {
            None if !has_waited && !planner.is_current(&observed) => {
                has_waited = true;
                account = account.map(Account::outdated);
                (observed, is_live) = echoed(planner, object, shared).await?;
                continue;
            }
            None => match rest(planner, object, &plan, &observed, account.take(), shared).await {
                Err(error) if !is_live && is_conflict(&error) => (Some(error), false),
                rested => return rested,
            },
            Some(Step::WriteStatus) => match tell(planner, object, &plan, shared).await {
                Ok(Some(told)) => {
                    account = account.map(Account::outdated);
                    wanted = Step::<ChangeOf<R>>::WriteStatus.describe();
                    *object = told;
                    (observed, is_live) = echoed(planner, object, shared).await?;
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
            match look_again(object, &shared.cluster).await? {
                Liveness::Same => late.map_or(Ok(()), Err)?,
                Liveness::Changed(changed) => {
                    // It speaks of what was read for the object as it was.
                    account = account.map(Account::outdated);
                    *object = *changed;
                    observed = observe(planner, object, shared).await?;
                    is_observed_live = shared.caches.is_none();
                    continue;
                }
                Liveness::Gone => return Ok(Action::await_change()),
            }
        }
        let is_delicate = |step: &Step<ChangeOf<R>>| {
            let destroys = step.is_destructive() && !planner.may_be_old(object, &observed, step);
            destroys || planner.interrupts(&observed, step)
        };
        if !is_observed_live && plan.steps.iter().any(is_delicate) {
            is_observed_live = true;
            observed = last_look(going(object), observe(planner, object, shared)).await?;
            continue;
        }
        if is_told_first(&plan.steps) {
            match tell(planner, object, &plan, shared).await? {
                Some(told) => *object = told,
                None => return Ok(Action::await_change()),
            }
        }
        for step in &plan.steps {
            match execute(planner, step, object, shared).await {
                Ok(Ended::Changed(outcome)) => {
                    planner.absorb(object, &mut observed, outcome);
                }
                Ok(Ended::Written(written)) => {
                    *object = *written;
                    is_live = true;
                }
                Ok(Ended::Finished) => return Ok(Action::await_change()),
                // Another object has the name than the one that was seen. Where
                // caches are behind in one thing, they may be in others.
                Err(error) if is_conflict(&error) && may_be_contested(step) && !is_contested => {
                    tracing::debug!(step = step.describe(), %error, "looks again");
                    (is_contested, is_observed_live) = (true, true);
                    observed = uncached(observe(planner, object, shared)).await?;
                    continue 'rounds;
                }
                Err(error) => {
                    tracing::debug!(step = step.describe(), %error, "step failed");
                    if let Some(why) = error.refusal()
                        && let Some(back) = planner.on_refusal(object, &observed, why)
                    {
                        give_back(planner, back, object, shared).await;
                    }
                    *failed = Some(plan);
                    return Err(error);
                }
            }
        }
    }
    Err(ErrorOf::<R>::endless(MAX_ROUNDS, wanted))
}

/// What there is at this time, in a box: it is large, and handed on from future to future.
async fn observe<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    shared: &Shared<C>,
) -> Result<Box<R::Observed>, ErrorOf<R>> {
    let observed = planner.observe(object, &shared.cluster).await?;
    let mut observed = Box::new(observed);
    let (kind, key, now) = (
        kind_of::<R::Object>(),
        ObjectKey::of(object),
        (shared.clock)(),
    );
    for refusal in shared.refusals.known(kind, &key, now) {
        planner.recall(&mut observed, refusal);
    }
    planner.at(&mut observed, now);
    Ok(observed)
}

fn is_conflict(error: &impl Failure) -> bool {
    matches!(error.cluster(), Some(ClusterError::Conflict { .. }))
}

/// Whether the status of the plan is written before its step.
fn is_told_first<C: Change>(steps: &[Step<C>]) -> bool {
    matches!(steps.first(), Some(Step::Change(change)) if change.is_told_first())
}

fn may_be_contested<C: Change>(step: &Step<C>) -> bool {
    matches!(step, Step::Change(change) if change.may_be_contested())
}

/// Whether the steps need no look at the object before them: the API server itself
/// refuses them for one that has changed or is gone, or that does not matter.
fn is_guarded<K: Object, C: Change>(object: &K, steps: &[Step<C>]) -> bool {
    let is_first = matches!(steps.first(), Some(Step::AddFinalizer(_)));
    is_first || steps.iter().all(|step| stands_by_itself(object, step))
}

/// Whether the step is as right if the object has been written since it was seen, or is
/// gone already. That one goes is final: what it has by its uid may go, and what it holds.
fn stands_by_itself<K: Object, C: Change>(object: &K, step: &Step<C>) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && match step {
            Step::Change(change) => {
                let uid = meta.uid.as_deref();
                uid.is_some_and(|uid| change.stands_by_itself(uid))
            }
            // Nothing that is written after the deletionTimestamp makes it needed again:
            // where another version is there by now, it is taken off that one.
            Step::RemoveFinalizer(_) => true,
            Step::AddFinalizer(_) | Step::WriteStatus | Step::DeleteSelf => false,
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
async fn tell<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    plan: &Plan<R::Status, ChangeOf<R>>,
    shared: &Shared<C>,
) -> Result<Option<R::Object>, ErrorOf<R>> {
    let status = completed_status::<R, C>(object, plan, shared);
    let told = write_status(planner, object, status, shared).await?;
    let now = (shared.clock)();
    shared
        .pace
        .written(kind_of::<R::Object>(), ObjectKey::of(object), now);
    Ok(told)
}

/// Looks at everything as it was after what is told in the object's status. Gives
/// also whether the object is still as it was told, so that it need not be read again
/// before anything is made for it: much may have happened to it meanwhile.
async fn echoed<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    shared: &Shared<C>,
) -> Result<(Box<R::Observed>, bool), ErrorOf<R>> {
    let mut is_live = true;
    if let Some(caches) = &shared.caches {
        for pause in ECHO {
            if cache::has_shown(caches, object) {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        is_live = cache::has_shown(caches, object) && cache::is_newest(caches, object);
    }
    let mut observed = observe(planner, object, shared).await?;
    if !planner.is_current(&observed) {
        planner
            .look_at_others(object, &mut observed, &shared.cluster)
            .await?;
    }
    Ok((observed, is_live))
}

/// Nothing is left to do but to report, and to wait.
async fn rest<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    plan: &Plan<R::Status, ChangeOf<R>>,
    observed: &R::Observed,
    account: Option<Account>,
    shared: &Shared<C>,
) -> Result<Action, ErrorOf<R>> {
    let key = ObjectKey::of(object);
    let now = (shared.clock)();
    let status = completed_status::<R, C>(object, plan, shared);
    let mut again = plan.requeue_after;
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
        let then = SignedDuration::try_from(again).map(|again| now.saturating_add(again));
        if let (Some(reads), Ok(Ok(then))) = (reads.filter(|_| again >= PATIENCE), then) {
            let until = planner.holds_until(object, observed, then);
            let holds = Holds { until, again };
            shared
                .memos
                .settled(kind_of::<R::Object>(), object, reads, holds);
        }
        return Ok(Action::requeue(again));
    }
    let urgency = old.map_or(Urgency::Now, |old| planner.urgency(old, &status));
    let pause = urgency.pause(planner.executor().progress_every());
    if let Some(wait) = shared
        .pace
        .wait(kind_of::<R::Object>(), key.clone(), now, pause)
    {
        return Ok(Action::requeue(again.min(wait)));
    }
    write_status(planner, object, status, shared).await?;
    shared.pace.written(kind_of::<R::Object>(), key, now);
    Ok(Action::requeue(again))
}
