//! Macros: calls that become loops, choices and tests of presence while they are
//! read.

use super::syntax::{Expr, Fold, Node, Parsed, Parser, Problem, RESULT, UNUSED};

impl Parser {
    pub(super) fn has(&mut self, at: usize, mut args: Vec<Node>) -> Parsed {
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
    pub(super) fn method(
        &mut self,
        at: usize,
        target: Node,
        name: &str,
        mut args: Vec<Node>,
    ) -> Parsed {
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
