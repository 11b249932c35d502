//! A stored object: its text, its revision, and its tree while somebody needs it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::Change;
use super::text::{self, Text};
use crate::held::Held;
use crate::protobuf::{self, Unencodable};

/// A shared stored object.
pub type Object = Arc<Stored>;

/// How much text there is of which trees are held, in bytes.
pub(super) type Warmth = Arc<AtomicUsize>;

/// One state of an object. Never changed after it was stored, so that lists,
/// watches and readers share it.
///
/// What is kept is the text. Its tree is that which was written, until the store
/// lets go of those when there are too many, for a tree takes several times the
/// memory of its text; [`Stored::value`] parses the text when it is asked for after
/// that.
#[derive(Debug)]
pub struct Stored {
    revision: u64,
    epoch: u64,
    text: OnceLock<Arc<Text>>,
    value: OnceLock<Value>,
    /// What is known of its rules, if anything is.
    held: OnceLock<Held>,
    /// The object in other versions, as it was last read in one.
    view: OnceLock<Box<View>>,
    warmth: Option<Warmth>,
}

/// An object read in another version, or under another edition of the schema.
#[derive(Debug)]
struct View {
    version: String,
    epoch: u64,
    object: Object,
}

impl Stored {
    /// A state with `revision` written into `metadata.resourceVersion`.
    pub(super) fn stamped(
        mut value: Value,
        revision: u64,
        epoch: u64,
        change: Change,
        warmth: &Warmth,
        scratch: &mut Vec<u8>,
    ) -> Object {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        let text = Text::of(&value, change, scratch);
        // Who wrote it mostly writes it again soon.
        warmth.fetch_add(text.as_json().len(), Ordering::Relaxed);
        Arc::new(Self {
            revision,
            epoch,
            text: OnceLock::from(Arc::new(text)),
            value: OnceLock::from(value),
            held: OnceLock::new(),
            view: OnceLock::new(),
            warmth: Some(Arc::clone(warmth)),
        })
    }

    /// A state that is not in the store: the answer to a dry run, or an object
    /// read in another version.
    pub fn transient(value: Value, revision: u64, epoch: u64) -> Object {
        Arc::new(Self {
            revision,
            epoch,
            text: OnceLock::new(),
            value: OnceLock::from(value),
            held: OnceLock::new(),
            view: OnceLock::new(),
            warmth: None,
        })
    }

    /// The same state without its tree; `None` if it has none, or must keep it.
    pub(super) fn cooled(&self) -> Option<Object> {
        if self.value.get().is_none() && self.view.get().is_none() {
            return None;
        }
        self.bare(self.warmth.clone())
    }

    fn bare(&self, warmth: Option<Warmth>) -> Option<Object> {
        let text = self.text.get().filter(|text| !text.is_deep())?;
        Some(Arc::new(Self {
            revision: self.revision,
            epoch: self.epoch,
            text: OnceLock::from(Arc::clone(text)),
            value: OnceLock::new(),
            held: self.held.clone(),
            view: OnceLock::new(),
            warmth,
        }))
    }

    /// The same state for somebody who reads its value once: the tree goes when
    /// the handle does, instead of staying with the store.
    pub fn fresh(self: &Arc<Self>) -> Object {
        if self.value.get().is_some() {
            return Arc::clone(self);
        }
        self.bare(None).unwrap_or_else(|| Arc::clone(self))
    }

    fn warm_by(&self, bytes: usize) {
        if let Some(warmth) = &self.warmth {
            warmth.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn text(&self) -> &Text {
        self.text.get_or_init(|| {
            let value = self.value.get().unwrap_or(&Value::Null);
            Arc::new(Text::of(value, Change::Modified, &mut Vec::new()))
        })
    }

    /// The object.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            let text = self.text().as_json();
            self.warm_by(text.len());
            // Written by ourselves: it can be read.
            serde_json::from_slice(text).unwrap_or_default()
        })
    }

    /// The object for somebody who changes it: parsed anew where
    /// [`Stored::value`] would have to parse it.
    pub fn to_value(&self) -> Value {
        match self.value.get() {
            Some(value) => value.clone(),
            None => serde_json::from_slice(self.text().as_json()).unwrap_or_default(),
        }
    }

    /// Its `metadata.resourceVersion` as a number.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Which edition of its resource's schema it was written under.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is known of the rules of its schema's edition.
    pub(crate) fn held(&self) -> Held {
        self.held.get().copied().unwrap_or_default()
    }

    /// Remembers what was found of its rules when it was written. What is known
    /// once stays so.
    pub(crate) fn hold(&self, held: Held) {
        self.held.get_or_init(|| held);
    }

    /// The object as JSON text.
    pub fn json(&self) -> Bytes {
        self.text().json()
    }

    /// The object as it is answered: its JSON text and a line feed.
    pub fn document(&self) -> Bytes {
        self.text().document()
    }

    /// The object as a message of protobuf, without an envelope; it is of `kind` in
    /// `api_version`. Encoded once for all who ask.
    ///
    /// # Errors
    /// The kind has no message.
    pub(crate) fn message(&self, api_version: &str, kind: &str) -> Result<Bytes, Unencodable> {
        let encode = || match self.value.get() {
            Some(value) => protobuf::message(api_version, kind, value),
            None => protobuf::message(api_version, kind, &self.to_value()),
        };
        self.text().message(encode)
    }

    /// Hands out the pieces of the object's JSON text without `kind` and
    /// `apiVersion`, as lists of built-in types carry it.
    pub fn write_item(&self, put: impl FnMut(&[u8])) {
        self.text().write_item(put);
    }

    /// How long the object's JSON text is, in bytes.
    pub fn size(&self) -> usize {
        self.text().as_json().len()
    }

    /// The line by which a watch tells of the object, with its line feed.
    pub fn line(&self, change: Change) -> Bytes {
        let mut line = Vec::with_capacity(self.size() + 64);
        self.event(change, |piece| line.extend_from_slice(&piece));
        line.into()
    }

    /// Hands out the pieces of that line, the last of which is [`END`](super::END).
    /// That before is the same memory for all who ask for the change which made this
    /// state.
    pub(crate) fn event(&self, change: Change, mut put: impl FnMut(Bytes)) {
        self.text().event(change, &mut put);
        put(super::END);
    }

    /// Hands out the pieces of the object's `metadata` as JSON text, in the order of
    /// its type.
    pub fn write_metadata(&self, put: impl FnMut(&[u8])) {
        self.text().write_metadata(put);
    }

    /// A string below `metadata`, empty if it is not there.
    pub fn meta(&self, field: &str) -> &str {
        match self.text().metadata(field).and_then(text::string) {
            Some(Cow::Borrowed(text)) => text,
            Some(Cow::Owned(_)) => self.value()["metadata"][field].as_str().unwrap_or_default(),
            None => "",
        }
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.text()
            .metadata("deletionTimestamp")
            .is_some_and(|text| text != b"null")
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        text::entry(self.text().metadata("labels")?, name)
    }

    /// The value at a dotted path, read from the text without parsing the rest.
    pub fn field(&self, path: &str) -> Option<Value> {
        let mut path = path.split('.').filter(|s| !s.is_empty());
        let first = path.next()?;
        let mut rest: Vec<&str> = path.collect();
        if let Some(value) = self.value.get() {
            return rest
                .iter()
                .try_fold(value.get(first)?, |at, name| at.get(name))
                .cloned();
        }
        let mut text = self.text().member(first)?;
        if first == "metadata" && !rest.is_empty() {
            text = self.text().metadata(rest.remove(0))?;
        }
        text::pick(text, &rest)
    }

    /// The object as `version` and `epoch` see it, if that is remembered.
    pub(crate) fn known_view(&self, version: &str, epoch: u64) -> Option<Object> {
        let view = self.view.get()?;
        (view.version == version && view.epoch == epoch).then(|| Arc::clone(&view.object))
    }

    /// The object as `version` and `epoch` see it, made by `convert` when it is
    /// first asked for.
    pub(crate) fn view(
        self: &Arc<Self>,
        version: &str,
        epoch: u64,
        convert: impl Fn(Value) -> Value,
    ) -> Object {
        let make = || Self::transient(convert(self.to_value()), self.revision, epoch);
        let view = self.view.get_or_init(|| {
            self.warm_by(2 * self.size());
            Box::new(View {
                version: version.to_owned(),
                epoch,
                object: make(),
            })
        });
        if view.version == version && view.epoch == epoch {
            return Arc::clone(&view.object);
        }
        // A third version of the same object: seldom read, not remembered.
        make()
    }
}
