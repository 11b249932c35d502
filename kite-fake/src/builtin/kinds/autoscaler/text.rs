//! Values in JSON as Go writes structs: members in the order in which they are declared, for
//! annotations hold such texts and are compared as texts.

use serde_json::{Value, json};

use crate::members::{list, members, text};

/// An object of the members that there are.
pub(super) fn object(members: &[(&str, Option<String>)]) -> String {
    let members: Vec<String> = members
        .iter()
        .filter_map(|(name, value)| Some(format!("\"{name}\":{}", value.as_ref()?)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// A list.
pub(super) fn array(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}

/// A string, or a number; Go escapes what HTML would take for its own.
pub(super) fn plain(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// A member that is left out if it has no value.
pub(super) fn optional(of: &Value, member: &str) -> Option<String> {
    of.get(member).filter(|v| !v.is_null()).map(plain)
}

/// A string that is always written.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside those that may be left out"
)]
pub(super) fn string(of: &Value, member: &str) -> Option<String> {
    Some(plain(&json!(text(of, member))))
}

/// A string that is left out if it is empty.
pub(super) fn filled(of: &Value, member: &str) -> Option<String> {
    string(of, member).filter(|_| !text(of, member).is_empty())
}

/// A quantity that is always written.
pub(super) fn quantity(of: &Value, member: &str) -> Option<String> {
    optional(of, member).or_else(|| Some("\"0\"".to_owned()))
}

/// A label selector.
pub(super) fn selector(of: &Value, member: &str) -> Option<String> {
    let selector = of.get(member).filter(|v| !v.is_null())?;
    let labels: Vec<(&str, Option<String>)> = members(selector, "matchLabels")
        .map(|(name, value)| (name.as_str(), Some(plain(value))))
        .collect();
    let expressions = list(selector, "matchExpressions");
    let expression = |of: &Value| {
        object(&[
            ("key", string(of, "key")),
            ("operator", string(of, "operator")),
            ("values", optional(of, "values").filter(|v| v != "[]")),
        ])
    };
    Some(object(&[
        ("matchLabels", (!labels.is_empty()).then(|| object(&labels))),
        (
            "matchExpressions",
            (!expressions.is_empty()).then(|| array(expressions.iter().map(expression))),
        ),
    ]))
}
