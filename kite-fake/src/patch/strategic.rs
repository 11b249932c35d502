//! Strategic merge patch: a merge patch that knows how lists are keyed, and
//! obeys directives inside the patch.
//!
//! | Directive | Meaning |
//! |---|---|
//! | `$patch: replace`, `delete` | in an object: replace or empty it; in a list element: replace the list, or delete the element with this key |
//! | `$retainKeys: [a, b]` | drop every other member of the object |
//! | `$deleteFromPrimitiveList/NAME: [x]` | remove these scalars from the list |
//! | `$setElementOrder/NAME: [..]` | put the merged list into this order |
//!
//! Directives that meet nothing in the document stay in the result, but for
//! objects with `$patch`, which go as a whole: whoever decodes the result warns
//! of them as unknown fields.

use std::cmp::Ordering;

use crate::go;
use serde_json::{Map, Value};

use super::{PatchError, kind_of};
use crate::go_json;
use crate::schema::{Kind, PatchStrategy, Schema};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in type.
///
/// # Errors
/// [`PatchError::BadRequest`] for a body that is no object or a malformed
/// directive, [`PatchError::Unprocessable`] for lists of lists,
/// [`PatchError::Internal`] for what contradicts the document or the schema, such
/// as a list element without its merge key.
pub fn strategic_merge_patch(
    schema: &Schema,
    document: &Value,
    body: &[u8],
) -> Result<Value, PatchError> {
    let patch = go_json::read(body).map_err(PatchError::BadRequest)?;
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => Object::new(),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                kind_of(&other)
            )));
        }
    };
    let original = document.as_object().cloned().unwrap_or_default();
    merge_object(Some(schema), original, patch).map(Value::Object)
}

/// Merges `patch` into `target`. The schema is `None` below what it does not describe.
fn merge_object(
    schema: Option<&Schema>,
    mut target: Object,
    mut patch: Object,
) -> Result<Object, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(Some("delete")) => return Ok(Object::new()),
        Some(_) => return Err(unknown_directive(patch)),
    }
    retain_keys(&mut target, &mut patch)?;
    reorder_lists(schema, &mut target, &mut patch)?;
    for (key, mut change) in patch {
        let deletion = key.starts_with(DELETE_FROM_LIST);
        let name = if deletion {
            list_name(&key, DELETE_FROM_LIST, "primitive list")?
        } else {
            key.as_str()
        };
        if change.is_null() {
            target.remove(name);
            continue;
        }
        let old = match target.remove(name) {
            Some(old) if kind_of(&old) == kind_of(&change) => old,
            old => {
                // Nothing there, or something else: the patch's value as it is.
                let new = if deletion {
                    old
                } else {
                    discard_nulls(&mut change);
                    without_directives(change)
                };
                if let Some(new) = new {
                    target.insert(name.to_owned(), new);
                }
                continue;
            }
        };
        let merged = match (old, change) {
            (Value::Object(old), Value::Object(change)) => {
                let inner = member(schema, name)?;
                Value::Object(merge_object(inner, old, change)?)
            }
            (Value::Array(old), Value::Array(change)) => {
                let inner = member(schema, name)?;
                Value::Array(merge_list(inner, old, change, deletion)?)
            }
            (_, change) => change,
        };
        target.insert(name.to_owned(), merged);
    }
    Ok(target)
}

/// The schema of a member.
fn member<'a>(schema: Option<&'a Schema>, name: &str) -> Result<Option<&'a Schema>, PatchError> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    match schema.member(name) {
        Some(inner) => Ok(Some(inner)),
        None if schema.kind == Kind::Object && !schema.preserve_unknown => {
            Err(PatchError::Internal(format!(
                "unable to find api field in struct {} for the json field {}",
                schema.type_name.as_deref().unwrap_or_default(),
                go::quote(name)
            )))
        }
        None => Ok(None),
    }
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

fn merge_key(schema: Option<&Schema>) -> Option<&str> {
    schema.and_then(|s| s.patch_merge_key.as_deref())
}

fn unknown_directive(patch: Object) -> PatchError {
    let word = patch.get(PATCH).map(go::value).unwrap_or_default();
    PatchError::Internal(format!(
        "unknown patch type: {word} in map: {}",
        go::value(&Value::Object(patch))
    ))
}

fn malformed(what: &str) -> PatchError {
    PatchError::BadRequest(format!("invalid patch format of {what}"))
}

/// A value of another type than the one that belongs there, in Go's words.
fn mismatch(expected: &str, got: &Value) -> PatchError {
    let got = match got {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    PatchError::Internal(format!("expected a {expected}, but received a {got}"))
}

/// The list that a directive is about: `NAME` in `$directive/NAME`.
fn list_name<'a>(key: &'a str, directive: &str, what: &str) -> Result<&'a str, PatchError> {
    key.strip_prefix(directive)
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| malformed(what))
}

fn retain_keys(target: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = directive
        .as_array()
        .ok_or_else(|| malformed("retainKeys"))?;
    let kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    // What the patch sets has to be among what it keeps.
    let stray = patch.iter().any(|(name, value)| {
        let directive = name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
        !value.is_null() && !directive && !kept(name)
    });
    if stray {
        return Err(malformed("retainKeys"));
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

/// Carries out `$setElementOrder` with the merge of the list that it is about.
fn reorder_lists(
    schema: Option<&Schema>,
    target: &mut Object,
    patch: &mut Object,
) -> Result<(), PatchError> {
    const LIST: &str = "[]interface {}";
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(mismatch(LIST, &other.unwrap_or(Value::Null))),
        };
        let name = list_name(&directive, SET_ORDER, "setElementOrder list")?;
        let old = match target.get(name) {
            None => None,
            Some(Value::Array(old)) => Some(old.clone()),
            Some(other) => return Err(mismatch(LIST, other)),
        };
        let change = match patch.get(name) {
            None => None,
            Some(Value::Array(change)) => Some(change.clone()),
            Some(other) => return Err(mismatch(LIST, other)),
        };
        let inner = member(schema, name)?;
        let key = merge_key(inner);
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let elements = [
            old.clone().unwrap_or_default(),
            change.clone().unwrap_or_default(),
        ];
        let merged = match (old.clone(), change) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(change)) => match without_directives(Value::Array(change)) {
                Some(Value::Array(list)) => list,
                _ => continue,
            },
            (Some(old), Some(change)) => merge_list(inner, old, change, false)?,
        };
        need_keys(key, &merged)?;
        if element_kind(&elements)? == "object" {
            need_keys(key, &order)?;
        }
        let merged = in_order(merged, &order, &old.unwrap_or_default(), key);
        target.insert(name.to_owned(), Value::Array(merged));
        patch.remove(name);
    }
    Ok(())
}

/// The elements of the patch have to be among those of the order, in that order.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let named: Vec<&Value> = change
        .iter()
        .filter(|element| element.get(PATCH).is_none())
        .collect();
    let mut next = 0;
    for place in order {
        let Some(element) = named.get(next) else {
            break;
        };
        let same = match key {
            None => *element == place,
            Some(key) => key_of(element, key)? == key_of(place, key)?,
        };
        next += usize::from(same);
    }
    if next < named.len() {
        return Err(PatchError::Internal(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            go::value(&Value::from(change.to_vec())),
            go::value(&Value::from(order.to_vec()))
        )));
    }
    Ok(())
}

/// The kind that all elements of some lists have.
fn element_kind(lists: &[Vec<Value>]) -> Result<&'static str, PatchError> {
    let mut kinds = lists.iter().flatten().map(kind_of);
    let Some(kind) = kinds.next() else {
        return Err(PatchError::Internal(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    if kind == "array" {
        return Err(PatchError::Unprocessable);
    }
    if kinds.any(|other| other != kind) {
        let lists: Vec<Value> = lists.iter().cloned().map(Value::from).collect();
        return Err(PatchError::Internal(format!(
            "list element types are not identical: {}",
            go::value(&Value::from(lists))
        )));
    }
    Ok(kind)
}

/// Merges two lists, as the schema says: by replacement, as a set of scalars, or
/// objects by the merge key. `deletion`: the scalars of the patch go instead.
fn merge_list(
    schema: Option<&Schema>,
    mut old: Vec<Value>,
    change: Vec<Value>,
    deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if !merges(schema) {
        return Ok(change);
    }
    if old.is_empty() && change.is_empty() {
        return Ok(old);
    }
    let key = merge_key(schema);
    if element_kind(&[old.clone(), change.clone()])? != "object" {
        if deletion {
            old.retain(|element| !change.contains(element));
            return Ok(old);
        }
        let mut merged: Vec<Value> = Vec::with_capacity(old.len() + change.len());
        for value in old.iter().chain(&change) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        need_keys(key, &merged)?;
        return Ok(in_order(merged, &change, &old, None));
    }
    let Some(key) = key else {
        return Err(PatchError::Internal(
            "cannot merge lists without merge key for type struct".to_owned(),
        ));
    };
    let mut wanted = Vec::with_capacity(change.len());
    let mut replace = false;
    for element in change {
        let Some(directive) = element.get(PATCH) else {
            wanted.push(element);
            continue;
        };
        match directive.as_str() {
            Some("replace") => replace = true,
            Some("delete") => {
                let value = key_of(&element, key)?;
                old.retain(|candidate| candidate.get(key) != Some(value));
            }
            Some("merge") => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => {
                return Err(unknown_directive(
                    element.as_object().cloned().unwrap_or_default(),
                ));
            }
        }
    }
    if replace {
        need_keys(Some(key), &wanted)?;
        return Ok(wanted);
    }
    let items = schema.and_then(|s| s.items.as_deref());
    let mut merged = old.clone();
    for element in &wanted {
        let value = key_of(element, key)?;
        let found = merged
            .iter_mut()
            .find(|candidate| candidate.get(key) == Some(value));
        match (found, element) {
            (Some(slot), Value::Object(element)) => {
                let base = slot.as_object().cloned().unwrap_or_default();
                *slot = Value::Object(merge_object(items, base, element.clone())?);
            }
            _ => merged.push(element.clone()),
        }
    }
    need_keys(Some(key), &merged)?;
    Ok(in_order(merged, &wanted, &old, Some(key)))
}

fn key_of<'a>(element: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    if !element.is_object() {
        return Err(mismatch("map[string]interface {}", element));
    }
    element.get(key).ok_or_else(|| {
        PatchError::Internal(format!(
            "map: {} does not contain declared merge key: {key}",
            go::value(element)
        ))
    })
}

/// Every element of a keyed list has the key.
fn need_keys(key: Option<&str>, list: &[Value]) -> Result<(), PatchError> {
    let Some(key) = key else {
        return Ok(());
    };
    list.iter()
        .try_for_each(|element| key_of(element, key).map(drop))
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

/// A part of a patch that meets nothing in the document, without the objects that
/// carry `$patch`; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(members) if members.contains_key(PATCH) => return None,
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter_map(|(name, member)| Some((name, without_directives(member)?)))
                .collect(),
        ),
        Value::Array(elements) => Value::Array(
            elements
                .into_iter()
                .filter_map(without_directives)
                .collect(),
        ),
        scalar => scalar,
    })
}

/// Removes the members that are null, at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(discard_nulls),
        _ => {}
    }
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
    fn what_contradicts_the_document_is_refused() {
        let internal = |why: &str| Err(PatchError::Internal(why.to_owned()));
        let document = json!({"containers": [{"name": "a"}], "finalizers": ["x"],
            "labels": {"k": "v"}});
        for (patch, result) in [
            (
                json!({"labels": {"$patch": "merge", "a": "b"}}),
                internal("unknown patch type: merge in map: map[$patch:merge a:b]"),
            ),
            (
                json!({"containers": [{"$patch": "merge", "name": "a"}]}),
                internal("merging lists cannot yet be specified in the patch"),
            ),
            (
                json!({"containers": ["a"]}),
                internal("list element types are not identical: [[map[name:a]] [a]]"),
            ),
            (
                json!({"finalizers": ["y", 1]}),
                internal("list element types are not identical: [[x] [y 1]]"),
            ),
            (
                json!({"$setElementOrder/containers": "a"}),
                internal("expected a []interface {}, but received a string"),
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "a"}],
                    "containers": [{"name": "b"}]}),
                internal(
                    "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
                ),
            ),
            (
                json!({"$setElementOrder/other": []}),
                internal("unable to find api field in struct  for the json field \"other\""),
            ),
            (
                json!({"$setElementOrder": []}),
                Err(PatchError::BadRequest(
                    "invalid patch format of setElementOrder list".into(),
                )),
            ),
            (
                json!({"finalizers": [["y"]]}),
                internal("list element types are not identical: [[x] [[y]]]"),
            ),
        ] {
            assert_eq!(apply(&document, &patch), result, "{patch}");
        }
        assert_eq!(
            apply(&json!({"finalizers": []}), &json!({"finalizers": [["y"]]})),
            Err(PatchError::Unprocessable)
        );
        assert_eq!(
            apply(&json!({}), &json!([])),
            Err(PatchError::BadRequest(
                "json: cannot unmarshal array into Go value of type map[string]interface {}".into()
            ))
        );
    }

    #[test]
    fn what_meets_nothing_is_taken_as_it_is() {
        for (patch, result) in [
            (
                json!({"labels": {"a": null, "b": "1"}}),
                json!({"labels": {"b": "1"}}),
            ),
            (
                json!({"labels": {"$patch": "replace", "b": "1"}}),
                json!({}),
            ),
            (
                json!({"containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}),
                json!({"containers": [{"name": "a"}]}),
            ),
            (
                json!({"$deleteFromPrimitiveList/finalizers": ["x"]}),
                json!({}),
            ),
            (
                json!({"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b", "a"]}),
                json!({"finalizers": ["b", "a"]}),
            ),
        ] {
            assert_eq!(apply(&json!({}), &patch), Ok(result), "{patch}");
        }
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
