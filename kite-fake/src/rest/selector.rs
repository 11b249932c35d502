//! Label and field selectors, with the server's grammar and error texts
//! (`k8s.io/apimachinery/pkg/labels` and `.../fields`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names;
use crate::status::Status;

/// What a label must satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// A parsed `labelSelector`; the empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<(String, Condition)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];
    let mut out = Vec::new();
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut rest = text.trim_start_matches(blank);
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            out.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find(|c: char| blank(c) || "=!(),<>".contains(c))
                .unwrap_or(rest.len());
            out.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches(blank);
    }
    out.push(Token::End);
    out
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn peek(&mut self) -> Token {
        self.tokens.peek().cloned().unwrap_or(Token::End)
    }

    fn requirement(&mut self) -> Result<(String, Condition), String> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        check_key(&key)?;
        if absent {
            return Ok((key, Condition::Absent));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok((key, Condition::Exists));
        }
        let operator = self.next();
        let condition = match operator.text() {
            "=" | "==" => Condition::In(self.exact()?),
            "!=" => Condition::NotIn(self.exact()?),
            "in" => Condition::In(self.list()?),
            "notin" => Condition::NotIn(self.list()?),
            ">" => Condition::Greater(self.number(&key)?),
            "<" => Condition::Less(self.number(&key)?),
            other => {
                return Err(format!(
                    "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        if let Condition::In(values) | Condition::NotIn(values) = &condition {
            aggregate(wrong_values(&key, values))?;
        }
        Ok((key, condition))
    }

    fn exact(&mut self) -> Result<Vec<String>, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(vec![String::new()]);
        }
        match self.next() {
            Token::Word(value) => Ok(vec![value]),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let values = self.exact()?;
        let value = values.first().map(String::as_str).unwrap_or_default();
        let number = value.parse();
        let mut wrong = Vec::new();
        if number.is_err() {
            wrong.push(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        wrong.extend(wrong_values(key, &values));
        aggregate(wrong)?;
        Ok(number.unwrap_or_default())
    }

    /// The values in parentheses: a set, sorted.
    fn list(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![String::new()]);
            }
            other => {
                return Err(format!(
                    "found '{}', expected: ',', ')' or identifier",
                    other.text()
                ));
            }
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                // Nothing before, between or after commas is the empty value.
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.insert(String::new());
                            break;
                        }
                        Token::Symbol(",") => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', or identifier",
                        other.text()
                    ));
                }
            }
        }
        self.next();
        Ok(values.into_iter().collect())
    }
}

/// The parser knows no field: the path of the key is a nil of Go.
fn check_key(key: &str) -> Result<(), String> {
    let wrong = names::qualified(key);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "<nil>: Invalid value: {key:?}: {}",
        wrong.join("; ")
    ))
}

fn wrong_values(key: &str, values: &[String]) -> Vec<String> {
    values
        .iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let wrong = names::label_value(value);
            (!wrong.is_empty()).then(|| {
                format!(
                    "values[{index}][{key}]: Invalid value: {value:?}: {}",
                    wrong.join("; ")
                )
            })
        })
        .collect()
}

/// Several errors in one text, as Go joins them.
fn aggregate(mut wrong: Vec<String>) -> Result<(), String> {
    match wrong.len() {
        0 => Ok(()),
        1 => Err(wrong.remove(0)),
        _ => Err(format!("[{}]", wrong.join(", "))),
    }
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// 400 with the position of the first mistake.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser {
            tokens: tokens(text).into_iter().peekable(),
        };
        let fail = |why: String| Status::bad_request(format!("unable to parse requirement: {why}"));
        let mut out = Vec::new();
        loop {
            match parser.peek() {
                Token::End => return Ok(Self(out)),
                Token::Word(_) | Token::Symbol("!") => {
                    out.push(parser.requirement().map_err(fail)?);
                    match parser.next() {
                        Token::End => return Ok(Self(out)),
                        Token::Symbol(",") => {
                            let next = parser.peek();
                            if !matches!(next, Token::Word(_) | Token::Symbol("!")) {
                                return Err(Status::bad_request(format!(
                                    "found '{}', expected: identifier after ','",
                                    next.text()
                                )));
                            }
                        }
                        other => {
                            return Err(Status::bad_request(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            )));
                        }
                    }
                }
                other @ Token::Symbol(_) => {
                    return Err(Status::bad_request(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    )));
                }
            }
        }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object's labels satisfy every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        self.is_empty() || self.matches_labels(&object["metadata"]["labels"])
    }

    /// Whether a map of labels satisfies every requirement.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.matches_by(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether labels that are looked up one by one satisfy every requirement.
    pub fn matches_by<T: AsRef<str>>(&self, label: impl Fn(&str) -> Option<T>) -> bool {
        self.0.iter().all(|(key, condition)| {
            let value = label(key);
            let value = value.as_ref().map(AsRef::as_ref);
            match condition {
                Condition::Exists => value.is_some(),
                Condition::Absent => value.is_none(),
                Condition::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
                Condition::NotIn(values) => value.is_none_or(|v| values.iter().all(|x| x != v)),
                Condition::Greater(n) => value.and_then(as_number).is_some_and(|v| v > *n),
                Condition::Less(n) => value.and_then(as_number).is_some_and(|v| v < *n),
            }
        })
    }
}

fn as_number(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A parsed `fieldSelector`: path, whether equal is wanted, value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// 400 for a term without an operator or with a bad escape.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut out = Vec::new();
        let mut terms = split_terms(text);
        // Which mistake is told depends on this order.
        terms.sort_unstable();
        for term in terms {
            if term.is_empty() {
                continue;
            }
            let Some((at, operator)) = operator(term) else {
                return Err(Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let value = unescape(&term[at + operator.len()..])?;
            out.push((term[..at].to_owned(), operator != "!=", value));
        }
        Ok(Self(out))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Selects one name.
    pub fn name(name: &str) -> Self {
        Self(vec![("metadata.name".to_owned(), true, name.to_owned())])
    }

    /// Gives each path the name that the kind has for it.
    ///
    /// # Errors
    /// What `convert` says against a path.
    pub fn convert(
        &mut self,
        convert: impl Fn(&str) -> Result<String, Status>,
    ) -> Result<(), Status> {
        for (path, ..) in &mut self.0 {
            *path = convert(path)?;
        }
        Ok(())
    }

    /// The value that a path must have, if the selector says so.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(p, equal, _)| p == path && *equal)
            .map(|(.., value)| value.as_str())
    }

    /// Whether an object's fields satisfy every term.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_by(|path| {
            let mut segments = path.split('.').filter(|s| !s.is_empty());
            segments.try_fold(object, |at, name| at.get(name)).cloned()
        })
    }

    /// Whether fields that are looked up one by one satisfy every term.
    pub fn matches_by(&self, value_at: impl Fn(&str) -> Option<Value>) -> bool {
        self.0
            .iter()
            .all(|(path, equal, value)| (field(&value_at, path) == *value) == *equal)
    }
}

/// The text of a field as selectors compare it; empty if it is not there.
fn field(value_at: impl Fn(&str) -> Option<Value>, path: &str) -> String {
    let text_at = |path: &str| match value_at(path) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    };
    let found = match path {
        // Who an event comes from, in both of its forms.
        "source" => {
            return [
                "source.component",
                "deprecatedSource.component",
                "reportingComponent",
                "reportingController",
            ]
            .into_iter()
            .find_map(text_at)
            .unwrap_or_default();
        }
        "status.successful" => value_at("status.succeeded"),
        other => value_at(other),
    };
    match found {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(flag)) => flag.to_string(),
        // Absent booleans and numbers of built-in types compare as their zero.
        _ if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        _ if matches!(path, "status.replicas" | "status.successful") => "0".to_owned(),
        _ => String::new(),
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

fn operator(term: &str) -> Option<(usize, &'static str)> {
    term.char_indices().find_map(|(i, _)| {
        ["!=", "==", "="]
            .into_iter()
            .find(|operator| term[i..].starts_with(operator))
            .map(|operator| (i, operator))
    })
}

fn unescape(text: &str) -> Result<String, Status> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(e @ ('\\' | ',' | '=')) => out.push(e),
                Some(other) => {
                    return Err(Status::bad_request(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    )));
                }
                None => {
                    return Err(Status::bad_request(
                        "invalid field selector: invalid escape sequence: \\",
                    ));
                }
            },
            ',' | '=' => {
                // Go prints the code point.
                return Err(Status::bad_request(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requirements_are_joined_by_and() {
        let object = json!({"metadata": {"labels": {"app": "web", "n": "3"}}});
        for (text, expected) in [
            ("", true),
            ("app=web,n in (1,3)", true),
            ("app!=web", false),
            ("!gone,app", true),
            ("n>2", true),
            ("n<3", false),
            ("app notin (db),other!=x", true),
            ("app=", false),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_as_the_server_does() {
        let why = |text: &str| LabelSelector::parse(text).unwrap_err().message;
        assert_eq!(
            why("a===b in"),
            "unable to parse requirement: found '=', expected: identifier"
        );
        assert_eq!(
            why("app in web"),
            "unable to parse requirement: found 'web' expected: '('"
        );
        assert_eq!(
            why("a in (b"),
            "unable to parse requirement: found '', expected: ',' or ')'"
        );
        assert_eq!(
            why("a in (,"),
            "unable to parse requirement: found '', expected: ',', or identifier"
        );
        assert!(why("-a=b").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"
        ),);
        assert_eq!(
            why("a>x"),
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
        );
        let two = why("a in (-x,-y)");
        assert!(
            two.starts_with("unable to parse requirement: [values[0][a]: Invalid value: \"-x\": ")
        );
        assert!(two.contains(", values[1][a]: Invalid value: \"-y\": ") && two.ends_with(']'));
    }

    #[test]
    fn the_first_mistake_in_sorted_order_is_told() {
        let why = |text: &str| FieldSelector::parse(text).unwrap_err().message;
        assert_eq!(
            why("foo"),
            "invalid selector: 'foo'; can't understand 'foo'"
        );
        assert_eq!(why("b,a"), "invalid selector: 'b,a'; can't understand 'a'");
        assert_eq!(
            why("a=b=c"),
            "invalid field selector: unescaped character in value: 61"
        );
        assert_eq!(
            why("a=\\x"),
            "invalid field selector: invalid escape sequence: \\x"
        );
    }

    #[test]
    fn an_empty_place_in_a_list_is_the_empty_value() {
        let labelled = |value: &str| json!({"metadata": {"labels": {"a": value}}});
        for text in [
            "a in ()",
            "a in (,)",
            "a in (,b)",
            "a in (b,)",
            "a in (b,,c)",
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert!(selector.matches(&labelled("")), "{text}");
            assert!(!selector.matches(&labelled("x")), "{text}");
        }
    }

    #[test]
    fn fields_compare_as_text() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"n": 3}});
        let matches = |text: &str| FieldSelector::parse(text).unwrap().matches(&object);
        assert!(matches("metadata.name=a,spec.n==3,spec.other!=x"));
        assert!(!matches("metadata.name!=a"));
    }
}
