//! A stored object: its value, its revision, and its encodings, made once.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// A shared stored object.
pub type Object = Arc<Stored>;

/// One state of an object. Never changed after it was stored, so that lists,
/// watches and readers share it and its encodings.
#[derive(Debug)]
pub struct Stored {
    value: Value,
    revision: u64,
    epoch: u64,
    json: OnceLock<Bytes>,
    item: OnceLock<Bytes>,
}

impl Stored {
    /// A state with `revision` written into `metadata.resourceVersion`.
    pub(super) fn stamped(mut value: Value, revision: u64, epoch: u64) -> Object {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        Self::transient(value, revision, epoch)
    }

    /// A state that is not in the store: the answer to a dry run, or an object
    /// read in another version.
    pub fn transient(value: Value, revision: u64, epoch: u64) -> Object {
        Arc::new(Self {
            value,
            revision,
            epoch,
            json: OnceLock::new(),
            item: OnceLock::new(),
        })
    }

    /// The object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Its `metadata.resourceVersion` as a number.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Which edition of its resource's schema it was written under.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The object as JSON text.
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| encode(&self.value)).clone()
    }

    /// The object as JSON text without `kind` and `apiVersion`, as lists of
    /// built-in types carry it.
    pub fn item_json(&self) -> Bytes {
        self.item
            .get_or_init(|| match &self.value {
                Value::Object(members) => {
                    let mut members = members.clone();
                    members.remove("kind");
                    members.remove("apiVersion");
                    encode(&Value::Object(members))
                }
                other => encode(other),
            })
            .clone()
    }

    /// A string below `metadata`, empty if it is not there.
    pub fn meta(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }
}

/// Encoding a `Value` cannot fail: its keys are strings.
fn encode(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
