//! The `JSONPath` of printer columns and selectable fields, as in Kubernetes'
//! `client-go/util/jsonpath` without its templates.

use serde_json::Value;

/// Longer paths are refused, in bytes.
const MAX_LENGTH: usize = 4096;
/// No more values than this are collected.
const MAX_RESULTS: usize = 10_000;

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Member(String),
    Every,
    /// All values at and below this one (`..`).
    Descend,
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    Union(Vec<Step>),
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// Relative to the element (`@.type`).
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path; braces around it are allowed.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_LENGTH {
            return Err(format!("paths may have at most {MAX_LENGTH} bytes"));
        }
        let inner = source
            .strip_prefix('{')
            .and_then(|s| s.strip_suffix('}'))
            .unwrap_or(source);
        let steps = steps(inner.strip_prefix('$').unwrap_or(inner))?;
        Ok(Self { steps })
    }

    /// The values that the path leads to, in order; none if something is missing.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut current = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in current {
                take(step, value, &mut next);
                if next.len() > MAX_RESULTS {
                    next.truncate(MAX_RESULTS);
                    break;
                }
            }
            current = next;
        }
        current
    }
}

fn take<'a>(step: &Step, value: &'a Value, out: &mut Vec<&'a Value>) {
    match step {
        Step::Member(name) => out.extend(value.get(name.as_str())),
        Step::Every => match value {
            Value::Array(elements) => out.extend(elements),
            Value::Object(members) => out.extend(members.values()),
            _ => {}
        },
        Step::Descend => descend(value, out),
        Step::Index(index) => {
            if let Value::Array(elements) = value {
                out.extend(position(*index, elements.len()).and_then(|i| elements.get(i)));
            }
        }
        Step::Slice(from, to, by) => {
            if let Value::Array(elements) = value {
                let clamp = |i: i64| position_clamped(i, elements.len());
                let (from, to) = (from.map_or(0, clamp), to.map_or(elements.len(), clamp));
                let by = usize::try_from(*by).unwrap_or(1).max(1);
                if from < to {
                    out.extend(elements[from..to].iter().step_by(by));
                }
            }
        }
        Step::Union(steps) => steps.iter().for_each(|step| take(step, value, out)),
        Step::Filter(left, right) => {
            if let Value::Array(elements) = value {
                out.extend(
                    elements
                        .iter()
                        .filter(|element| holds(left, right.as_ref(), element)),
                );
            }
        }
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    if out.len() > MAX_RESULTS {
        return;
    }
    out.push(value);
    match value {
        Value::Array(elements) => elements.iter().for_each(|e| descend(e, out)),
        Value::Object(members) => members.values().for_each(|m| descend(m, out)),
        _ => {}
    }
}

fn position(index: i64, len: usize) -> Option<usize> {
    if index < 0 {
        len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    } else {
        usize::try_from(index).ok()
    }
}

fn position_clamped(index: i64, len: usize) -> usize {
    if index < 0 {
        position(index, len).unwrap_or(0)
    } else {
        usize::try_from(index).unwrap_or(len).min(len)
    }
}

fn holds(left: &Operand, right: Option<&(Comparison, Operand)>, element: &Value) -> bool {
    let Some(left) = resolve(left, element) else {
        return false;
    };
    let Some((comparison, right)) = right else {
        return true;
    };
    let Some(right) = resolve(right, element) else {
        return false;
    };
    let order = match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match comparison {
        Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

fn resolve<'a>(operand: &'a Operand, element: &'a Value) -> Option<&'a Value> {
    match operand {
        Operand::Path(path) => path.find(element).first().copied(),
        Operand::Literal(value) => Some(value),
    }
}

fn steps(source: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if let Some(tail) = rest.strip_prefix("..") {
            steps.push(Step::Descend);
            rest = tail;
            if !rest.starts_with('[') {
                let (name, tail) = member(rest)?;
                steps.push(name);
                rest = tail;
            }
        } else if first == '.' {
            let tail = &rest[1..];
            if tail.is_empty() || tail.starts_with('[') {
                rest = tail;
                continue;
            }
            let (name, tail) = member(tail)?;
            steps.push(name);
            rest = tail;
        } else if first == '[' {
            let end = closing(rest).ok_or("unterminated array")?;
            steps.push(bracket(rest[1..end].trim())?);
            rest = &rest[end + 1..];
        } else if steps.is_empty() {
            let (name, tail) = member(rest)?;
            steps.push(name);
            rest = tail;
        } else {
            return Err(format!("unrecognized character in action: {first:?}"));
        }
    }
    Ok(steps)
}

/// A name up to the next `.` or `[`; a backslash takes the next character as it is.
fn member(source: &str) -> Result<(Step, &str), String> {
    let mut name = String::new();
    let mut chars = source.char_indices();
    let mut end = source.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next().ok_or("unfinished escape")?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            ' ' | '"' | '\'' | ']' | '{' | '}' | '(' | ')' | '=' | '<' | '>' => {
                return Err(format!("unrecognized character in action: {c:?}"));
            }
            c => name.push(c),
        }
    }
    let step = if name == "*" {
        Step::Every
    } else {
        Step::Member(name)
    };
    Ok((step, &source[end..]))
}

/// Where the bracket at the start closes, quotes and inner brackets aside.
fn closing(source: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, c) in source.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 1 => return Some(at),
            (None, ']') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Result<Step, String> {
    if let Some(filter) = inner.strip_prefix("?(").and_then(|s| s.strip_suffix(')')) {
        return self::filter(filter.trim());
    }
    if inner == "*" {
        return Ok(Step::Every);
    }
    if let Some(text) = quoted(inner) {
        return Ok(Step::Member(text));
    }
    if inner.contains(',') {
        return inner
            .split(',')
            .map(|part| bracket(part.trim()))
            .collect::<Result<_, _>>()
            .map(Step::Union);
    }
    let number = |text: &str| {
        text.trim()
            .parse::<i64>()
            .map_err(|_| format!("invalid array index {inner}"))
    };
    if inner.contains(':') {
        let parts: Vec<&str> = inner.split(':').collect();
        let part = |i: usize| match parts.get(i).map(|p| p.trim()) {
            None | Some("") => Ok(None),
            Some(text) => number(text).map(Some),
        };
        return Ok(Step::Slice(part(0)?, part(1)?, part(2)?.unwrap_or(1)));
    }
    number(inner).map(Step::Index)
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote)).then(|| inner.replace('\\', ""))
}

fn filter(source: &str) -> Result<Step, String> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    for (text, comparison) in OPERATORS {
        if let Some((left, right)) = source.split_once(text) {
            return Ok(Step::Filter(
                operand(left.trim())?,
                Some((comparison, operand(right.trim())?)),
            ));
        }
    }
    Ok(Step::Filter(operand(source)?, None))
}

fn operand(source: &str) -> Result<Operand, String> {
    if let Some(path) = source.strip_prefix('@') {
        return JsonPath::parse(path).map(Operand::Path);
    }
    if let Some(text) = quoted(source) {
        return Ok(Operand::Literal(text.into()));
    }
    serde_json::from_str(source)
        .map(Operand::Literal)
        .map_err(|_| format!("unrecognized operand {source}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_find_values() {
        let object = json!({"metadata": {"labels": {"a.b/c": "dotted"}}, "spec": {"l": [{"k": 1}, {"k": 2}, {"k": 3}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]}});
        for (path, found) in [
            (".spec.l[*].k", json!([1, 2, 3])),
            ("{.spec.l[0].k}", json!([1])),
            (".spec.l[-1].k", json!([3])),
            (".spec.l[0:2].k", json!([1, 2])),
            (".spec.l[0,2].k", json!([1, 3])),
            (r".metadata.labels.a\.b/c", json!(["dotted"])),
            (".metadata.labels['a.b/c']", json!(["dotted"])),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type!='Ready')].status",
                json!(["False"]),
            ),
            (".spec.l[?(@.k>=2)].k", json!([2, 3])),
            ("..k", json!([1, 2, 3])),
            (".spec.none.k", json!([])),
            (".spec.l[9].k", json!([])),
        ] {
            assert_eq!(
                json!(JsonPath::parse(path).unwrap().find(&object)),
                found,
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [".a[", ".a[x]", ".a[?(@.b=c)]", ".a b", ".a]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[.a\\[\\]*?@()'\"=<,:0-9\\\\é-]{0,24}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&json!({"a": [{"a": 1}, "é", []]}));
            }
        }
    }
}
