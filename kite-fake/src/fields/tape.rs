//! JSON read into one flat list that borrows from its text.
//!
//! Comparing two texts takes no tree: one allocation for each is enough, where a
//! tree of small maps takes one for each member.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// A text, read. A container is followed by all that is in it; a member's name
/// comes before its value.
#[derive(Debug)]
pub(super) struct Tape<'a>(Vec<Slot<'a>>);

#[derive(Debug, PartialEq)]
enum Slot<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    /// `end` is the place after its last element.
    Array {
        end: usize,
        len: usize,
    },
    Object {
        end: usize,
        len: usize,
    },
}

impl<'a> Tape<'a> {
    /// Reads a text; `None` if it is no JSON, or an object in it has a member twice.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        Self::parse(text, false)
    }

    /// Reads a text that the server wrote itself: no member is in it twice.
    pub(super) fn read_own(text: &'a [u8]) -> Option<Self> {
        Self::parse(text, true)
    }

    fn parse(text: &'a [u8], own: bool) -> Option<Self> {
        let mut slots = Vec::with_capacity(text.len() / 8 + 8);
        let mut parser = serde_json::Deserializer::from_slice(text);
        let reader = Reader {
            slots: &mut slots,
            own,
        };
        reader.deserialize(&mut parser).ok()?;
        parser.end().ok()?;
        Some(Self(slots))
    }

    pub(super) fn root(&self) -> Node<'_> {
        Node {
            slots: &self.0,
            at: 0,
        }
    }
}

/// A value on a tape.
#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    slots: &'t [Slot<'t>],
    at: usize,
}

impl<'t> Node<'t> {
    fn slot(self) -> &'t Slot<'t> {
        self.slots.get(self.at).unwrap_or(&Slot::Null)
    }

    fn after(self) -> usize {
        match *self.slot() {
            Slot::Array { end, .. } | Slot::Object { end, .. } => end,
            _ => self.at + 1,
        }
    }

    pub(super) fn is_null(self) -> bool {
        *self.slot() == Slot::Null
    }

    pub(super) fn is_object(self) -> bool {
        matches!(self.slot(), Slot::Object { .. })
    }

    pub(super) fn is_array(self) -> bool {
        matches!(self.slot(), Slot::Array { .. })
    }

    pub(super) fn as_str(self) -> Option<&'t str> {
        match self.slot() {
            Slot::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub(super) fn object(self) -> Option<Members<'t>> {
        match *self.slot() {
            Slot::Object { end, len } => Some(Members {
                slots: self.slots,
                first: self.at + 1,
                next: self.at + 1,
                end,
                len,
            }),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub(super) fn array(self) -> Option<Elements<'t>> {
        match *self.slot() {
            Slot::Array { end, len } => Some(Elements {
                slots: self.slots,
                next: self.at + 1,
                end,
                len,
            }),
            _ => None,
        }
    }

    /// A member of an object.
    pub(super) fn get(self, name: &str) -> Option<Self> {
        self.object()?.find(name)
    }

    /// Writes a scalar as JSON; `false` for anything else.
    pub(super) fn write_scalar(self, out: &mut String) -> bool {
        use fmt::Write as _;
        // Writing to a string does not fail.
        let _ = match self.slot() {
            Slot::Bool(flag) => write!(out, "{flag}"),
            Slot::Number(number) => write!(out, "{number}"),
            Slot::Text(text) => {
                write_quoted(text, out);
                Ok(())
            }
            Slot::Null | Slot::Array { .. } | Slot::Object { .. } => return false,
        };
        true
    }
}

/// Writes a string as JSON.
pub(super) fn write_quoted(text: &str, out: &mut String) {
    if text.bytes().any(|b| b < b' ' || b == b'"' || b == b'\\') {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// Values are equal whatever the order of members.
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.object(), other.object()) {
            (Some(ours), Some(mut theirs)) => {
                ours.len == theirs.len && { ours }
                    .all(|(name, value)| theirs.find(name) == Some(value))
            }
            (None, None) => match (self.array(), other.array()) {
                (Some(ours), Some(theirs)) => ours.len == theirs.len && ours.eq(theirs),
                (None, None) => self.slot() == other.slot(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The members of an object: an iterator, and a way to find one of them that is
/// quick if they are asked for in order.
#[derive(Clone)]
pub(super) struct Members<'t> {
    slots: &'t [Slot<'t>],
    first: usize,
    next: usize,
    end: usize,
    len: usize,
}

impl<'t> Members<'t> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The member of that name; the search goes on where the last one ended.
    pub(super) fn find(&mut self, name: &str) -> Option<Node<'t>> {
        for _ in 0..self.len {
            if self.next >= self.end {
                self.next = self.first;
            }
            let (found, value) = self.next()?;
            if found == name {
                return Some(value);
            }
        }
        None
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = (&'t str, Node<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let name = Node {
            slots: self.slots,
            at: self.next,
        };
        let value = Node {
            slots: self.slots,
            at: self.next + 1,
        };
        self.next = value.after();
        Some((name.as_str()?, value))
    }
}

/// The elements of an array.
#[derive(Clone)]
pub(super) struct Elements<'t> {
    slots: &'t [Slot<'t>],
    next: usize,
    end: usize,
    len: usize,
}

impl Elements<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<'t> Iterator for Elements<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        if self.next >= self.end {
            return None;
        }
        let node = Node {
            slots: self.slots,
            at: self.next,
        };
        self.next = node.after();
        Some(node)
    }
}

/// Appends what it reads.
struct Reader<'r, 'a> {
    slots: &'r mut Vec<Slot<'a>>,
    /// No member occurs twice.
    own: bool,
}

impl<'de> DeserializeSeed<'de> for Reader<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.slots.push(Slot::Null);
        Ok(())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.slots.push(Slot::Bool(flag));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.slots.push(Slot::Number(number.into()));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.slots.push(Slot::Number(number.into()));
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("not a number"))?;
        self.slots.push(Slot::Number(number));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        self.slots.push(Slot::Text(Cow::Borrowed(text)));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.slots.push(Slot::Text(Cow::Owned(text.to_owned())));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Reader { slots, own } = self;
        let place = slots.len();
        slots.push(Slot::Null);
        let mut len = 0;
        while seq.next_element_seed(Reader { slots, own })?.is_some() {
            len += 1;
        }
        let end = slots.len();
        if let Some(slot) = slots.get_mut(place) {
            *slot = Slot::Array { end, len };
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Reader { slots, own } = self;
        let place = slots.len();
        slots.push(Slot::Null);
        let mut len = 0;
        let mut last = None;
        let mut in_order = true;
        loop {
            let name = slots.len();
            if map.next_key_seed(Reader { slots, own })?.is_none() {
                break;
            }
            len += 1;
            if let Some(last) = last.filter(|_| !own) {
                in_order &= is_before(slots.get(last), slots.get(name));
            }
            last = Some(name);
            map.next_value_seed(Reader { slots, own })?;
        }
        let end = slots.len();
        if let Some(slot) = slots.get_mut(place) {
            *slot = Slot::Object { end, len };
        }
        // In order, a name that occurs twice would have been noticed.
        if !in_order {
            let node = Node { slots, at: place };
            let mut names: Vec<&str> = node.object().into_iter().flatten().map(|m| m.0).collect();
            names.sort_unstable();
            if names.windows(2).any(|pair| pair.first() == pair.last()) {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(())
    }
}

fn is_before(first: Option<&Slot<'_>>, second: Option<&Slot<'_>>) -> bool {
    match (first, second) {
        (Some(Slot::Text(first)), Some(Slot::Text(second))) => first < second,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::any_json;

    /// The tree that a tape stands for.
    fn tree(node: Node<'_>) -> Value {
        if let Some(members) = node.object() {
            let members = members.map(|(name, value)| (name.to_owned(), tree(value)));
            return Value::Object(members.collect());
        }
        if let Some(elements) = node.array() {
            return elements.map(tree).collect();
        }
        match node.slot() {
            Slot::Bool(flag) => (*flag).into(),
            Slot::Number(number) => number.clone().into(),
            Slot::Text(text) => text.as_ref().into(),
            _ => Value::Null,
        }
    }

    proptest! {
        #[test]
        fn a_tape_says_what_the_text_says(a in any_json(), b in any_json()) {
            let (a_text, b_text) = (a.to_string(), b.to_string());
            let a_tape = Tape::read(a_text.as_bytes()).unwrap();
            let b_tape = Tape::read(b_text.as_bytes()).unwrap();
            prop_assert_eq!(tree(a_tape.root()), a.clone());
            prop_assert_eq!(a_tape.root() == b_tape.root(), a == b);
            if let Value::Object(members) = &a {
                for (name, value) in members.iter().rev() {
                    prop_assert_eq!(&tree(a_tape.root().get(name).unwrap()), value);
                }
            }
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = Tape::read(text.as_bytes());
        }
    }

    #[test]
    fn the_order_of_members_is_free_and_repetitions_are_refused() {
        let read = |text: &'static str| Tape::read(text.as_bytes());
        let one = read(r#"{"b":1,"a":{"x":[true,null]}}"#).unwrap();
        let other = read(r#"{"a":{"x":[true,null]},"b":1}"#).unwrap();
        assert!(one.root() == other.root());
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"b":1,"a":1,"b":2}"#,
            r#"{"a":1} x"#,
            "{",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
        let list = read(r#"[1.5,-2,"a\nb"]"#).unwrap();
        assert_eq!(tree(list.root()), json!([1.5, -2, "a\nb"]));
    }
}
