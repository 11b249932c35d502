//! JSON text as Kubernetes' server writes it.
//!
//! Go writes a struct's members in the order of its fields, a map's by name, and
//! escapes what would mean something in HTML. So a built-in object begins with its
//! `kind`, and a custom one, which is a map to the server, with its `apiVersion`.
//! Clients that parse do not care; tests, caches and diffs that compare texts do.

mod field_set;
mod indent;
mod literal;
mod number;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod oracle;
mod order;
mod read;
mod string;
mod syntax;
mod write;

use serde_json::Value;

use crate::go_types::TYPES;
pub(crate) use indent::indented;
pub(crate) use literal::as_sent;
pub(crate) use order::Order;
pub(crate) use read::read;
pub(crate) use syntax::fault;
pub(crate) use write::Writer;

/// A value in the order of its kind, or by name if it is of none that is known.
pub(crate) fn text(value: &Value) -> Vec<u8> {
    ordered(value, Order::of(value))
}

/// A whole answer: a text and the line feed after it.
pub(crate) fn document(value: &Value) -> Vec<u8> {
    let mut text = text(value);
    text.push(b'\n');
    text
}

/// The line of a watch event about a value.
pub(crate) fn event(change: &str, value: &Value) -> Vec<u8> {
    let mut out = format!("{{\"type\":\"{change}\",\"object\":").into_bytes();
    Writer::default().value(&mut out, value, Order::of(value));
    out.extend_from_slice(b"}\n");
    out
}

/// The `metadata` of a list.
pub(crate) fn list_metadata(value: &Value) -> String {
    let order = TYPES.find("meta.v1.ListMeta").and_then(Order::at);
    String::from_utf8(ordered(value, order)).unwrap_or_default()
}

fn ordered(value: &Value, order: Option<&'static Order>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    Writer::default().value(&mut out, value, order);
    out
}
