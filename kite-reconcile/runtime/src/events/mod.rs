//! Events (`events.k8s.io/v1`): the story of an object, for people who ask
//! `kubectl describe`.
//!
//! What there is to tell follows from how a status changed, and is told after the
//! status was written. A pass that changes nothing tells nothing, and what is told
//! has a name that follows from the change: a second controller, or a repeated
//! request, makes no second Event of it. A crash between status and Event loses the
//! Event; nothing depends on one.
//!
//! Events are a courtesy: they are sent by a task of their own, slowly, and are
//! dropped when there are too many ([`Recorder`]). No reconcile waits for one.

mod recorder;

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kite_cluster::Object;
use kube::ResourceExt as _;
use tokio::sync::mpsc;

pub use self::recorder::Recorder;
use crate::Clock;

/// What was being done, as Events want to know.
const ACTION: &str = "Reconcile";
/// Longest note of an Event, in bytes (`events.k8s.io/v1`).
const LONGEST_NOTE: usize = 1024;

/// Something worth an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Whether somebody should look.
    pub severity: Severity,
    /// One word in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It is as it should be.
    Normal,
    /// Something is in the way.
    Warning,
}

impl Severity {
    /// The spelling of the Kubernetes API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Who reports, as Events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The controller, such as `example.org/my-controller`.
    pub controller: &'static str,
    /// Which of several, such as the name of its pod.
    pub instance: &'static str,
}

/// Where reconcilers leave what there is to tell. By default nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<(mpsc::Sender<Event>, Reporter)>);

impl Events {
    /// Whether Events are written at all.
    pub fn are_written(&self) -> bool {
        self.0.is_some()
    }

    /// Records `records` for `object`, as it was before the status was written that they
    /// come from.
    pub fn record<K: Object>(
        &self,
        object: &K,
        records: impl IntoIterator<Item = EventRecord>,
        clock: &Clock,
    ) {
        let Some((sender, reporter)) = &self.0 else {
            return;
        };
        for record in records {
            let event = event(object, &record, *reporter, MicroTime(clock()));
            if sender.try_send(event).is_err() {
                tracing::debug!(reason = record.reason, "an Event is dropped: too many wait");
            }
        }
    }
}

/// The Event of `object` that `record` stands for.
fn event<K: Object>(object: &K, record: &EventRecord, by: Reporter, at: MicroTime) -> Event {
    let namespace = object.namespace();
    let regarding = ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: Some(object.name_any()),
        namespace: namespace.clone(),
        uid: object.uid(),
        resource_version: object.resource_version(),
        field_path: None,
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name(object, record)),
            // Where Events of what has no namespace are kept.
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        action: Some(ACTION.to_owned()),
        event_time: Some(at),
        note: Some(shortened(&record.message)),
        reason: Some(record.reason.clone()),
        regarding: Some(regarding),
        reporting_controller: Some(by.controller.to_owned()),
        reporting_instance: Some(by.instance.to_owned()),
        type_: Some(record.severity.as_str().to_owned()),
        ..Event::default()
    }
}

/// A name that is the same whoever tells of this change: only one status can be
/// written over one version of an object.
fn name<K: Object>(object: &K, record: &EventRecord) -> String {
    let (uid, version) = (object.uid(), object.resource_version());
    let parts = [
        uid.as_deref().unwrap_or_default(),
        version.as_deref().unwrap_or_default(),
        &record.reason,
    ];
    // FNV-1a: the same in all versions.
    let hash = parts
        .join("/")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{}.{hash:016x}", object.name_any())
}

fn shortened(text: &str) -> String {
    let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
    let end = ends.take_while(|end| *end <= LONGEST_NOTE).last();
    text[..end.unwrap_or_default()].to_owned()
}
