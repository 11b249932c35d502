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
const UNUSED: &str = "#unused";

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

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    ids: usize,
}

/// Identifiers that are set aside for other languages.
const RESERVED: [&str; 17] = [
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

type Parsed = Result<Node, Problem>;

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

    fn node(&mut self, at: usize, expr: Expr) -> Node {
        let id = self.ids;
        self.ids += 1;
        Node { id, at, expr }
    }

    fn call(&mut self, at: usize, name: &str, args: Vec<Node>) -> Node {
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

    fn ident(&mut self, at: usize, name: &str) -> Node {
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

    fn has(&mut self, at: usize, mut args: Vec<Node>) -> Parsed {
        match args.pop() {
            Some(Node {
                expr:
                    Expr::Select {
                        operand,
                        field,
                        test: false,
                    },
                ..
            }) => Ok(self.node(
                at,
                Expr::Select {
                    operand,
                    field,
                    test: true,
                },
            )),
            Some(other) => Err(Problem::At(
                other.at,
                "invalid argument to has() macro".to_owned(),
            )),
            None => Err(Problem::Syntax),
        }
    }

    /// A call on a value: a macro, or a plain one.
    fn method(&mut self, at: usize, target: Node, name: &str, mut args: Vec<Node>) -> Parsed {
        let on_cel = matches!(&target.expr, Expr::Ident(of) if of == "cel");
        match (name, args.len()) {
            ("bind", 3) if on_cel => {
                let (body, value) = (take(&mut args)?, take(&mut args)?);
                let name = simple(
                    &args[0],
                    "cel.bind() variable names must be simple identifiers",
                )?;
                Ok(self.bind(at, name, value, body))
            }
            ("all" | "exists" | "exists_one" | "existsOne", 2) => {
                let test = take(&mut args)?;
                let variable = simple(&args[0], "argument must be a simple name")?;
                Ok(self.quantifier(at, name, target, variable, None, test))
            }
            ("all" | "exists" | "exists_one" | "existsOne", 3) => {
                let test = take(&mut args)?;
                let (variable, second) = two(&args)?;
                Ok(self.quantifier(at, name, target, variable, Some(second), test))
            }
            ("map", 2 | 3) | ("filter", 2) => {
                let variable = simple(&args[0], "argument is not an identifier")?;
                let made = take(&mut args)?;
                let filter = (args.len() == 2).then(|| take(&mut args)).transpose()?;
                let (made, filter) = if name == "filter" {
                    (self.ident(at, &variable), Some(made))
                } else {
                    (made, filter)
                };
                Ok(self.collect(at, target, variable, None, made, filter))
            }
            ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
                let made = take(&mut args)?;
                let filter = (args.len() == 3).then(|| take(&mut args)).transpose()?;
                let (variable, second) = two(&args)?;
                if name == "transformList" {
                    return Ok(self.collect(at, target, variable, Some(second), made, filter));
                }
                let key = (name == "transformMap").then(|| variable.clone());
                Ok(self.gather(at, target, (variable, second), key, made, filter))
            }
            ("optMap" | "optFlatMap", 2) => {
                let body = take(&mut args)?;
                let variable = simple(
                    &args[0],
                    "optMap() variable name must be a simple identifier",
                )?;
                Ok(self.option(at, name == "optFlatMap", target, variable, body))
            }
            ("sortBy", 2) => {
                let key = take(&mut args)?;
                let variable = simple(
                    &args[0],
                    "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
                )?;
                let keys = self.collect(at, target.clone(), variable, None, key, None);
                let (keys, target) = (self.renumber(keys), Some(Box::new(target)));
                let name = "@sortByAssociatedKeys".to_owned();
                Ok(self.node(
                    at,
                    Expr::Call {
                        name,
                        target,
                        args: vec![keys],
                    },
                ))
            }
            _ => {
                let (name, target) = (name.to_owned(), Some(Box::new(target)));
                Ok(self.node(at, Expr::Call { name, target, args }))
            }
        }
    }

    /// The same tree with identities of its own.
    fn renumber(&mut self, mut node: Node) -> Node {
        node.id = self.ids;
        self.ids += 1;
        node.expr = match node.expr {
            Expr::Select {
                operand,
                field,
                test,
            } => Expr::Select {
                operand: Box::new(self.renumber(*operand)),
                field,
                test,
            },
            Expr::Call { name, target, args } => Expr::Call {
                name,
                target: target.map(|target| Box::new(self.renumber(*target))),
                args: args.into_iter().map(|arg| self.renumber(arg)).collect(),
            },
            Expr::List(elements) => Expr::List(
                elements
                    .into_iter()
                    .map(|(element, optional)| (self.renumber(element), optional))
                    .collect(),
            ),
            Expr::Map(entries) => Expr::Map(
                entries
                    .into_iter()
                    .map(|(key, value, optional)| {
                        (self.renumber(key), self.renumber(value), optional)
                    })
                    .collect(),
            ),
            Expr::Fold(fold) => Expr::Fold(Box::new(Fold {
                range: self.renumber(fold.range),
                start: self.renumber(fold.start),
                condition: self.renumber(fold.condition),
                step: self.renumber(fold.step),
                result: self.renumber(fold.result),
                ..*fold
            })),
            plain => plain,
        };
        node
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a loop")]
    fn fold(
        &mut self,
        at: usize,
        range: Node,
        variables: (String, Option<String>),
        start: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> Node {
        let fold = Fold {
            variable: variables.0,
            second: variables.1,
            range,
            accumulator: RESULT.to_owned(),
            start,
            condition,
            step,
            result,
        };
        self.node(at, Expr::Fold(Box::new(fold)))
    }

    fn quantifier(
        &mut self,
        at: usize,
        kind: &str,
        range: Node,
        variable: String,
        second: Option<String>,
        test: Node,
    ) -> Node {
        let (start, condition, step, result);
        match kind {
            "all" | "exists" => {
                let all = kind == "all";
                start = self.node(at, Expr::Bool(all));
                let mut going = self.ident(at, RESULT);
                if !all {
                    going = self.call(at, "!_", vec![going]);
                }
                condition = self.call(at, "@not_strictly_false", vec![going]);
                let accumulated = self.ident(at, RESULT);
                let operator = if all { "_&&_" } else { "_||_" };
                step = self.call(at, operator, vec![accumulated, test]);
                result = self.ident(at, RESULT);
            }
            _ => {
                start = self.node(at, Expr::Int(0));
                condition = self.node(at, Expr::Bool(true));
                let (before, one) = (self.ident(at, RESULT), self.node(at, Expr::Int(1)));
                let more = self.call(at, "_+_", vec![before, one]);
                let same = self.ident(at, RESULT);
                step = self.call(at, "_?_:_", vec![test, more, same]);
                let (found, one) = (self.ident(at, RESULT), self.node(at, Expr::Int(1)));
                result = self.call(at, "_==_", vec![found, one]);
            }
        }
        self.fold(
            at,
            range,
            (variable, second),
            start,
            condition,
            step,
            result,
        )
    }

    /// The list of what is made of each element.
    fn collect(
        &mut self,
        at: usize,
        range: Node,
        variable: String,
        second: Option<String>,
        made: Node,
        filter: Option<Node>,
    ) -> Node {
        let start = self.node(at, Expr::List(Vec::new()));
        let (before, made) = (
            self.ident(at, RESULT),
            self.node(at, Expr::List(vec![(made, false)])),
        );
        let step = self.call(at, "_+_", vec![before, made]);
        self.filtered(at, range, (variable, second), start, step, filter)
    }

    /// The map of what is made of each element.
    fn gather(
        &mut self,
        at: usize,
        range: Node,
        variables: (String, String),
        key: Option<String>,
        made: Node,
        filter: Option<Node>,
    ) -> Node {
        let start = self.node(at, Expr::Map(Vec::new()));
        let mut args = vec![self.ident(at, RESULT)];
        if let Some(key) = key {
            args.push(self.ident(at, &key));
        }
        args.push(made);
        let step = self.call(at, "cel.@mapInsert", args);
        self.filtered(
            at,
            range,
            (variables.0, Some(variables.1)),
            start,
            step,
            filter,
        )
    }

    fn filtered(
        &mut self,
        at: usize,
        range: Node,
        variables: (String, Option<String>),
        start: Node,
        step: Node,
        filter: Option<Node>,
    ) -> Node {
        let condition = self.node(at, Expr::Bool(true));
        let step = match filter {
            Some(filter) => {
                let same = self.ident(at, RESULT);
                self.call(at, "_?_:_", vec![filter, step, same])
            }
            None => step,
        };
        let result = self.ident(at, RESULT);
        self.fold(at, range, variables, start, condition, step, result)
    }

    fn bind(&mut self, at: usize, name: String, value: Node, body: Node) -> Node {
        let fold = Fold {
            variable: UNUSED.to_owned(),
            second: None,
            range: self.node(at, Expr::List(Vec::new())),
            condition: self.node(at, Expr::Bool(false)),
            step: self.ident(at, &name),
            accumulator: name,
            start: value,
            result: body,
        };
        self.node(at, Expr::Fold(Box::new(fold)))
    }

    fn option(
        &mut self,
        at: usize,
        flat: bool,
        target: Node,
        variable: String,
        body: Node,
    ) -> Node {
        let of = self.renumber(target.clone());
        let method = |parser: &mut Self, name: &str, target: Node| {
            let (name, target) = (name.to_owned(), Some(Box::new(target)));
            parser.node(
                at,
                Expr::Call {
                    name,
                    target,
                    args: Vec::new(),
                },
            )
        };
        let there = method(self, "hasValue", of);
        let value = method(self, "value", target);
        let mut made = self.bind(at, variable, value, body);
        if !flat {
            made = self.call(at, "optional.of", vec![made]);
        }
        let nothing = self.call(at, "optional.none", Vec::new());
        self.call(at, "_?_:_", vec![there, made, nothing])
    }
}

fn is_keyword(word: &str) -> bool {
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

fn take(args: &mut Vec<Node>) -> Parsed {
    args.pop().ok_or(Problem::Syntax)
}

fn simple(arg: &Node, otherwise: &str) -> Result<String, Problem> {
    match &arg.expr {
        Expr::Ident(name) if !name.starts_with('.') => Ok(name.clone()),
        _ => Err(Problem::At(arg.at, otherwise.to_owned())),
    }
}

fn two(args: &[Node]) -> Result<(String, String), Problem> {
    const DETAIL: &str = "argument must be a simple name";
    let [first, second] = args else {
        return Err(Problem::Syntax);
    };
    Ok((simple(first, DETAIL)?, simple(second, DETAIL)?))
}
