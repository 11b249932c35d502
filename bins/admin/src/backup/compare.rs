//! Where two objects differ.

use kube::api::DynamicObject;
use serde_json::{Value, json};

/// Paths at which both differ, as people read them; none if they are the same but for
/// their status.
pub(super) fn differences(a: &DynamicObject, b: &DynamicObject) -> Vec<String> {
    let content = |object: &DynamicObject| {
        let mut content = json!({
            "labels": object.metadata.labels,
            "annotations": object.metadata.annotations,
        });
        for (field, value) in object.data.as_object().into_iter().flatten() {
            if field != "status" {
                content[field] = value.clone();
            }
        }
        content
    };
    let mut paths = Vec::new();
    compare(&content(a), &content(b), "", &mut paths);
    paths
}

fn compare(a: &Value, b: &Value, path: &str, paths: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(of_a), Value::Object(of_b)) => {
            let more = of_b.keys().filter(|name| !of_a.contains_key(*name));
            for name in of_a.keys().chain(more) {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                compare(&a[name.as_str()], &b[name.as_str()], &path, paths);
            }
        }
        _ if a == b => {}
        _ => paths.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_fields_that_differ_are_named() {
        let object = |spec: Value, status: Value| -> DynamicObject {
            let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            serde_json::from_value(object).unwrap()
        };
        let one = object(json!({"a": 1, "b": {"c": 2}}), json!({"x": 1}));
        let other = object(json!({"a": 1, "b": {"d": 2}}), json!({}));
        assert_eq!(differences(&one, &one), Vec::<String>::new());
        assert_eq!(differences(&one, &other), ["spec.b.c", "spec.b.d"]);
    }
}
