//! The patch formats as functions.

use kite_fake::patch::{json_patch, merge_patch};
use serde_json::{Value, json};

use super::input::Input;

/// A pointer, most often to something that is there.
fn pointer(input: &mut Input<'_>, document: &Value) -> String {
    let mut path = String::new();
    let mut at = document;
    while input.below(4) != 0 {
        match at {
            Value::Object(members) if !members.is_empty() => {
                let nth = input.below(members.len());
                let Some((name, value)) = members.iter().nth(nth) else {
                    break;
                };
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                at = value;
            }
            Value::Array(items) if !items.is_empty() => {
                let nth = input.below(items.len());
                path.extend(["/", &nth.to_string()]);
                at = &items[nth];
            }
            _ => break,
        }
    }
    match input.below(6) {
        0 => path.push_str("/-"),
        1 => path.extend(["/", &input.name()]),
        2 => path.push_str("/-1"),
        _ => {}
    }
    path
}

fn operation(input: &mut Input<'_>, document: &Value) -> Value {
    let op = input.pick(&["add", "remove", "replace", "test", "move", "copy", "x"]);
    let mut operation = json!({"op": op, "path": pointer(input, document)});
    if input.below(5) != 0 {
        operation["value"] = input.value(3);
    }
    if matches!(op, "move" | "copy") {
        operation["from"] = pointer(input, document).into();
    }
    operation
}

/// Whether a list has null anywhere inside.
fn lists_null(value: &Value, inside: bool) -> bool {
    match value {
        Value::Null => inside,
        Value::Array(items) => items.iter().any(|item| lists_null(item, true)),
        Value::Object(members) => members.values().any(|member| lists_null(member, inside)),
        _ => false,
    }
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let document = Value::Object(input.object(4));

    let operations: Vec<Value> = (0..input.below(6))
        .map(|_| operation(&mut input, &document))
        .collect();
    let body = Value::from(operations).to_string();
    if let Ok(patched) = json_patch(&document, body.as_bytes()) {
        assert_eq!(json_patch(&patched, b"[]").ok().as_ref(), Some(&patched));
    }

    let patch = Value::Object(input.object(4));
    let body = patch.to_string();
    let once = merge_patch(&document, body.as_bytes());
    // The server's library drops null members inside a list that takes the place
    // of anything but an object.
    if let Some(once) = once.as_ref().ok().filter(|_| !lists_null(&patch, false)) {
        // RFC 7386: a merge patch twice is a merge patch once.
        assert_eq!(
            merge_patch(once, body.as_bytes()).as_ref(),
            Ok(once),
            "{document} {body}"
        );
    }

    let noise = input.text();
    let _ = json_patch(&document, noise.as_bytes());
    let _ = merge_patch(&document, noise.as_bytes());
    let _ = kite_fake::protobuf::decode(data, ("v1", "Pod"));
}
