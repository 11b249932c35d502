//! What is said of a rule when its schema is stored: whether its expressions
//! compile, and what evaluating them may cost.

use super::super::model::Schema;
use super::super::rule::{Reviewed, Rule};
use super::check::{Variable, check, rule_variables};
use super::cost;
use super::program::{Program, STACK, bounded};
use super::sizes::{MAX_REQUEST, least};
use super::types::Type;

/// Looks at a rule of a node with the given schema. Trees can be deep, so it is
/// done on a stack that is large enough.
pub(in super::super) fn review(rule: &Rule, schema: &Schema) -> Reviewed {
    let found = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || look_at(rule, schema));
        thread.ok()?.join().ok()
    });
    found.unwrap_or_else(|| Reviewed {
        rule: Err("compilation failed: the expression cannot be checked".to_owned()),
        message: Ok(()),
        cost: 0,
        message_cost: None,
        most: 1,
    })
}

fn look_at(rule: &Rule, schema: &Schema) -> Reviewed {
    let look = |source: &str, program: &Result<Program, String>, wanted: &Type<'_>, words: &str| {
        let variables = rule_variables(schema, rule.optional_old_self);
        compile(source, program, variables, schema, wanted, words)
    };
    let (found, cost) = match look(
        &rule.rule,
        &rule.program,
        &Type::Bool,
        "cel expression must evaluate to a bool",
    ) {
        Ok(cost) => (Ok(()), cost),
        Err(problem) => (Err(problem), 0),
    };
    let (mut message, mut message_cost) = (Ok(()), None);
    if let (Some(source), Some(program)) = (&rule.message_expression, &rule.message_program) {
        match look(source, program, &Type::Text, "must evaluate to a string") {
            Ok(cost) => message_cost = Some(cost),
            Err(problem) => message = Err(format!("messageExpression {problem}")),
        }
    }
    Reviewed {
        rule: found,
        message,
        cost,
        message_cost,
        most: MAX_REQUEST / (least(schema) + 1),
    }
}

/// The highest cost of an expression.
fn compile<'a>(
    source: &str,
    program: &Result<Program, String>,
    variables: Vec<Variable<'a>>,
    schema: &'a Schema,
    wanted: &Type<'_>,
    otherwise: &str,
) -> Result<u64, String> {
    let failed = |why: &str| format!("compilation failed: {why}");
    bounded(source).map_err(|why| failed(&why))?;
    let checked = match (check(source, variables), program) {
        // Where the grammar is not followed, the grammar's parser has the words.
        (Err(None) | Ok(_), Err(why)) => return Err(failed(why)),
        (Err(None), Ok(_)) => return Err(failed("the expression cannot be parsed")),
        (Err(Some(why)), _) => return Err(failed(&why)),
        (Ok(checked), Ok(_)) => checked,
    };
    let found = checked.types.get(&checked.root.id).unwrap_or(&Type::Dyn);
    if std::mem::discriminant(found) != std::mem::discriminant(wanted) {
        return Err(otherwise.to_owned());
    }
    Ok(cost::highest(&checked, schema))
}
