//! Which objects a label selector selects, as controllers read it in a spec.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::Value;

/// The labels of an object.
pub(super) fn labels(object: &DynamicObject) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    object.metadata.labels.as_ref().unwrap_or(&NONE)
}

/// Whether `object` is selected by a `LabelSelector`: an empty one selects everything,
/// one that is not there nothing.
pub(super) fn selects(selector: &Value, object: &DynamicObject) -> bool {
    let have = labels(object);
    let expressions = selector["matchExpressions"].as_array();
    selector.is_object()
        && has_all(have, &selector["matchLabels"])
        && expressions.into_iter().flatten().all(|e| meets(have, e))
}

/// Whether labels have all pairs of a plain map; where there is none they have.
pub(super) fn has_all(have: &BTreeMap<String, String>, wanted: &Value) -> bool {
    wanted.as_object().is_none_or(|wanted| {
        let mut wanted = wanted.iter();
        wanted.all(|(key, value)| have.get(key).map(String::as_str) == value.as_str())
    })
}

/// Whether labels meet one expression of a selector.
pub(super) fn meets(have: &BTreeMap<String, String>, expression: &Value) -> bool {
    let found = have.get(expression["key"].as_str().unwrap_or_default());
    let values = expression["values"].as_array();
    let among = || {
        let mut values = values.into_iter().flatten();
        values.any(|value| found.map(String::as_str) == value.as_str())
    };
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => found.is_some() && among(),
        "NotIn" => !among(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        // Gt and Lt compare numbers.
        operator => {
            let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
            let bound = values.and_then(|v| v.first()).and_then(Value::as_str);
            match (number(found.map(String::as_str)), number(bound)) {
                (Some(have), Some(bound)) if operator == "Gt" => have > bound,
                (Some(have), Some(bound)) if operator == "Lt" => have < bound,
                _ => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_speak_of_labels() {
        let have = BTreeMap::from([("zone".to_owned(), "3".to_owned())]);
        let meets = |operator: &str, values: Value| {
            meets(
                &have,
                &json!({"key": "zone", "operator": operator, "values": values}),
            )
        };
        assert!(meets("In", json!(["3"])) && !meets("In", json!(["4"])));
        assert!(meets("NotIn", json!(["4"])) && meets("Gt", json!(["2"])));
        assert!(!meets("DoesNotExist", json!([])));
    }

    #[test]
    fn no_selector_selects_nothing() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        assert!(selects(&json!({}), &object));
        assert!(!selects(&Value::Null, &object));
        assert!(!selects(&json!({"matchLabels": {"a": "c"}}), &object));
    }
}
