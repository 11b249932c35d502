//! CEL rules of a schema (`x-kubernetes-validations`).

use serde_json::Value;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The expression that must be true.
    pub rule: String,
    /// What people read if it is not.
    pub message: Option<String>,
    /// An expression that makes the message.
    pub message_expression: Option<String>,
    /// The cause's reason, such as `FieldValueForbidden`.
    pub reason: Option<String>,
    /// The member that is to blame, relative to the node.
    pub field_path: Option<String>,
    /// The rule also holds where there was no value before.
    pub optional_old_self: bool,
}

impl Rule {
    /// The rules of a node's `x-kubernetes-validations`.
    pub(super) fn parse_all(value: Option<&Value>) -> Vec<Self> {
        let Some(Value::Array(rules)) = value else {
            return Vec::new();
        };
        rules
            .iter()
            .map(|rule| {
                let text = |name: &str| rule.get(name).and_then(Value::as_str).map(str::to_owned);
                Self {
                    rule: text("rule").unwrap_or_default(),
                    message: text("message"),
                    message_expression: text("messageExpression"),
                    reason: text("reason"),
                    field_path: text("fieldPath"),
                    optional_old_self: rule
                        .get("optionalOldSelf")
                        .and_then(Value::as_bool)
                        .unwrap_or(false),
                }
            })
            .collect()
    }
}
