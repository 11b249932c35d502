//! Where two objects differ.

use kite_core::labels::TOLD;
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

/// Paths at which an object that was kept and the one that is there differ, as people read
/// them; none if they are the same but for their status, and for what the API has noted
/// since.
pub(super) fn differences(kept: &DynamicObject, there: &DynamicObject) -> Vec<String> {
    let is_noted_since =
        |name: &String| name.starts_with(TOLD) && !kept.annotations().contains_key(name);
    let content = |object: &DynamicObject| {
        let mut annotations = object.metadata.annotations.clone();
        if let Some(annotations) = &mut annotations {
            annotations.retain(|name, _| !is_noted_since(name));
        }
        let mut content = json!({
            "labels": object.metadata.labels,
            "annotations": annotations.filter(|it| !it.is_empty()),
        });
        for (field, value) in object.data.as_object().into_iter().flatten() {
            if field != "status" {
                content[field] = value.clone();
            }
        }
        content
    };
    let mut paths = Vec::new();
    compare(&content(kept), &content(there), "", &mut paths);
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

    #[test]
    fn what_the_api_has_noted_since_is_no_difference() {
        let object = |annotations: Value| -> DynamicObject {
            let object = json!({"metadata": {"name": "a", "annotations": annotations}});
            serde_json::from_value(object).unwrap()
        };
        let told = format!("{TOLD}keys");
        let (bare, noted) = (object(json!(null)), object(json!({ &told: "" })));
        assert_eq!(differences(&bare, &noted), Vec::<String>::new());
        // What was kept comes back.
        assert_eq!(differences(&noted, &bare), ["annotations"]);
        let news = object(json!({ &told: "abc" }));
        assert_eq!(differences(&noted, &news), [format!("annotations.{told}")]);
        let others = object(json!({ &told: "", "example.org/a": "b" }));
        assert_eq!(differences(&bare, &others), ["annotations"]);
    }
}
