//! Compiling and running one CEL expression.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use super::check::display;
use super::{authorizer, functions, objects, rewrite};
use crate::memo::Memo;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use kube_cel::cel::parser::{Expression, ParseErrors, Parser};
use kube_cel::cel::{Context, ExecutionError, Value};

/// Longer expressions are refused, in bytes.
const MAX_LENGTH: usize = 16 << 10;
/// More brackets within brackets, or unary operators in a row, are refused: the
/// parser descends once for each.
const MAX_NESTING: usize = 32;
/// The parser and the evaluator need tens of kilobytes of stack for each level:
/// where that is too much for a common thread, they get one with a large stack.
pub(super) const STACK: usize = 64 << 20;
/// More loops within loops than this are refused; the API server estimates costs instead.
const MAX_LOOPS: usize = 8;
/// Trees up to this height are evaluated on the caller's stack.
const SHALLOW: usize = 16;
/// More operators and selections of fields than this are refused; a chain of
/// them is as deep as it is long.
const MAX_OPERATORS: usize = 512;

/// The members of an object that something reads, by the names that rules have for
/// them, and what of each.
pub(crate) type Reads = BTreeMap<String, Part>;

/// What is read of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    All,
    /// These of its own members, and whether it is there.
    Only(BTreeSet<String>),
}

impl Part {
    /// Both of them.
    pub(in crate::schema) fn and(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Only(some), Self::Only(others)) => some.extend(others),
            _ => *self = Self::All,
        }
    }
}

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Program {
    expression: Arc<Expression>,
    variables: Arc<[String]>,
    depth: usize,
}

impl Program {
    /// Compiles an expression, unless that was done before; the error is the compiler's
    /// text.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        static KNOWN: Memo<Result<Program, String>> = Memo::new();
        KNOWN.of(source, || Self::compile_anew(source, false))
    }

    /// The same for an expression that says how an object is to be changed: it may make
    /// objects.
    pub(crate) fn compile_mutation(source: &str) -> Result<Self, String> {
        static KNOWN: Memo<Result<Program, String>> = Memo::new();
        KNOWN.of(source, || Self::compile_anew(source, true))
    }

    fn compile_anew(source: &str, mutating: bool) -> Result<Self, String> {
        bounded(source)?;
        let text = source.to_owned();
        // Whatever goes down the tree level by level is done there as well.
        let read = move || {
            let parser = Parser::default().enable_optional_syntax(true);
            let expression = parser
                .parse(&text)
                .map_err(|errors| syntax_errors(&text, &errors))?;
            let expression = objects::construct(&text, expression, mutating)?;
            let expression = rewrite::expand(expression);
            if loops(&expression) > MAX_LOOPS {
                return Err(format!(
                    "the estimated cost of more than {MAX_LOOPS} nested loops exceeds the budget"
                ));
            }
            Ok((depth(&expression), expression))
        };
        let (depth, expression) = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(read)
            .map_err(|error| format!("cannot start the parser: {error}"))?
            .join()
            .map_err(|_| "the expression cannot be parsed".to_owned())??;
        let variables = expression
            .references()
            .variables()
            .into_iter()
            .map(str::to_owned)
            .collect();
        Ok(Self {
            depth,
            expression: Arc::new(expression),
            variables,
        })
    }

    /// Whether the expression mentions a variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|v| v == variable)
    }

    /// What the expression reads of these variables; `None` if it uses one of them
    /// otherwise than by naming a member.
    pub(crate) fn reads_of(&self, variables: &[&str]) -> Option<Reads> {
        let mut reads = Reads::new();
        read_members(&self.expression, variables, &mut reads).then_some(reads)
    }

    /// Evaluates with the given variables; the error is what the API server's
    /// evaluator says.
    pub(crate) fn run(&self, variables: &[(&str, Value)]) -> Result<Value, String> {
        let evaluate = || {
            functions::start();
            let mut scope = root().new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(*name, value.clone());
            }
            Value::resolve(&self.expression, &scope)
        };
        // A panic of a function of the library must not take the server down.
        let outcome = if self.depth <= SHALLOW {
            catch_unwind(AssertUnwindSafe(evaluate)).ok()
        } else {
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, evaluate);
                thread.ok()?.join().ok()
            })
        };
        outcome
            .ok_or_else(|| "internal error".to_owned())?
            .map_err(|error| describe(&error))
    }
}

/// The errors of the parser as cel-go shows them.
fn syntax_errors(source: &str, errors: &ParseErrors) -> String {
    let place = |(line, column): (isize, isize)| {
        let (line, column) = (line.unsigned_abs(), column.unsigned_abs());
        let lines = source.split('\n').take(line.saturating_sub(1));
        let before: usize = lines.map(|line| line.chars().count() + 1).sum();
        before + column.saturating_sub(1)
    };
    let found: Vec<_> = errors
        .errors
        .iter()
        .map(|error| (place(error.pos), error.msg.clone()))
        .collect();
    display(source, &found)
}

/// The height of an expression's tree.
fn depth(expr: &IdedExpr) -> usize {
    1 + parts(expr).into_iter().map(depth).max().unwrap_or(0)
}

/// Collects what is read of the variables; false if one of them is used in another
/// way than by naming a member.
fn read_members(expr: &IdedExpr, variables: &[&str], reads: &mut Reads) -> bool {
    let is_variable = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if variables.contains(&name.as_str()));
    match &expr.expr {
        Expr::Ident(_) => !is_variable(expr),
        Expr::Select(select) if is_variable(&select.operand) => {
            let part = if select.test {
                Part::Only(BTreeSet::new())
            } else {
                Part::All
            };
            read(reads, &select.field, part);
            true
        }
        Expr::Select(select) => match &select.operand.expr {
            Expr::Select(above) if !above.test && is_variable(&above.operand) => {
                let part = Part::Only(BTreeSet::from([select.field.clone()]));
                read(reads, &above.field, part);
                true
            }
            _ => read_members(&select.operand, variables, reads),
        },
        _ => parts(expr)
            .into_iter()
            .all(|part| read_members(part, variables, reads)),
    }
}

fn read(reads: &mut Reads, member: &str, part: Part) {
    match reads.get_mut(member) {
        Some(known) => known.and(part),
        None => {
            reads.insert(member.to_owned(), part);
        }
    }
}

/// How many loops (`all`, `map`, …) stand within one another.
fn loops(expr: &IdedExpr) -> usize {
    let own = usize::from(matches!(expr.expr, Expr::Comprehension(_)));
    own + parts(expr).into_iter().map(loops).max().unwrap_or(0)
}

/// The expressions directly below one.
fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(object) => entries(&object.entries),
        Expr::Comprehension(inner) => {
            vec![
                &inner.iter_range,
                &inner.accu_init,
                &inner.loop_cond,
                &inner.loop_step,
                &inner.result,
            ]
        }
    }
}

fn entries(entries: &[IdedEntryExpr]) -> Vec<&IdedExpr> {
    entries
        .iter()
        .flat_map(|entry| entry_parts(&entry.expr))
        .collect()
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

/// Refuses what could exhaust the stack of the parser or of the evaluator.
pub(super) fn bounded(source: &str) -> Result<(), String> {
    if source.len() > MAX_LENGTH {
        return Err(format!("expressions may have at most {MAX_LENGTH} bytes"));
    }
    let (mut open, mut deepest, mut run, mut longest, mut operators) = (0usize, 0, 0usize, 0, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'.' | b'+' | b'*' | b'/' | b'%' | b'?' | b'&' | b'|' | b'<' | b'>' | b'=' => {
                operators += 1;
            }
            _ => {}
        }
        run = match byte {
            b'!' | b'-' => run + 1,
            b' ' | b'\t' | b'\n' | b'\r' => run,
            _ => 0,
        };
        deepest = deepest.max(open);
        longest = longest.max(run);
    }
    if deepest > MAX_NESTING || longest > MAX_NESTING {
        return Err(format!("expressions may nest at most {MAX_NESTING} levels"));
    }
    if operators > MAX_OPERATORS {
        return Err(format!(
            "expressions may have at most {MAX_OPERATORS} operators"
        ));
    }
    Ok(())
}

/// The functions of Kubernetes' CEL, registered once.
fn root() -> &'static Context<'static> {
    static ROOT: LazyLock<Context<'static>> = LazyLock::new(|| {
        let mut context = Context::default().with_all();
        functions::register(&mut context);
        authorizer::register(&mut context);
        context
    });
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
