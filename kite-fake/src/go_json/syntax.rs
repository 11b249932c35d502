//! What Go's scanner says of a text that is no JSON.

use crate::go;

/// What a text lacks that ends too early.
const TOO_SHORT: &str = "unexpected end of JSON input";

/// What is wrong with a text, in the words of Go; `None` if nothing is.
pub(crate) fn fault(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        text,
        at: 0,
        open: Vec::new(),
    };
    scanner.document().err()
}

/// What contains the value that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    open: Vec<Open>,
}

type Scanned = Result<(), String>;

impl Scanner<'_> {
    /// The next byte. After the last one a blank follows, which ends a number, and
    /// then nothing.
    fn next(&mut self) -> Result<u8, String> {
        let byte = match self.text.get(self.at) {
            Some(byte) => *byte,
            None if self.at == self.text.len() => b' ',
            None => return Err(TOO_SHORT.to_owned()),
        };
        self.at += 1;
        Ok(byte)
    }

    /// The next byte that is no blank.
    fn token(&mut self) -> Result<u8, String> {
        loop {
            let byte = self.next()?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
        }
    }

    fn back(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    fn document(&mut self) -> Scanned {
        let mut first = self.token()?;
        loop {
            let begun = self.value(first)?;
            match self.following(begun)? {
                Some(byte) => first = byte,
                None => return Ok(()),
            }
        }
    }

    /// Reads a value to its end; `true`: it contains others, and has only begun.
    fn value(&mut self, first: u8) -> Result<bool, String> {
        match first {
            b'{' | b'[' => {
                let open = if first == b'{' {
                    Open::Object
                } else {
                    Open::Array
                };
                self.open.push(open);
                return Ok(true);
            }
            b'"' => self.string()?,
            b'-' => match self.next()? {
                digit @ b'0'..=b'9' => self.number(digit)?,
                other => return Err(wrong(other, "in numeric literal")),
            },
            b'0'..=b'9' => self.number(first)?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            other => return Err(wrong(other, "looking for beginning of value")),
        }
        Ok(false)
    }

    /// What the next value begins with; `None` at the end of the text. `empty`: what
    /// contains it has just begun.
    fn following(&mut self, mut empty: bool) -> Result<Option<u8>, String> {
        loop {
            let Some(open) = self.open.last().copied() else {
                return self.end();
            };
            let byte = self.token()?;
            let is_end = matches!((open, byte), (Open::Object, b'}') | (Open::Array, b']'));
            if is_end {
                self.open.pop();
                empty = false;
                continue;
            }
            return match (open, empty, byte) {
                (Open::Object, true, byte) => self.member(byte).map(Some),
                (Open::Object, false, b',') => {
                    let byte = self.token()?;
                    self.member(byte).map(Some)
                }
                (Open::Array, true, byte) => Ok(Some(byte)),
                (Open::Array, false, b',') => self.token().map(Some),
                (Open::Object, false, other) => Err(wrong(other, "after object key:value pair")),
                (Open::Array, false, other) => Err(wrong(other, "after array element")),
            };
        }
    }

    /// Nothing but blanks may follow.
    fn end(&mut self) -> Result<Option<u8>, String> {
        while self.at < self.text.len() {
            let byte = self.next()?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Err(wrong(byte, "after top-level value"));
            }
        }
        Ok(None)
    }

    /// Reads a name, and gives what its value begins with.
    fn member(&mut self, first: u8) -> Result<u8, String> {
        if first != b'"' {
            return Err(wrong(first, "looking for beginning of object key string"));
        }
        self.string()?;
        match self.token()? {
            b':' => self.token(),
            other => Err(wrong(other, "after object key")),
        }
    }

    fn string(&mut self) -> Scanned {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.next()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(wrong(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(wrong(other, "in string escape code")),
                },
                byte if byte < b' ' => return Err(wrong(byte, "in string literal")),
                _ => {}
            }
        }
    }

    /// Reads a number after its first digit.
    fn number(&mut self, first: u8) -> Scanned {
        let mut byte = self.next()?;
        if first != b'0' {
            byte = self.digits(byte)?;
        }
        if byte == b'.' {
            byte = self.next()?;
            if !byte.is_ascii_digit() {
                return Err(wrong(byte, "after decimal point in numeric literal"));
            }
            byte = self.digits(byte)?;
        }
        if matches!(byte, b'e' | b'E') {
            byte = self.next()?;
            if matches!(byte, b'+' | b'-') {
                byte = self.next()?;
            }
            if !byte.is_ascii_digit() {
                return Err(wrong(byte, "in exponent of numeric literal"));
            }
            self.digits(byte)?;
        }
        self.back();
        Ok(())
    }

    /// What follows the digits that begin with a byte.
    fn digits(&mut self, mut byte: u8) -> Result<u8, String> {
        while byte.is_ascii_digit() {
            byte = self.next()?;
        }
        Ok(byte)
    }

    fn literal(&mut self, word: &str) -> Scanned {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let expected = char::from(expected);
                let place = format!("in literal {word} (expecting '{expected}')");
                return Err(wrong(byte, &place));
            }
        }
        Ok(())
    }
}

fn wrong(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        other => {
            let quoted = go::quote(char::from(other).encode_utf8(&mut [0; 4]));
            let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            inner.unwrap_or_default().to_owned()
        }
    };
    format!("invalid character '{shown}' {place}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_are_told_as_in_go() {
        for (text, told) in [
            ("", TOO_SHORT),
            ("  ", TOO_SHORT),
            ("{\"a\":", TOO_SHORT),
            ("{\"a\":[1", TOO_SHORT),
            ("\"abc", TOO_SHORT),
            (
                "hello",
                "invalid character 'h' looking for beginning of value",
            ),
            (
                "'a'",
                "invalid character '\\'' looking for beginning of value",
            ),
            (
                "\u{feff}{}",
                "invalid character 'ï' looking for beginning of value",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "{a:1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("[{}}", "invalid character '}' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-", "invalid character ' ' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1e+",
                "invalid character ' ' in exponent of numeric literal",
            ),
            (
                "tru",
                "invalid character ' ' in literal true (expecting 'e')",
            ),
            (
                "none",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u00g0\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
        ] {
            assert_eq!(fault(text.as_bytes()).as_deref(), Some(told), "{text}");
        }
        for text in [
            "{}",
            " [] ",
            "[[{}],{\"a\":[]}]",
            "-0.5e-3",
            "0",
            "{\"a\":{\"b\":null}}\n",
        ] {
            assert_eq!(fault(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_has_no_fault(text in "[\\[\\]{}:,\"a0-2.eE+ ntrul-]{0,12}") {
            let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
            prop_assert_eq!(read.is_ok(), fault(text.as_bytes()).is_none());
        }
    }
}
