//! Macros of Kubernetes' CEL that the parser leaves as calls: `cel.bind`, loops
//! over two variables, and `sortBy`. They become loops over helper functions.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr,
    operators,
};

use super::convert::type_value;

/// Gives the key (or index) and value of each element as a list of pairs.
pub(super) const ENTRIES: &str = "@entries";
/// Sorts pairs by their first and gives the second of each.
pub(super) const SORTED: &str = "@sorted";
/// Makes a map of pairs.
pub(super) const TO_MAP: &str = "@to_map";

/// Makes one map of a list of maps.
pub(super) const MERGE: &str = "@merge";
/// Equality and order as cel-go has them.
pub(super) const EQUALS: &str = "@equals";
pub(super) const NOT_EQUALS: &str = "@not_equals";
pub(super) const LESS: &str = "@less";
pub(super) const LESS_EQUALS: &str = "@less_equals";
pub(super) const GREATER: &str = "@greater";
pub(super) const GREATER_EQUALS: &str = "@greater_equals";
pub(super) const IN: &str = "@within";
/// Whether a value is of a library's type.
pub(super) const IS_OPAQUE: &str = "@is_opaque";
/// `string` of any other value.
pub(super) const TO_TEXT: &str = "@to_text";

/// Gives the keys of a map in a fixed order, and anything else as it is.
pub(super) const IN_ORDER: &str = "@in_order";
/// Passes a condition on, and counts the turns of loops.
pub(super) const TICK: &str = "@tick";

/// Expands the macros in an expression, innermost first, and makes all loops count.
pub(super) fn expand(mut expr: IdedExpr) -> IdedExpr {
    expr.expr = match expr.expr {
        Expr::Call(mut call) => {
            call.target = call.target.map(|target| Box::new(expand(*target)));
            call.args = call.args.into_iter().map(expand).collect();
            call_macro(call)
        }
        Expr::Comprehension(inner) => {
            let inner = *inner;
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: function_expr(IN_ORDER, vec![expand(inner.iter_range)]),
                accu_init: expand(inner.accu_init),
                loop_cond: function_expr(TICK, vec![expand(inner.loop_cond)]),
                loop_step: expand(inner.loop_step),
                result: expand(inner.result),
                ..inner
            }))
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(expand).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = expand(std::mem::take(&mut entry.key));
                    entry.value = expand(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(select) if is_type(&select) => {
            let name = format!("google.protobuf.{}", select.field);
            Expr::Literal(LiteralValue::String(type_value(&name).into()))
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(expand(*select.operand));
            Expr::Select(select)
        }
        other @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => other,
    };
    expr
}

/// The name of a type that is written with dots.
fn is_type(select: &SelectExpr) -> bool {
    let Expr::Select(inner) = &select.operand.expr else {
        return false;
    };
    matches!(&inner.operand.expr, Expr::Ident(name) if name == "google")
        && inner.field == "protobuf"
        && matches!(select.field.as_str(), "Timestamp" | "Duration")
}

#[expect(clippy::too_many_lines, reason = "one arm for each macro")]
fn call_macro(mut call: CallExpr) -> Expr {
    let variable = |i: usize| match call.args.get(i).map(|arg| &arg.expr) {
        Some(Expr::Ident(name)) => Some(name.clone()),
        _ => None,
    };
    let (first, second) = (variable(0), variable(1));
    let on_cel = call
        .target
        .as_ref()
        .is_some_and(|t| matches!(&t.expr, Expr::Ident(name) if name == "cel"));
    match (call.func_name.as_str(), call.args.len(), first, second) {
        ("bind", 3, Some(name), _) if on_cel => {
            let (body, init) = (call.args.pop(), call.args.pop());
            bind(name, init.unwrap_or_default(), body.unwrap_or_default())
        }
        ("sortBy", 2, Some(name), _) => {
            let key = call.args.pop().unwrap_or_default();
            let pair = list(vec![key, ident(&name)]);
            let pairs = collect(target(&mut call), name, None, pair);
            function(SORTED, vec![expr(pairs)])
        }
        (kind @ ("all" | "exists" | "existsOne" | "exists_one"), 3, Some(key), Some(value)) => {
            let kind = kind.to_owned();
            let test = both(key, value, call.args.pop().unwrap_or_default());
            let range = entries(target(&mut call));
            let (init, step, result) = match kind.as_str() {
                "all" => (
                    bool_literal(true),
                    binary(operators::LOGICAL_AND, accu(), test),
                    accu(),
                ),
                "exists" => (
                    bool_literal(false),
                    binary(operators::LOGICAL_OR, accu(), test),
                    accu(),
                ),
                _ => {
                    let more = binary(operators::ADD, accu(), int_literal(1));
                    let step = function_expr(operators::CONDITIONAL, vec![test, more, accu()]);
                    (
                        int_literal(0),
                        step,
                        binary(operators::EQUALS, accu(), int_literal(1)),
                    )
                }
            };
            fold(range, "@pair".to_owned(), init, step, result)
        }
        ("transformList" | "transformMap", 3 | 4, Some(key), Some(value)) => {
            let to_map = call.func_name == "transformMap";
            let made = call.args.pop().unwrap_or_default();
            let filter = (call.args.len() == 3).then(|| call.args.pop().unwrap_or_default());
            let filter = filter.map(|f| both(key.clone(), value.clone(), f));
            let made = if to_map {
                list(vec![ident(&key), made])
            } else {
                made
            };
            let made = both(key, value, made);
            let all = collect(entries(target(&mut call)), "@pair".to_owned(), filter, made);
            if to_map {
                function(TO_MAP, vec![expr(all)])
            } else {
                all
            }
        }
        ("transformMapEntry", 3 | 4, Some(key), Some(value)) => {
            let made = call.args.pop().unwrap_or_default();
            let filter = (call.args.len() == 3).then(|| call.args.pop().unwrap_or_default());
            let filter = filter.map(|f| both(key.clone(), value.clone(), f));
            let made = both(key, value, made);
            let all = collect(entries(target(&mut call)), "@pair".to_owned(), filter, made);
            function(MERGE, vec![expr(all)])
        }
        (kind @ ("optMap" | "optFlatMap"), 2, Some(name), _) => {
            let flat = kind == "optFlatMap";
            let body = call.args.pop().unwrap_or_default();
            option(flat, target(&mut call), name, body)
        }
        ("string", 1, ..) if call.target.is_none() => {
            let arg = call.args.pop().unwrap_or_default();
            let own = function_expr("string", vec![arg.clone()]);
            let plain = function_expr(TO_TEXT, vec![arg.clone()]);
            let test = function_expr(IS_OPAQUE, vec![arg]);
            function(operators::CONDITIONAL, vec![test, own, plain])
        }
        // The evaluator fails where an optional field is absent, but not where an
        // optional index is; they mean the same.
        (operators::OPT_SELECT, ..) => {
            operators::OPT_INDEX.clone_into(&mut call.func_name);
            Expr::Call(call)
        }
        (name, 2, ..) if call.target.is_none() => {
            let own = match name {
                operators::EQUALS => EQUALS,
                operators::NOT_EQUALS => NOT_EQUALS,
                operators::LESS => LESS,
                operators::LESS_EQUALS => LESS_EQUALS,
                operators::GREATER => GREATER,
                operators::GREATER_EQUALS => GREATER_EQUALS,
                operators::IN => IN,
                _ => return Expr::Call(call),
            };
            function(own, call.args)
        }
        _ => Expr::Call(call),
    }
}

fn target(call: &mut CallExpr) -> IdedExpr {
    call.target.take().map(|t| *t).unwrap_or_default()
}

fn expr(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    expr(Expr::Ident(name.to_owned()))
}

/// The accumulator of all loops made here.
fn accu() -> IdedExpr {
    ident("@result")
}

fn list(elements: Vec<IdedExpr>) -> IdedExpr {
    expr(Expr::List(ListExpr::new(elements)))
}

fn bool_literal(value: bool) -> IdedExpr {
    expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn int_literal(value: i64) -> IdedExpr {
    expr(Expr::Literal(LiteralValue::Int(value.into())))
}

fn function(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    })
}

fn function_expr(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    expr(function(name, args))
}

fn binary(operator: &str, left: IdedExpr, right: IdedExpr) -> IdedExpr {
    function_expr(operator, vec![left, right])
}

fn entries(range: IdedExpr) -> IdedExpr {
    function_expr(ENTRIES, vec![range])
}

fn fold(
    range: IdedExpr,
    variable: String,
    init: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: variable,
        iter_var2: None,
        accu_var: "@result".to_owned(),
        accu_init: init,
        loop_cond: function_expr(TICK, vec![bool_literal(true)]),
        loop_step: step,
        result,
    }))
}

/// A variable for one expression: a loop over the one value.
fn bind(name: String, init: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: list(vec![init]),
        iter_var: name,
        iter_var2: None,
        accu_var: "@bound".to_owned(),
        accu_init: expr(Expr::Literal(LiteralValue::Null)),
        loop_cond: bool_literal(true),
        loop_step: body,
        result: ident("@bound"),
    }))
}

/// What becomes of the value of an optional, if it has one.
fn option(flat: bool, of: IdedExpr, name: String, body: IdedExpr) -> Expr {
    let method = |name: &str, target: IdedExpr, args: Vec<IdedExpr>| {
        expr(Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: Some(Box::new(target)),
            args,
        }))
    };
    let there = method("hasValue", of.clone(), Vec::new());
    let value = method("value", of, Vec::new());
    let mut made = expr(bind(name, value, body));
    if !flat {
        made = method("of", ident("optional"), vec![made]);
    }
    let nothing = method("none", ident("optional"), Vec::new());
    function(operators::CONDITIONAL, vec![there, made, nothing])
}

/// The two variables of a loop over pairs.
fn both(key: String, value: String, body: IdedExpr) -> IdedExpr {
    let part = |i: i64| binary(operators::INDEX, ident("@pair"), int_literal(i));
    expr(bind(key, part(0), expr(bind(value, part(1), body))))
}

/// The list of what is made of each element.
fn collect(range: IdedExpr, variable: String, filter: Option<IdedExpr>, made: IdedExpr) -> Expr {
    let more = binary(operators::ADD, accu(), list(vec![made]));
    let step = match filter {
        Some(filter) => function_expr(operators::CONDITIONAL, vec![filter, more, accu()]),
        None => more,
    };
    fold(range, variable, list(Vec::new()), step, accu())
}
