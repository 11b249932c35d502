//! Checking a rule when its schema is stored: what it reads must exist, and
//! operators and functions must take the types that they are given.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::super::model::{Kind, Schema};
use super::overloads;
use super::program::Program;
use super::types::Type;
use super::value::escape;

/// What an expression must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A rule says yes or no.
    Bool,
    /// A message is a text.
    Text,
}

/// Checks an expression whose `self` and `oldSelf` are of the given schema.
///
/// # Errors
/// The text that follows `compilation failed: `, or stands alone for a wrong result.
pub(crate) fn check(
    program: &Program,
    schema: &Schema,
    optional_old_self: bool,
    wanted: Wanted,
) -> Result<(), String> {
    let mut checker = Checker {
        schema,
        optional_old_self,
        locals: Vec::new(),
    };
    let found = checker
        .walk(program.expression())
        .map_err(|e| format!("compilation failed: ERROR: {e}"))?;
    match wanted {
        Wanted::Bool if !found.fits(&Type::Bool) => Err("must evaluate to a bool".to_owned()),
        Wanted::Text if !found.fits(&Type::Text) => Err("must evaluate to a string".to_owned()),
        Wanted::Bool | Wanted::Text => Ok(()),
    }
}

struct Checker<'a> {
    schema: &'a Schema,
    optional_old_self: bool,
    /// Variables of the loops around the expression.
    locals: Vec<(String, Type<'a>)>,
}

/// Identifiers that are no variables: types, and the first parts of functions' names.
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
    fn walk(&mut self, expr: &IdedExpr) -> Result<Type<'a>, String> {
        match &expr.expr {
            Expr::Unspecified => Ok(Type::Dyn),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut of = None;
                for element in &list.elements {
                    let found = self.walk(element)?;
                    of = Some(match of {
                        Some(known) if !found.fits(&known) => Type::Dyn,
                        Some(known) if !known.is_open() => known,
                        _ => found,
                    });
                }
                Ok(Type::List(Box::new(of.unwrap_or(Type::Dyn))))
            }
            Expr::Map(map) => {
                self.entries(map.entries.iter().map(|e| &e.expr))?;
                Ok(Type::Map(Box::new(Type::Dyn)))
            }
            Expr::Struct(object) => Err(format!(
                "undeclared reference to '{}' (in container '')",
                object.type_name
            )),
            Expr::Comprehension(inner) => {
                let range = self.walk(&inner.iter_range)?;
                let start = self.walk(&inner.accu_init)?;
                let depth = self.locals.len();
                let variable = match range {
                    Type::List(of) => *of,
                    Type::Map(_) => Type::Text,
                    Type::Dyn => Type::Dyn,
                    other => {
                        return Err(format!(
                            "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                        ));
                    }
                };
                self.locals.push((inner.iter_var.clone(), variable));
                self.locals.push((inner.accu_var.clone(), start));
                self.walk(&inner.loop_cond)?;
                let step = self.walk(&inner.loop_step)?;
                if let Some(last) = self.locals.last_mut() {
                    last.1 = step;
                }
                let result = self.walk(&inner.result)?;
                self.locals.truncate(depth);
                Ok(result)
            }
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Type<'a>, String> {
        // `math.greatest` and the like are one name.
        if matches!(&select.operand.expr, Expr::Ident(name) if self.is_global(name)) {
            return Ok(Type::Dyn);
        }
        let operand = self.walk(&select.operand)?;
        let found = match operand {
            Type::Dyn => Type::Dyn,
            Type::Map(of) => *of,
            Type::Object(schema) => field(schema, &select.field)?,
            other => return Err(format!("type '{other}' does not support field selection")),
        };
        Ok(if select.test { Type::Bool } else { found })
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type<'a>, String> {
        let namespaced = matches!(call.target.as_deref().map(|t| &t.expr),
            Some(Expr::Ident(name)) if self.is_global(name));
        let target = match call.target.as_deref() {
            Some(target) if !namespaced => Some(self.walk(target)?),
            _ => None,
        };
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.walk(arg)?);
        }
        if namespaced {
            return Ok(Type::Dyn);
        }
        overloads::result(&call.func_name, target.as_ref(), &args)?.ok_or_else(|| {
            let list = args
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            let on = target.as_ref().map(|t| format!("{t}.")).unwrap_or_default();
            format!(
                "found no matching overload for '{}' applied to '{on}({list})'",
                call.func_name
            )
        })
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

    fn is_global(&self, name: &str) -> bool {
        GLOBALS.contains(&name) && !self.locals.iter().any(|(local, _)| local == name)
    }

    fn variable(&self, name: &str) -> Result<Type<'a>, String> {
        if let Some((_, of)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Ok(of.clone());
        }
        match name {
            "oldSelf" if self.optional_old_self => Ok(Type::Dyn),
            "self" | "oldSelf" => Ok(Type::of(self.schema)),
            name if self.is_global(name) => Ok(Type::Dyn),
            name => Err(format!(
                "undeclared reference to '{name}' (in container '')"
            )),
        }
    }
}

/// The type of a field. What the schema gives no type is not visible to rules.
fn field<'a>(schema: &'a Schema, name: &str) -> Result<Type<'a>, String> {
    let found = schema
        .properties
        .iter()
        .find(|(property, inner)| escape(property) == name && inner.kind != Kind::Any);
    match found {
        Some((_, inner)) => Ok(Type::of(inner)),
        None => Err(format!("undefined field '{name}'")),
    }
}
