//! Strategic merge patch: a merge patch that knows how lists are keyed, and
//! obeys directives inside the patch.
//!
//! | Directive | Meaning |
//! |---|---|
//! | `$patch: replace`, `delete`, `merge` | in an object: replace, empty or merge it; in a list element: replace the list, or delete the element with this key |
//! | `$retainKeys: [a, b]` | drop every other member of the object |
//! | `$deleteFromPrimitiveList/NAME: [x]` | remove these scalars from the list |
//! | `$setElementOrder/NAME: [..]` | put the merged list into this order |

use std::cmp::Ordering;

use crate::go;
use serde_json::{Map, Value};

use super::{PatchError, decode};
use crate::schema::{PatchStrategy, Schema};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in type.
///
/// # Errors
/// [`PatchError::BadRequest`] for a body that is no object or a malformed
/// directive, [`PatchError::Internal`] for a list element without its merge key.
pub fn strategic_merge_patch(
    schema: &Schema,
    document: &Value,
    body: &[u8],
) -> Result<Value, PatchError> {
    let patch: Object = decode(body, Value::is_object, "map[string]interface {}")?;
    let original = document.as_object().cloned().unwrap_or_default();
    merge_object(Some(schema), original, patch).map(Value::Object)
}

/// Merges `patch` into `target`. The schema is `None` below what it does not describe.
fn merge_object(
    schema: Option<&Schema>,
    mut target: Object,
    mut patch: Object,
) -> Result<Object, PatchError> {
    match patch.remove(PATCH) {
        None => {}
        Some(Value::String(word)) if word == "merge" => {}
        Some(Value::String(word)) if word == "replace" => return Ok(patch),
        Some(Value::String(word)) if word == "delete" => return Ok(Object::new()),
        Some(other) => return Err(unknown_directive(&other)),
    }
    retain_keys(&mut target, &mut patch)?;
    reorder_lists(schema, &mut target, &mut patch)?;
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM_LIST) {
            delete_scalars(&mut target, list, &change)?;
            continue;
        }
        if change.is_null() {
            target.remove(&name);
            continue;
        }
        let inner = schema.and_then(|s| s.member(&name)).map(AsRef::as_ref);
        let merged = match (target.remove(&name), change) {
            (Some(Value::Object(old)), Value::Object(change)) => {
                Value::Object(merge_object(inner, old, change)?)
            }
            (Some(Value::Array(old)), Value::Array(change)) if merges(inner) => {
                Value::Array(merge_list(inner, old, change)?)
            }
            (_, change) => without_directives(change)?,
        };
        target.insert(name, merged);
    }
    Ok(target)
}

/// Whether a patch adds to a list instead of replacing it.
fn merges(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|s| {
        matches!(
            s.patch_strategy,
            PatchStrategy::Merge | PatchStrategy::MergeRetainKeys
        )
    })
}

fn unknown_directive(value: &Value) -> PatchError {
    PatchError::Internal(format!(
        "unknown patch type found: {} in map",
        go::value(value)
    ))
}

fn retain_keys(target: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = directive.as_array().ok_or_else(malformed)?;
    let kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    // What the patch sets has to be among what it keeps.
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !name.starts_with('$') && !kept(name))
    {
        return Err(malformed());
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

fn delete_scalars(target: &mut Object, list: &str, values: &Value) -> Result<(), PatchError> {
    let Value::Array(values) = values else {
        return Err(PatchError::BadRequest(
            "invalid patch format of primitive list".to_owned(),
        ));
    };
    if let Some(Value::Array(elements)) = target.get_mut(list) {
        elements.retain(|element| !values.contains(element));
    }
    Ok(())
}

/// Carries out `$setElementOrder` with the merge of the list that it is about.
fn reorder_lists(
    schema: Option<&Schema>,
    target: &mut Object,
    patch: &mut Object,
) -> Result<(), PatchError> {
    let malformed =
        || PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned());
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(malformed());
        };
        let name = &directive[SET_ORDER.len()..];
        let deleted = patch.remove(&format!("{DELETE_FROM_LIST}{name}"));
        if let Some(values) = &deleted {
            delete_scalars(target, name, values)?;
        }
        let inner = schema.and_then(|s| s.member(name)).map(AsRef::as_ref);
        let old = match target.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Array(old)) => Some(old.clone()),
            Some(_) => return Err(malformed()),
        };
        let change = match patch.remove(name) {
            None => None,
            Some(Value::Array(change)) => Some(change),
            // Another value for the list: the order has nothing to do.
            Some(other) => {
                patch.insert(name.to_owned(), other);
                continue;
            }
        };
        let key = inner.and_then(|s| s.patch_merge_key.as_deref());
        let merged = match (old.clone(), change) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(change)) => match without_directives(Value::Array(change))? {
                Value::Array(list) => list,
                _ => return Err(malformed()),
            },
            (Some(old), Some(change)) => merge_list(inner, old, change)?,
        };
        let merged = in_order(merged, &order, &old.unwrap_or_default(), key);
        target.insert(name.to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// Merges two lists: scalars as a set, objects by the merge key.
fn merge_list(
    schema: Option<&Schema>,
    mut old: Vec<Value>,
    change: Vec<Value>,
) -> Result<Vec<Value>, PatchError> {
    let key = schema.and_then(|s| s.patch_merge_key.as_deref());
    let Some(key) = key else {
        let mut merged: Vec<Value> = Vec::with_capacity(old.len() + change.len());
        for value in old.iter().chain(&change) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return Ok(in_order(merged, &change, &old, None));
    };
    let mut wanted = Vec::with_capacity(change.len());
    let mut replace = false;
    for element in change {
        let Value::Object(mut element) = element else {
            return Err(PatchError::Internal(
                "expected map in list with a merge key".to_owned(),
            ));
        };
        match element.remove(PATCH) {
            None => wanted.push(element),
            Some(Value::String(word)) if word == "replace" => replace = true,
            Some(Value::String(word)) if word == "delete" => {
                let value = key_of(&element, key)?.clone();
                old.retain(|candidate| candidate.get(key) != Some(&value));
            }
            Some(Value::String(word)) if word == "merge" => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(other) => return Err(unknown_directive(&other)),
        }
    }
    if replace {
        return wanted
            .into_iter()
            .map(|element| without_directives(Value::Object(element)))
            .collect();
    }
    let items = schema.and_then(|s| s.items.as_deref());
    let order: Vec<Value> = wanted.iter().cloned().map(Value::Object).collect();
    let mut merged = old.clone();
    for element in wanted {
        let value = key_of(&element, key)?.clone();
        let found = merged
            .iter_mut()
            .find(|candidate| candidate.get(key) == Some(&value));
        match found {
            Some(slot) => {
                let base = slot.as_object().cloned().unwrap_or_default();
                *slot = Value::Object(merge_object(items, base, element)?);
            }
            None => merged.push(without_directives(Value::Object(element))?),
        }
    }
    Ok(in_order(merged, &order, &old, Some(key)))
}

fn key_of<'a>(element: &'a Object, key: &str) -> Result<&'a Value, PatchError> {
    element.get(key).ok_or_else(|| {
        PatchError::Internal(format!(
            "map: {} does not contain declared merge key: {key}",
            go::value(&Value::Object(element.clone()))
        ))
    })
}

/// Orders a merged list: what the patch names in the patch's order, the rest in
/// the old order; the rest goes in front of those named elements that stood
/// behind it before. New elements therefore come first.
fn in_order(merged: Vec<Value>, named: &[Value], old: &[Value], key: Option<&str>) -> Vec<Value> {
    let same = |a: &Value, b: &Value| match key {
        None => a == b,
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
    };
    let place = |list: &[Value], value: &Value| list.iter().position(|other| same(other, value));
    let (mut ours, mut rest): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|value| place(named, value).is_some());
    let by = |list: &[Value], a: &Value, b: &Value| match (place(list, a), place(list, b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    };
    ours.sort_by(|a, b| by(named, a, b));
    rest.sort_by(|a, b| by(old, a, b));
    let mut result = Vec::with_capacity(ours.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for value in ours {
        let here = place(old, &value);
        while let Some(other) =
            rest.next_if(|other| matches!((place(old, other), here), (Some(a), Some(b)) if a < b))
        {
            result.push(other);
        }
        result.push(value);
    }
    result.extend(rest);
    result
}

/// A part of a patch that meets nothing in the document: its directives have nothing to do.
fn without_directives(value: Value) -> Result<Value, PatchError> {
    Ok(match value {
        Value::Object(members) => {
            if members.get(PATCH).and_then(Value::as_str) == Some("delete") {
                return Ok(Value::Object(Object::new()));
            }
            let mut kept = Object::new();
            for (name, member) in members {
                let directive = name == PATCH
                    || name == RETAIN_KEYS
                    || name.starts_with(SET_ORDER)
                    || name.starts_with(DELETE_FROM_LIST);
                if !directive && !member.is_null() {
                    kept.insert(name, without_directives(member)?);
                }
            }
            Value::Object(kept)
        }
        Value::Array(elements) => {
            let mut kept = Vec::with_capacity(elements.len());
            for element in elements {
                if element.get(PATCH).is_some() {
                    continue;
                }
                kept.push(without_directives(element)?);
            }
            Value::Array(kept)
        }
        scalar => scalar,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::any_json;

    fn schema() -> Schema {
        Schema::from_json(&json!({"type": "object", "properties": {
            "containers": {"type": "array",
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "image": {"type": "string"},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "env": {"type": "array", "x-kubernetes-patch-strategy": "merge",
                        "x-kubernetes-patch-merge-key": "name", "items": {"type": "object"}},
                }}},
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge",
                "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap()
    }

    fn apply(document: &Value, patch: &Value) -> Result<Value, PatchError> {
        strategic_merge_patch(&schema(), document, patch.to_string().as_bytes())
    }

    #[test]
    fn lists_merge_by_key_and_new_elements_come_first() {
        let document = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]});
        assert_eq!(
            apply(
                &document,
                &json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}]})
            ),
            Ok(json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"name": "b"}]}))
        );
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let document = json!({
            "containers": [{"name": "a", "args": ["x"]}, {"name": "b"}],
            "finalizers": ["one", "two"],
            "labels": {"k": "v", "l": "w"},
        });
        for (patch, path, result) in [
            (
                json!({"containers": [{"name": "a", "$patch": "delete"}]}),
                "/containers",
                json!([{"name": "b"}]),
            ),
            (
                json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
                "/containers",
                json!([{"name": "z"}]),
            ),
            (
                json!({"labels": {"$patch": "replace", "z": "1"}}),
                "/labels",
                json!({"z": "1"}),
            ),
            (
                json!({"labels": {"$patch": "delete"}}),
                "/labels",
                json!({}),
            ),
            (
                json!({"labels": {"$retainKeys": ["l"]}}),
                "/labels",
                json!({"l": "w"}),
            ),
            (
                json!({"$deleteFromPrimitiveList/finalizers": ["one"], "finalizers": ["three"]}),
                "/finalizers",
                json!(["three", "two"]),
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}],
                    "containers": [{"name": "n"}]}),
                "/containers",
                json!([{"name": "b"}, {"name": "n"}, {"name": "a", "args": ["x"]}]),
            ),
            (
                json!({"containers": [{"name": "a", "args": ["y"]}]}),
                "/containers/0/args",
                json!(["y"]),
            ),
        ] {
            let merged = apply(&document, &patch).unwrap();
            assert_eq!(merged.pointer(path), Some(&result), "{patch}");
        }
    }

    #[test]
    fn an_element_needs_its_key() {
        assert_eq!(
            apply(
                &json!({"containers": [{"name": "a"}]}),
                &json!({"containers": [{"image": "x"}]})
            ),
            Err(PatchError::Internal(
                "map: map[image:x] does not contain declared merge key: name".into()
            ))
        );
    }

    #[test]
    fn retained_keys_must_cover_the_patch() {
        assert_eq!(
            apply(
                &json!({"labels": {"a": "1"}}),
                &json!({"labels": {"$retainKeys": ["a"], "b": "1"}})
            ),
            Err(PatchError::BadRequest(
                "invalid patch format of retainKeys".into()
            ))
        );
    }

    proptest! {
        #[test]
        fn random_input_never_panics(document in any_json(), patch in any_json()) {
            let _ = apply(&document, &patch);
            let _ = apply(&json!({"containers": document}), &json!({"containers": patch.clone()}));
            let _ = apply(
                &json!({"containers": [{"name": "a"}]}),
                &json!({"$setElementOrder/containers": patch, "containers": document}),
            );
        }

        #[test]
        fn without_lists_it_is_a_merge_patch(
            document in prop::collection::btree_map("[a-c]", "[a-z]*", 0..3),
            patch in prop::collection::btree_map("[a-c]", prop::option::of("[a-z]*"), 0..3),
        ) {
            let (document, patch) = (json!(document), json!(patch));
            prop_assert_eq!(
                apply(&document, &patch),
                crate::patch::merge_patch(&document, patch.to_string().as_bytes())
            );
        }
    }
}
