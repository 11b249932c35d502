//! The words of an expression.

/// A word and where it stands, in characters from the start.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

/// What a word is. Numbers that nobody computes with have no value here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Word(String),
    /// The digits.
    Int(String),
    Uint,
    Double,
    Text(String),
    /// How many bytes.
    Bytes(usize),
    Symbol(&'static str),
    End,
}

/// Longer symbols first.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", "-", "+",
    "*", "/", "%", "!", "?", ":", "=", "&",
];

/// The words of a text; `None` if it has something else.
pub(super) fn tokens(source: &str) -> Option<Vec<Token>> {
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer {
        chars: &chars,
        at: 0,
    };
    let mut found = Vec::new();
    loop {
        lexer.skip();
        let at = lexer.at;
        if at >= chars.len() {
            found.push(Token {
                at,
                kind: TokenKind::End,
            });
            return Some(found);
        }
        found.push(Token {
            at,
            kind: lexer.token()?,
        });
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.peek(i) == c)
    }

    /// Spaces and comments.
    fn skip(&mut self) {
        loop {
            if matches!(self.peek(0), ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else if self.starts_with("//") {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<TokenKind> {
        let c = self.peek(0);
        if let Some((raw, bytes, prefix)) = self.string_prefix() {
            self.at += prefix;
            return self.string(raw, bytes);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Some(TokenKind::Word(
                self.run(|c| c.is_ascii_alphanumeric() || c == '_'),
            ));
        }
        if c.is_ascii_digit() || c == '.' && self.peek(1).is_ascii_digit() {
            return Some(self.number());
        }
        let symbol = SYMBOLS.iter().find(|s| self.starts_with(s))?;
        self.at += symbol.len();
        (!matches!(*symbol, "=" | "&")).then_some(TokenKind::Symbol(symbol))
    }

    fn run(&mut self, fits: impl Fn(char) -> bool) -> String {
        let from = self.at;
        while self.at < self.chars.len() && fits(self.peek(0)) {
            self.at += 1;
        }
        self.chars[from..self.at].iter().collect()
    }

    fn number(&mut self) -> TokenKind {
        if self.starts_with("0x") {
            self.at += 2;
            let digits = self.run(|c| c.is_ascii_hexdigit());
            return self.suffixed(format!("0x{digits}"));
        }
        let digits = self.run(|c| c.is_ascii_digit());
        let fraction = self.peek(0) == '.' && self.peek(1).is_ascii_digit();
        if fraction {
            self.at += 1;
            self.run(|c| c.is_ascii_digit());
        }
        let signed = usize::from(matches!(self.peek(1), '+' | '-'));
        let exponent = matches!(self.peek(0), 'e' | 'E') && self.peek(1 + signed).is_ascii_digit();
        if exponent {
            self.at += 1 + signed;
            self.run(|c| c.is_ascii_digit());
        }
        if fraction || exponent {
            return TokenKind::Double;
        }
        self.suffixed(digits)
    }

    fn suffixed(&mut self, digits: String) -> TokenKind {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return TokenKind::Uint;
        }
        TokenKind::Int(digits)
    }

    /// Whether a text begins here: raw, bytes, and how long its prefix is.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes) = (false, false);
        for length in 0..3 {
            match self.peek(length) {
                '"' | '\'' => return Some((raw, bytes, length)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, raw: bool, bytes: bool) -> Option<TokenKind> {
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let mut text = String::new();
        loop {
            let c = *self.chars.get(self.at)?;
            if (0..width).all(|i| self.peek(i) == quote) {
                self.at += width;
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return None;
            }
            self.at += 1;
            if c == '\\' && !raw {
                text.push(self.escape()?);
            } else {
                text.push(c);
            }
        }
        Some(if bytes {
            TokenKind::Bytes(text.len())
        } else {
            TokenKind::Text(text)
        })
    }

    fn escape(&mut self) -> Option<char> {
        let c = *self.chars.get(self.at)?;
        self.at += 1;
        Some(match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '?' | '"' | '\'' | '`' => c,
            'x' | 'X' => self.code(2, 16)?,
            'u' => self.code(4, 16)?,
            'U' => self.code(8, 16)?,
            '0'..='3' => {
                self.at -= 1;
                self.code(3, 8)?
            }
            _ => return None,
        })
    }

    fn code(&mut self, length: usize, radix: u32) -> Option<char> {
        let digits: String = self.chars.get(self.at..self.at + length)?.iter().collect();
        self.at += length;
        char::from_u32(u32::from_str_radix(&digits, radix).ok()?)
    }
}
