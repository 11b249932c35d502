//! What an image is imported by: a disk once, or a cron again and again.

use kite_core::{conditions::NewCondition, crd::KiteImageStatus};
use kite_render::image;

use super::{draft::ImageDraft, judge};
use crate::stage::{Flow, Stage};

/// Goes by `disk` and `import`.
pub(super) struct Disk;

impl Stage<ImageDraft<'_>> for Disk {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        let (image, seen) = (draft.image, draft.seen);
        let Some(mut desired) = image::data_volume(image, &seen.platform) else {
            return Flow::Next;
        };
        if let Some(stored) = &seen.disk {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        draft.want(&desired, seen.disk.as_ref())
    }

    fn report(&self, draft: &ImageDraft<'_>, status: &mut KiteImageStatus) {
        let disk = draft.seen.disk.as_ref().or(draft.seen.import.as_ref());
        let of_disk = disk.and_then(|disk| disk.status.as_ref());
        status.progress = of_disk.and_then(|status| status.progress.clone());
    }
}

/// Goes by `cron`.
pub(super) struct Cron;

impl Stage<ImageDraft<'_>> for Cron {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        let (image, seen) = (draft.image, draft.seen);
        let Some(mut desired) = image::import_cron(image, &seen.platform) else {
            return Flow::Next;
        };
        if let Some(stored) = &seen.cron {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        draft.want(&desired, seen.cron.as_ref())
    }

    fn condition(&self, draft: &ImageDraft<'_>) -> Option<NewCondition> {
        judge::up_to_date(draft.image, draft.seen)
    }
}
