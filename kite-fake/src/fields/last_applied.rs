//! What client-side `kubectl apply` leaves behind, and what `kubectl apply
//! --server-side` makes of it: it may take over the fields that the annotation
//! says were applied from the client, and keeps the annotation up to date.

use serde_json::Value;

use super::compare::Difference;
use super::set::FieldSet;
use super::{Context, managed, typed};

/// The annotation of client-side apply.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The field manager of `kubectl apply --server-side`.
const KUBECTL: &str = "kubectl";

/// Most bytes of all annotations together; beyond that, this one is dropped.
const MAX_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()
}

/// Fields that `kubectl` may take without force: those that the annotation has
/// with the value that is there.
pub(super) fn yielded(context: &Context<'_>, live: &Value) -> FieldSet {
    let last = match annotation(live) {
        Some(text) if context.manager.name == KUBECTL => text,
        _ => return FieldSet::default(),
    };
    let Ok(last) = serde_json::from_str::<Value>(last) else {
        return FieldSet::default();
    };
    // What was applied in another version says nothing about this one.
    let version = last.get("apiVersion").and_then(Value::as_str);
    if version != Some(context.manager.api_version.as_str())
        || typed::check(context.schema, &last).is_err()
    {
        return FieldSet::default();
    }
    let mut fields = typed::fields_of(Some(context.schema), &last);
    let difference = Difference::between(context.schema, &last, live);
    fields.subtract(&difference.taken);
    fields.subtract(&difference.removed);
    fields
}

/// Writes the annotation anew where there is one already.
pub(super) fn refresh(context: &Context<'_>, config: &Value, merged: &mut Value) {
    if context.manager.name != KUBECTL || annotation(merged).is_none() {
        return;
    }
    let mut applied = config.clone();
    managed::remove(&mut applied);
    if let Some(Value::Object(annotations)) = applied
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
    {
        annotations.remove(ANNOTATION);
    }
    // As Go's encoder writes it: safe within HTML, and with a line feed at the end.
    let mut text = applied.to_string();
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        if text.contains(plain) {
            text = text.replace(plain, escaped);
        }
    }
    text.push('\n');
    let annotations = merged
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut);
    let Some(annotations) = annotations else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::from(text));
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_BYTES {
        annotations.remove(ANNOTATION);
    }
}
