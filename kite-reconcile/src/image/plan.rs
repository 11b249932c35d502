//! What to do about an image. Pure.

use kite_core::{
    crd::{KiteImage, KiteImageStatus},
    labels::IMAGE_FINALIZER,
};
use kite_render::Image;

use super::{
    Observed,
    delete::Deletion,
    draft::ImageDraft,
    home::Home,
    import::{Cron, Disk},
    judge::READY,
    source::Source,
};
use crate::{
    Error,
    plan::Plan,
    stage::{Finalizer, Flow, Stage, compose},
    unreadable::unreadable,
};

/// The stages, in the order in which they plan and in which their conditions are told.
const STAGES: &[&dyn for<'a> Stage<ImageDraft<'a>>] = &[
    &Deletion,
    &Readable,
    &Finalizer(IMAGE_FINALIZER),
    &Home,
    &Disk,
    &Cron,
    &Source,
];

/// What to do about the image `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name or uid from which others can be made.
pub fn plan(object: &KiteImage, seen: &Observed) -> Result<Plan<KiteImageStatus>, Error> {
    let draft = ImageDraft {
        image: &Image::of(object)?,
        seen,
        steps: Vec::new(),
        found: None,
    };
    compose(STAGES, draft)
}

/// Leaves one alone that cannot be read.
struct Readable;

impl Stage<ImageDraft<'_>> for Readable {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        match draft.image.object.unreadable() {
            Some(why) => draft.fail(unreadable(READY, "the image", &why)),
            None => Flow::Next,
        }
    }
}
