//! JSON patch (RFC 6902), with the leniencies of a Kubernetes API server:
//! `replace` of an absent member adds it, `copy` of one copies `null`, `test` for
//! `null` holds where a member is absent, and what stands in front of the first
//! slash of a path does not count. Negative indices count from the end.

use serde::Deserialize;
use serde_json::Value;

use super::{MAX_COPIED_BYTES, MAX_NESTING, MAX_OPERATIONS, PatchError, decode};

/// The members of an operation; others are ignored (RFC 6902 §4).
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// One operation; members that its kind does not use are ignored (RFC 6902 §4).
#[derive(Debug, Default, Deserialize)]
struct Operation {
    #[serde(default)]
    op: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    value: Value,
}

/// Applies a JSON patch.
///
/// # Errors
/// [`PatchError::BadRequest`] if the body is no list of operations,
/// [`PatchError::TooLarge`] beyond [`MAX_OPERATIONS`], [`PatchError::Unprocessable`]
/// if an operation is unknown or does not fit the document; nothing is applied then.
pub fn json_patch(document: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let operations: Option<Vec<Option<Operation>>> = decode(
        body,
        |v| v.is_array() || v.is_null(),
        "[]handlers.jsonPatchOp",
    )?;
    let operations = operations.unwrap_or_default();
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut result = document.clone();
    let mut copied = 0;
    for operation in operations {
        run(&mut result, operation.unwrap_or_default(), &mut copied)
            .ok_or(PatchError::Unprocessable)?;
    }
    Ok(result)
}

/// Paths of members that no operation has, in order: `[0].name`.
pub(crate) fn unknown_members(body: &[u8]) -> Vec<String> {
    let Ok(Value::Array(operations)) = serde_json::from_slice(body) else {
        return Vec::new();
    };
    let unknown = |(place, operation): (usize, &Value)| -> Vec<String> {
        operation
            .as_object()
            .into_iter()
            .flat_map(|members| members.keys())
            .filter(|name| !MEMBERS.contains(&name.as_str()))
            .map(|name| format!("[{place}].{name}"))
            .collect()
    };
    operations.iter().enumerate().flat_map(unknown).collect()
}

/// Carries out one operation; `None` if it does not fit.
fn run(document: &mut Value, operation: Operation, copied: &mut usize) -> Option<()> {
    match operation.op.as_deref()? {
        "add" => add(document, &operation.path?, operation.value),
        "remove" => remove(document, &operation.path?).map(drop),
        "replace" => replace(document, &operation.path?, operation.value),
        "test" => {
            let path = operation.path?;
            let holds = if path.is_empty() {
                *document == operation.value
            } else {
                let (parent, last) = parent(document, &path)?;
                match get(parent, &last).ok()? {
                    Some(found) => *found == operation.value,
                    None => operation.value.is_null(),
                }
            };
            holds.then_some(())
        }
        "move" => {
            let from = operation.from?;
            let (holder, last) = parent(document, &from)?;
            get(holder, &last).ok()?;
            let value = remove(document, &from)?;
            add(document, &operation.path?, value)
        }
        "copy" => {
            let (holder, last) = parent(document, &operation.from?)?;
            let value = get(holder, &last).ok()?.cloned();
            let path = operation.path?;
            parent(document, &path)?;
            *copied += value.as_ref().map_or(0, |value| value.to_string().len());
            if *copied > MAX_COPIED_BYTES {
                return None;
            }
            add(document, &path, value.unwrap_or(Value::Null))
        }
        _ => None,
    }
}

/// The value, unless it would make the document nest deeper than a body may:
/// operation upon operation could otherwise exhaust the stack of whoever reads it.
fn shallow(path: &str, value: Value) -> Option<Value> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    (path.matches('/').count() + depth(&value) <= MAX_NESTING).then_some(value)
}

/// One segment of a JSON pointer, unescaped (RFC 6901 §4).
fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The object or list that a path leads into, and the last segment. `None` where
/// there is none, and for a path without a slash.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (way, last) = path.rsplit_once('/')?;
    let holder = way.split('/').skip(1).try_fold(document, |node, segment| {
        get(node, &unescape(segment)).ok()?
    })?;
    (holder.is_object() || holder.is_array()).then(|| (holder, unescape(last)))
}

/// There is no such place in a list, or nothing that has places.
struct NoPlace;

/// What stands under a segment; `Ok(None)` for an absent or null member of an object.
fn get<'a>(holder: &'a mut Value, segment: &str) -> Result<Option<&'a mut Value>, NoPlace> {
    let found = match holder {
        Value::Object(members) => members.get_mut(segment),
        Value::Array(elements) => {
            let place = place(segment, elements.len()).ok_or(NoPlace)?;
            elements.get_mut(place)
        }
        _ => return Err(NoPlace),
    };
    Ok(found.filter(|value| !value.is_null()))
}

/// The place of an existing element; negative ones count from the end.
fn place(segment: &str, length: usize) -> Option<usize> {
    let number: isize = segment.parse().ok()?;
    let place = match usize::try_from(number) {
        Ok(place) => place,
        Err(_) => length.checked_sub(number.unsigned_abs())?,
    };
    (place < length).then_some(place)
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let value = shallow(path, value)?;
    let (holder, last) = parent(document, path)?;
    match holder {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(elements) if last == "-" => elements.push(value),
        Value::Array(elements) => {
            // Behind the last element is a place too.
            let place = place(&last, elements.len() + 1)?;
            elements.insert(place, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let value = shallow(path, value)?;
    if path.is_empty() {
        // The document itself stays an object or a list.
        if !value.is_object() && !value.is_array() {
            return None;
        }
        *document = value;
        return Some(());
    }
    let (holder, last) = parent(document, path)?;
    match holder {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(elements) => {
            let place = place(&last, elements.len())?;
            *elements.get_mut(place)? = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (holder, last) = parent(document, path)?;
    match holder {
        Value::Object(members) => members.remove(&last),
        Value::Array(elements) => {
            let place = place(&last, elements.len())?;
            Some(elements.remove(place))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::any_json;

    fn apply(document: &Value, patch: &Value) -> Result<Value, PatchError> {
        json_patch(document, patch.to_string().as_bytes())
    }

    #[test]
    fn a_document_cannot_be_made_to_nest_without_end() {
        let mut document = json!({});
        let mut path = String::new();
        let refused = (0..200).find(|_| {
            path.push_str("/a");
            let body = json!([{"op": "add", "path": path, "value": {}}]).to_string();
            match json_patch(&document, body.as_bytes()) {
                Ok(deeper) => document = deeper,
                Err(_) => return true,
            }
            false
        });
        assert_eq!(refused, Some(MAX_NESTING - 1));
        let copy = json!([{"op": "copy", "from": "/a", "path": "/a/a"}]).to_string();
        assert!(json_patch(&document, copy.as_bytes()).is_err());
    }

    #[test]
    fn the_operations_do_what_the_rfc_says() {
        let document = json!({"a": {"b": 1}, "l": [1, 2, 3]});
        for (patch, result) in [
            (
                json!([{"op": "add", "path": "/a/c", "value": 2}]),
                json!({"a": {"b": 1, "c": 2}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "/l/1", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 9, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "/l/-", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3, 9]}),
            ),
            (
                json!([{"op": "remove", "path": "/l/0"}]),
                json!({"a": {"b": 1}, "l": [2, 3]}),
            ),
            (
                json!([{"op": "remove", "path": "/l/-1"}]),
                json!({"a": {"b": 1}, "l": [1, 2]}),
            ),
            (
                json!([{"op": "replace", "path": "/l/0", "value": null}]),
                json!({"a": {"b": 1}, "l": [null, 2, 3]}),
            ),
            (
                json!([{"op": "move", "from": "/a/b", "path": "/m"}]),
                json!({"a": {}, "l": [1, 2, 3], "m": 1}),
            ),
            (
                json!([{"op": "copy", "from": "/a", "path": "/l/0"}]),
                json!({"a": {"b": 1}, "l": [{"b": 1}, 1, 2, 3]}),
            ),
            (
                json!([{"op": "replace", "path": "/new", "value": 1}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3], "new": 1}),
            ),
            (
                json!([{"op": "test", "path": "/none", "value": null}]),
                document.clone(),
            ),
            (
                json!([{"op": "add", "path": "/l/-1", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3, 9]}),
            ),
            (
                json!([{"op": "add", "path": "/l/+1", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 9, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "/a/c"}]),
                json!({"a": {"b": 1, "c": null}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "copy", "from": "/none", "path": "/a/c"}]),
                json!({"a": {"b": 1, "c": null}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "x/n", "value": 1}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3], "n": 1}),
            ),
            (
                json!([{"op": "replace", "path": "", "value": {"b": 1}}]),
                json!({"b": 1}),
            ),
            (
                json!([{"op": "test", "path": "", "value": document.clone()}]),
                document.clone(),
            ),
            (Value::Null, document.clone()),
        ] {
            assert_eq!(apply(&document, &patch), Ok(result), "{patch}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let document = json!({"a": {"b": 1}, "l": [1]});
        for patch in [
            json!([{"op": "test", "path": "/a/b", "value": 2}]),
            json!([{"op": "test", "path": "/none", "value": 2}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "remove", "path": "/l/1"}]),
            json!([{"op": "add", "path": "/none/x", "value": 1}]),
            json!([{"op": "add", "path": "/l/2", "value": 1}]),
            json!([{"op": "add", "path": "/l/-3", "value": 1}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "remove", "path": ""}]),
            json!([{"op": "replace", "path": "", "value": 1}]),
            json!([{"op": "replace", "path": "/l/1", "value": 1}]),
            json!([{"op": "replace", "path": "/l/-", "value": 1}]),
            json!([{"op": "test", "path": "/a/b", "value": 1.0}]),
            json!([{"op": "test", "path": "/none/x", "value": null}]),
            json!([{"op": "test", "path": "/l/1", "value": null}]),
            json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
            json!([{"op": "move", "from": "/none", "path": "/a/c"}]),
            json!([{"op": "copy", "from": "/l/1", "path": "/a/c"}]),
            json!([{"op": "copy", "from": "", "path": "/a/c"}]),
            json!([{"op": "frobnicate", "path": "/a"}]),
            json!([{"op": "add", "value": 1}]),
            json!([null]),
            json!([{"op": "add", "path": "a", "value": 1}]),
        ] {
            assert_eq!(
                apply(&document, &patch),
                Err(PatchError::Unprocessable),
                "{patch}"
            );
        }
    }

    #[test]
    fn a_patch_is_a_list_and_not_endless() {
        assert!(matches!(
            apply(&json!({}), &json!({"op": "add"})),
            Err(PatchError::BadRequest(_))
        ));
        let many: Vec<Value> =
            vec![json!({"op": "add", "path": "/a", "value": 1}); MAX_OPERATIONS + 1];
        assert!(matches!(
            apply(&json!({}), &Value::from(many)),
            Err(PatchError::TooLarge(_))
        ));
    }

    #[test]
    fn members_that_operations_do_not_have_are_told() {
        let body = json!([{"op": "test", "Path": "/a"}, {"value": {"x": 1}, "why": 1}]);
        assert_eq!(
            unknown_members(body.to_string().as_bytes()),
            ["[0].Path", "[1].why"]
        );
    }

    #[test]
    fn copies_cannot_grow_without_bound() {
        // Each copy doubles the document: forty of them would fill any memory.
        let doubling = json!({"op": "copy", "from": "/x", "path": "/x/-"});
        let patch = Value::from(vec![doubling; 40]);
        assert_eq!(
            apply(&json!({"x": [1]}), &patch),
            Err(PatchError::Unprocessable)
        );
    }

    proptest! {
        #[test]
        fn random_input_never_panics(document in any_json(), patch in any_json(), text in ".*") {
            let _ = apply(&document, &patch);
            let _ = apply(&document, &json!([{"op": "add", "path": text, "value": 1}]));
            let _ = json_patch(&document, text.as_bytes());
        }

        #[test]
        fn an_added_member_is_found_and_removed(document in any_json(), value in any_json(), name in ".*") {
            if document.is_object() && document.get(&name).is_none() {
                let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                let added = apply(&document, &json!([{"op": "add", "path": path, "value": value}])).unwrap();
                prop_assert_eq!(added.get(&name), Some(&value));
                let removed = apply(&added, &json!([{"op": "remove", "path": path}])).unwrap();
                prop_assert_eq!(removed, document);
            }
        }
    }
}
