//! Strings as Go's encoder quotes them.

/// What stands for a byte that cannot stand for itself.
const fn needs_care(byte: u8) -> bool {
    // Two characters that end a line in JavaScript begin with 0xe2.
    matches!(byte, 0..=0x1f | b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

/// Whether a byte needs care, by byte.
const CARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = needs_care(byte);
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Writes a string with its quotes.
pub(crate) fn write(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !CARE[usize::from(*byte)] {
            continue;
        }
        let length = if *byte == 0xe2 { 3 } else { 1 };
        let Some(rest) = bytes.get(at..at + length) else {
            continue;
        };
        let short: &[u8] = match rest {
            b"\"" => b"\\\"",
            b"\\" => b"\\\\",
            b"\n" => b"\\n",
            b"\r" => b"\\r",
            b"\t" => b"\\t",
            b"\x08" => b"\\b",
            b"\x0c" => b"\\f",
            _ => b"",
        };
        let code = match *rest {
            [byte] => u32::from(byte),
            [0xe2, 0x80, 0xa8] => 0x2028,
            [0xe2, 0x80, 0xa9] => 0x2029,
            _ => continue,
        };
        out.extend_from_slice(bytes.get(written..at).unwrap_or_default());
        written = at + length;
        if short.is_empty() {
            out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
        } else {
            out.extend_from_slice(short);
        }
    }
    out.extend_from_slice(bytes.get(written..).unwrap_or_default());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, text);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn what_html_or_javascript_would_read_is_escaped() {
        assert_eq!(
            written("<a href=\"x\">&\u{2028}\u{2029}\u{2027}é\u{7f}</a>"),
            "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\u2028\\u2029\u{2027}é\u{7f}\\u003c/a\\u003e\""
        );
        assert_eq!(
            written("\u{8}\u{c}\n\r\t\u{b}\u{0}\\"),
            "\"\\b\\f\\n\\r\\t\\u000b\\u0000\\\\\""
        );
    }

    proptest! {
        #[test]
        fn a_string_is_read_as_it_was(text in "\\PC*|[\u{0}-\u{30}\u{2020}-\u{2030}]*") {
            let read: Option<String> = serde_json::from_str(&written(&text)).ok();
            prop_assert_eq!(read, Some(text));
        }
    }
}
