//! Watches: a cursor over the event log.

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::conversion::Converted;
use super::{Answer, ApiServer, Call, read, respond};
use crate::builtin;
use crate::go_json;
use crate::protobuf::{self, Unencodable};
use crate::registry::Resource;
use crate::rest::media::{self, Accepted, Encoding, Shape};
use crate::rest::options::{ListOptions, resource_version};
use crate::rest::selector::FieldSelector;
use crate::status::Status;
use crate::store::{Change, Event, GroupResource, Object, Stored};
use crate::table::{self, IncludeObject};

/// How long a watch runs if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// An open watch. The shell asks [`ApiServer::poll`] whenever `changes` says so.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something else, and all combine"
)]
pub struct Watch {
    resource: Arc<Resource>,
    collection: GroupResource,
    namespace: Option<String>,
    options: ListOptions,
    accepted: Accepted,
    include: IncludeObject,
    revision: u64,
    /// Nothing was asked for since it was opened.
    fresh: bool,
    /// Objects to send first, and whether a BOOKMARK marks their end.
    initial: Vec<Object>,
    /// What webhooks made of the objects that are still to be told of.
    pub(super) converted: Converted,
    mark_end: bool,
    /// Nothing more will come.
    over: bool,
    table_started: bool,
    bookmark_sent: u64,
    /// Fires when the collection changes.
    pub changes: tokio::sync::watch::Receiver<u64>,
    /// After this the watch ends.
    pub timeout: Duration,
}

impl ApiServer {
    /// Opens a watch.
    pub(crate) fn open_watch(
        &mut self,
        call: &Call,
        mut options: ListOptions,
    ) -> Result<Answer, Status> {
        if let Some(name) = call.target.name.as_deref() {
            if options.fields.is_empty() {
                options.fields = FieldSelector::name(name);
            } else if options.fields.exact("metadata.name") != Some(name) {
                return Err(Status::bad_request(
                    "fieldSelector metadata.name doesn't match requested name",
                ));
            }
        }
        let asked = resource_version(&options.resource_version).map_err(Status::internal)?;
        let include = IncludeObject::asked(call.accepted.shape, &call.query)?;
        if call.accepted.encoding == Encoding::Yaml {
            return Err(media::not_streamable());
        }
        if options.send_initial_events == Some(true)
            && let Err(status) = self.not_from_the_future(asked)
        {
            let event = event(call.accepted.encoding, "ERROR", &status.to_json());
            let mut otherwise = respond::json(200, event);
            let media = HeaderValue::from_static(call.accepted.stream_type());
            otherwise.headers_mut().insert(CONTENT_TYPE, media);
            return Ok(self.not_yet(asked, otherwise));
        }
        let collection = call.resource.collection();
        let namespace = call
            .resource
            .namespaced
            .then(|| call.target.namespace.clone())
            .flatten();
        let send_initial = match options.send_initial_events {
            Some(flag) => flag,
            None => asked == 0,
        };
        let current = self.store.revision();
        let initial = if send_initial && call.resource.conversion.is_some() {
            let all = self.store.range(&collection, namespace.as_deref(), None);
            let all: Vec<Object> = all.map(|(_, object)| object.clone()).collect();
            let mut all = self.all_seen(&call.resource, &all)?;
            all.retain(|object| read::selects(&options, object));
            all
        } else if send_initial {
            self.store
                .range(&collection, namespace.as_deref(), None)
                .map(|(_, o)| Self::view(&call.resource, o))
                .filter(|o| read::selects(&options, o))
                .collect()
        } else {
            Vec::new()
        };
        let revision = if asked == 0 || send_initial {
            current
        } else {
            asked
        };
        let mark_end = options.send_initial_events == Some(true) && options.bookmarks;
        let changes = self.store.subscribe(&collection, namespace.as_deref());
        Ok(Answer::Watch(Box::new(Watch {
            resource: call.resource.clone(),
            collection,
            namespace,
            timeout: options
                .timeout_seconds
                .map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            options,
            accepted: call.accepted,
            include,
            revision,
            fresh: true,
            initial,
            converted: Converted::default(),
            mark_end,
            over: false,
            table_started: false,
            bookmark_sent: current,
            changes,
        })))
    }

    /// What has happened since the last call, as pieces of lines to send one after
    /// another; `None` when the watch is over.
    pub fn poll(&self, watch: &mut Watch, now: jiff::Timestamp) -> Option<Vec<Bytes>> {
        if watch.over {
            return None;
        }
        // The definition may have changed since, or be gone.
        let served = &watch.resource;
        match self
            .registry
            .get(&served.group, &served.version, &served.plural)
        {
            Some(resource) => watch.resource = resource.clone(),
            None => watch.over = true,
        }
        let mut lines = Vec::new();
        for object in std::mem::take(&mut watch.initial) {
            watch.tell(Change::Added, &object, now, &mut lines);
        }
        if std::mem::take(&mut watch.mark_end) {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            lines.push(watch.bookmark(watch.revision, Some(annotations), now));
        }
        // What a client asks for must be remembered; what an open watch has not
        // seen yet must only not be lost.
        let (of, namespace) = (&watch.collection, watch.namespace.as_deref());
        let remembered = if std::mem::take(&mut watch.fresh) {
            self.store.events_since(of, watch.revision).err()
        } else {
            None
        };
        let unseen = self.store.events_for(of, namespace, watch.revision);
        let events = match remembered.map_or(unseen, Err) {
            Ok(events) => events,
            Err(forgotten) => {
                let status = Status::expired(forgotten.to_string());
                lines.push(event(watch.accepted.encoding, "ERROR", &status.to_json()));
                watch.over = true;
                return Some(lines);
            }
        };
        let mut reached = watch.revision;
        for event in events {
            match watch.seen(event) {
                Ok(Some((change, object))) => watch.tell(change, &object, now, &mut lines),
                Ok(None) => {}
                Err(None) => break,
                Err(Some(status)) => {
                    let status = status.to_json();
                    lines.push(self::event(watch.accepted.encoding, "ERROR", &status));
                    watch.over = true;
                    break;
                }
            }
            reached = event.revision;
        }
        watch.converted.forget();
        watch.revision = reached.max(watch.revision);
        (!watch.over || !lines.is_empty()).then(|| self.last_line.join(lines))
    }

    /// A BOOKMARK, if the client wants them, there has been progress since the
    /// last, and nothing came in between that [`poll`](Self::poll) has to tell
    /// first: a BOOKMARK says that all before it was told.
    pub fn bookmark(&self, watch: &mut Watch, now: jiff::Timestamp) -> Option<Bytes> {
        let current = self.store.revision();
        if !watch.options.bookmarks || current <= watch.bookmark_sent || watch.over {
            return None;
        }
        let (of, namespace) = (&watch.collection, watch.namespace.as_deref());
        let mut since = self.store.events_for(of, namespace, watch.revision).ok()?;
        // Those of other namespaces, and of what is not selected, are not to be told.
        if since.any(|event| !matches!(watch.seen(event), Ok(None))) {
            return None;
        }
        watch.bookmark_sent = current;
        watch.revision = watch.revision.max(current);
        Some(watch.bookmark(current, None, now))
    }
}

impl ApiServer {
    /// The objects that a watch is to tell of and that a webhook has to convert first.
    pub(super) fn untold(&self, watch: &Watch) -> Vec<Object> {
        let (of, namespace) = (&watch.collection, watch.namespace.as_deref());
        let Ok(events) = self.store.events_for(of, namespace, watch.revision) else {
            return Vec::new();
        };
        let mut objects: Vec<Object> = Vec::new();
        for event in events.filter(|event| watch.is_within(event)) {
            let previous = event.previous.as_ref().filter(|_| watch.is_selecting());
            for object in previous.into_iter().chain([&event.object]) {
                let seen = watch.converted.seen(&watch.resource, object);
                let unseen = matches!(seen, Err(None));
                let new = objects.iter().all(|it| it.revision() != object.revision());
                if unseen && new {
                    objects.push(object.clone());
                }
            }
        }
        objects
    }
}

impl Watch {
    /// What it watches, in the version that it shows.
    pub(super) fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// What an event is to this watch: objects enter and leave a selection.
    ///
    /// # Errors
    /// A webhook has still to convert the object, or cannot: then why.
    fn seen(&self, event: &Event) -> Result<Option<(Change, Object)>, Option<&Status>> {
        if !self.is_within(event) {
            return Ok(None);
        }
        let see = |object| self.converted.seen(&self.resource, object);
        let object = see(&event.object)?;
        if !self.is_selecting() {
            return Ok(Some((event.change, object)));
        }
        let now = event.change != Change::Deleted && read::selects(&self.options, &object);
        let before = match &event.previous {
            Some(previous) => Some(see(previous)?).filter(|p| read::selects(&self.options, p)),
            None => None,
        };
        Ok(match (before, now) {
            (None, false) => None,
            (None, true) => Some((Change::Added, object)),
            (Some(_), true) => Some((Change::Modified, object)),
            (Some(_), false) if event.change == Change::Deleted => Some((Change::Deleted, object)),
            (Some(previous), false) => {
                // It left the selection: the state before, at the revision of the change.
                let mut value = previous.to_value();
                value["metadata"]["resourceVersion"] = event.revision.to_string().into();
                let left = Stored::transient(value, event.revision, previous.epoch());
                Some((Change::Deleted, left))
            }
        })
    }

    fn is_within(&self, event: &Event) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|namespace| *namespace == event.key.namespace)
    }

    fn is_selecting(&self) -> bool {
        !self.options.labels.is_empty() || !self.options.fields.is_empty()
    }

    /// Adds the pieces of an event's line.
    fn tell(
        &mut self,
        change: Change,
        object: &Object,
        now: jiff::Timestamp,
        lines: &mut Vec<Bytes>,
    ) {
        if self.accepted.encoding == Encoding::Protobuf {
            lines.push(self.frame(change, object, now));
            return;
        }
        match self.accepted.shape {
            // The same bytes for all who watch.
            Shape::Plain => object.event(change, |piece| lines.push(piece)),
            Shape::Partial { .. } => {
                let version = self.accepted.meta_version();
                let mut out = BytesMut::with_capacity(object.size() / 2 + 128);
                out.put_slice(b"{\"type\":\"");
                out.put_slice(change.as_str().as_bytes());
                out.put_slice(b"\",\"object\":");
                respond::put_partial(&mut out, object, version);
                out.put_slice(b"}\n");
                lines.push(out.freeze());
            }
            Shape::Table => {
                lines.push(self.transformed(change.as_str(), object.fresh().value(), now));
            }
        }
    }

    /// The event in protobuf; the object's message is the same for all who watch.
    fn frame(&mut self, change: Change, object: &Object, now: jiff::Timestamp) -> Bytes {
        if self.accepted.shape != Shape::Plain {
            return self.transformed(change.as_str(), object.fresh().value(), now);
        }
        let (version, kind) = (self.resource.api_version(), &self.resource.kind);
        match object.message(&version, kind) {
            Ok(message) => protobuf::frame(change.as_str(), &version, kind, &message),
            Err(why) => failure(&why),
        }
    }

    /// An event whose object is shown as a Table or by its metadata alone.
    fn transformed(&mut self, change: &str, object: &Value, now: jiff::Timestamp) -> Bytes {
        let version = self.accepted.meta_version();
        if self.accepted.shape != Shape::Table {
            let partial = respond::partial(object, version);
            return event(self.accepted.encoding, change, &partial);
        }
        let first = !std::mem::replace(&mut self.table_started, true);
        let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        let options = table::Options {
            include: self.include,
            definitions: first,
            version,
        };
        let table = table::table(&self.resource, &[object], &metadata, options, now);
        event(self.accepted.encoding, change, &table)
    }

    /// The media type of the stream.
    pub fn content_type(&self) -> &'static str {
        self.accepted.stream_type()
    }

    fn bookmark(
        &mut self,
        revision: u64,
        annotations: Option<Value>,
        now: jiff::Timestamp,
    ) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        // An empty object of the kind, as Go's types write it.
        let kind = &self.resource;
        let mut object = builtin::kind(&kind.group, &kind.version, &kind.kind)
            .filter(|_| !kind.is_custom())
            .map_or_else(|| json!({}), |rules| rules.empty().clone());
        object["kind"] = kind.kind.as_str().into();
        object["apiVersion"] = kind.api_version().into();
        object["metadata"] = metadata;
        match self.accepted.shape {
            Shape::Plain => event(self.accepted.encoding, "BOOKMARK", &object),
            _ => self.transformed("BOOKMARK", &object, now),
        }
    }
}

/// An event as it is sent. What has no form in the encoding is an error instead.
fn event(encoding: Encoding, change: &str, object: &Value) -> Bytes {
    if encoding != Encoding::Protobuf {
        return go_json::event(change, object).into();
    }
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match protobuf::message(version, kind, object) {
        Ok(message) => protobuf::frame(change, version, kind, &message),
        Err(why) => failure(&why),
    }
}

/// The event that tells what has no form in protobuf.
fn failure(why: &Unencodable) -> Bytes {
    let status = respond::not_encoded(why).to_json();
    // A Status has a form.
    let message = protobuf::message("v1", "Status", &status).unwrap_or_default();
    protobuf::frame("ERROR", "v1", "Status", &message)
}
