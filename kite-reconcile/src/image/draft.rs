//! A plan of an image while it is made.

use std::time::Duration;

use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{ImagePhase, KiteImageStatus},
};
use kite_render::Image;
use kube::api::ObjectMeta;

use super::{
    Observed,
    judge::{READY, judge},
    size::size,
};
use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    stage::{Draft, Flow, RESYNC},
    standing::{Needed, guarded, needed},
};

/// When to look again at what is on its way out.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// When to look again at what waits for somebody.
const SOON: Duration = Duration::from_secs(30);

/// What the stages of an image's plan share.
pub(super) struct ImageDraft<'a> {
    pub image: &'a Image<'a>,
    pub seen: &'a Observed,
    /// What is to be done, so far. Each stage adds to it.
    pub steps: Vec<Step>,
    /// What the image has come to by the stage that found it in no state to be judged: phase
    /// and summary.
    pub found: Option<(ImagePhase, NewCondition)>,
}

impl ImageDraft<'_> {
    /// Leaves the image as it is, for this reason.
    pub(super) fn fail(&mut self, why: NewCondition) -> Flow {
        self.steps.clear();
        self.found = Some((ImagePhase::Failed, why));
        Flow::Stop
    }

    /// Plans for `stored` to become like `desired`.
    pub(super) fn want<K: Object>(&mut self, desired: &K, stored: Option<&K>) -> Flow
    where
        AnyObject: From<K>,
    {
        let (reason, message) = match needed(desired, stored, "image") {
            Needed::Nothing => return Flow::Next,
            Needed::Apply => {
                let step = Step::Change(Change::Apply(guarded(desired, stored).into()));
                self.steps.push(step);
                return Flow::Next;
            }
            Needed::Wait(message) => ("WaitingForDeletion", message),
            Needed::Blocked(message) => ("NameTaken", message),
        };
        self.fail(NewCondition::new(READY, false, reason, message))
    }

    /// Its phase and its summary.
    fn verdict(&self) -> (ImagePhase, NewCondition) {
        let found = self.found.clone();
        found.unwrap_or_else(|| judge(self.image, self.seen))
    }
}

impl Draft for ImageDraft<'_> {
    type Seen = Observed;
    type Status = KiteImageStatus;

    fn meta(&self) -> &ObjectMeta {
        &self.image.object.metadata
    }

    fn steps(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }

    fn sum_up(&self, _: &[NewCondition], status: &mut KiteImageStatus) -> NewCondition {
        let (phase, ready) = self.verdict();
        status.phase = Some(phase);
        status.size = (phase == ImagePhase::Ready)
            .then(|| size(self.seen))
            .flatten();
        ready
    }

    fn resync(&self) -> Duration {
        match self.verdict().0 {
            ImagePhase::Deleting => LOOK_AGAIN,
            // Nothing tells of a namespace that comes.
            ImagePhase::Failed => SOON,
            _ => RESYNC,
        }
    }
}
