//! Bodies in YAML, most of which are JSON: of members given twice the last
//! counts, and the strict decoder tells of them by line.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

use crate::go;

/// How the decoder begins what it says of members given twice.
const TWICE: &str = "yaml: unmarshal errors:\n";

/// Reads a text.
///
/// # Errors
/// The text is no YAML; says why.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    let mut value = read(text)?;
    // YAML becomes JSON on the way, which has no point where there is no fraction.
    go::make_whole(&mut value);
    Ok(value)
}

fn read(text: &[u8]) -> Result<Value, String> {
    if is_json(text)
        && let Ok(value) = serde_json::from_slice(text)
    {
        return Ok(value);
    }
    let options = || serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let mut read = serde_saphyr::from_slice::<Value>(text);
    if read.as_ref().is_err_and(is_duplicate) {
        read = serde_saphyr::from_slice_with_options::<Value>(text, options());
    }
    if read.as_ref().is_err_and(is_several) {
        // Of several documents the first counts.
        let mut rest = text;
        let first = serde_saphyr::read_with_options(&mut rest, options()).next();
        read = first.unwrap_or(Ok(Value::Null));
    }
    read.map_err(|e| e.to_string())
}

fn is_several(error: &Error) -> bool {
    matches!(error.without_snippet(), Error::MultipleDocuments { .. })
}

fn is_json(text: &[u8]) -> bool {
    text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error.without_snippet(), Error::DuplicateMappingKey { .. })
}

/// What the strict decoder says of the first member that is given twice; `value`
/// is what was read. Costs next to nothing for JSON without such members.
pub(crate) fn duplicate(text: &[u8], value: &Value) -> Option<String> {
    if is_json(text) && colons(text) == members(value) {
        return None;
    }
    let error = serde_saphyr::from_slice::<Value>(text).err()?;
    let Error::DuplicateMappingKey { key, location } = error.without_snippet() else {
        return None;
    };
    let line = value_line(text, usize::try_from(location.line()).ok()?);
    let key = crate::go::quote(key.as_deref().unwrap_or_default());
    Some(format!(
        "{TWICE}  line {line}: key {key} already set in map"
    ))
}

/// The line of the value whose key is on a line: the next one, if nothing follows the key.
fn value_line(text: &[u8], line: usize) -> usize {
    let text = String::from_utf8_lossy(text);
    let blank = |text: &str| text.trim().is_empty() || text.trim_start().starts_with('#');
    let mut lines = text.lines().enumerate().skip(line.saturating_sub(1));
    match lines.next() {
        Some((_, first)) if first.trim_end().ends_with(':') => lines
            .find(|(_, next)| !blank(next))
            .map_or(line, |(place, _)| place + 1),
        _ => line,
    }
}

/// Colons outside of strings: the members of a JSON text.
fn colons(text: &[u8]) -> usize {
    let mut count = 0;
    let (mut inside, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => count += 1,
            _ => {}
        }
    }
    count
}

/// How many members all objects of a value have together.
fn members(value: &Value) -> usize {
    match value {
        Value::Object(inner) => inner.len() + inner.values().map(members).sum::<usize>(),
        Value::Array(elements) => elements.iter().map(members).sum(),
        _ => 0,
    }
}

/// A problem as `Warning` headers tell it: members given twice line by line.
pub(crate) fn warnings(problem: &str) -> Vec<String> {
    let list = problem
        .strip_prefix("error converting YAML to JSON: ")
        .unwrap_or(problem)
        .strip_prefix(TWICE);
    match list {
        Some(list) => list.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![problem.to_owned()],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_members_given_twice_counts() {
        for (text, value, told) in [
            (
                "a: 1\nb: 2\na: 3\n",
                json!({"a": 3, "b": 2}),
                Some("line 3: key \"a\""),
            ),
            (
                "x:\n  a: 1\n\nx:\n  # what follows\n  b: 2\n",
                json!({"x": {"b": 2}}),
                Some("line 6: key \"x\""),
            ),
            (
                "{\"a\": {\"b\": 1, \"b\": \"x:\\\":\"}}",
                json!({"a": {"b": "x:\":"}}),
                Some("line 1: key \"b\""),
            ),
            ("{\"a:\": [{\"b\": 1}]}", json!({"a:": [{"b": 1}]}), None),
            ("a: 1\n", json!({"a": 1}), None),
            ("a: 1\n---\na: 2\n", json!({"a": 1}), None),
            ("---\na: 1\n---\n- b\n---\n", json!({"a": 1}), None),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(value.clone()), "{text}");
            let told = told.map(|told| format!("{TWICE}  {told} already set in map"));
            assert_eq!(duplicate(text.as_bytes(), &value), told, "{text}");
        }
    }

    #[test]
    fn lines_are_warned_of_one_by_one() {
        assert_eq!(
            warnings(
                "error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: a\n  line 2: b"
            ),
            ["line 1: a", "line 2: b"]
        );
        assert_eq!(warnings("unknown field \"x\""), ["unknown field \"x\""]);
    }
}
