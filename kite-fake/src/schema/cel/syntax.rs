//! Reading an expression into a tree whose nodes know where they stand, macros
//! expanded as cel-go expands them. Checking and cost estimates need both.

use super::lexer::{Token, TokenKind, tokens};

/// One node of an expression.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Unique within the expression, counted from 0.
    pub(super) id: usize,
    /// Where it stands, in characters from the start.
    pub(super) at: usize,
    pub(super) expr: Expr,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    Uint,
    Double,
    Text(String),
    Bytes(usize),
    Ident(String),
    Select {
        operand: Box<Node>,
        field: String,
        test: bool,
    },
    Call {
        name: String,
        target: Option<Box<Node>>,
        args: Vec<Node>,
    },
    /// Elements, and whether each is optional.
    List(Vec<(Node, bool)>),
    /// Keys and values, and whether each is optional.
    Map(Vec<(Node, Node, bool)>),
    Struct(String),
    Fold(Box<Fold>),
}

impl Node {
    /// The nodes directly below.
    pub(super) fn parts(&self) -> Vec<&Node> {
        match &self.expr {
            Expr::Select { operand, .. } => vec![operand],
            Expr::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Expr::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Expr::Map(entries) => entries
                .iter()
                .flat_map(|(key, value, _)| [key, value])
                .collect(),
            Expr::Fold(fold) => {
                vec![
                    &fold.range,
                    &fold.start,
                    &fold.condition,
                    &fold.step,
                    &fold.result,
                ]
            }
            _ => Vec::new(),
        }
    }
}

/// A loop: what macros become.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) variable: String,
    pub(super) second: Option<String>,
    pub(super) range: Node,
    pub(super) accumulator: String,
    pub(super) start: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

/// The variable in which loops gather their result.
pub(super) const RESULT: &str = "@result";
/// The variable of loops that only bind a name.
pub(super) const UNUSED: &str = "#unused";

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// It does not follow the grammar.
    Syntax,
    /// Something is wrong at a place.
    At(usize, String),
}

/// Reads an expression.
///
/// # Errors
/// See [`Problem`].
pub(super) fn parse(source: &str) -> Result<Node, Problem> {
    let mut parser = Parser {
        tokens: tokens(source).ok_or(Problem::Syntax)?,
        next: 0,
        ids: 0,
    };
    let node = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(node),
        _ => Err(Problem::Syntax),
    }
}

/// Reads tokens one after the other.
pub(super) struct Parser {
    tokens: Vec<Token>,
    next: usize,
    pub(super) ids: usize,
}

/// Identifiers that are set aside for other languages.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(super) type Parsed = Result<Node, Problem>;

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens
            .get(self.next)
            .map_or(&TokenKind::End, |t| &t.kind)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |t| t.at)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), TokenKind::Symbol(s) if *s == symbol)
    }

    /// Takes a symbol; gives where it stands.
    fn take(&mut self, symbol: &str) -> Option<usize> {
        let at = self.at();
        self.is(symbol).then(|| {
            self.next += 1;
            at
        })
    }

    fn expect(&mut self, symbol: &str) -> Result<usize, Problem> {
        self.take(symbol).ok_or(Problem::Syntax)
    }

    pub(super) fn node(&mut self, at: usize, expr: Expr) -> Node {
        let id = self.ids;
        self.ids += 1;
        Node { id, at, expr }
    }

    pub(super) fn call(&mut self, at: usize, name: &str, args: Vec<Node>) -> Node {
        let name = name.to_owned();
        self.node(
            at,
            Expr::Call {
                name,
                target: None,
                args,
            },
        )
    }

    pub(super) fn ident(&mut self, at: usize, name: &str) -> Node {
        self.node(at, Expr::Ident(name.to_owned()))
    }

    fn expression(&mut self) -> Parsed {
        let test = self.either()?;
        let Some(at) = self.take("?") else {
            return Ok(test);
        };
        let yes = self.either()?;
        self.expect(":")?;
        let no = self.expression()?;
        Ok(self.call(at, "_?_:_", vec![test, yes, no]))
    }

    fn either(&mut self) -> Parsed {
        let mut left = self.both()?;
        while let Some(at) = self.take("||") {
            let right = self.both()?;
            left = self.call(at, "_||_", vec![left, right]);
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed {
        let mut left = self.relation()?;
        while let Some(at) = self.take("&&") {
            let right = self.relation()?;
            left = self.call(at, "_&&_", vec![left, right]);
        }
        Ok(left)
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let at = self.at();
            let name = match self.peek() {
                TokenKind::Symbol("<") => "_<_",
                TokenKind::Symbol("<=") => "_<=_",
                TokenKind::Symbol(">") => "_>_",
                TokenKind::Symbol(">=") => "_>=_",
                TokenKind::Symbol("==") => "_==_",
                TokenKind::Symbol("!=") => "_!=_",
                TokenKind::Word(word) if word == "in" => "@in",
                _ => return Ok(left),
            };
            self.next += 1;
            let right = self.sum()?;
            left = self.call(at, name, vec![left, right]);
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let at = self.at();
            let name = match self.peek() {
                TokenKind::Symbol("+") => "_+_",
                TokenKind::Symbol("-") => "_-_",
                _ => return Ok(left),
            };
            self.next += 1;
            let right = self.product()?;
            left = self.call(at, name, vec![left, right]);
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            let name = match self.peek() {
                TokenKind::Symbol("*") => "_*_",
                TokenKind::Symbol("/") => "_/_",
                TokenKind::Symbol("%") => "_%_",
                _ => return Ok(left),
            };
            self.next += 1;
            let right = self.unary()?;
            left = self.call(at, name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed {
        for (symbol, name) in [("!", "!_"), ("-", "-_")] {
            let at = self.at();
            let mut times = 0;
            while self.is(symbol) && !(symbol == "-" && times == 0 && self.number_follows()) {
                self.next += 1;
                times += 1;
            }
            if times > 0 {
                let inner = self.member()?;
                return Ok(if times % 2 == 0 {
                    inner
                } else {
                    self.call(at, name, vec![inner])
                });
            }
        }
        self.member()
    }

    fn number_follows(&self) -> bool {
        let next = self.tokens.get(self.next + 1).map(|t| &t.kind);
        matches!(next, Some(TokenKind::Int(_) | TokenKind::Double))
    }

    fn member(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            if let Some(dot) = self.take(".") {
                let optional = self.take("?").is_some();
                let TokenKind::Word(field) = self.peek().clone() else {
                    return Err(Problem::Syntax);
                };
                if is_keyword(&field) {
                    return Err(Problem::Syntax);
                }
                self.next += 1;
                if optional {
                    let name = self.node(dot, Expr::Text(field));
                    node = self.call(dot, "_?._", vec![node, name]);
                } else if let Some(open) = self.take("(") {
                    let args = self.arguments(")")?;
                    node = self.method(open, node, &field, args)?;
                } else {
                    let operand = Box::new(node);
                    node = self.node(
                        dot,
                        Expr::Select {
                            operand,
                            field,
                            test: false,
                        },
                    );
                }
            } else if let Some(open) = self.take("[") {
                let name = if self.take("?").is_some() {
                    "_[?_]"
                } else {
                    "_[_]"
                };
                let index = self.expression()?;
                self.expect("]")?;
                node = self.call(open, name, vec![node, index]);
            } else {
                return Ok(node);
            }
        }
    }

    /// What stands up to a closing bracket, between commas.
    fn arguments(&mut self, close: &str) -> Result<Vec<Node>, Problem> {
        let mut args = Vec::new();
        if self.take(close).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(close).is_some() {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        if self.take("(").is_some() {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("[").is_some() {
            return self.list(at);
        }
        if self.take("{").is_some() {
            return self.map(at);
        }
        if self.take("-").is_some() {
            let expr = match self.peek().clone() {
                TokenKind::Int(digits) => Expr::Int(integer(at, &format!("-{digits}"))?),
                TokenKind::Double => Expr::Double,
                _ => return Err(Problem::Syntax),
            };
            self.next += 1;
            return Ok(self.node(at, expr));
        }
        let dot = self.take(".").is_some();
        let token = self.peek().clone();
        self.next += 1;
        let expr = match token {
            TokenKind::Word(word) => return self.named(at, dot, word),
            _ if dot => return Err(Problem::Syntax),
            TokenKind::Int(digits) => Expr::Int(integer(at, &digits)?),
            TokenKind::Uint => Expr::Uint,
            TokenKind::Double => Expr::Double,
            TokenKind::Text(text) => Expr::Text(text),
            TokenKind::Bytes(length) => Expr::Bytes(length),
            TokenKind::Symbol(_) | TokenKind::End => return Err(Problem::Syntax),
        };
        Ok(self.node(at, expr))
    }

    /// An identifier, a call of a function, a macro, or a message.
    fn named(&mut self, at: usize, dot: bool, word: String) -> Parsed {
        match word.as_str() {
            "true" | "false" if !dot => return Ok(self.node(at, Expr::Bool(word == "true"))),
            "null" if !dot => return Ok(self.node(at, Expr::Null)),
            word if is_keyword(word) => return Err(Problem::Syntax),
            _ => {}
        }
        if self.is("{") {
            self.next += 1;
            return self.message(at, word);
        }
        if RESERVED.contains(&word.as_str()) {
            return Err(Problem::At(at, format!("reserved identifier: {word}")));
        }
        let name = if dot { format!(".{word}") } else { word };
        if let Some(open) = self.take("(") {
            let args = self.arguments(")")?;
            if name == "has" && args.len() == 1 {
                return self.has(open, args);
            }
            return Ok(self.call(open, &name, args));
        }
        Ok(self.node(at, Expr::Ident(name)))
    }

    fn message(&mut self, at: usize, name: String) -> Parsed {
        while self.take("}").is_none() {
            self.take("?");
            let TokenKind::Word(_) = self.peek() else {
                return Err(Problem::Syntax);
            };
            self.next += 1;
            self.expect(":")?;
            self.expression()?;
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(self.node(at, Expr::Struct(name)))
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut elements = Vec::new();
        while self.take("]").is_none() {
            let optional = self.take("?").is_some();
            elements.push((self.expression()?, optional));
            if !self.is("]") {
                self.expect(",")?;
            }
        }
        Ok(self.node(at, Expr::List(elements)))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(self.node(at, Expr::Map(entries)))
    }
}

/// CEL's own words.
pub(super) fn is_keyword(word: &str) -> bool {
    matches!(word, "in" | "true" | "false" | "null")
}

fn integer(at: usize, digits: &str) -> Result<i64, Problem> {
    let (sign, rest) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    let parsed = match rest.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| Problem::At(at, "invalid int literal".to_owned()))
}
