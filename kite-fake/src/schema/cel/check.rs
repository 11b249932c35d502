//! Checking an expression: what it reads must exist, and operators and
//! functions must take the types that they are given.

use std::collections::{BTreeMap, BTreeSet};

use super::super::formats::is_go_duration;
use super::super::model::Schema;
use super::super::pattern::Pattern;
use super::declarations::{Overload, overloads};
use super::syntax::{Expr, Fold, Node, Problem, parse};
use super::types::{Type, member};

/// What is known of a checked expression.
pub(super) struct Checked<'a> {
    pub(super) root: Node,
    /// The types of nodes.
    pub(super) types: BTreeMap<usize, Type<'a>>,
    /// The overloads that calls may come to.
    pub(super) calls: BTreeMap<usize, Vec<&'static str>>,
    /// Calls whose target is a part of the function's name.
    pub(super) qualified: BTreeMap<usize, String>,
}

/// A variable of an expression and its type.
pub(super) type Variable<'a> = (&'static str, Type<'a>);

/// Reads and checks an expression.
///
/// # Errors
/// What cel-go says of it. A text that follows no grammar gives `None`: the
/// words for that are the grammar's.
pub(super) fn check<'a>(
    source: &str,
    variables: Vec<Variable<'a>>,
) -> Result<Checked<'a>, Option<String>> {
    let root = parse(source).map_err(|problem| match problem {
        Problem::Syntax => None,
        Problem::At(at, message) => Some(display(source, &[(at, message)])),
    })?;
    let mut checker = Checker {
        scope: variables
            .into_iter()
            .map(|(name, of)| (name.to_owned(), of))
            .collect(),
        bound: Vec::new(),
        errors: BTreeSet::new(),
        checked: Checked {
            root,
            types: BTreeMap::new(),
            calls: BTreeMap::new(),
            qualified: BTreeMap::new(),
        },
    };
    let root = checker.checked.root.clone();
    checker.node(&root);
    if checker.errors.is_empty() {
        checker.literals(&root);
    }
    if !checker.errors.is_empty() {
        let errors: Vec<_> = checker.errors.into_iter().collect();
        return Err(Some(display(source, &errors)));
    }
    let ids: Vec<usize> = checker.checked.types.keys().copied().collect();
    for id in ids {
        let of = checker.checked.types.get(&id).cloned().unwrap_or(Type::Dyn);
        let resolved = checker.resolve(&of, true);
        checker.checked.types.insert(id, resolved);
    }
    Ok(checker.checked)
}

/// Errors with the line that they are in and a mark below it.
pub(super) fn display(source: &str, errors: &[(usize, String)]) -> String {
    let mut texts = Vec::new();
    for (at, message) in errors {
        let before: String = source.chars().take(*at).collect();
        let number = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let line = source.split('\n').nth(number).unwrap_or_default();
        let line = line.replace('\t', " ");
        let mark = |wide: bool, narrow: char, broad: char| if wide { broad } else { narrow };
        let dots: String = line
            .chars()
            .take(column)
            .map(|c| mark(c.len_utf8() > 1, '.', '．'))
            .collect();
        let end = line.chars().nth(column).is_some_and(|c| c.len_utf8() > 1);
        texts.push(format!(
            "ERROR: <input>:{}:{}: {message}\n | {line}\n | {dots}{}",
            number + 1,
            column + 1,
            mark(end, '^', '＾')
        ));
    }
    texts.join("\n")
}

struct Checker<'a> {
    /// Variables, innermost last.
    scope: Vec<(String, Type<'a>)>,
    /// What parameters of calls stand for.
    bound: Vec<Option<Type<'a>>>,
    errors: BTreeSet<(usize, String)>,
    checked: Checked<'a>,
}

impl<'a> Checker<'a> {
    fn error(&mut self, at: usize, message: String) -> Type<'a> {
        self.errors.insert((at, message));
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type<'a> {
        self.error(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn fresh(&mut self) -> Type<'a> {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// Checks a node; gives and keeps its type.
    fn node(&mut self, node: &Node) -> Type<'a> {
        let found = match &node.expr {
            Expr::Null => Type::Null,
            Expr::Bool(_) => Type::Bool,
            Expr::Int(_) => Type::Int,
            Expr::Uint => Type::Uint,
            Expr::Double => Type::Double,
            Expr::Text(_) => Type::Text,
            Expr::Bytes(_) => Type::Bytes,
            Expr::Ident(name) => self.ident(node.at, name),
            Expr::Select {
                operand,
                field,
                test,
            } => {
                let found = self.select(node.at, operand, field, false);
                if *test { Type::Bool } else { found }
            }
            Expr::Call { name, target, args } => self.call(node, name, target.as_deref(), args),
            Expr::List(elements) => {
                let mut of = None;
                for (element, optional) in elements {
                    let found = self.entry(element, *optional);
                    of = Some(self.join(element.at, of, found));
                }
                Type::list(of.unwrap_or_else(|| self.fresh()))
            }
            Expr::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, optional) in entries {
                    let found = self.node(key);
                    keys = Some(self.join(key.at, keys, found));
                    let found = self.entry(value, *optional);
                    values = Some(self.join(value.at, values, found));
                }
                let keys = keys.unwrap_or_else(|| self.fresh());
                let values = values.unwrap_or_else(|| self.fresh());
                Type::Map(Box::new(keys), Box::new(values))
            }
            Expr::Struct(name) => self.undeclared(node.at, name),
            Expr::Fold(fold) => self.fold(fold),
        };
        self.checked.types.insert(node.id, found.clone());
        found
    }

    /// An element of a list or map; an optional one is taken out of its wrapping.
    fn entry(&mut self, node: &Node, optional: bool) -> Type<'a> {
        let found = self.node(node);
        if !optional {
            return found;
        }
        match self.resolve(&found, false) {
            Type::Optional(of) => *of,
            Type::Dyn | Type::Error => Type::Dyn,
            other => self.mismatch(node.at, &Type::Optional(Box::new(other.clone())), &other),
        }
    }

    /// Elements of one literal are of one type.
    fn join(&mut self, at: usize, known: Option<Type<'a>>, found: Type<'a>) -> Type<'a> {
        let Some(known) = known else { return found };
        if self.assignable(&known, &found) {
            return match self.resolve(&known, false) {
                Type::Dyn => Type::Dyn,
                _ if matches!(self.resolve(&found, false), Type::Dyn) => Type::Dyn,
                _ => known,
            };
        }
        self.mismatch(at, &known, &found)
    }

    fn mismatch(&mut self, at: usize, wanted: &Type<'a>, found: &Type<'a>) -> Type<'a> {
        let (wanted, found) = (self.resolve(wanted, true), self.resolve(found, true));
        self.error(at, format!("expected type '{wanted}' but found '{found}'"))
    }

    fn ident(&mut self, at: usize, name: &str) -> Type<'a> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, of)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return of.clone();
        }
        let of = match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::Text,
            "bytes" => Type::Bytes,
            "null_type" => Type::Null,
            "list" => Type::list(Type::Dyn),
            "map" => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
            "type" => Type::Of(Box::new(Type::Dyn)),
            "optional_type" => Type::Optional(Box::new(Type::Dyn)),
            _ => return self.undeclared(at, name),
        };
        Type::Of(Box::new(of))
    }

    fn select(&mut self, at: usize, operand: &Node, field: &str, optional: bool) -> Type<'a> {
        match qualified_name(operand)
            .map(|prefix| format!("{prefix}.{field}"))
            .as_deref()
        {
            Some("google.protobuf.Timestamp") => return Type::Of(Box::new(Type::Timestamp)),
            Some("google.protobuf.Duration") => return Type::Of(Box::new(Type::Duration)),
            _ => {}
        }
        let operand = self.node(operand);
        let (wrapped, of) = match self.resolve(&operand, false) {
            Type::Optional(of) => (true, self.resolve(&of, false)),
            other => (optional, other),
        };
        let found = match of {
            Type::Map(_, values) => *values,
            Type::Object(schema) => match member(schema, field).and_then(Type::of) {
                Some(found) => found,
                None => self.error(at, format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Error | Type::Var(_) => Type::Dyn,
            other => {
                let other = self.resolve(&other, true);
                self.error(
                    at,
                    format!("type '{other}' does not support field selection"),
                );
                Type::Dyn
            }
        };
        if wrapped {
            Type::Optional(Box::new(found))
        } else {
            found
        }
    }

    fn call(&mut self, node: &Node, name: &str, target: Option<&Node>, args: &[Node]) -> Type<'a> {
        if let ("_?._", [operand, field]) = (name, args)
            && let Expr::Text(field) = &field.expr
        {
            self.checked
                .calls
                .insert(node.id, vec!["select_optional_field"]);
            return self.select(node.at, operand, field, true);
        }
        let mut given: Vec<Type<'a>> = args.iter().map(|arg| self.node(arg)).collect();
        let places: Vec<usize> = args.iter().map(|arg| arg.at).collect();
        let Some(target) = target else {
            let name = name.strip_prefix('.').unwrap_or(name);
            return match overloads(name) {
                Some(known) => self.overload(node, name, known, false, &given, &places),
                None => self.undeclared(node.at, name),
            };
        };
        if let Some(prefix) = qualified_name(target) {
            let long = format!("{prefix}.{name}");
            if let Some(known) = overloads(&long) {
                let found = self.overload(node, &long, known, false, &given, &places);
                self.checked.qualified.insert(node.id, long);
                return found;
            }
        }
        given.insert(0, self.node(target));
        match overloads(name) {
            Some(known) => self.overload(node, name, known, true, &given, &places),
            None => self.undeclared(node.at, name),
        }
    }

    /// The type of a call by the overloads that fit.
    fn overload(
        &mut self,
        node: &Node,
        name: &str,
        known: &'static [Overload],
        method: bool,
        given: &[Type<'a>],
        places: &[usize],
    ) -> Type<'a> {
        if matches!(name, "_&&_" | "_||_") {
            let before = self.errors.len();
            for (found, at) in given.iter().zip(places) {
                if !self.assignable(found, &Type::Bool) {
                    self.mismatch(*at, &Type::Bool, found);
                }
            }
            let ids = known.iter().map(|o| o.id.as_str()).collect();
            self.checked.calls.insert(node.id, ids);
            return if self.errors.len() > before {
                Type::Error
            } else {
                Type::Bool
            };
        }
        let (mut result, mut ids): (Option<Type<'a>>, Vec<&'static str>) = (None, Vec::new());
        for overload in known.iter().filter(|o| o.method == method) {
            let mut params = BTreeMap::new();
            let wanted: Vec<Type<'a>> = overload
                .args
                .iter()
                .map(|of| self.instance(of, &mut params))
                .collect();
            if !self.all_assignable(given, &wanted) {
                continue;
            }
            let found = self.instance(&overload.result, &mut params);
            let found = self.resolve(&found, false);
            ids.push(&overload.id);
            result = Some(match result {
                None => found,
                Some(known) if same(&known, &found) => known,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.checked.calls.insert(node.id, ids);
            return result;
        }
        let shown: Vec<String> = given
            .iter()
            .map(|of| self.resolve(of, true).to_string())
            .collect();
        let signature = match shown.split_first() {
            Some((on, rest)) if method => format!("{on}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(
            node.at,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        )
    }

    /// Refuses texts in an expression that cannot be what a function makes of them.
    fn literals(&mut self, node: &Node) {
        if let Expr::Call { name, args, .. } = &node.expr
            && let Some(last) = args.last()
            && let Expr::Text(text) = &last.expr
        {
            let sound = match name.as_str() {
                "duration" => is_go_duration(text),
                "timestamp" => text.parse::<jiff::Timestamp>().is_ok(),
                "matches" => Pattern::new(text).is_ok(),
                _ => true,
            };
            if !sound {
                self.error(last.at, format!("invalid {name} argument"));
            }
        }
        for part in node.parts() {
            self.literals(part);
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type<'a> {
        let range = self.node(&fold.range);
        let start = self.node(&fold.start);
        let range = self.resolve(&range, false);
        let depth = self.scope.len();
        self.scope.push((fold.accumulator.clone(), start.clone()));
        let (first, second) = match range {
            Type::List(of) if fold.second.is_some() => (Type::Int, *of),
            Type::List(of) => (*of, Type::Dyn),
            Type::Map(keys, values) => (*keys, *values),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Var(_) => {
                self.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let other = self.resolve(&other, true);
                self.error(
                    fold.range.at,
                    format!("expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"),
                );
                (Type::Error, Type::Error)
            }
        };
        self.scope.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scope.push((name.clone(), second));
        }
        for (part, wanted) in [(&fold.condition, Type::Bool), (&fold.step, start)] {
            let found = self.node(part);
            if !self.assignable(&wanted, &found) {
                self.mismatch(part.at, &wanted, &found);
            }
        }
        self.scope.truncate(depth + 1);
        let result = self.node(&fold.result);
        self.scope.truncate(depth);
        self.resolve(&result, false)
    }

    /// A declared type with variables in place of parameters.
    fn instance(&mut self, of: &Type<'static>, params: &mut BTreeMap<char, Type<'a>>) -> Type<'a> {
        if let Type::Param(name) = of {
            return params.entry(*name).or_insert_with(|| self.fresh()).clone();
        }
        let mut inner = |of: &Type<'static>| Box::new(self.instance(of, params));
        match of {
            Type::List(of) => Type::List(inner(of)),
            Type::Map(keys, values) => {
                let keys = inner(keys);
                Type::Map(keys, inner(values))
            }
            Type::Optional(of) => Type::Optional(inner(of)),
            Type::Of(of) => Type::Of(inner(of)),
            other => other.clone(),
        }
    }

    /// The type with what is known of its variables; those left open may become `dyn`.
    fn resolve(&self, of: &Type<'a>, close: bool) -> Type<'a> {
        let inner = |of: &Type<'a>| Box::new(self.resolve(of, close));
        match of {
            Type::Var(id) => match self.bound.get(*id) {
                Some(Some(known)) => self.resolve(known, close),
                _ if close => Type::Dyn,
                _ => of.clone(),
            },
            Type::List(of) => Type::List(inner(of)),
            Type::Map(keys, values) => Type::Map(inner(keys), inner(values)),
            Type::Optional(of) => Type::Optional(inner(of)),
            Type::Of(of) => Type::Of(inner(of)),
            other => other.clone(),
        }
    }

    /// Whether the one may stand for the other; binds variables if so.
    fn assignable(&mut self, a: &Type<'a>, b: &Type<'a>) -> bool {
        self.all_assignable(std::slice::from_ref(a), std::slice::from_ref(b))
    }

    fn all_assignable(&mut self, given: &[Type<'a>], wanted: &[Type<'a>]) -> bool {
        let before = self.bound.clone();
        let fit =
            given.len() == wanted.len() && given.iter().zip(wanted).all(|(a, b)| self.unify(a, b));
        if !fit {
            self.bound = before;
        }
        fit
    }

    fn unify(&mut self, a: &Type<'a>, b: &Type<'a>) -> bool {
        let (a, b) = (self.resolve(a, false), self.resolve(b, false));
        match (&a, &b) {
            (Type::Var(x), Type::Var(y)) if x == y => true,
            (Type::Var(id), other) | (other, Type::Var(id)) => {
                if mentions(other, *id) {
                    return false;
                }
                self.bound[*id] = Some(other.clone());
                true
            }
            (Type::Dyn | Type::Error, _)
            | (_, Type::Dyn | Type::Error)
            | (Type::Of(_), Type::Of(_)) => true,
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Named(_)
                    | Type::Optional(_)
                    | Type::Timestamp
                    | Type::Duration
            ),
            (Type::List(x), Type::List(y)) | (Type::Optional(x), Type::Optional(y)) => {
                self.unify(x, y)
            }
            (Type::Map(x, of_x), Type::Map(y, of_y)) => self.unify(x, y) && self.unify(of_x, of_y),
            (Type::Object(x), Type::Object(y)) => std::ptr::eq(*x, *y),
            (Type::Named(x), Type::Named(y)) => x == y,
            _ => std::mem::discriminant(&a) == std::mem::discriminant(&b),
        }
    }
}

fn mentions(of: &Type<'_>, id: usize) -> bool {
    match of {
        Type::Var(other) => *other == id,
        Type::List(of) | Type::Optional(of) | Type::Of(of) => mentions(of, id),
        Type::Map(keys, values) => mentions(keys, id) || mentions(values, id),
        _ => false,
    }
}

/// Whether two types are the same one.
fn same(a: &Type<'_>, b: &Type<'_>) -> bool {
    match (a, b) {
        (Type::List(x), Type::List(y)) | (Type::Optional(x), Type::Optional(y)) => same(x, y),
        (Type::Map(x, of_x), Type::Map(y, of_y)) => same(x, y) && same(of_x, of_y),
        (Type::Object(x), Type::Object(y)) => std::ptr::eq(*x, *y),
        (Type::Named(x), Type::Named(y)) => x == y,
        (Type::Var(x), Type::Var(y)) => x == y,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// The dotted name that a node spells.
fn qualified_name(node: &Node) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(name.strip_prefix('.').unwrap_or(name).to_owned()),
        Expr::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}

/// The variables of a rule: `self` and the value before.
pub(super) fn rule_variables(schema: &Schema, optional_old_self: bool) -> Vec<Variable<'_>> {
    let this = Type::of(schema).unwrap_or(Type::Dyn);
    let before = if optional_old_self {
        Type::Optional(Box::new(this.clone()))
    } else {
        this.clone()
    };
    vec![("self", this), ("oldSelf", before)]
}
