//! An object as JSON text, and where its parts are in it.
//!
//! Its message in protobuf is made when it is first asked for, and kept with the text.
//!
//! The text is written once, as the line of the watch event that announced the
//! state; the object itself is a part of that line. So a stored object costs
//! its text and little else, and neither reads, lists nor watches encode it again.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::Change;
use crate::protobuf::Unencodable;

/// A deeper tree stays as it is: the parser refuses to read it back (it allows
/// 128 levels).
const MAX_DEPTH: usize = 120;

/// One member of an object in the text: `"name":value`.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: u32,
    /// Where the value begins.
    value: u32,
    end: u32,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Text {
    /// `{"type":"ADDED","object":{…}}` and a line feed.
    line: Bytes,
    change: Change,
    start: u32,
    /// The members of the object, then those of its `metadata`.
    members: Box<[Member]>,
    top: u32,
    deep: bool,
    /// The object as a message of protobuf, once somebody asked for it.
    message: OnceLock<Bytes>,
}

fn place(at: usize) -> u32 {
    // Bodies are bounded far below this.
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn head(change: Change) -> &'static [u8] {
    match change {
        Change::Added => b"{\"type\":\"ADDED\",\"object\":",
        Change::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
        Change::Deleted => b"{\"type\":\"DELETED\",\"object\":",
    }
}

/// Encoding a `Value` cannot fail: its keys are strings.
fn write(out: &mut Vec<u8>, value: &Value) {
    let _ = serde_json::to_writer(out, value);
}

fn write_members(
    out: &mut Vec<u8>,
    members: &Map<String, Value>,
    found: &mut Vec<Member>,
    mut inner: impl FnMut(&mut Vec<u8>, &str, &Value),
) {
    out.push(b'{');
    for (i, (name, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let start = out.len();
        let _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        let begins = out.len();
        inner(out, name, value);
        found.push(Member {
            start: place(start),
            value: place(begins),
            end: place(out.len()),
        });
    }
    out.push(b'}');
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl Text {
    /// Writes an object. `scratch` is emptied, and keeps its memory for the next.
    pub(super) fn of(value: &Value, change: Change, scratch: &mut Vec<u8>) -> Self {
        let out = scratch;
        out.clear();
        out.extend_from_slice(head(change));
        let start = out.len();
        let mut top = Vec::new();
        let mut below = Vec::new();
        match value {
            Value::Object(members) => write_members(out, members, &mut top, |out, name, value| {
                match (name, value) {
                    ("metadata", Value::Object(metadata)) => {
                        write_members(out, metadata, &mut below, |out, _, value| {
                            write(out, value);
                        });
                    }
                    _ => write(out, value),
                }
            }),
            other => write(out, other),
        }
        out.extend_from_slice(b"}\n");
        let count = top.len();
        top.append(&mut below);
        Self {
            line: Bytes::copy_from_slice(out),
            change,
            start: place(start),
            members: top.into_boxed_slice(),
            top: place(count),
            deep: depth(value) > MAX_DEPTH,
            message: OnceLock::new(),
        }
    }

    /// The object as a message, made by `encode` when it is first asked for.
    pub(super) fn message(
        &self,
        encode: impl FnOnce() -> Result<Bytes, Unencodable>,
    ) -> Result<Bytes, Unencodable> {
        if let Some(message) = self.message.get() {
            return Ok(message.clone());
        }
        let message = encode()?;
        Ok(self.message.get_or_init(|| message).clone())
    }

    fn object(&self) -> (usize, usize) {
        (self.start as usize, self.line.len().saturating_sub(2))
    }

    /// The object, sharing the text's memory.
    pub(super) fn json(&self) -> Bytes {
        let (start, end) = self.object();
        self.line.slice(start..end)
    }

    /// The object.
    pub(super) fn as_json(&self) -> &[u8] {
        let (start, end) = self.object();
        self.line.get(start..end).unwrap_or_default()
    }

    /// The line of a watch event that tells of the object, with its line feed.
    pub(super) fn line(&self, change: Change) -> Bytes {
        if change == self.change {
            return self.line.clone();
        }
        let (start, _) = self.object();
        let rest = self.line.get(start..).unwrap_or_default();
        [head(change), rest].concat().into()
    }

    /// Whether the text cannot be parsed again.
    pub(super) fn is_deep(&self) -> bool {
        self.deep
    }

    fn slice(&self, from: u32, to: u32) -> &[u8] {
        self.line
            .get(from as usize..to as usize)
            .unwrap_or_default()
    }

    fn top(&self) -> &[Member] {
        self.members.get(..self.top as usize).unwrap_or_default()
    }

    fn below(&self) -> &[Member] {
        self.members.get(self.top as usize..).unwrap_or_default()
    }

    fn find(&self, members: &[Member], name: &str) -> Option<&[u8]> {
        members
            .iter()
            .find(|m| {
                let quoted = self.slice(m.start, m.value);
                quoted.len() == name.len() + 3
                    && quoted.get(1..=name.len()) == Some(name.as_bytes())
            })
            .map(|m| self.slice(m.value, m.end))
    }

    /// The text of a member of the object.
    pub(super) fn member(&self, name: &str) -> Option<&[u8]> {
        self.find(self.top(), name)
    }

    /// The text of a member of `metadata`.
    pub(super) fn metadata(&self, name: &str) -> Option<&[u8]> {
        self.find(self.below(), name)
    }

    /// Writes the object without `kind` and `apiVersion`, as lists of built-in
    /// types carry it.
    pub(super) fn write_item(&self, mut put: impl FnMut(&[u8])) {
        let members = self.top();
        if members.is_empty() {
            put(self.as_json());
            return;
        }
        let mut separator: &[u8] = b"{";
        for member in members {
            let name = self.slice(member.start, member.value);
            if matches!(name, b"\"kind\":" | b"\"apiVersion\":") {
                continue;
            }
            put(separator);
            put(self.slice(member.start, member.end));
            separator = b",";
        }
        if separator == b"{" {
            put(separator);
        }
        put(b"}");
    }
}

/// The string that a JSON text is; borrowed where nothing is escaped.
pub(super) fn string(text: &[u8]) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        return serde_json::from_slice::<String>(text).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// The string under `wanted` in the text of a flat object of strings.
pub(super) fn entry<'a>(text: &'a [u8], wanted: &str) -> Option<Cow<'a, str>> {
    // Labels need no escapes; what does is read properly.
    if text.contains(&b'\\') {
        let map: Map<String, Value> = serde_json::from_slice(text).ok()?;
        return map
            .get(wanted)
            .and_then(Value::as_str)
            .map(|value| Cow::Owned(value.to_owned()));
    }
    let mut quoted = std::str::from_utf8(text).ok()?.split('"').skip(1);
    while let Some(name) = quoted.next() {
        quoted.next()?;
        let value = quoted.next()?;
        if name == wanted {
            return Some(Cow::Borrowed(value));
        }
        quoted.next();
    }
    None
}

/// Reads the value at a path and skips the rest.
pub(super) fn pick(text: &[u8], path: &[&str]) -> Option<Value> {
    let mut found = None;
    let mut parser = serde_json::Deserializer::from_slice(text);
    // Reading stops with an error once the value was found.
    let _ = Pick {
        path,
        found: &mut found,
    }
    .deserialize(&mut parser);
    found
}

struct Pick<'a> {
    path: &'a [&'a str],
    found: &'a mut Option<Value>,
}

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(serde::Deserialize::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else {
            return Ok(());
        };
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == *first {
                map.next_value_seed(Pick {
                    path: rest,
                    found: self.found,
                })?;
                return Err(A::Error::custom("found"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
