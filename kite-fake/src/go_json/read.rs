//! Reading JSON that a client sent, as Go's decoder does.

use serde_json::Value;

use super::syntax;

/// Reads a text. What is no Unicode in its strings becomes U+FFFD.
///
/// # Errors
/// The text is no JSON; says why in the words of Go.
pub(crate) fn read(text: &[u8]) -> Result<Value, String> {
    let error = match serde_json::from_slice(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(fault) = syntax::fault(text) {
        return Err(fault);
    }
    serde_json::from_str(&without_halves(&replaced(text))).map_err(|_| error.to_string())
}

/// The text with U+FFFD for each byte that is of no character.
fn replaced(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

/// The text with U+FFFD for each escape of half a character whose other half is not
/// beside it.
fn without_halves(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let escape = |text: &str| {
            let code = text.strip_prefix('u').and_then(|code| code.get(..4))?;
            u32::from_str_radix(code, 16).ok()
        };
        let second = after.get(5..).and_then(|rest| rest.strip_prefix('\\'));
        let length = match (escape(after), second.and_then(escape)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 11,
            (Some(0xd800..=0xdfff), _) => {
                out.push(char::REPLACEMENT_CHARACTER);
                rest = after.get(5..).unwrap_or_default();
                continue;
            }
            // Another backslash begins no escape.
            _ => after.chars().next().map_or(0, char::len_utf8),
        };
        let (escaped, after) = after.split_at_checked(length).unwrap_or((after, ""));
        out.push('\\');
        out.push_str(escaped);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_unicode_is_replaced() {
        for (text, value) in [
            (b"\"a\xffb\"".as_slice(), json!("a\u{fffd}b")),
            // Go reads byte by byte where a character is cut off.
            (b"\"\xe2\x82\"", json!("\u{fffd}\u{fffd}")),
            (b"{\"\xc3\":1}", json!({"\u{fffd}": 1})),
            (br#""\ud800""#, json!("\u{fffd}")),
            (br#""\ud800\u0041\udc00""#, json!("\u{fffd}A\u{fffd}")),
            (br#""\ud83d\ude00\ud800""#, json!("😀\u{fffd}")),
            (
                br#"["\\ud800", "\\\ud800"]"#,
                json!(["\\ud800", "\\\u{fffd}"]),
            ),
        ] {
            assert_eq!(read(text), Ok(value), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_fault_is_told_whatever_its_strings_are() {
        let told = read(b"{\"\xff\":1,}");
        assert_eq!(
            told,
            Err("invalid character '}' looking for beginning of object key string".to_owned())
        );
    }
}
