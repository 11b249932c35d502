//! One line of an `sshd_config`, split as sshd splits it.

use std::ops::Range;

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// In lower case.
    pub(crate) keyword: String,
    pub(crate) words: Vec<Word>,
}

/// An argument of a directive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Where it stands in the line, quotes included.
    pub(crate) span: Range<usize>,
    /// Without its quotes.
    pub(crate) text: String,
}

/// What a line says; nothing if it is empty or a comment.
pub(crate) fn parse(line: &[u8]) -> Option<Directive> {
    let mut cursor = Cursor { line, at: 0 };
    cursor.skip_blanks();
    let keyword = cursor.keyword()?;
    cursor.skip_blanks();
    if cursor.peek() == Some(b'=') {
        cursor.at += 1;
    }
    let mut words = Vec::new();
    while let Some(word) = cursor.word() {
        words.push(word);
    }
    Some(Directive { keyword, words })
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    fn keyword(&mut self) -> Option<String> {
        if self.peek()? == b'#' {
            return None;
        }
        let quoted = self.peek() == Some(b'"');
        self.at += usize::from(quoted);
        let start = self.at;
        let ends = |byte| {
            if quoted {
                byte == b'"'
            } else {
                is_blank(byte) || byte == b'=' || byte == b'"'
            }
        };
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
        let keyword = &self.line[start..self.at];
        if quoted && self.peek().is_some() {
            self.at += 1;
        }
        Some(String::from_utf8_lossy(keyword).to_ascii_lowercase())
    }

    fn word(&mut self) -> Option<Word> {
        self.skip_blanks();
        let start = self.at;
        if self.peek()? == b'#' {
            return None;
        }
        let mut text = Vec::new();
        let mut quote = None;
        while let Some(byte) = self.peek() {
            let next = self.line.get(self.at + 1).copied();
            match (byte, quote) {
                (b'\\', _) if next.is_some_and(|next| escapable(next, quote)) => {
                    text.extend(next);
                    self.at += 1;
                }
                (b'"' | b'\'', None) => quote = Some(byte),
                (_, Some(open)) if byte == open => quote = None,
                (_, None) if is_blank(byte) => break,
                _ => text.push(byte),
            }
            self.at += 1;
        }
        Some(Word {
            span: start..self.at,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0c)
}

fn escapable(byte: u8, quote: Option<u8>) -> bool {
    matches!(byte, b'\\' | b'"' | b'\'') || (byte == b' ' && quote.is_none())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn said(line: &str) -> Option<(String, Vec<String>)> {
        let directive = parse(line.as_bytes())?;
        let words = directive.words.into_iter().map(|word| word.text).collect();
        Some((directive.keyword, words))
    }

    #[test]
    fn all_ways_to_write_a_directive() {
        // Each was tried with `sshd -T` of OpenSSH 9.2.
        for line in [
            "Port 22",
            "port 22",
            "\tPORT\t22  ",
            "Port=22",
            "Port = 22",
            "Port =22",
            "\"Port\" 22",
            "Port \"22\"",
            "Port '22'",
            "Port 22 # as ever",
            "Port 22\r\n",
        ] {
            let words = vec!["22".to_owned()];
            assert_eq!(said(line), Some(("port".to_owned(), words)), "{line:?}");
        }
    }

    #[test]
    fn nothing_is_said_by_comments_and_empty_lines() {
        for line in ["", "  \t", "#Port 22", "  # Port 22", "\r\n"] {
            assert_eq!(said(line), None, "{line:?}");
        }
    }

    #[test]
    fn words_are_split_at_blanks_outside_of_quotes() {
        let (keyword, words) = said(r#"Include "/a b/*" /c\ d/* e"f"'g' #h"#).unwrap();
        assert_eq!(keyword, "include");
        assert_eq!(words, ["/a b/*", "/c d/*", "efg"]);
    }

    #[test]
    fn a_word_knows_where_it_stands() {
        let line = b"ListenAddress  \"[::1]:22\"  rdomain x";
        let directive = parse(line).unwrap();
        let first = &directive.words[0];
        assert_eq!(&line[first.span.clone()], b"\"[::1]:22\"");
        assert_eq!(first.text, "[::1]:22");
    }

    proptest::proptest! {
        #[test]
        fn any_line_can_be_read(line: Vec<u8>) {
            if let Some(directive) = parse(&line) {
                let mut end = 0;
                for word in directive.words {
                    proptest::prop_assert!(word.span.start >= end && word.span.end <= line.len());
                    end = word.span.end;
                }
            }
        }
    }
}
