//! Rules of a schema (`x-kubernetes-validations`).

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::cel::{Program, Reads};
use super::field_path;
use super::model::{Kind, Schema};

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
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "nothing compiles"))]
    pub(crate) reads: Option<Reads>,
    /// The message expression, or why it does not compile.
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "nothing compiles"))]
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

/// A rule as its author should know it.
#[derive(Debug)]
pub(super) struct Reviewed {
    /// What is wrong with the rule.
    pub(super) rule: Result<(), String>,
    /// What is wrong with the message expression.
    pub(super) message: Result<(), String>,
    /// Highest cost of one evaluation.
    pub(super) cost: u64,
    /// Highest cost of the message, if there is an expression for it.
    pub(super) message_cost: Option<u64>,
    /// How often the rule can be evaluated in one request, if nothing bounds it.
    pub(super) most: u64,
}

/// The part of `metadata` that rules can read.
pub(super) static READABLE_METADATA: LazyLock<Schema> = LazyLock::new(|| {
    let text = || {
        Arc::new(Schema {
            kind: Kind::String,
            ..Schema::default()
        })
    };
    Schema {
        kind: Kind::Object,
        properties: ["name", "generateName"]
            .map(|name| (name.to_owned(), text()))
            .into(),
        ..Schema::default()
    }
});
