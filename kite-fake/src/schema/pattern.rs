//! Regular expressions of schemas: compiled once, never backtracking.

use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::memo::Memo;

/// Compiled automata above this size are refused, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// A pattern with its source text.
#[derive(Clone)]
pub struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is no regular expression of the RE2 family, or too large.
    pub fn new(source: &str) -> Result<Self, regex::Error> {
        static KNOWN: Memo<Result<Regex, regex::Error>> = Memo::new();
        let regex = KNOWN.of(source, || {
            RegexBuilder::new(source).size_limit(SIZE_LIMIT).build()
        })?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere in `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.source).finish()
    }
}
