//! Numbers in complaints, as they were sent: `1e2` and not `100.0`.

/// How a complaint about a number begins.
const START: &str = "json: cannot unmarshal number ";

/// A complaint with its number as it stands in the text of the body; the first one
/// of that value, for the decoder stops there.
pub(crate) fn as_sent(why: &str, text: &[u8]) -> String {
    let sent = why.strip_prefix(START).and_then(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        let value: f64 = number.parse().ok()?;
        let sent = numbers(text).find(|sent| sent.parse() == Ok(value))?;
        Some(format!("{START}{sent} {rest}"))
    });
    sent.unwrap_or_else(|| why.to_owned())
}

/// The numbers of a JSON text, which stand outside of its strings.
fn numbers(text: &[u8]) -> impl Iterator<Item = &str> {
    let (mut inside, mut escaped) = (false, false);
    let is_outside = move |byte: &u8| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            _ => {}
        }
        !inside && matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
    };
    let marks: Vec<bool> = text.iter().map(is_outside).collect();
    let mut at = 0;
    let runs = marks.chunk_by(|one, other| one == other).map(move |run| {
        let from = at;
        at += run.len();
        (run.first() == Some(&true)).then_some(from..at)
    });
    runs.flatten()
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(|run| std::str::from_utf8(text.get(run)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_as_it_was_sent() {
        let why = |number: &str| {
            format!("json: cannot unmarshal number {number} into Go struct field A.b of type int32")
        };
        for (text, told, sent) in [
            (r#"{"a\"":"1e2","b":1e2}"#, "100.0", "1e2"),
            (r#"{"a":[true,false,null],"b":3.00}"#, "3.0", "3.00"),
            (r#"{"b":-1.50E+1}"#, "-15.0", "-1.50E+1"),
            (r#"{"b":3000000000}"#, "3000000000", "3000000000"),
            ("", "3.0", "3.0"),
        ] {
            assert_eq!(as_sent(&why(told), text.as_bytes()), why(sent));
        }
        let other = "json: cannot unmarshal number into Go struct field A.b of type string";
        assert_eq!(as_sent(other, b"{\"b\":1}"), other);
    }
}
