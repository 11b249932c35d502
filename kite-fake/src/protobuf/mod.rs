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

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::Value;
use thiserror::Error;

use crate::go_types::TYPES;
use wire::{Reader, Wire, put_bytes, put_varint, varint_len};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

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
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, wire)) = reader.tag("Unknown")? {
        match (number, wire) {
            (1, Wire::Bytes) => {
                let mut meta = Reader::new(reader.bytes()?);
                while let Some((number, wire)) = meta.tag("TypeMeta")? {
                    match (number, wire) {
                        (1, Wire::Bytes) => {
                            version = String::from_utf8_lossy(meta.bytes()?).into_owned();
                        }
                        (2, Wire::Bytes) => {
                            kind = String::from_utf8_lossy(meta.bytes()?).into_owned();
                        }
                        (_, wire) => meta.skip(wire)?,
                    }
                }
            }
            (2, Wire::Bytes) => raw = reader.bytes()?,
            (1 | 2, wire) => {
                return Err(Malformed::WrongWire {
                    wire: wire.number(),
                    field: if number == 1 { "TypeMeta" } else { "Raw" }.to_owned(),
                });
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok((raw, (version, kind)))
}

/// Decodes an event of a watch, without the length before it: its type and its object.
///
/// # Errors
/// See [`decode`].
pub fn decode_event(event: &[u8]) -> Result<(String, Value), DecodeError> {
    let read = || -> Result<(String, &[u8]), Malformed> {
        let (mut kind, mut object) = (String::new(), &[][..]);
        let mut reader = Reader::new(event);
        while let Some((number, wire)) = reader.tag("WatchEvent")? {
            match (number, wire) {
                (1, Wire::Bytes) => kind = String::from_utf8_lossy(reader.bytes()?).into_owned(),
                (2, Wire::Bytes) => {
                    let mut raw = Reader::new(reader.bytes()?);
                    while let Some((number, wire)) = raw.tag("RawExtension")? {
                        match (number, wire) {
                            (1, Wire::Bytes) => object = raw.bytes()?,
                            (_, wire) => raw.skip(wire)?,
                        }
                    }
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok((kind, object))
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
    Ok(wrapped(version, kind, &[&message(version, kind, value)?]))
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

/// A message, in pieces, in an envelope.
pub(crate) fn wrapped(version: &str, kind: &str, pieces: &[&[u8]]) -> Bytes {
    let mut meta = Vec::with_capacity(version.len() + kind.len() + 4);
    put_bytes(&mut meta, 1, version.as_bytes());
    put_bytes(&mut meta, 2, kind.as_bytes());
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut head = Vec::with_capacity(meta.len() + 24);
    head.extend_from_slice(MAGIC);
    put_bytes(&mut head, 1, &meta);
    head.push(2 << 3 | 2);
    put_varint(&mut head, size as u64);
    let mut out = BytesMut::with_capacity(head.len() + size + 4);
    out.put_slice(&head);
    for piece in pieces {
        out.put_slice(piece);
    }
    // Neither an encoding nor a type of its content.
    out.put_slice(&[3 << 3 | 2, 0, 4 << 3 | 2, 0]);
    out.freeze()
}

/// A list in its envelope: its metadata and its items' messages.
pub(crate) fn list(
    version: &str,
    kind: &str,
    metadata: &Value,
    items: &[Bytes],
) -> Result<Bytes, Unencodable> {
    let head = message(
        "meta.k8s.io/v1",
        "PartialObjectMetadataList",
        &serde_json::json!({"metadata": metadata}),
    )?;
    let size: usize = items
        .iter()
        .map(|item| 1 + varint_len(item.len() as u64) + item.len())
        .sum();
    let mut out = Vec::with_capacity(head.len() + size);
    out.extend_from_slice(&head);
    for item in items {
        put_bytes(&mut out, 2, item);
    }
    Ok(wrapped(version, kind, &[&out]))
}

/// One event of a watch in its frame: the length, and the event with an object in its
/// envelope.
pub(crate) fn frame(event: &str, object: &[u8]) -> Bytes {
    let mut raw = Vec::with_capacity(object.len() + 8);
    put_bytes(&mut raw, 1, object);
    let mut out = Vec::with_capacity(raw.len() + 24);
    out.extend_from_slice(&[0; 4]);
    put_bytes(&mut out, 1, event.as_bytes());
    put_bytes(&mut out, 2, &raw);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out.into()
}

#[cfg(test)]
mod tests;
