//! What the state of an import comes to.

use kite_core::{
    cdi::{DataVolume, DataVolumeStatus},
    conditions::{self, ConditionStatus, NewCondition},
    crd::{ImagePhase, KiteImage},
    kubevirt::StatusCondition,
};
use kite_render::Image;

use super::Observed;
use crate::reports;

/// Summary: disks can be cloned from the image.
pub(super) const READY: &str = "Ready";
/// The newest image is imported.
const UP_TO_DATE: &str = "UpToDate";

/// Reason of an import of which CDI says what is in its way.
const IMPORT_BLOCKED: &str = "ImportBlocked";

/// How often an import is tried before a person is asked to look; CDI goes on.
const TRIES: i32 = 3;

/// Why nothing comes of an image until somebody does something; none while it is on its
/// way, or ready.
pub(crate) fn stands_still(image: &KiteImage) -> Option<String> {
    let status = image.status.as_ref()?;
    let told = conditions::find(&status.conditions, READY)?;
    let is_stuck = status.phase == Some(ImagePhase::Failed) || told.reason == IMPORT_BLOCKED;
    is_stuck.then(|| format!("{}: {}", told.reason, told.message))
}

/// The phase and the summary of an image that is not going.
pub(super) fn judge(image: &Image<'_>, seen: &Observed) -> (ImagePhase, NewCondition) {
    let spec = &image.object.spec;
    if spec.refresh_schedule.is_some() {
        judge_cron(image, seen)
    } else if spec.source.http.is_some() || spec.source.registry.is_some() {
        judge_disk(image, seen.disk.as_ref())
    } else {
        judge_source(seen)
    }
}

fn ready(reason: &str) -> (ImagePhase, NewCondition) {
    let message = "disks can be cloned from the image";
    (
        ImagePhase::Ready,
        NewCondition::new(READY, true, reason, message),
    )
}

fn not_ready(
    phase: ImagePhase,
    reason: &str,
    message: impl Into<String>,
) -> (ImagePhase, NewCondition) {
    (phase, NewCondition::new(READY, false, reason, message))
}

/// An image that is imported by a schedule is ready from its first import on.
fn judge_cron(image: &Image<'_>, seen: &Observed) -> (ImagePhase, NewCondition) {
    if source_ready(seen).is_some_and(|ready| ready.status == "True") {
        return ready("Available");
    }
    let Some(import) = &seen.import else {
        let why = cron_condition(seen).and_then(said).map(str::to_owned);
        let why = beside_cron(seen).or(why);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let message = format!("CDI has not begun the first import{why}");
        return not_ready(ImagePhase::Pending, "Pending", message);
    };
    let (phase, condition) = judge_disk(image, Some(import));
    if phase == ImagePhase::Ready {
        let message = "the image is imported and its DataSource is being set";
        return not_ready(ImagePhase::Importing, "Importing", message);
    }
    (phase, condition)
}

/// Whether the newest image is imported, where a schedule looks for one.
pub(super) fn up_to_date(image: &Image<'_>, seen: &Observed) -> Option<NewCondition> {
    image.object.spec.refresh_schedule.as_ref()?;
    let Some(condition) = cron_condition(seen) else {
        let message = "CDI has not looked for an image yet";
        let status = ConditionStatus::Unknown;
        return Some(NewCondition::new(UP_TO_DATE, status, "Pending", message));
    };
    let reason = condition.reason.as_deref().filter(|it| !it.is_empty());
    let reason = reason.unwrap_or("Unknown");
    let mut message = said(condition).unwrap_or_default().to_owned();
    if reason == "ImportFailed" {
        message = format!(
            "the newest image cannot be imported ({message}); the one before stays in use: check \
             {}",
            field(image)
        );
    }
    if let Some(words) = beside_cron(seen) {
        message = format!("{message}; CDI says of the schedule: {words}");
    }
    let holds = condition.status == "True";
    Some(NewCondition::new(UP_TO_DATE, holds, reason, message))
}

/// What CDI says of the schedule beside how new the image is.
fn beside_cron(seen: &Observed) -> Option<String> {
    let status = seen.cron.as_ref()?.status.as_ref()?;
    reports::beside(&status.conditions, &[UP_TO_DATE, "Progressing"])
}

fn cron_condition(seen: &Observed) -> Option<&StatusCondition> {
    let status = seen.cron.as_ref()?.status.as_ref()?;
    find(&status.conditions, UP_TO_DATE)
}

fn judge_disk(image: &Image<'_>, disk: Option<&DataVolume>) -> (ImagePhase, NewCondition) {
    let status = disk.and_then(|disk| disk.status.as_ref());
    let blocked = disk.and_then(reports::of_disk);
    let why = blocked.clone().or_else(|| status.and_then(trouble));
    let because = why.map(|why| format!(": {why}")).unwrap_or_default();
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => ready("Imported"),
        Some("Failed") => not_ready(
            ImagePhase::Failed,
            "ImportFailed",
            format!(
                "the import failed{because}; check {}, then delete the image and create it again",
                field(image)
            ),
        ),
        None | Some("Pending" | "") => {
            let reason = blocked.map_or("Pending", |_| IMPORT_BLOCKED);
            let message = format!("the import has not begun{because}");
            not_ready(ImagePhase::Pending, reason, message)
        }
        Some(phase) => match (failing(status), blocked) {
            (Some(times), _) => not_ready(
                if times < TRIES {
                    ImagePhase::Importing
                } else {
                    ImagePhase::Failed
                },
                "ImportFailing",
                format!(
                    "the import has failed {times} times and is tried again{because}; check {}: if \
                     it is wrong, delete the image and create it again",
                    field(image)
                ),
            ),
            (None, Some(words)) => not_ready(
                ImagePhase::Importing,
                IMPORT_BLOCKED,
                format!(
                    "the image cannot be imported as it stands, which CDI tries again and again \
                     ({words}): look at the StorageClass, the quota of the namespace and the \
                     registry of CDI's own images, and check {}",
                    field(image)
                ),
            ),
            (None, None) => not_ready(
                ImagePhase::Importing,
                "Importing",
                format!("the image is being imported ({phase})"),
            ),
        },
    }
}

/// How often a worker that is down now has failed.
fn failing(status: Option<&DataVolumeStatus>) -> Option<i32> {
    let status = status?;
    let times = status.restart_count.filter(|times| *times > 0)?;
    let running = find(&status.conditions, "Running")?;
    let is_down = running.status == "False" && running.reason.as_deref() == Some("Error");
    is_down.then_some(times)
}

/// What CDI says of a disk that it has not filled.
fn trouble(status: &DataVolumeStatus) -> Option<String> {
    ["Running", "Ready", "Bound"]
        .into_iter()
        .filter_map(|type_| find(&status.conditions, type_))
        .filter(|condition| condition.status != "True")
        .find_map(reports::words_of)
}

/// The field of the spec that names where the image comes from.
fn field(image: &Image<'_>) -> &'static str {
    match image.object.spec.source.http {
        Some(_) => "spec.source.http (url, checksum)",
        None => "spec.source.registry.url",
    }
}

/// A claim or a snapshot that is there already: its `DataSource` says whether.
fn judge_source(seen: &Observed) -> (ImagePhase, NewCondition) {
    match source_ready(seen) {
        Some(found) if found.status == "True" => ready("Available"),
        found => {
            let others = seen.source.as_ref().and_then(|it| it.status.as_ref());
            let others = others.and_then(|it| reports::beside(&it.conditions, &[READY]));
            let message = found.and_then(said).or(others.as_deref());
            let message = message.unwrap_or("CDI has not looked at it yet");
            not_ready(
                ImagePhase::Pending,
                "SourceNotReady",
                format!(
                    "what spec.source names is not usable in namespace {}: {message}",
                    seen.platform.image_namespace()
                ),
            )
        }
    }
}

fn source_ready(seen: &Observed) -> Option<&StatusCondition> {
    let status = seen.source.as_ref()?.status.as_ref()?;
    find(&status.conditions, READY)
}

fn find<'a>(conditions: &'a [StatusCondition], type_: &str) -> Option<&'a StatusCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn said(condition: &StatusCondition) -> Option<&str> {
    let message = condition.message.as_deref();
    message.filter(|message| !message.is_empty())
}
