//! How an image goes.

use kite_core::{conditions::NewCondition, crd::ImagePhase, labels::IMAGE_FINALIZER};
use kite_render::Image;
use kube::api::PropagationPolicy;

use super::{Observed, draft::ImageDraft, judge::READY, source::is_kept_by_cron};
use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    stage::{Finalizer, Flow, Stage},
    standing::{Standing, standing},
};

/// How many disks are named to a person at most.
const NAMED: usize = 5;

/// Of one that is to go nothing else is planned. Goes by `cloning` and what is made for it.
pub(super) struct Deletion;

impl Stage<ImageDraft<'_>> for Deletion {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        if draft.image.object.metadata.deletion_timestamp.is_none() {
            return Flow::Next;
        }
        let (steps, message) = next(draft.image, draft.seen);
        draft.steps.extend(steps);
        let condition = NewCondition::new(READY, false, "Deleting", message);
        draft.found = Some((ImagePhase::Deleting, condition));
        Flow::Stop
    }
}

/// The name goes before what stands behind it, so that no clone begins of what
/// is going; and clones that have begun may end.
fn next(image: &Image<'_>, seen: &Observed) -> (Vec<Step>, String) {
    if !Finalizer(IMAGE_FINALIZER).is_on(&image.object.metadata) {
        return (
            Vec::new(),
            "waiting for the finalizers of others to go".to_owned(),
        );
    }
    if !seen.cloning.is_empty() {
        return (Vec::new(), waiting_for_clones(seen));
    }
    let like = image.metadata(seen.platform.image_namespace());
    let left: [Option<AnyObject>; 3] = [
        // CDI removes what a cron keeps, after it.
        seen.cron.clone().map(AnyObject::from),
        seen.source.clone().map(AnyObject::from),
        seen.disk.clone().map(AnyObject::from),
    ];
    for object in left.into_iter().flatten() {
        let message = format!("waiting for {} {} to go", object.kind(), object.key());
        let standing = match &seen.source {
            // What is left of a cron that is gone.
            Some(source) if matches!(object, AnyObject::DataSource(_)) => {
                if is_kept_by_cron(image, seen, source)
                    && source.metadata.deletion_timestamp.is_none()
                {
                    Standing::Ours
                } else {
                    standing(object.metadata(), &like)
                }
            }
            _ => standing(object.metadata(), &like),
        };
        match standing {
            Standing::Ours => {
                let step = Step::Change(Change::Delete(object, PropagationPolicy::Background));
                return (vec![step], message);
            }
            Standing::Leaving => return (Vec::new(), message),
            Standing::Foreign => {}
        }
    }
    (vec![Step::RemoveFinalizer(IMAGE_FINALIZER)], String::new())
}

fn waiting_for_clones(seen: &Observed) -> String {
    let mut names: Vec<String> = seen.cloning.iter().map(ToString::to_string).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "waiting for the disks that are being cloned from it, {}{more}: disks that are cloned \
         stay as they are; one that cannot be cloned goes with its VM",
        names.join(", ")
    )
}
