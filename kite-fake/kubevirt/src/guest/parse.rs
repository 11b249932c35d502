//! The grammar of the guest's shell: a small, safe part of the POSIX one.
//!
//! ```text
//! list     := pipeline ((';' | '&&' | '||' | newline) pipeline)*
//! pipeline := command ('|' command)*
//! command  := (NAME=word)* word* redirection*
//! ```
//!
//! Parsing is pure: text in, [`List`] out. What is not supported is an error
//! that names it, never a silent misreading.

use std::fmt;

/// Longest line, in bytes, that is parsed.
const MAX_LINE: usize = 128 * 1024;

/// A part of a word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// The value of a variable; split into fields unless quoted.
    Var {
        /// The variable's name, `?` for the last status.
        name: String,
        /// Whether it stood in double quotes.
        quoted: bool,
    },
    /// `~` at the start of a word.
    Home,
}

/// One word: its pieces in order. A word that was quoted may be empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    /// The parts that expansion puts together.
    pub pieces: Vec<Piece>,
    /// Whether any part was quoted, so that an empty word counts.
    pub quoted: bool,
}

/// Where a redirection leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// `< file`
    Input(Word),
    /// `> file`, `>> file`, `2> file`, `2>> file`
    File {
        /// 1 (standard output) or 2 (standard error).
        fd: u8,
        /// `>>`.
        append: bool,
        /// The file.
        target: Word,
    },
    /// `>&2`, `2>&1`: `fd` goes where `to` goes.
    Duplicate {
        /// 1 or 2.
        fd: u8,
        /// 1 or 2.
        to: u8,
    },
}

/// A command with its assignments and redirections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Command {
    /// `NAME=value` before the first word.
    pub assignments: Vec<(String, Word)>,
    /// The command's name and arguments.
    pub words: Vec<Word>,
    /// In the order in which they apply.
    pub redirects: Vec<Redirect>,
}

/// When a pipeline of a list runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// After `;`, a newline, or first.
    Always,
    /// After `&&`: if the last one succeeded.
    Success,
    /// After `||`: if the last one failed.
    Failure,
}

/// Commands that run one after the other.
pub type List = Vec<(When, Vec<Command>)>;

/// Why a line is not understood; says what the shell would print.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError(String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "syntax error: {}", self.0)
    }
}

fn error<T>(text: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError(text.into()))
}

/// Reads a line, or several, into commands.
///
/// # Errors
///
/// [`SyntaxError`] for what is malformed or not supported.
pub fn parse(text: &str) -> Result<List, SyntaxError> {
    if text.len() > MAX_LINE {
        return error(format!("line longer than {MAX_LINE} bytes"));
    }
    let mut parser = Parser {
        chars: text.chars().collect(),
        at: 0,
    };
    let mut list = List::new();
    let mut when = When::Always;
    loop {
        let pipeline = parser.pipeline()?;
        let empty = pipeline.len() == 1 && pipeline.iter().all(is_empty);
        let end = parser.separator()?;
        if empty {
            if when != When::Always {
                return error("a command is missing after `&&` or `||`");
            }
            if matches!(end, Some(When::Success | When::Failure)) {
                return error("a command is missing before `&&` or `||`");
            }
        } else if pipeline.iter().any(is_empty) {
            return error("a command is missing beside `|`");
        } else {
            list.push((when, pipeline));
        }
        match end {
            Some(next) => when = next,
            None => return Ok(list),
        }
    }
}

fn is_empty(command: &Command) -> bool {
    command == &Command::default()
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.chars.get(self.at + 1) == Some(&'\n') => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// What follows a pipeline; `None` at the end of the text.
    fn separator(&mut self) -> Result<Option<When>, SyntaxError> {
        match self.next() {
            None => Ok(None),
            Some(';' | '\n') => Ok(Some(When::Always)),
            Some('&') if self.eat('&') => Ok(Some(When::Success)),
            Some('|') if self.eat('|') => Ok(Some(When::Failure)),
            Some('&') => error("background jobs (`&`) are not supported here"),
            Some(c @ ('(' | ')')) => error(format!("`{c}` (subshells) are not supported here")),
            Some(c) => error(format!("unexpected `{c}`")),
        }
    }

    fn pipeline(&mut self) -> Result<Vec<Command>, SyntaxError> {
        let mut commands = vec![self.command()?];
        while self.peek() == Some('|') && self.chars.get(self.at + 1) != Some(&'|') {
            self.at += 1;
            commands.push(self.command()?);
        }
        Ok(commands)
    }

    fn command(&mut self) -> Result<Command, SyntaxError> {
        let mut command = Command::default();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(';' | '\n' | '&' | '|' | '(' | ')') => return Ok(command),
                Some('<') => {
                    self.at += 1;
                    if self.peek() == Some('<') {
                        return error("here-documents (`<<`) are not supported here");
                    }
                    let word = self.target()?;
                    command.redirects.push(Redirect::Input(word));
                }
                Some('>') => {
                    self.at += 1;
                    let redirect = self.output(1)?;
                    command.redirects.push(redirect);
                }
                Some(fd @ ('1' | '2')) if self.chars.get(self.at + 1) == Some(&'>') => {
                    self.at += 2;
                    let redirect = self.output(if fd == '1' { 1 } else { 2 })?;
                    command.redirects.push(redirect);
                }
                Some(_) => {
                    if command.words.is_empty()
                        && let Some(name) = self.assignment()
                    {
                        let value = self.word()?;
                        command.assignments.push((name, value));
                        continue;
                    }
                    let word = self.word()?;
                    command.words.push(word);
                }
            }
        }
    }

    fn output(&mut self, fd: u8) -> Result<Redirect, SyntaxError> {
        if self.eat('&') {
            return match self.next() {
                Some('1') => Ok(Redirect::Duplicate { fd, to: 1 }),
                Some('2') => Ok(Redirect::Duplicate { fd, to: 2 }),
                _ => error("`>&` needs 1 or 2 here"),
            };
        }
        let append = self.eat('>');
        let target = self.target()?;
        Ok(Redirect::File { fd, append, target })
    }

    fn target(&mut self) -> Result<Word, SyntaxError> {
        self.skip_blanks();
        let word = self.word()?;
        if word == Word::default() {
            return error("a file name is missing after a redirection");
        }
        Ok(word)
    }

    /// `NAME=` at the cursor; moves behind it.
    fn assignment(&mut self) -> Option<String> {
        let rest = self.chars.get(self.at..)?;
        let length = rest.iter().take_while(|c| is_name_char(**c)).count();
        let starts_well = rest.first().is_some_and(|c| !c.is_ascii_digit());
        if length == 0 || !starts_well || rest.get(length) != Some(&'=') {
            return None;
        }
        let name = rest.iter().take(length).collect();
        self.at += length + 1;
        Some(name)
    }

    fn word(&mut self) -> Result<Word, SyntaxError> {
        let mut word = Word::default();
        let start = self.at;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    self.single_quoted(&mut word)?;
                }
                '"' => {
                    self.at += 1;
                    word.quoted = true;
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => push(&mut word, c),
                        None => push(&mut word, '\\'),
                    }
                    word.quoted = true;
                }
                '$' => {
                    self.at += 1;
                    self.variable(&mut word, false)?;
                }
                '`' => return error("command substitution is not supported here"),
                '~' if self.at == start && self.home_follows() => {
                    self.at += 1;
                    word.pieces.push(Piece::Home);
                }
                c => {
                    self.at += 1;
                    push(&mut word, c);
                }
            }
        }
        Ok(word)
    }

    fn home_follows(&self) -> bool {
        self.chars
            .get(self.at + 1)
            .is_none_or(|c| matches!(c, '/' | ' ' | '\t' | ';' | '\n' | '&' | '|' | '<' | '>'))
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => push(word, c),
                None => return error("`'` without its end"),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '"' | '\\' | '`')) => push(word, c),
                    Some(c) => {
                        push(word, '\\');
                        push(word, c);
                    }
                    None => return error("`\"` without its end"),
                },
                Some('$') => self.variable(word, true)?,
                Some('`') => return error("command substitution is not supported here"),
                Some(c) => push(word, c),
                None => return error("`\"` without its end"),
            }
        }
    }

    /// What stands behind a `$`.
    fn variable(&mut self, word: &mut Word, quoted: bool) -> Result<(), SyntaxError> {
        let name = match self.peek() {
            Some('(') => return error("command substitution is not supported here"),
            Some(c @ ('?' | '#' | '$')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => {
                self.at += 1;
                let name = self.name();
                if name.is_empty() || !self.eat('}') {
                    return error("`${` takes only a name here");
                }
                name
            }
            _ => self.name(),
        };
        if name.is_empty() {
            push(word, '$');
        } else {
            word.pieces.push(Piece::Var { name, quoted });
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| is_name_char(*c)) {
            self.at += 1;
            name.push(c);
        }
        name
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn push(word: &mut Word, c: char) {
    if let Some(Piece::Text(text)) = word.pieces.last_mut() {
        text.push(c);
    } else {
        word.pieces.push(Piece::Text(c.to_string()));
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
