//! CEL rules of a schema (`x-kubernetes-validations`): compiled once with the
//! schema, evaluated for each write.

mod authorizer;
mod check;
mod compare;
mod convert;
mod cost;
mod declarations;
mod evaluate;
mod functions;
mod lexer;
mod library;
mod macros;
mod program;
mod range;
mod review;
mod rewrite;
mod sizes;
mod syntax;
mod types;
mod value;

use serde_json::{Map, Value};

use super::field_path;

pub(crate) use authorizer::authorizer;
pub(super) use evaluate::{check_default, evaluate};
pub(crate) use program::{Program, Reads};
pub(super) use review::review;
pub(super) use types::READABLE_METADATA;

/// A value that no schema describes.
pub(crate) fn untyped(value: &Value) -> kube_cel::cel::Value {
    value::to_cel(None, value)
}

/// One rule with its programs.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The expression that must be true.
    pub rule: String,
    /// What people read if it is not.
    pub message: Option<String>,
    /// An expression that makes the message.
    pub message_expression: Option<String>,
    /// The cause's reason, such as `FieldValueForbidden`.
    pub reason: Option<String>,
    /// The member that is to blame, relative to the node: `labels[a.b]`.
    pub field_path: Option<String>,
    /// The rule also holds where there was no value before.
    pub optional_old_self: bool,
    /// The rule, or why it does not compile.
    pub(crate) program: Result<Program, String>,
    /// What of the object the rule and its message look at; `None` if that cannot be
    /// told, because it uses the object as a whole.
    pub(crate) reads: Option<Reads>,
    /// The message expression, or why it does not compile.
    pub(crate) message_program: Option<Result<Program, String>>,
}

impl Rule {
    /// The rules of a schema node (`x-kubernetes-validations`).
    pub(super) fn parse_all(node: &Map<String, Value>) -> Vec<Self> {
        let Some(Value::Array(rules)) = node.get("x-kubernetes-validations") else {
            return Vec::new();
        };
        let node = Value::Object(node.clone());
        rules.iter().map(|rule| Self::parse(rule, &node)).collect()
    }

    fn parse(rule: &Value, node: &Value) -> Self {
        let text = |name: &str| {
            rule.get(name)
                .and_then(Value::as_str)
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
        };
        let source = text("rule").unwrap_or_default();
        let message_expression = text("messageExpression");
        let program = Program::compile(&source);
        let message_program = message_expression.as_deref().map(Program::compile);
        let reads = [Some(&program), message_program.as_ref()]
            .into_iter()
            .flatten()
            .flatten()
            .try_fold(Reads::new(), |mut all, program| {
                for (member, part) in program.reads_of(&["self", "oldSelf"])? {
                    match all.get_mut(&member) {
                        Some(known) => known.and(part),
                        None => drop(all.insert(member, part)),
                    }
                }
                Some(all)
            });
        Self {
            reads,
            program,
            message_program,
            rule: source,
            message: text("message"),
            message_expression,
            reason: text("reason"),
            field_path: text("fieldPath")
                .and_then(|path| Some(field_path::resolve(node, &path, true).ok()?.text)),
            optional_old_self: rule
                .get("optionalOldSelf")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        }
    }

    /// The rule compares with the value before.
    pub fn is_transition(&self) -> bool {
        self.program.as_ref().is_ok_and(|p| p.uses("oldSelf"))
    }
}

#[cfg(test)]
mod review_tests;
#[cfg(test)]
mod tests;
