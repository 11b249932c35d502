//! A plan is a list of stages, each in the file of what it is about.
//!
//! A stage says what is to be done and what is in the way, what is told of it, and when to
//! look again. What stages hand on to later ones is in a [`Draft`]. One more stage is one
//! more file, and a line in the list of its kind.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::conditions::NewCondition;
use kube::api::ObjectMeta;

use crate::{
    Error,
    plan::{Plan, Step},
};

/// When to look again at what waits for nothing.
pub(crate) const RESYNC: Duration = Duration::from_secs(600);

/// A plan while it is made.
pub(crate) trait Draft {
    /// What time is told by.
    type Seen;
    /// The status of the kind.
    type Status: Default;

    /// Metadata of the object that is planned for.
    fn meta(&self) -> &ObjectMeta;

    /// What is to be done, so far.
    fn steps(&mut self) -> &mut Vec<Step>;

    /// What all comes to: the condition `Ready`, in view of what is told of `others`, and what
    /// else of the status sums up.
    fn sum_up(&self, others: &[NewCondition], status: &mut Self::Status) -> NewCondition;

    /// When to look again where no stage asks for that: everything that concerns the object
    /// is watched, this is for what a watch has missed.
    fn resync(&self) -> Duration {
        RESYNC
    }
}

/// Whether the stages after one plan, too. What they tell is told in any case.
pub(crate) enum Flow {
    /// They do.
    Next,
    /// What they would do has to wait.
    Stop,
    /// There is no plan, for this reason.
    Fail(Error),
}

/// One stage of a plan. Pure. Its first lines say by which fields of what was seen it goes,
/// beside those that the draft has made something of.
pub(crate) trait Stage<D: Draft>: Sync {
    /// Adds what is to be done now, and what is in the way.
    fn plan(&self, _draft: &mut D) -> Flow {
        Flow::Next
    }

    /// What is told of it.
    fn condition(&self, _draft: &D) -> Option<NewCondition> {
        None
    }

    /// Sets its fields of the status.
    fn report(&self, _draft: &D, _status: &mut D::Status) {}

    /// How soon to look again at what no watch tells of.
    fn look_again(&self, _draft: &D) -> Option<Duration> {
        None
    }

    /// The next moment at which time alone calls for something. The reconciler of its kind
    /// has to ask [`deadline`] for it, as those of VMs and users do.
    fn deadline(&self, _seen: &D::Seen) -> Option<Timestamp> {
        None
    }
}

/// The plan that the stages come to, one after the other.
pub(crate) fn compose<D: Draft>(
    stages: &[&dyn Stage<D>],
    mut draft: D,
) -> Result<Plan<D::Status>, Error> {
    for stage in stages {
        match stage.plan(&mut draft) {
            Flow::Next => {}
            Flow::Stop => break,
            Flow::Fail(error) => return Err(error),
        }
    }
    let mut status = D::Status::default();
    let mut conditions = Vec::new();
    for stage in stages {
        conditions.extend(stage.condition(&draft));
        stage.report(&draft, &mut status);
    }
    conditions.insert(0, draft.sum_up(&conditions, &mut status));
    let again = stages.iter().filter_map(|stage| stage.look_again(&draft));
    Ok(Plan {
        requeue_after: again.min().unwrap_or_else(|| draft.resync()),
        steps: std::mem::take(draft.steps()),
        status,
        conditions,
    })
}

/// The next moment at which time alone calls for something of one of the stages.
pub(crate) fn deadline<D: Draft>(stages: &[&dyn Stage<D>], seen: &D::Seen) -> Option<Timestamp> {
    let all = stages.iter().filter_map(|stage| stage.deadline(seen));
    all.min()
}

/// The finalizer of this name, before anything is made.
pub(crate) struct Finalizer(pub(crate) &'static str);

impl Finalizer {
    /// Whether the object of `meta` has it.
    pub(crate) fn is_on(&self, meta: &ObjectMeta) -> bool {
        let mut all = meta.finalizers.iter().flatten();
        all.any(|finalizer| finalizer == self.0)
    }
}

impl<D: Draft> Stage<D> for Finalizer {
    fn plan(&self, draft: &mut D) -> Flow {
        if self.is_on(draft.meta()) {
            return Flow::Next;
        }
        draft.steps().push(Step::AddFinalizer(self.0));
        Flow::Stop
    }
}
