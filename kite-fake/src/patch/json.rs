//! JSON patch (RFC 6902), with the leniencies of a Kubernetes API server:
//! `replace` of an absent member adds it, and `test` for `null` holds where
//! nothing is. Negative indices count from the end.

use serde::Deserialize;
use serde_json::Value;

use super::{MAX_COPIED_BYTES, MAX_NESTING, MAX_OPERATIONS, PatchError, decode};

/// One operation; members that its kind does not use are ignored (RFC 6902 §4).
#[derive(Debug, Deserialize)]
struct Operation {
    #[serde(default)]
    op: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    from: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

/// Tells `"value": null` from no `value`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Applies a JSON patch.
///
/// # Errors
/// [`PatchError::BadRequest`] if the body is no list of operations,
/// [`PatchError::TooLarge`] beyond [`MAX_OPERATIONS`], [`PatchError::Unprocessable`]
/// if an operation is unknown or does not fit the document; nothing is applied then.
pub fn json_patch(document: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let operations: Vec<Operation> = decode(body, Value::is_array, "[]handlers.jsonPatchOp")?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut result = document.clone();
    let mut copied = 0;
    for operation in operations {
        run(&mut result, operation, &mut copied).ok_or(PatchError::Unprocessable)?;
    }
    Ok(result)
}

/// Carries out one operation; `None` if it does not fit.
fn run(document: &mut Value, operation: Operation, copied: &mut usize) -> Option<()> {
    let path = tokens(&operation.path)?;
    match operation.op.as_str() {
        "add" => add(document, &path, shallow(&path, operation.value?)?),
        "remove" => remove(document, &path).map(drop),
        "replace" => replace(document, &path, shallow(&path, operation.value?)?),
        "test" => {
            let expected = operation.value.unwrap_or(Value::Null);
            let holds = match find(document, &path) {
                Some(found) => equal(found, &expected),
                None => expected.is_null(),
            };
            holds.then_some(())
        }
        "move" => {
            let from = tokens(operation.from.as_deref()?)?;
            if path.len() > from.len() && path.starts_with(&from) {
                return None;
            }
            let value = remove(document, &from)?;
            add(document, &path, shallow(&path, value)?)
        }
        "copy" => {
            let value = find(document, &tokens(operation.from.as_deref()?)?)?.clone();
            *copied += value.to_string().len();
            if *copied > MAX_COPIED_BYTES {
                return None;
            }
            add(document, &path, shallow(&path, value)?)
        }
        _ => None,
    }
}

/// The value, unless it would make the document nest deeper than a body may:
/// operation upon operation could otherwise exhaust the stack of whoever reads it.
fn shallow(path: &[String], value: Value) -> Option<Value> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    (path.len() + depth(&value) <= MAX_NESTING).then_some(value)
}

/// The unescaped segments of a JSON pointer (RFC 6901).
fn tokens(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let rest = pointer.strip_prefix('/')?;
    Some(
        rest.split('/')
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}

fn find<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |node, token| match node {
        Value::Object(members) => members.get(token),
        Value::Array(elements) => elements.get(index(token, elements.len())?),
        _ => None,
    })
}

fn find_mut<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |node, token| match node {
        Value::Object(members) => members.get_mut(token),
        Value::Array(elements) => {
            let at = index(token, elements.len())?;
            elements.get_mut(at)
        }
        _ => None,
    })
}

/// The index of an existing element, or the length for "one past the end".
fn index(token: &str, length: usize) -> Option<usize> {
    let negative = token.strip_prefix('-');
    let digits = negative.unwrap_or(token);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: usize = digits.parse().ok()?;
    match negative {
        None => (number <= length).then_some(number),
        Some(_) => length.checked_sub(number),
    }
}

fn add(document: &mut Value, path: &[String], value: Value) -> Option<()> {
    let Some((last, parent)) = path.split_last() else {
        *document = value;
        return Some(());
    };
    match find_mut(document, parent)? {
        Value::Object(members) => {
            members.insert(last.clone(), value);
        }
        Value::Array(elements) if last == "-" => elements.push(value),
        Value::Array(elements) => {
            let at = index(last, elements.len())?;
            elements.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(document: &mut Value, path: &[String], value: Value) -> Option<()> {
    let Some((last, parent)) = path.split_last() else {
        *document = value;
        return Some(());
    };
    match find_mut(document, parent)? {
        Value::Object(members) => {
            members.insert(last.clone(), value);
        }
        Value::Array(elements) => {
            let at = index(last, elements.len())?;
            *elements.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &[String]) -> Option<Value> {
    let (last, parent) = path.split_last()?;
    match find_mut(document, parent)? {
        Value::Object(members) => members.remove(last),
        Value::Array(elements) => {
            let at = index(last, elements.len())?;
            (at < elements.len()).then(|| elements.remove(at))
        }
        _ => None,
    }
}

/// Equality by value: `1` and `1.0` are the same number (RFC 6902 §4.6).
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter()
                    .all(|(name, x)| y.get(name).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
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
                json!([{"op": "test", "path": "/a/b", "value": 1.0}]),
                document.clone(),
            ),
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
            json!([{"op": "add", "path": "/a/b"}]),
            json!([{"op": "replace", "path": "/l/1", "value": 1}]),
            json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
            json!([{"op": "copy", "from": "/none", "path": "/a/c"}]),
            json!([{"op": "frobnicate", "path": "/a"}]),
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
    fn copies_cannot_grow_without_bound() {
        // Each copy doubles the document: forty of them would fill any memory.
        let doubling = json!({"op": "copy", "from": "", "path": "/x/-"});
        let patch = Value::from(vec![doubling; 40]);
        assert_eq!(
            apply(&json!({"x": []}), &patch),
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
