//! Why a patch of a webhook does not fit, in the words of the library that Go uses.

use serde_json::Value;

use crate::patch::{PatchError, json_patch};

/// Applies a patch.
///
/// # Errors
/// Which operation does not fit, and why.
pub(super) fn apply(document: &Value, patch: &[u8]) -> Result<Value, String> {
    match json_patch(document, patch) {
        Ok(patched) => Ok(patched),
        Err(PatchError::Unprocessable) => Err(culprit(document, patch)),
        Err(other) => Err(other.to_string()),
    }
}

/// Looks for the operation that does not fit.
fn culprit(document: &Value, patch: &[u8]) -> String {
    let operations: Vec<Value> = serde_json::from_slice(patch).unwrap_or_default();
    let mut document = document.clone();
    for operation in operations {
        let one = Value::Array(vec![operation.clone()]).to_string();
        match json_patch(&document, one.as_bytes()) {
            Ok(patched) => document = patched,
            Err(_) => return told(&document, &operation),
        }
    }
    PatchError::Unprocessable.to_string()
}

fn told(document: &Value, operation: &Value) -> String {
    let text = |member: &str| operation[member].as_str().unwrap_or_default().to_owned();
    let (op, path) = (text("op"), text("path"));
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", &path));
    let key = last.replace("~1", "/").replace("~0", "~");
    let parent = document
        .pointer(parent)
        .filter(|it| it.is_object() || it.is_array());
    let index = match parent {
        Some(Value::Array(_)) => Some(match key.parse::<i64>() {
            Ok(index) => {
                format!("Unable to access invalid index: {index}: invalid index referenced")
            }
            Err(_) => format!(
                "value was not a proper array index: '{key}': strconv.Atoi: parsing {key:?}: invalid syntax"
            ),
        }),
        _ => None,
    };
    match (op.as_str(), parent, index) {
        ("test", ..) => format!("testing value {path} failed: test failed"),
        ("add", None, _) => {
            format!("add operation does not apply: doc is missing path: {path:?}: missing value")
        }
        ("remove", None, _) => {
            format!("remove operation does not apply: doc is missing path: {path:?}: missing value")
        }
        ("replace", None, _) => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        ("replace", Some(_), _) => {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        }
        ("add", _, Some(why)) => format!("error in add for path: '{path}': {why}"),
        ("remove", _, Some(why)) => format!("error in remove for path: '{path}': {why}"),
        ("remove", ..) => format!(
            "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
        ),
        ("move" | "copy", ..) => format!(
            "{op} operation does not apply: doc is missing from path: {}: missing value",
            text("from")
        ),
        _ => format!("Unexpected kind: {op}"),
    }
}

/// Refuses a body of a kind of its own that a patch has made unreadable, in the words of
/// Go's decoder.
///
/// # Errors
/// A member is of another type than it has.
pub(super) fn decode(kind: &str, body: &Value) -> Result<(), String> {
    const MEMBERS: [(&str, &str, &str); 6] = [
        ("", "", "object"),
        ("metadata", "v1.ObjectMeta", "object"),
        ("spec", "Spec", "object"),
        ("spec.replicas", "int32", "number"),
        ("target", "v1.ObjectReference", "object"),
        ("target.name", "string", "string"),
    ];
    for (path, type_, wanted) in MEMBERS {
        let members = path.split('.').filter(|it| !it.is_empty());
        let found = members.fold(body, |at, member| &at[member]);
        let what = match found {
            Value::Null => continue,
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_i64() => "number",
            Value::Number(_) => "number with a point",
        };
        if what == wanted {
            continue;
        }
        return Err(if path.is_empty() {
            format!("json: cannot unmarshal {what} into Go value of type {kind}")
        } else {
            let type_ = if type_ == "Spec" {
                format!("{kind}Spec")
            } else {
                type_.to_owned()
            };
            format!(
                "json: cannot unmarshal {what} into Go struct field {kind}.{path} of type {type_}"
            )
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::apply;

    #[test]
    fn the_first_operation_that_does_not_fit_is_told() {
        let document = json!({"metadata": {"name": "a"}, "list": [1]});
        for (operations, why) in [
            (
                json!([{"op": "add", "path": "/metadata/labels", "value": {}},
                    {"op": "add", "path": "/spec/a", "value": 1}]),
                "add operation does not apply: doc is missing path: \"/spec/a\": missing value",
            ),
            (
                json!([{"op": "remove", "path": "/metadata/x~1y"}]),
                "error in remove for path: '/metadata/x~1y': Unable to remove nonexistent key: x/y: missing value",
            ),
            (
                json!([{"op": "test", "path": "/list/0", "value": 2}]),
                "testing value /list/0 failed: test failed",
            ),
            (
                json!([{"op": "add", "path": "/list/7", "value": 2}]),
                "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!([{"op": "paint", "path": "/list"}]),
                "Unexpected kind: paint",
            ),
        ] {
            let patch = operations.to_string();
            assert_eq!(apply(&document, patch.as_bytes()), Err(why.to_owned()));
        }
    }
}
