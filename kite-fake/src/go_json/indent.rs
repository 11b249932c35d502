//! JSON for people, as Go indents it.

use bytes::Bytes;

/// A JSON text with a line for each member and element; the last has no line feed.
pub(crate) fn indented(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (i, byte) in text.iter().enumerate() {
        if quoted {
            out.push(*byte);
            quoted = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                quoted = true;
                out.push(b'"');
            }
            b'{' | b'[' => {
                out.push(*byte);
                depth += 1;
                if !matches!(text.get(i + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(text.get(i.wrapping_sub(1)), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(*byte);
            }
            b',' => {
                out.push(b',');
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            other if other.is_ascii_whitespace() => {}
            other => out.push(*other),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_meaning_and_order() {
        let text = br#"{"b":[1,{"x":"a\"{,:"}],"a":{},"c":[]}"#;
        let expected = "{\n  \"b\": [\n    1,\n    {\n      \"x\": \"a\\\"{,:\"\n    }\n  ],\n  \"a\": {},\n  \"c\": []\n}";
        assert_eq!(indented(text), expected);
    }
}
