//! Values as Go prints them: the API server's messages are full of them.

use std::fmt::Write as _;

use jiff::SignedDuration;
use serde_json::Value;

/// Go's `%v` of decoded JSON: `map[a:1 b:[x y]]`.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(elements) => {
            let parts: Vec<String> = elements.iter().map(self::value).collect();
            format!("[{}]", parts.join(" "))
        }
        Value::Object(members) => {
            let mut parts: Vec<(&String, String)> = members
                .iter()
                .map(|(name, member)| (name, self::value(member)))
                .collect();
            parts.sort();
            let parts: Vec<String> = parts
                .iter()
                .map(|(name, text)| format!("{name}:{text}"))
                .collect();
            format!("map[{}]", parts.join(" "))
        }
    }
}

/// What the converter of decoded JSON into Go's types says where the decoder of
/// text says `json: cannot unmarshal …`; other texts are the same.
pub(crate) fn restoring(decoding: &str) -> String {
    let Some((got, expected)) = decoding
        .strip_prefix("json: cannot unmarshal ")
        .and_then(|rest| {
            let (got, rest) = rest.split_once(" into Go struct field ")?;
            let (_, expected) = rest.split_once(" of type ")?;
            Some((got, expected))
        })
    else {
        return decoding.to_owned();
    };
    let got = match got {
        "array" => "slice",
        "object" => "map",
        "number" => "int64",
        "string" | "bool" => got,
        _ => "float64",
    };
    let number = matches!(got, "int64" | "float64");
    match expected {
        "intstr.IntOrString" => decoding.to_owned(),
        _ if expected.starts_with("map[") => format!("cannot restore map from {got}"),
        _ if expected.starts_with("[]") => format!("cannot restore slice from {got}"),
        _ if expected.contains('.') => format!("cannot restore struct from: {got}"),
        "string" if got == "int64" => format!("cannot convert {got} to {expected}"),
        "string" | "bool" => format!("unrecognized type: {expected}"),
        _ if number => format!("cannot convert {got} to {expected}"),
        _ => format!("unrecognized type: {expected}"),
    }
}

/// The first whole number that is too large for an `i64`.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// A number without a fraction, if it is one: it is written without a point, and so
/// read again as this.
pub(crate) fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (number.fract() == 0.0 && number.abs() < TOO_LARGE).then_some(number as i64)
}

/// Turns `1.0` into `1` everywhere, as the API server's decoder does where it decodes
/// JSON and not into Go's types.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(make_whole),
        Value::Array(elements) => elements.iter_mut().for_each(make_whole),
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A member's name as that of a field: `hostIP` as `HostIP`.
pub(crate) fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + letters.as_str()
    })
}

/// Go's `%q`: escapes what cannot be printed.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Go's `time.ParseDuration`, with its words for what it cannot read.
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let is_digit = |c: char| c == '.' || c.is_ascii_digit();
        let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = after.find(is_digit).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            other => {
                let (unit, all) = (quote(other), quote(text));
                return Err(format!("time: unknown unit {unit} in duration {all}"));
            }
        };
        seconds += number * scale;
        rest = after;
    }
    SignedDuration::try_from_secs_f64(sign * seconds).map_err(|_| invalid())
}

/// Go's `%v` of a float: the shortest digits, with an exponent below 1e-4 and from 1e6.
pub(crate) fn float(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_print_as_in_go() {
        assert_eq!(
            value(&json!({"b": [1, "x", null], "a": {"c": true}})),
            "map[a:map[c:true] b:[1 x <nil>]]"
        );
        assert_eq!(quote("a\"b\n\u{1}é"), "\"a\\\"b\\n\\x01é\"");
        for (number, text) in [
            (0.5, "0.5"),
            (65535.0, "65535"),
            (1e6, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (1e-5, "1e-05"),
        ] {
            assert_eq!(float(number), text);
        }
    }
}
