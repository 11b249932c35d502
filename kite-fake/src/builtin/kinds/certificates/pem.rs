//! Blocks of PEM, as Go's `encoding/pem` finds them: text around blocks is passed over,
//! and so is what only looks like a block.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What it says that it is, such as `CERTIFICATE`.
    pub(super) label: String,
    /// Whether lines with a colon stand before the data.
    pub(super) has_headers: bool,
    /// What it holds.
    pub(super) bytes: Vec<u8>,
}

/// The blocks of a text, in their order.
pub(super) fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let mut found = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in text.split('\n') {
        let line = line.trim_end();
        if let Some(label) = marked(line, BEGIN) {
            // The last beginning before an end counts.
            open = Some((label, Vec::new()));
        } else if let Some(label) = marked(line, END) {
            let lines = open.take().filter(|(begun, _)| *begun == label);
            found.extend(lines.and_then(|(label, lines)| block(label, &lines)));
        } else if let Some((_, lines)) = &mut open {
            lines.push(line);
        }
    }
    found
}

/// The label of a line that begins or ends a block.
fn marked<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark)?.strip_suffix(DASHES)
}

fn block(label: &str, lines: &[&str]) -> Option<Block> {
    let headers = lines.iter().take_while(|line| line.contains(':')).count();
    let data: String = lines
        .iter()
        .skip(headers)
        .flat_map(|line| line.chars())
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    Some(Block {
        label: label.to_owned(),
        has_headers: headers > 0,
        bytes: STANDARD.decode(data).ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn blocks_are_found_amid_other_text() {
        let text = b"text\n-----BEGIN A-----\nk: v\n\nYWI=\n-----END A-----\n-----BEGIN B-----\r\nYQ==\r\n-----END B-----\r\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label.as_str(), found[0].has_headers), ("A", true));
        assert_eq!(found[0].bytes, b"ab");
        assert_eq!(found[1].bytes, b"a");
    }

    #[test]
    fn what_is_no_block_is_passed_over() {
        for text in [
            "a",
            "-----BEGIN A-----\nYQ==\n-----END B-----",
            "-----BEGIN A-----\n!\n-----END A-----",
            "-----BEGIN A-----\nYQ==",
        ] {
            assert_eq!(blocks(text.as_bytes()), [], "{text}");
        }
    }
}
