//! The expressions of policies and webhooks: they are there, and compile.

use serde_json::{Value, json};

use super::Errors;
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::schema::{Declared, FieldError, Program, Wanted, review_expression};

/// Most conditions of a policy or a webhook.
const MOST_CONDITIONS: usize = 64;
/// Words of the language, which are no names.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// What the expressions of one object can refer to.
pub(super) struct Expressions<'a> {
    has_params: bool,
    /// The policy's own variables, as far as they have been looked at; `None` where there
    /// are none.
    variables: Option<Vec<&'a str>>,
}

impl<'a> Expressions<'a> {
    /// Those of a webhook, which has neither parameters nor variables.
    pub(super) fn of_webhook() -> Self {
        Self {
            has_params: false,
            variables: None,
        }
    }

    /// Those of a policy with this spec.
    pub(super) fn of_policy(spec: &Value) -> Self {
        Self {
            has_params: has(spec, "paramKind"),
            variables: (!list(spec, "variables").is_empty()).then(Vec::new),
        }
    }

    /// Checks the conditions of `of` at `path`.
    pub(super) fn conditions(&self, of: &Value, path: &str, errors: &mut Errors) {
        let all = list(of, "matchConditions");
        if all.len() > MOST_CONDITIONS {
            errors.push(FieldError::too_many(
                path,
                all.len(),
                MOST_CONDITIONS as u64,
            ));
        }
        for (i, condition) in all.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let field = format!("{path}.expression");
            let source = text(condition, "expression").trim();
            if source.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else {
                let declared = Declared {
                    params: self.has_params,
                    authorizer: true,
                    variables: None,
                };
                compiles(source, &declared, Wanted::Bool, &field, errors);
            }
            let name = text(condition, "name");
            if check::required(condition, "name", &path, errors) {
                let field = format!("{path}.name");
                check::qualified(name, &field, errors);
                let mut earlier = all.iter().take(i);
                if earlier.any(|it| text(it, "name") == name) {
                    errors.push(FieldError::duplicate(field, &json!(name)));
                }
            }
        }
    }

    /// Checks the variables of a policy, each of which knows those before it.
    pub(super) fn variables(&mut self, spec: &'a Value, errors: &mut Errors) {
        for (i, variable) in list(spec, "variables").iter().enumerate() {
            let path = format!("spec.variables[{i}]");
            let name = text(variable, "name");
            let field = format!("{path}.name");
            if name.trim().is_empty() {
                errors.push(FieldError::required(field, "name is not specified"));
            } else if !is_identifier(name) {
                let why = "name is not a valid CEL identifier";
                errors.push(FieldError::invalid(field, &json!(name), why));
            }
            self.expression(variable, "expression", Wanted::Anything, &path, errors);
            self.variables.get_or_insert_default().push(name);
        }
    }

    /// Checks an expression that has to be there.
    pub(super) fn expression(
        &self,
        of: &Value,
        member: &str,
        wanted: Wanted,
        path: &str,
        errors: &mut Errors,
    ) {
        let (source, field) = (text(of, member), check::join(path, member));
        if source.trim().is_empty() {
            let why = format!("{member} is not specified");
            errors.push(FieldError::required(field, &why));
        } else {
            self.source(source, wanted, &field, errors);
        }
    }

    /// Checks an expression that is there.
    pub(super) fn source(&self, source: &str, wanted: Wanted, field: &str, errors: &mut Errors) {
        let declared = Declared {
            params: self.has_params,
            // What is told is not about who asks.
            authorizer: wanted != Wanted::Text,
            variables: self.variables.as_deref(),
        };
        compiles(source, &declared, wanted, field, errors);
    }
}

fn compiles(
    source: &str,
    declared: &Declared<'_>,
    wanted: Wanted,
    field: &str,
    errors: &mut Errors,
) {
    if let Err(why) = review_expression(source, declared, wanted) {
        errors.push(FieldError::invalid(field, &json!(source), why));
    }
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    letters.next().is_some_and(starts)
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.contains(&name)
}

/// Checks an expression that says how an object is to be changed.
pub(super) fn mutation(of: &Value, path: &str, errors: &mut Errors) {
    let field = format!("{path}.expression");
    let source = text(of, "expression").trim();
    if source.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if let Some(why) = Program::compile_mutation(source).err() {
        let why = format!("compilation failed: {why}");
        errors.push(FieldError::invalid(field, &of["expression"], why));
    }
}
