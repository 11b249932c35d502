//! Kubernetes' protobuf encoding, which Go's typed clients speak with built-in kinds
//! by default.
//!
//! A body is a magic number and an envelope (`runtime.Unknown`) with the kind of the
//! object and the object's message, as a table of Kubernetes' own types has it. What
//! [`decode`] gives is the JSON that a Go client would have sent instead, and
//! [`encode`] writes what a real API server writes, byte for byte.

mod decode;
mod encode;
pub(crate) mod wire;

use bytes::Bytes;
use serde_json::Value;
use thiserror::Error;

use crate::go_types::TYPES;
use wire::{Wire, field_len, put_bytes, put_tag, put_varint};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// What every envelope ends with: neither an encoding nor a type of its content.
const TAIL: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Why a body cannot be decoded: in the words of Kubernetes' decoder, but for
/// [`TooDeep`](Self::TooDeep) and [`Time`](Self::Time), which are Kite's own bounds.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// There is no body.
    #[error("empty data")]
    Nothing,
    /// There is nothing after the magic number.
    #[error("empty body")]
    Empty,
    /// It does not begin with the magic number.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    /// It ends within a value.
    #[error("unexpected EOF")]
    CutOff,
    /// A number is longer than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is below zero.
    #[error("proto: negative length found during unmarshaling")]
    Length,
    /// A group ends that has not begun.
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// A message ends a group.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndOfNoGroup(String),
    /// No field has this number.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// The message.
        message: String,
        /// The number.
        number: i32,
        /// All that the field begins with.
        tag: u64,
    },
    /// A value is of a type that protobuf does not have.
    #[error("proto: illegal wireType {0}")]
    IllegalWire(u64),
    /// A field is not of its type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWire {
        /// Its type on the wire.
        wire: u64,
        /// Its name in Go.
        field: String,
    },
    /// Messages within messages without an end.
    #[error("the message nests too deeply")]
    TooDeep,
    /// An `IntOrString` is neither.
    #[error("impossible IntOrString.Type: {0}")]
    IntOrString(i64),
    /// JSON within the message cannot be parsed.
    #[error("{0}")]
    Raw(String),
    /// A time has a year that cannot be written; in seconds since 1970.
    #[error("{0} s after 1970 is not a time that can be written")]
    Time(i64),
    /// There is no such kind.
    #[error(
        "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    )]
    Unregistered {
        /// The kind.
        kind: String,
        /// Its `apiVersion`.
        version: String,
    },
}

/// A body that cannot be decoded, and what it says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct DecodeError {
    /// What is wrong.
    pub why: Malformed,
    /// Its `apiVersion` and kind, once they are known.
    pub of: Option<(String, String)>,
}

/// An object that has no form in protobuf.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {value} has no form in protobuf")]
#[non_exhaustive]
pub struct Unencodable {
    /// The name of the member, or the kind of the object.
    pub place: String,
    /// What is there.
    pub value: String,
}

impl Unencodable {
    fn new(place: &str, value: &Value) -> Self {
        Self {
            place: place.to_owned(),
            value: value.to_string(),
        }
    }
}

/// Decodes a body into the object that it is. `default` is the `apiVersion` and kind of
/// one that does not say.
///
/// # Errors
/// The body is no message of the kind that it says, or there is no such kind.
pub fn decode(body: &[u8], default: (&str, &str)) -> Result<Value, DecodeError> {
    let (raw, (mut version, mut kind)) =
        envelope(body).map_err(|why| DecodeError { why, of: None })?;
    if kind.is_empty() {
        default.1.clone_into(&mut kind);
    }
    if version.is_empty() {
        default.0.clone_into(&mut version);
    }
    let decoded = TYPES
        .of_kind(&version, &kind)
        .ok_or_else(|| Malformed::Unregistered {
            kind: kind.clone(),
            version: version.clone(),
        })
        .and_then(|at| decode::message(at, raw, 0));
    match decoded {
        Ok(mut value) => {
            // What has a kind is an object.
            if let Some(members) = value.as_object_mut() {
                members.insert("apiVersion".to_owned(), version.into());
                members.insert("kind".to_owned(), kind.into());
            }
            Ok(value)
        }
        Err(why) => Err(DecodeError {
            why,
            of: Some((version, kind)),
        }),
    }
}

/// The message in an envelope, its `apiVersion` and its kind.
fn envelope(body: &[u8]) -> Result<(&[u8], (String, String)), Malformed> {
    if body.is_empty() {
        return Err(Malformed::Nothing);
    }
    let envelope = body.strip_prefix(MAGIC).ok_or(Malformed::NoPrefix)?;
    if envelope.is_empty() {
        return Err(Malformed::Empty);
    }
    let fields = [
        (Wire::Bytes, "TypeMeta"),
        (Wire::Bytes, "Raw"),
        (Wire::Bytes, "ContentEncoding"),
        (Wire::Bytes, "ContentType"),
    ];
    let [meta, raw, _, _] = wire::fields("Unknown", fields, envelope)?;
    let [version, kind] = wire::fields(
        "TypeMeta",
        [(Wire::Bytes, "APIVersion"), (Wire::Bytes, "Kind")],
        meta.bytes,
    )?;
    Ok((raw.bytes, (version.text(), kind.text())))
}

/// Decodes an event of a watch, without the length before it: its type and its object.
///
/// # Errors
/// See [`decode`].
pub fn decode_event(event: &[u8]) -> Result<(String, Value), DecodeError> {
    let read = || {
        let fields = [(Wire::Bytes, "Type"), (Wire::Bytes, "Object")];
        let [kind, object] = wire::fields("WatchEvent", fields, event)?;
        let [raw] = wire::fields("RawExtension", [(Wire::Bytes, "Raw")], object.bytes)?;
        Ok((kind.text(), raw.bytes))
    };
    let (kind, object) = read().map_err(|why| DecodeError { why, of: None })?;
    Ok((kind, decode(object, ("", ""))?))
}

/// Encodes an object with its envelope.
///
/// # Errors
/// The object's kind has no message (a Table has none, nor has a custom resource), or a
/// member is not of its type.
pub fn encode(value: &Value) -> Result<Bytes, Unencodable> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    Ok(wrapped(version, kind, &message(version, kind, value)?))
}

/// Encodes an object without its envelope.
///
/// # Errors
/// See [`encode`].
pub fn message(version: &str, kind: &str, value: &Value) -> Result<Bytes, Unencodable> {
    let unencodable = || Unencodable {
        place: "kind".to_owned(),
        value: format!("{kind:?} of version {version:?}"),
    };
    let at = TYPES.of_kind(version, kind).ok_or_else(unencodable)?;
    // All fields of what is in JSON alone have no number.
    if TYPES.message(at).numbered.is_empty() {
        return Err(unencodable());
    }
    let mut out = Vec::with_capacity(1024);
    encode::message(&mut out, at, value)?;
    Ok(out.into())
}

/// An envelope, of which only the message is missing.
struct Envelope<'a> {
    version: &'a str,
    kind: &'a str,
    /// How long the message is.
    size: usize,
}

impl Envelope<'_> {
    fn meta_len(&self) -> usize {
        field_len(self.version.len()) + field_len(self.kind.len())
    }

    fn len(&self) -> usize {
        MAGIC.len() + field_len(self.meta_len()) + field_len(self.size) + TAIL.len()
    }

    /// Writes it around the message that `message` writes.
    fn put(&self, out: &mut Vec<u8>, message: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(MAGIC);
        put_tag(out, 1, Wire::Bytes);
        put_varint(out, self.meta_len() as u64);
        put_bytes(out, 1, self.version.as_bytes());
        put_bytes(out, 2, self.kind.as_bytes());
        put_tag(out, 2, Wire::Bytes);
        put_varint(out, self.size as u64);
        message(out);
        out.extend_from_slice(TAIL);
    }
}

/// A message in its envelope.
pub(crate) fn wrapped(version: &str, kind: &str, message: &[u8]) -> Bytes {
    let envelope = Envelope {
        version,
        kind,
        size: message.len(),
    };
    let mut out = Vec::with_capacity(envelope.len());
    envelope.put(&mut out, |out| out.extend_from_slice(message));
    out.into()
}

/// A list in its envelope: its metadata and its items' messages.
pub(crate) fn list(
    version: &str,
    kind: &str,
    metadata: &Value,
    items: &[Bytes],
) -> Result<Bytes, Unencodable> {
    // All lists begin alike.
    let head = message(
        "meta.k8s.io/v1",
        "PartialObjectMetadataList",
        &serde_json::json!({"metadata": metadata}),
    )?;
    let items_len: usize = items.iter().map(|item| field_len(item.len())).sum();
    let envelope = Envelope {
        version,
        kind,
        size: head.len() + items_len,
    };
    let mut out = Vec::with_capacity(envelope.len());
    envelope.put(&mut out, |out| {
        out.extend_from_slice(&head);
        for item in items {
            put_bytes(out, 2, item);
        }
    });
    Ok(out.into())
}

/// One event of a watch in its frame: its length, and the event with an object's message
/// in an envelope.
pub(crate) fn frame(event: &str, version: &str, kind: &str, message: &[u8]) -> Bytes {
    let envelope = Envelope {
        version,
        kind,
        size: message.len(),
    };
    let raw = field_len(envelope.len());
    let length = field_len(event.len()) + field_len(raw);
    let mut out = Vec::with_capacity(4 + length);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    put_bytes(&mut out, 1, event.as_bytes());
    put_tag(&mut out, 2, Wire::Bytes);
    put_varint(&mut out, raw as u64);
    put_tag(&mut out, 1, Wire::Bytes);
    put_varint(&mut out, envelope.len() as u64);
    envelope.put(&mut out, |out| out.extend_from_slice(message));
    out.into()
}

#[cfg(test)]
mod tests;
