//! What an object says, as one list of tokens: made in one pass and without an
//! allocation for each value. Every object that Kite owns is compared at every
//! reconcile that looks, so this is what such a reconcile costs.

use std::{borrow::Cow, fmt};

use serde::ser::{self, Serialize};
use serde_json::Value;

/// One part of a value. Positions are those of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    Null,
    Bool(bool),
    /// A whole number below zero.
    Negative(i64),
    /// Any other whole number.
    Whole(u64),
    Float(f64),
    /// From here to there in the text.
    Text(usize, usize),
    /// Elements follow; `end` is behind the last.
    List {
        end: usize,
    },
    /// Keys and values follow by turns; `end` is behind the last.
    Map {
        end: usize,
    },
}

/// A serialised value.
#[derive(Debug, Default)]
pub(super) struct Tape {
    text: String,
    tokens: Vec<Token>,
}

impl Tape {
    /// What `value` says. None if JSON could not say it.
    pub(super) fn of<T: Serialize>(value: &T) -> Option<Self> {
        let mut tape = Self {
            text: String::with_capacity(2048),
            tokens: Vec::with_capacity(256),
        };
        value.serialize(&mut tape).ok()?;
        Some(tape)
    }

    /// The whole value.
    pub(super) fn root(&self) -> View<'_> {
        View { tape: self, at: 0 }
    }

    fn push(&mut self, token: Token) {
        self.tokens.push(token);
    }

    fn push_text(&mut self, text: &str) {
        let from = self.text.len();
        self.text.push_str(text);
        self.push(Token::Text(from, self.text.len()));
    }

    fn open(&mut self, token: Token) -> Open<'_> {
        let at = self.tokens.len();
        self.push(token);
        Open { tape: self, at }
    }

    fn token(&self, at: usize) -> Token {
        self.tokens.get(at).copied().unwrap_or(Token::Null)
    }

    /// Behind the value at `at`.
    fn behind(&self, at: usize) -> usize {
        match self.token(at) {
            Token::List { end } | Token::Map { end } => end,
            _ => at + 1,
        }
    }
}

/// A value on a tape.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    tape: &'a Tape,
    at: usize,
}

/// What a value is.
pub(super) enum Seen<'a> {
    Null,
    /// A truth value or a number.
    Scalar(Scalar),
    Text(&'a str),
    List(List<'a>),
    Map(Map<'a>),
}

/// A truth value or a number, equal to what JSON takes for the same.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Scalar(Token);

impl<'a> View<'a> {
    pub(super) fn seen(self) -> Seen<'a> {
        let (tape, at) = (self.tape, self.at + 1);
        match tape.token(self.at) {
            Token::Null => Seen::Null,
            Token::Text(from, to) => Seen::Text(tape.text.get(from..to).unwrap_or_default()),
            Token::List { end } => Seen::List(List { tape, at, end }),
            Token::Map { end } => Seen::Map(Map {
                tape,
                begin: at,
                end,
                hint: at,
            }),
            scalar => Seen::Scalar(Scalar(scalar)),
        }
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self.tape.token(self.at), Token::Null)
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self.seen() {
            Seen::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements; none if it is no list.
    pub(super) fn elements(self) -> Option<List<'a>> {
        match self.seen() {
            Seen::List(list) => Some(list),
            _ => None,
        }
    }

    /// The value of a field; none if it is no map, or has none such.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        match self.seen() {
            Seen::Map(mut map) => map.get(key),
            _ => None,
        }
    }

    pub(super) fn is(self, value: &Value) -> bool {
        match (self.seen(), value) {
            (Seen::Null, Value::Null) => true,
            (Seen::Text(text), Value::String(other)) => text == other,
            (Seen::Scalar(Scalar(Token::Bool(one))), Value::Bool(other)) => one == *other,
            (Seen::Scalar(Scalar(Token::Negative(one))), Value::Number(other)) => {
                other.as_i64() == Some(one)
            }
            (Seen::Scalar(Scalar(Token::Whole(one))), Value::Number(other)) => {
                other.as_u64() == Some(one)
            }
            _ => false,
        }
    }
}

/// The elements of a list.
#[derive(Clone)]
pub(super) struct List<'a> {
    tape: &'a Tape,
    at: usize,
    end: usize,
}

impl<'a> Iterator for List<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        if self.at >= self.end {
            return None;
        }
        let view = View {
            tape: self.tape,
            at: self.at,
        };
        self.at = self.tape.behind(self.at);
        Some(view)
    }
}

/// The fields of a map.
#[derive(Clone)]
pub(super) struct Map<'a> {
    tape: &'a Tape,
    begin: usize,
    end: usize,
    /// Where the next field that is asked for probably is: two objects of one
    /// kind have their fields in the same order.
    hint: usize,
}

impl<'a> Map<'a> {
    fn entry(&self, at: usize) -> (&'a str, View<'a>) {
        let key = match self.tape.token(at) {
            Token::Text(from, to) => self.tape.text.get(from..to).unwrap_or_default(),
            _ => "",
        };
        let value = View {
            tape: self.tape,
            at: at + 1,
        };
        (key, value)
    }

    /// The value of a field.
    pub(super) fn get(&mut self, key: &str) -> Option<View<'a>> {
        let hint = self.hint;
        self.find(key, hint, self.end)
            .or_else(|| self.find(key, self.begin, hint))
    }

    fn find(&mut self, key: &str, from: usize, to: usize) -> Option<View<'a>> {
        let mut at = from;
        while at < to {
            let (name, value) = self.entry(at);
            let behind = self.tape.behind(at + 1);
            if name == key {
                self.hint = behind;
                return Some(value);
            }
            at = behind;
        }
        None
    }

    /// All of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, View<'a>)> + use<'a> {
        let map = self.clone();
        let mut at = map.begin;
        std::iter::from_fn(move || {
            let entry = (at < map.end).then(|| map.entry(at))?;
            at = map.tape.behind(at + 1);
            Some(entry)
        })
    }
}

/// Why something is not on a tape.
#[derive(Debug)]
pub(super) struct Unfit(Cow<'static, str>);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

impl ser::Error for Unfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

/// A list or a map that is being written.
pub(super) struct Open<'a> {
    tape: &'a mut Tape,
    at: usize,
}

impl Open<'_> {
    fn close(self) {
        let behind = self.tape.tokens.len();
        if let Some(Token::List { end } | Token::Map { end }) = self.tape.tokens.get_mut(self.at) {
            *end = behind;
        }
    }

    fn key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Unfit> {
        key.serialize(&mut *self.tape)?;
        match self.tape.tokens.last() {
            Some(Token::Text(..)) => Ok(()),
            _ => Err(Unfit("a key that is no text".into())),
        }
    }

    fn value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        value.serialize(&mut *self.tape)
    }
}

/// Closes what it wrote, and the map around it, in which it stands under the
/// name of its variant.
pub(super) struct Variant<'a> {
    open: Open<'a>,
    around: usize,
}

impl Variant<'_> {
    fn close(self) {
        let Self { open, around } = self;
        let Open { tape, at } = open;
        Open { tape, at }.close();
        Open { tape, at: around }.close();
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty => $token:expr;)*) => { $(
        fn $method(self, value: $type) -> Result<(), Unfit> {
            let token: fn($type) -> Token = $token;
            self.push(token(value));
            Ok(())
        }
    )* };
}

fn signed(value: i64) -> Token {
    u64::try_from(value).map_or(Token::Negative(value), Token::Whole)
}

fn float(value: f64) -> Token {
    // JSON has no other.
    if value.is_finite() {
        Token::Float(value)
    } else {
        Token::Null
    }
}

impl<'a> ser::Serializer for &'a mut Tape {
    type Ok = ();
    type Error = Unfit;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Variant<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Variant<'a>;

    scalars! {
        serialize_bool: bool => Token::Bool;
        serialize_i8: i8 => |value| signed(value.into());
        serialize_i16: i16 => |value| signed(value.into());
        serialize_i32: i32 => |value| signed(value.into());
        serialize_i64: i64 => signed;
        serialize_u8: u8 => |value| Token::Whole(value.into());
        serialize_u16: u16 => |value| Token::Whole(value.into());
        serialize_u32: u32 => |value| Token::Whole(value.into());
        serialize_u64: u64 => Token::Whole;
        serialize_f32: f32 => |value| float(value.into());
        serialize_f64: f64 => float;
    }

    fn serialize_char(self, value: char) -> Result<(), Unfit> {
        self.push_text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Unfit> {
        self.push_text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Unfit> {
        let open = self.open(Token::List { end: 0 });
        for byte in value {
            open.tape.push(Token::Whole((*byte).into()));
        }
        open.close();
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Unfit> {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Unfit> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unfit> {
        self.push(Token::Null);
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Unfit> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Unfit> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Unfit> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unfit> {
        let mut open = self.open(Token::Map { end: 0 });
        open.key(variant)?;
        open.value(value)?;
        open.close();
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Open<'a>, Unfit> {
        Ok(self.open(Token::List { end: 0 }))
    }

    fn serialize_tuple(self, len: usize) -> Result<Open<'a>, Unfit> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<Open<'a>, Unfit> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Variant<'a>, Unfit> {
        let mut open = self.open(Token::Map { end: 0 });
        open.key(variant)?;
        let Open { tape, at: around } = open;
        let open = tape.open(Token::List { end: 0 });
        Ok(Variant { open, around })
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Open<'a>, Unfit> {
        Ok(self.open(Token::Map { end: 0 }))
    }

    fn serialize_struct(self, _name: &'static str, len: usize) -> Result<Open<'a>, Unfit> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Variant<'a>, Unfit> {
        let mut open = self.open(Token::Map { end: 0 });
        open.key(variant)?;
        let Open { tape, at: around } = open;
        let open = tape.open(Token::Map { end: 0 });
        Ok(Variant { open, around })
    }
}

impl ser::SerializeSeq for Open<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTuple for Open<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTupleStruct for Open<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTupleVariant for Variant<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        self.open.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Unfit> {
        self.key(key)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unfit> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStruct for Open<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unfit> {
        self.tape.push_text(key);
        self.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStructVariant for Variant<'_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unfit> {
        self.open.tape.push_text(key);
        self.open.value(value)
    }

    fn end(self) -> Result<(), Unfit> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn back(view: View<'_>) -> Value {
        match view.seen() {
            Seen::Null => Value::Null,
            Seen::Text(text) => json!(text),
            Seen::List(list) => list.map(back).collect(),
            Seen::Map(map) => {
                let entries = map.entries();
                entries
                    .map(|(key, value)| (key.to_owned(), back(value)))
                    .collect()
            }
            Seen::Scalar(Scalar(token)) => match token {
                Token::Bool(value) => json!(value),
                Token::Negative(value) => json!(value),
                Token::Whole(value) => json!(value),
                Token::Float(value) => json!(value),
                _ => unreachable!(),
            },
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[a-zäß]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn says_what_json_says(value in values()) {
            let tape = Tape::of(&value).unwrap();
            prop_assert_eq!(back(tape.root()), value);
        }

        #[test]
        fn finds_every_field_in_any_order(keys in prop::collection::btree_set("[a-z]{1,3}", 1..8)) {
            let value: Value = keys.iter().map(|key| (key.clone(), json!([key]))).collect();
            let tape = Tape::of(&value).unwrap();
            let Seen::Map(mut map) = tape.root().seen() else { unreachable!() };
            for key in keys.iter().rev().chain(&keys) {
                prop_assert!(back(map.get(key).unwrap()) == json!([key]));
                prop_assert!(tape.root().get(key).is_some());
            }
            prop_assert!(map.get("nowhere").is_none());
        }
    }

    #[test]
    fn variants_are_written_as_json_does() {
        #[derive(serde::Serialize)]
        enum Any {
            Unit,
            New(u8),
            Tuple(i8, f32),
            Struct { a: Option<char> },
        }
        for value in [
            Any::Unit,
            Any::New(1),
            Any::Tuple(-1, 0.5),
            Any::Struct { a: None },
        ] {
            let tape = Tape::of(&(&value, "after")).unwrap();
            assert_eq!(back(tape.root()), json!([&value, "after"]));
        }
    }
}
