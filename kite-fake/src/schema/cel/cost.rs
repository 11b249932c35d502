//! What an expression costs at most, estimated from its tree and the bounds of
//! its schema, in the units of cel-go and of Kubernetes' libraries.

use std::collections::BTreeMap;

use super::super::model::Schema;
use super::check::Checked;
use super::range::{REGEX, Range, TRAVERSE, compared};
use super::sizes::at_path;
use super::syntax::{Expr, Fold, Node, RESULT};
use super::types::Type;

const LIST: u64 = 10;
const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// The cost of a call, and the size of its result if it is known.
pub(super) type Estimate = (Range, Option<Range>);

/// The sizes of what a list or map holds.
#[derive(Debug, Clone, Copy)]
struct Entry {
    list: bool,
    key: Range,
    value: Range,
}

impl Entry {
    fn or(self, other: Self) -> Self {
        Self {
            list: self.list,
            key: self.key.or(other.key),
            value: self.value.or(other.value),
        }
    }
}

/// What is known of a variable of a loop.
#[derive(Debug, Clone)]
struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// The highest cost of an expression over values of `schema`.
pub(super) fn highest(checked: &Checked<'_>, schema: &Schema) -> u64 {
    let mut coster = Coster {
        checked,
        schema,
        locals: Vec::new(),
        paths: BTreeMap::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
    };
    coster.cost(&checked.root).max
}

/// Adds up an expression.
pub(super) struct Coster<'c> {
    checked: &'c Checked<'c>,
    schema: &'c Schema,
    locals: Vec<Local>,
    /// Where in the schema nodes lead to; the first segment is a variable.
    paths: BTreeMap<usize, Vec<String>>,
    sizes: BTreeMap<usize, Range>,
    entries: BTreeMap<usize, Entry>,
}

impl Coster<'_> {
    fn cost(&mut self, node: &Node) -> Range {
        match &node.expr {
            Expr::Null
            | Expr::Bool(_)
            | Expr::Int(_)
            | Expr::Uint
            | Expr::Double
            | Expr::Text(_)
            | Expr::Bytes(_) => Range::just(0),
            Expr::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(node.id, path);
                Range::just(1)
            }
            Expr::Select {
                operand,
                field,
                test,
            } => {
                let below = self.cost(operand);
                if *test {
                    return below;
                }
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(node.id, path);
                match self.kind(operand) {
                    Type::Map(..) | Type::Object(_) | Type::Named(_) => below.plus(Range::just(1)),
                    _ => below,
                }
            }
            Expr::Call { name, target, args } => self.call(node, name, target.as_deref(), args),
            Expr::List(elements) => {
                let mut sum = Range::just(LIST);
                let mut size = unset(elements.is_empty());
                for (element, _) in elements {
                    sum = sum.plus(self.cost(element));
                    size = size.or(self.size_of(element));
                }
                let entry = Entry {
                    list: true,
                    key: Range::just(1),
                    value: size,
                };
                self.entries.insert(node.id, entry);
                sum
            }
            Expr::Map(entries) => {
                let mut sum = Range::just(MAP);
                let (mut keys, mut values) = (unset(entries.is_empty()), unset(entries.is_empty()));
                for (key, value, _) in entries {
                    sum = sum.plus(self.cost(key)).plus(self.cost(value));
                    keys = keys.or(self.size_of(key));
                    values = values.or(self.size_of(value));
                }
                let entry = Entry {
                    list: false,
                    key: keys,
                    value: values,
                };
                self.entries.insert(node.id, entry);
                sum
            }
            Expr::Struct(_) => Range::just(STRUCT),
            Expr::Fold(fold) if is_binding(fold) => self.binding(node, fold),
            Expr::Fold(fold) => self.fold(node, fold),
        }
    }

    fn binding(&mut self, node: &Node, fold: &Fold) -> Range {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.start));
        self.push(&fold.accumulator, &fold.start);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy(node, &fold.result);
        sum
    }

    fn fold(&mut self, node: &Node, fold: &Fold) -> Range {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.start));
        self.push(&fold.accumulator, &fold.start);
        let depth = self.locals.len();
        let entry = self.entry(&fold.range);
        let list = entry.map_or_else(
            || matches!(self.kind(&fold.range), Type::List(_)),
            |entry| entry.list,
        );
        let below = self.path(&fold.range);
        let variable = |name: &String, key: bool| {
            let segment = match (key, list) {
                (true, true) => "@indices",
                (true, false) => "@keys",
                (false, true) => "@items",
                (false, false) => "@values",
            };
            let mut path = below.clone();
            path.push(segment.to_owned());
            Local {
                name: name.clone(),
                path,
                size: entry.map(|entry| if key { entry.key } else { entry.value }),
                entry: None,
            }
        };
        let single = fold.second.is_none();
        self.locals
            .push(variable(&fold.variable, !(single && list)));
        if let Some(second) = &fold.second {
            self.locals.push(variable(second, false));
        }
        let turn = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(depth);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_of(&fold.range);
        match &fold.start.expr {
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(node.id, count);
                if let Some(entry) = self.entry(&fold.step) {
                    self.entries.insert(node.id, entry);
                }
            }
            _ => {
                if let Some(size) = self.size(&fold.start) {
                    self.sizes.insert(node.id, size);
                }
            }
        }
        sum.plus(count.times(turn))
    }

    fn call(&mut self, node: &Node, name: &str, target: Option<&Node>, args: &[Node]) -> Range {
        if name == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(arg).plus(Range::just(1));
            self.copy(node, arg);
            return cost;
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let qualified = self.checked.qualified.get(&node.id);
        let name = qualified.map_or(name, String::as_str);
        let target = target.filter(|_| qualified.is_none());
        let mut sum = Range::just(0);
        if let Some(target) = target {
            sum = self.cost(target);
        }
        let given: Range = costs
            .iter()
            .fold(Range::just(0), |sum, cost| sum.plus(*cost));
        let mut own = Range {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Range> = None;
        let overloads = self
            .checked
            .calls
            .get(&node.id)
            .cloned()
            .unwrap_or_default();
        for overload in &overloads {
            let (cost, made) = match overload {
                &"conditional" => self.choice(node, args, &costs),
                &"logical_and" | &"logical_or" => {
                    let cost = Range {
                        min: costs.first().map_or(0, |cost| cost.min),
                        max: given.max,
                    };
                    (cost, None)
                }
                _ => {
                    let (cost, made) = self.function(node, name, overload, target, args);
                    (cost.plus(given), made)
                }
            };
            own = own.or(cost);
            size = match (size, made) {
                (Some(size), Some(made)) => Some(size.or(made)),
                (size, made) => size.or(made),
            };
            let segment = match *overload {
                "index_list" => "@items",
                "index_map" => "@values",
                _ => "",
            };
            if !segment.is_empty()
                && let Some(of) = args.first()
            {
                size = self.entry(of).map(|entry| entry.value);
                let mut path = self.path(of);
                path.push(segment.to_owned());
                self.paths.insert(node.id, path);
            }
            size = size.or_else(|| self.size(node));
        }
        if let Some(size) = size {
            self.sizes.insert(node.id, size);
        }
        if overloads.is_empty() {
            return sum;
        }
        sum.plus(own)
    }

    fn choice(&mut self, node: &Node, args: &[Node], costs: &[Range]) -> Estimate {
        let ([_, yes, no], [test, a, b]) = (args, costs) else {
            return (Range::just(1), None);
        };
        if let (Some(yes), Some(no)) = (self.entry(yes), self.entry(no)) {
            self.entries.insert(node.id, yes.or(no));
        }
        let size = self.size_of(yes).or(self.size_of(no));
        (test.plus(a.or(*b)), Some(size))
    }

    /// A call without its arguments.
    fn function(
        &mut self,
        node: &Node,
        name: &str,
        overload: &str,
        target: Option<&Node>,
        args: &[Node],
    ) -> Estimate {
        let on = target.map(|target| self.size_of(target));
        let first = args.first().map_or(Range::UNKNOWN, |arg| self.size_of(arg));
        let second = args.get(1).map_or(Range::UNKNOWN, |arg| self.size_of(arg));
        if let Some(estimate) = self.library(name, overload, target, on, args, first, second) {
            return estimate;
        }
        let one = Range::just(1);
        match overload {
            "string_format" => (on.unwrap_or(Range::UNKNOWN).by(TRAVERSE), None),
            "string_to_bytes" => {
                let size = Range {
                    min: first.min,
                    max: first.max.wrapping_mul(4),
                };
                (first.by(TRAVERSE), Some(size))
            }
            "bytes_to_string" => {
                let size = Range {
                    min: first.min / 4,
                    max: first.max,
                };
                (first.by(TRAVERSE), Some(size))
            }
            "strings_quote" => {
                let size = Range {
                    min: first.min.wrapping_add(2),
                    max: first.max.wrapping_mul(2).wrapping_add(2),
                };
                (first.by(TRAVERSE), Some(size))
            }
            "starts_with_string" | "ends_with_string" => (first.by(TRAVERSE), None),
            "in_list" => (second, None),
            "list_sets_contains_list" | "list_sets_intersects_list" => {
                (first.times(second).plus(one), None)
            }
            "list_sets_equivalent_list" => (first.times(second).by(2.0).plus(one), None),
            "matches_string" if on.is_some() => {
                let text = on.unwrap_or(one).plus(one).by(TRAVERSE);
                (text.times(first.by(REGEX)), None)
            }
            "contains_string" if on.is_some() => {
                let text = on.unwrap_or(one).by(TRAVERSE);
                (text.times(first.by(TRAVERSE)), None)
            }
            "add_string" | "add_bytes" | "add_list" => {
                let size = first.plus(second);
                if let [a, b] = args
                    && let (Some(a), Some(b)) = (self.entry(a), self.entry(b))
                {
                    self.entries.insert(node.id, a.or(b));
                }
                let cost = if overload == "add_list" {
                    one
                } else {
                    size.by(TRAVERSE)
                };
                (cost, Some(size))
            }
            "equals" | "not_equals" => (compared(first, second), None),
            _ if is_text_comparison(overload) => (compared(first, second), None),
            _ => (one, None),
        }
    }

    /// The type and size of the elements of a list.
    pub(super) fn element(&self, node: &Node) -> Option<(Type<'_>, Range)> {
        let of = match self.kind(node) {
            Type::List(of) | Type::Map(of, _) => (**of).clone(),
            _ => return None,
        };
        let mut path = self.visible(node);
        let size = (!path.is_empty()).then(|| {
            path.push("@items".to_owned());
            self.by_path(&path)
        });
        Some((of, size.flatten().unwrap_or(Range::UNKNOWN)))
    }

    pub(super) fn kind(&self, node: &Node) -> &Type<'_> {
        self.checked.types.get(&node.id).unwrap_or(&Type::Dyn)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    /// Where a node leads to in the schema, as far as that is known yet.
    fn path(&self, node: &Node) -> Vec<String> {
        if let Expr::Ident(name) = &node.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&node.id).cloned().unwrap_or_default()
    }

    /// The same, without what loops gather.
    fn visible(&self, node: &Node) -> Vec<String> {
        let path = self.path(node);
        if path.first().is_some_and(|first| first == RESULT) {
            return Vec::new();
        }
        path
    }

    fn by_path(&self, path: &[String]) -> Option<Range> {
        let (_, below) = path.split_first()?;
        let max = at_path(self.schema, below)?;
        Some(Range { min: 0, max })
    }

    fn push(&mut self, name: &str, value: &Node) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(value),
            size: self.size(value),
            entry: self.entry(value),
        };
        self.locals.push(local);
    }

    fn copy(&mut self, to: &Node, from: &Node) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entry) = self.entry(from) {
            self.entries.insert(to.id, entry);
        }
    }

    fn size_of(&mut self, node: &Node) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    /// How large the value of a node is.
    fn size(&mut self, node: &Node) -> Option<Range> {
        if let Some(size) = self.sizes.get(&node.id) {
            return Some(*size);
        }
        let own = match &node.expr {
            Expr::Text(text) => Some(text.chars().count()),
            Expr::Bytes(length) => Some(*length),
            Expr::Null | Expr::Bool(_) | Expr::Int(_) | Expr::Uint | Expr::Double => Some(1),
            Expr::List(elements) => Some(elements.len()),
            Expr::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(own) = own {
            return Some(Range::just(own as u64));
        }
        if let Some(size) = self.by_path(&self.path(node)) {
            self.sizes.insert(node.id, size);
            return Some(size);
        }
        if is_scalar(self.kind(node)) {
            return Some(Range::just(1));
        }
        match &node.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entry(&self, node: &Node) -> Option<Entry> {
        if let Some(entry) = self.entries.get(&node.id) {
            return Some(*entry);
        }
        match &node.expr {
            Expr::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }
}

/// The size of the parts of a literal before the first of them is seen.
fn unset(empty: bool) -> Range {
    Range {
        min: if empty { 0 } else { u64::MAX },
        max: 0,
    }
}

/// A loop over nothing that only gives a value a name.
fn is_binding(fold: &Fold) -> bool {
    matches!(&fold.range.expr, Expr::List(elements) if elements.is_empty())
        && matches!(fold.condition.expr, Expr::Bool(false))
        && fold.accumulator != RESULT
}

fn is_scalar(of: &Type<'_>) -> bool {
    match of {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration => {
            true
        }
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}

fn is_text_comparison(overload: &str) -> bool {
    ["less", "greater"].iter().any(|o| overload.starts_with(o))
        && ["_string", "_bytes"].iter().any(|o| overload.ends_with(o))
}
