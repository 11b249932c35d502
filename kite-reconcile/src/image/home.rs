//! The namespace in which an image lies.

use kite_core::{conditions::NewCondition, crd::KiteImageStatus};

use super::{draft::ImageDraft, judge::READY};
use crate::stage::{Flow, Stage};

/// Goes by `is_homeless` and `platform`.
pub(super) struct Home;

impl Stage<ImageDraft<'_>> for Home {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        if !draft.seen.is_homeless {
            return Flow::Next;
        }
        let message = format!(
            "namespace {}, in which golden images are kept, is not there: create it, or name \
             another in KitePlatform spec.imageNamespace before images are made",
            draft.seen.platform.image_namespace()
        );
        draft.fail(NewCondition::new(READY, false, "NamespaceMissing", message))
    }

    fn report(&self, draft: &ImageDraft<'_>, status: &mut KiteImageStatus) {
        let told = draft.image.object.status.as_ref();
        status.unreadable = told.and_then(|told| told.unreadable.clone());
        // Where it was made is not forgotten for being written in a way that is not known.
        let unread = status.unreadable.as_ref();
        let is_placed = !unread.is_some_and(|it| it.keeps("namespace"));
        let home = draft.seen.platform.image_namespace();
        status.namespace = is_placed.then(|| home.to_owned());
    }
}
