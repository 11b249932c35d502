//! An object as JSON text, and where its parts are in it.
//!
//! Its message in protobuf is made when it is first asked for, and kept with the text.
//!
//! The text is written once, after the beginning of the watch event that announced the
//! state and before the line feed that ends an answer: the object, the answer and all
//! of the event but its end are parts of it. So a stored object costs its text and
//! little else, and neither reads, lists nor watches encode it again.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::Change;
use crate::go_json::{Order, Writer};
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
    /// `{"type":"ADDED","object":{…}` and a line feed.
    line: Bytes,
    change: Change,
    start: u32,
    /// The members of the object, then those of its `metadata`.
    members: Box<[Member]>,
    top: u32,
    deep: bool,
    /// It is in the order of its type, not in that of its members' names.
    in_order: bool,
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

/// Where a member is whose name begins at `start`, and whose value was just written.
fn member(start: usize, value: usize, out: &[u8]) -> Member {
    Member {
        start: place(start),
        value: place(value),
        end: place(out.len()),
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
        let order = Order::of(value);
        let mut writer = Writer::default();
        match value {
            Value::Object(members) => {
                writer.object(out, members, order, |writer, out, slot, from| {
                    let begins = out.len();
                    match (slot.name, slot.value) {
                        ("metadata", Value::Object(metadata)) => {
                            let order = slot.then.order();
                            writer.object(out, metadata, order, |writer, out, slot, from| {
                                let begins = out.len();
                                writer.member(out, slot);
                                below.push(member(from, begins, out));
                            });
                        }
                        _ => writer.member(out, slot),
                    }
                    top.push(member(from, begins, out));
                });
            }
            other => writer.value(out, other, None),
        }
        out.push(b'\n');
        let count = top.len();
        top.append(&mut below);
        Self {
            line: Bytes::copy_from_slice(out),
            change,
            start: place(start),
            members: top.into_boxed_slice(),
            top: place(count),
            deep: writer.deepest() > MAX_DEPTH,
            in_order: order.is_some(),
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
        (self.start as usize, self.line.len().saturating_sub(1))
    }

    /// The object, sharing the text's memory.
    pub(super) fn json(&self) -> Bytes {
        let (start, end) = self.object();
        self.line.slice(start..end)
    }

    /// The object and a line feed, as it is answered, sharing the text's memory.
    pub(super) fn document(&self) -> Bytes {
        self.line.slice(self.start as usize..)
    }

    /// The object.
    pub(super) fn as_json(&self) -> &[u8] {
        let (start, end) = self.object();
        self.line.get(start..end).unwrap_or_default()
    }

    /// Hands out the pieces of the watch event that tells of the object, but for what
    /// ends it.
    pub(super) fn event(&self, change: Change, mut put: impl FnMut(Bytes)) {
        if change == self.change {
            put(self.line.slice(..self.line.len().saturating_sub(1)));
        } else {
            put(Bytes::from_static(head(change)));
            put(self.json());
        }
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

    /// Writes `metadata` in the order of its type, as it is without the rest.
    pub(super) fn write_metadata(&self, mut put: impl FnMut(&[u8])) {
        let Some(order) = Order::of_metadata().filter(|_| !self.in_order) else {
            put(self.member("metadata").unwrap_or(b"{}"));
            return;
        };
        let members = self.below().iter();
        let mut members: Vec<_> = members
            .map(|it| {
                let name = string(self.slice(it.start, it.value.saturating_sub(1)));
                let (rank, then) = order.place(&name.unwrap_or_default());
                (rank, it.start, it, then)
            })
            .collect();
        members.sort_unstable_by_key(|(rank, start, ..)| (*rank, *start));
        let mut separator: &[u8] = b"{";
        for (_, _, member, then) in members {
            put(separator);
            separator = b",";
            match then.order() {
                None => put(self.slice(member.start, member.end)),
                Some(order) => {
                    let value = self.slice(member.value, member.end);
                    let value = serde_json::from_slice(value).unwrap_or_default();
                    let mut out = self.slice(member.start, member.value).to_vec();
                    Writer::of_maps().value(&mut out, &value, Some(order));
                    put(&out);
                }
            }
        }
        if separator == b"{" {
            put(separator);
        }
        put(b"}");
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
