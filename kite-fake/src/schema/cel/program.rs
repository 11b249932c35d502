//! Compiling and running one CEL expression.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, ExecutionError, Value};

/// Longer expressions are refused, in bytes.
const MAX_LENGTH: usize = 16 << 10;

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Program {
    expression: Arc<Expression>,
    variables: Arc<[String]>,
}

impl Program {
    /// Compiles an expression; the error is the compiler's text.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        if source.len() > MAX_LENGTH {
            return Err(format!("expressions may have at most {MAX_LENGTH} bytes"));
        }
        // The parser is generated code; a panic of its must not take the server down.
        let parsed = catch_unwind(|| Parser::default().enable_optional_syntax(true).parse(source))
            .map_err(|_| "the expression cannot be parsed".to_owned())?;
        let expression = parsed.map_err(|errors| errors.to_string().trim().to_owned())?;
        let variables = expression
            .references()
            .variables()
            .into_iter()
            .map(str::to_owned)
            .collect();
        Ok(Self {
            expression: Arc::new(expression),
            variables,
        })
    }

    /// Whether the expression mentions a variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|v| v == variable)
    }

    /// The expression's tree.
    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Evaluates with the given variables; the error is what the API server's
    /// evaluator says.
    pub(crate) fn run(&self, variables: &[(&str, Value)]) -> Result<Value, String> {
        let mut scope = root().new_inner_scope();
        for (name, value) in variables {
            scope.add_variable_from_value(*name, value.clone());
        }
        catch_unwind(AssertUnwindSafe(|| {
            Value::resolve(&self.expression, &scope)
        }))
        .map_err(|_| "internal error".to_owned())?
        .map_err(|error| describe(&error))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

/// The functions of Kubernetes' CEL, registered once.
fn root() -> &'static Context<'static> {
    static ROOT: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());
    &ROOT
}

/// An evaluation error in the words of cel-go.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedBinaryOperator(..) => "no such overload".to_owned(),
        ExecutionError::UndeclaredReference(name) => {
            format!("undeclared reference to '{name}' (in container '')")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
