//! The name under which VM disks are cloned from an image.

use kite_core::{
    cdi::{DATA_IMPORT_CRON_LABEL, DataImportCron, DataSource},
    conditions::NewCondition,
};
use kite_render::{Image, image};
use kube::ResourceExt as _;

use super::{Observed, draft::ImageDraft, judge::READY};
use crate::{
    stage::{Flow, Stage},
    standing::{Standing, standing},
};

/// Goes by `source` and, where CDI keeps that, by `cron`.
pub(super) struct Source;

impl Stage<ImageDraft<'_>> for Source {
    fn plan(&self, draft: &mut ImageDraft<'_>) -> Flow {
        let (image, seen) = (draft.image, draft.seen);
        if let Some(desired) = image::data_source(image, &seen.platform) {
            return draft.want(&desired, seen.source.as_ref());
        }
        let is_taken = |source: &DataSource| !is_kept_by_cron(image, seen, source);
        if !seen.source.as_ref().is_some_and(is_taken) {
            return Flow::Next;
        }
        let message = format!(
            "DataSource {} is there and belongs to something else: it must go, or the \
             image needs another name",
            image.name
        );
        draft.fail(NewCondition::new(READY, false, "NameTaken", message))
    }
}

/// Whether CDI keeps the `DataSource` for the image's cron, and not for one of somebody else's
/// that has the name.
pub(super) fn is_kept_by_cron(image: &Image<'_>, seen: &Observed, source: &DataSource) -> bool {
    let like = image.metadata(seen.platform.image_namespace());
    let is_foreign = |cron: &DataImportCron| standing(&cron.metadata, &like) == Standing::Foreign;
    let cron = source.labels().get(DATA_IMPORT_CRON_LABEL);
    let spec = &image.object.spec;
    // Of one that cannot be read nobody knows how it was made.
    (spec.refresh_schedule.is_some() || spec.unreadable.is_some())
        && cron.is_some_and(|cron| cron == image.name)
        && !seen.cron.as_ref().is_some_and(is_foreign)
}
