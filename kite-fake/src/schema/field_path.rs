//! Paths that a definition writes down: `.spec.name` or `.labels['a.b']`, as in
//! `fieldPath` of a rule and in `selectableFields`.

use std::fmt::Write as _;

use serde_json::Value;

/// A path that names a member of a schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldPath<'a> {
    /// The path as errors write it: `labels[a.b]`.
    pub(super) text: String,
    /// The first member.
    pub(super) root: String,
    /// The schema of what the path leads to.
    pub(super) schema: &'a Value,
}

/// Follows a path through a schema.
///
/// # Errors
/// What is wrong with the path, in the API server's words.
pub(super) fn resolve<'a>(
    schema: &'a Value,
    path: &str,
    brackets: bool,
) -> Result<FieldPath<'a>, String> {
    const END: &str = "unexpected end of JSON path";
    let mut found = FieldPath {
        text: String::new(),
        root: String::new(),
        schema,
    };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                found.enter(&unescape(inner)?)?;
                match tokens.next().ok_or(END)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found.enter(tokens.next().ok_or(END)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl FieldPath<'_> {
    fn enter(&mut self, name: &str) -> Result<(), String> {
        let nothing = || "does not refer to a valid field".to_owned();
        let properties = self.schema["properties"]
            .as_object()
            .filter(|p| !p.is_empty());
        if let Some(properties) = properties {
            self.schema = properties.get(name).ok_or_else(nothing)?;
            if !self.text.is_empty() {
                self.text.push('.');
            }
            self.text.push_str(name);
        } else {
            let values = &self.schema["additionalProperties"];
            if !values.is_object() {
                return Err(nothing());
            }
            self.schema = values;
            let _ = write!(self.text, "[{name}]");
        }
        if self.root.is_empty() {
            name.clone_into(&mut self.root);
        }
        Ok(())
    }
}

/// The delimiters `.`, `[` and `]`, and what stands between them; a quoted text is one token.
struct Tokens<'a>(&'a str);

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let length = if self.0.starts_with('\'') {
            let bytes = self.0.as_bytes();
            (1..bytes.len())
                .find(|i| bytes[*i] == b'\'' && bytes[*i - 1] != b'\\')
                .map_or(bytes.len(), |i| i + 1)
        } else {
            match self.0.find(['.', '[', ']']) {
                Some(0) => 1,
                Some(at) => at,
                None => self.0.len(),
            }
        };
        let (token, rest) = self.0.split_at(length);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(escaped) = chars.next() else {
            out.push(c);
            break;
        };
        out.push(match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\'' | '\\' => escaped,
            other => {
                return Err(format!(
                    "invalid string literal: invalid escape char \\{other}"
                ));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_name_members_or_say_why_not() {
        let schema = json!({"properties": {
            "a": {"properties": {"b.c": {"type": "string"}}},
            "m": {"additionalProperties": {"type": "integer"}},
        }});
        for (path, brackets, result) in [
            (".a['b.c']", true, Ok("a.b.c")),
            (".m['x.y']", true, Ok("m[x.y]")),
            (".m.x", false, Ok("m[x]")),
            ("['a']", true, Ok("a")),
            (".a['b.c']", false, Err("array notation is not allowed")),
            (".none", true, Err("does not refer to a valid field")),
            (".m.x.y", true, Err("does not refer to a valid field")),
            ("a", true, Err("expected [ or . but got: a")),
            (".", true, Err("unexpected end of JSON path")),
            (
                ".a[0]",
                true,
                Err("expected single quoted string but got 0"),
            ),
            (".a['b.c'", true, Err("unexpected end of JSON path")),
            (
                ".m['\\q']",
                true,
                Err("invalid string literal: invalid escape char \\q"),
            ),
        ] {
            let found = resolve(&schema, path, brackets).map(|found| found.text);
            assert_eq!(
                found,
                result.map(str::to_owned).map_err(str::to_owned),
                "{path}"
            );
        }
    }
}
