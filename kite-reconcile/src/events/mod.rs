//! Events (`events.k8s.io/v1`): the story of an object, for people who ask
//! `kubectl describe`.
//!
//! What there is to tell follows from how a status changed ([`story()`], pure), and
//! is told after the status was written. A pass that changes nothing tells
//! nothing, and what is told has a name that follows from the change: a second
//! controller, or a repeated request, makes no second Event of it. A crash
//! between status and Event loses the Event; nothing depends on one.
//!
//! Events are a courtesy: they are sent by a task of their own, slowly, and are
//! dropped when there are too many ([`Recorder`]). No reconcile waits for one.

mod recorder;
mod story;

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta},
};
use kite_core::cluster::Object;
use kube::ResourceExt as _;
use tokio::sync::mpsc;

pub use self::{
    recorder::Recorder,
    story::{Severity, Tale, story},
};
use crate::context::Clock;

/// Who reports, as Events name it.
const REPORTER: &str = "hy3ons.github.io/kite-controller";
/// What was being done, as Events want to know.
const ACTION: &str = "Reconcile";
/// Longest note of an Event, in bytes (`events.k8s.io/v1`).
const LONGEST_NOTE: usize = 1024;

/// Where reconcilers leave what there is to tell. By default nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<mpsc::Sender<Event>>);

impl Events {
    /// Tells what changed of `object`, whose status had the conditions `old` and
    /// has `new` now. `object` is as it was before the status was written.
    pub(crate) fn tell<K: Object>(
        &self,
        object: &K,
        old: &[Condition],
        new: &[Condition],
        clock: &Clock,
    ) {
        let Some(sender) = &self.0 else { return };
        for tale in story(old, new) {
            let event = event(object, &tale, MicroTime(clock()));
            if sender.try_send(event).is_err() {
                tracing::debug!(reason = tale.reason, "an Event is dropped: too many wait");
            }
        }
    }
}

/// The Event that tells `tale` of `object`.
fn event<K: Object>(object: &K, tale: &Tale, at: MicroTime) -> Event {
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
            name: Some(name(object, tale)),
            // Where Events of what has no namespace are kept.
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        action: Some(ACTION.to_owned()),
        event_time: Some(at),
        note: Some(shortened(&tale.message)),
        reason: Some(tale.reason.clone()),
        regarding: Some(regarding),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some("kite-controller".to_owned()),
        type_: Some(tale.severity.as_str().to_owned()),
        ..Event::default()
    }
}

/// A name that is the same whoever tells of this change: only one status can be
/// written over one version of an object.
fn name<K: Object>(object: &K, tale: &Tale) -> String {
    let (uid, version) = (object.uid(), object.resource_version());
    let parts = [
        uid.as_deref().unwrap_or_default(),
        version.as_deref().unwrap_or_default(),
        &tale.reason,
    ];
    // FNV-1a: the same in all versions of Kite.
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
