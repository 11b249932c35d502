//! Checking a rule when its schema is stored: what it reads must exist.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::super::model::{Kind, Schema};
use super::program::Program;
use super::value::escape;

/// What is wrong with an expression whose `self` and `oldSelf` are of the given
/// schema: a variable that does not exist, or a field that the schema lacks.
pub(crate) fn check(
    program: &Program,
    schema: &Schema,
    optional_old_self: bool,
) -> Result<(), String> {
    let mut checker = Checker {
        schema,
        optional_old_self,
        locals: Vec::new(),
    };
    checker.walk(program.expression()).map(|_| ())
}

struct Checker<'a> {
    schema: &'a Schema,
    optional_old_self: bool,
    /// Variables of the comprehensions around the expression, with their schemas.
    locals: Vec<(String, Option<&'a Schema>)>,
}

/// Identifiers that are no variables: types and namespaces of functions.
const GLOBALS: [&str; 20] = [
    "optional",
    "math",
    "strings",
    "sets",
    "lists",
    "base64",
    "format",
    "jsonpatch",
    "ip",
    "cidr",
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
];

impl<'a> Checker<'a> {
    /// Checks an expression; gives its schema where that is known.
    fn walk(&mut self, expr: &IdedExpr) -> Result<Option<&'a Schema>, String> {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(None),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = self.walk(&select.operand)?;
                field(operand, &select.field)
            }
            Expr::Call(call) => {
                let target = call
                    .target
                    .as_deref()
                    .map(|t| self.walk(t))
                    .transpose()?
                    .flatten();
                let mut first = None;
                for (i, arg) in call.args.iter().enumerate() {
                    let found = self.walk(arg)?;
                    if i == 0 {
                        first = found;
                    }
                }
                let _ = target;
                Ok(match call.func_name.as_str() {
                    "_[_]" => first.and_then(element),
                    _ => None,
                })
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.walk(element)?;
                }
                Ok(None)
            }
            Expr::Map(map) => {
                self.entries(map.entries.iter().map(|e| &e.expr))?;
                Ok(None)
            }
            Expr::Struct(object) => {
                self.entries(object.entries.iter().map(|e| &e.expr))?;
                Ok(None)
            }
            Expr::Comprehension(inner) => {
                let range = self.walk(&inner.iter_range)?;
                self.walk(&inner.accu_init)?;
                let depth = self.locals.len();
                // Over a map the variable is the key, of which nothing is known.
                let of_list = range.filter(|s| s.kind == Kind::Array).and_then(element);
                self.locals.push((inner.iter_var.clone(), of_list));
                if let Some(second) = &inner.iter_var2 {
                    self.locals.push((second.clone(), None));
                }
                self.locals.push((inner.accu_var.clone(), None));
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.walk(part)?;
                }
                self.locals.truncate(depth);
                Ok(None)
            }
        }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> Result<(), String> {
        for entry in entries {
            match entry {
                EntryExpr::StructField(field) => {
                    self.walk(&field.value)?;
                }
                EntryExpr::MapEntry(entry) => {
                    self.walk(&entry.key)?;
                    self.walk(&entry.value)?;
                }
            }
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Result<Option<&'a Schema>, String> {
        if let Some((_, schema)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Ok(*schema);
        }
        match name {
            "self" => Ok(Some(self.schema)),
            "oldSelf" => Ok((!self.optional_old_self).then_some(self.schema)),
            name if name.starts_with('@') || GLOBALS.contains(&name) => Ok(None),
            name => Err(format!(
                "undeclared reference to '{name}' (in container '')"
            )),
        }
    }
}

/// The schema of a field; an error if the object has none of that name.
fn field<'a>(operand: Option<&'a Schema>, name: &str) -> Result<Option<&'a Schema>, String> {
    let Some(schema) = operand else {
        return Ok(None);
    };
    if schema.kind == Kind::Object && !schema.properties.is_empty() {
        return match schema
            .properties
            .iter()
            .find(|(property, _)| escape(property) == name)
        {
            Some((_, inner)) => Ok(Some(inner)),
            None if schema.additional.is_some() => Ok(None),
            None => Err(format!("undefined field '{name}'")),
        };
    }
    match (schema.kind, &schema.additional) {
        (Kind::Object, Some(additional)) => Ok(Some(additional)),
        (Kind::Object, None) if !schema.preserve_unknown => {
            Err(format!("undefined field '{name}'"))
        }
        (Kind::Array | Kind::String | Kind::Integer | Kind::Number | Kind::Boolean, _) => {
            Err("type does not support field selection".to_owned())
        }
        (Kind::Object | Kind::IntOrString | Kind::Any, _) => Ok(None),
    }
}

fn element(schema: &Schema) -> Option<&Schema> {
    match schema.kind {
        Kind::Array => schema.items.as_deref(),
        Kind::Object => schema.additional.as_deref(),
        Kind::String
        | Kind::Integer
        | Kind::Number
        | Kind::Boolean
        | Kind::IntOrString
        | Kind::Any => None,
    }
}
