//! The language of rules: compiled once with the schema, evaluated for each write.

mod admission;
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
mod objects;
mod program;
mod range;
mod review;
mod rewrite;
mod sizes;
mod syntax;
mod types;
mod value;

use serde_json::Value;

pub(crate) use admission::review_expression;
pub(crate) use authorizer::authorizer;
pub(super) use evaluate::{check_default, evaluate};
pub(crate) use objects::{configuration, operations};
pub(crate) use program::{Program, Reads};
pub(super) use review::review;

/// A value that no schema describes.
pub(crate) fn untyped(value: &Value) -> kube_cel::cel::Value {
    value::to_cel(None, value)
}

#[cfg(test)]
mod review_tests;
#[cfg(test)]
mod tests;
