//! The operators and functions that rules may use, and what they give.

use kube_cel::cel::common::ast::operators;

use super::rewrite::{ENTRIES, SORTED, TICK, TO_MAP};
use super::types::Type;

/// The result of an operator or function; `None` if it does not take these types.
///
/// # Errors
/// There is no function of that name.
pub(super) fn result<'a>(
    name: &str,
    target: Option<&Type<'a>>,
    args: &[Type<'a>],
) -> Result<Option<Type<'a>>, String> {
    match (name, args) {
        (operators::CONDITIONAL, [test, yes, no]) => {
            return Ok((test.fits(&Type::Bool) && yes.fits(no)).then(|| joined(yes, no)));
        }
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [a, b]) => {
            return Ok((a.fits(&Type::Bool) && b.fits(&Type::Bool)).then_some(Type::Bool));
        }
        (operators::LOGICAL_NOT, [a]) => return Ok(a.fits(&Type::Bool).then_some(Type::Bool)),
        (operators::NOT_STRICTLY_FALSE | TICK, _) => return Ok(Some(Type::Bool)),
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
            return Ok(a.fits(b).then_some(Type::Bool));
        }
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            [a, b],
        ) => {
            return Ok(ordered(a, b).then_some(Type::Bool));
        }
        (operators::IN, [_, of]) => {
            let holds = matches!(of, Type::List(_) | Type::Map(_) | Type::Dyn);
            return Ok(holds.then_some(Type::Bool));
        }
        (operators::INDEX, [of, _]) => {
            return Ok(match of {
                Type::List(inner) | Type::Map(inner) => Some((**inner).clone()),
                Type::Dyn => Some(Type::Dyn),
                _ => None,
            });
        }
        (operators::OPT_INDEX | operators::OPT_SELECT, _) => return Ok(Some(Type::Dyn)),
        (operators::NEGATE, [a]) => {
            let negatable = matches!(a, Type::Int | Type::Double | Type::Dyn);
            return Ok(negatable.then(|| a.clone()));
        }
        (
            operators::ADD
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO,
            [a, b],
        ) => return Ok(arithmetic(name, a, b)),
        _ => {}
    }
    function(name, target, args)
}

fn joined<'a>(a: &Type<'a>, b: &Type<'a>) -> Type<'a> {
    if a.is_open() { b.clone() } else { a.clone() }
}

fn ordered(a: &Type<'_>, b: &Type<'_>) -> bool {
    let has_order = |t: &Type<'_>| {
        !matches!(
            t,
            Type::List(_) | Type::Map(_) | Type::Object(_) | Type::Null
        )
    };
    has_order(a) && has_order(b) && (a.fits(b) || a.is_number() && b.is_number())
}

fn arithmetic<'a>(operator: &str, a: &Type<'a>, b: &Type<'a>) -> Option<Type<'a>> {
    let add = operator == operators::ADD;
    let subtract = operator == operators::SUBSTRACT;
    match (a, b) {
        (Type::Dyn, other) | (other, Type::Dyn) => Some(match other {
            Type::Int | Type::Uint | Type::Double | Type::Text | Type::List(_) => other.clone(),
            _ => Type::Dyn,
        }),
        (Type::Int, Type::Int) => Some(Type::Int),
        (Type::Uint, Type::Uint) => Some(Type::Uint),
        (Type::Double, Type::Double) if operator != operators::MODULO => Some(Type::Double),
        (Type::Text, Type::Text) if add => Some(Type::Text),
        (Type::Bytes, Type::Bytes) if add => Some(Type::Bytes),
        (Type::List(x), Type::List(y)) if add && x.fits(y) => {
            Some(Type::List(Box::new(joined(x, y))))
        }
        (Type::Timestamp, Type::Duration) if add || subtract => Some(Type::Timestamp),
        (Type::Duration, Type::Timestamp) if add => Some(Type::Timestamp),
        (Type::Duration, Type::Duration) if add || subtract => Some(Type::Duration),
        (Type::Timestamp, Type::Timestamp) if subtract => Some(Type::Duration),
        _ => None,
    }
}

/// Functions of values that are not looked into here: quantities, addresses, optionals and so on.
const OPEN: [&str; 65] = [
    "add",
    "asApproximateFloat",
    "asInteger",
    "base64.decode",
    "base64.encode",
    "cidr",
    "compareTo",
    "containsCIDR",
    "containsIP",
    "distinct",
    "dyn",
    "family",
    "first",
    "flatten",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "hasValue",
    "ip",
    "isGreaterThan",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "isLoopback",
    "isUnspecified",
    "jsonpatch.escapeKey",
    "last",
    "lists.range",
    "major",
    "masked",
    "max",
    "min",
    "minor",
    "named",
    "none",
    "of",
    "ofNonZeroValue",
    "or",
    "orValue",
    "patch",
    "prefixLength",
    "quantity",
    "semver",
    "sign",
    "slice",
    "sort",
    "sub",
    "sum",
    "url",
    "value",
];

fn function<'a>(
    name: &str,
    target: Option<&Type<'a>>,
    args: &[Type<'a>],
) -> Result<Option<Type<'a>>, String> {
    let on_text = |result: Type<'a>| {
        target
            .is_some_and(|t| t.fits(&Type::Text))
            .then_some(result)
    };
    let arg = args.first();
    Ok(match name {
        "size" => {
            let of = target.or(arg);
            let sized = of.is_some_and(|t| {
                matches!(
                    t,
                    Type::Dyn | Type::Text | Type::Bytes | Type::List(_) | Type::Map(_)
                )
            });
            sized.then_some(Type::Int)
        }
        "startsWith" | "endsWith" | "contains" | "matches" => {
            let text = args.len() == 1 && args.iter().all(|a| a.fits(&Type::Text));
            if target.is_some_and(|t| matches!(t, Type::Dyn)) {
                Some(Type::Bool)
            } else {
                on_text(Type::Bool).filter(|_| text)
            }
        }
        "charAt" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "find"
        | "format" => on_text(Type::Text),
        "split" | "findAll" => on_text(Type::List(Box::new(Type::Text))),
        "join" | "quote" | "string" => Some(Type::Text),
        "indexOf" | "lastIndexOf" | "int" => Some(Type::Int),
        "isSorted" | "isQuantity" | "isURL" | "isIP" | "isCIDR" | "isSemver" | "isCanonical"
        | "bool" => Some(Type::Bool),
        "uint" => Some(Type::Uint),
        "double" => Some(Type::Double),
        "bytes" => Some(Type::Bytes),
        "timestamp" => Some(Type::Timestamp),
        "duration" => Some(Type::Duration),
        "type" | "reverse" | "validate" | ENTRIES | SORTED | TO_MAP => Some(Type::Dyn),
        open if OPEN.contains(&open) || open.contains('.') => Some(Type::Dyn),
        other => {
            return Err(format!(
                "undeclared reference to '{other}' (in container '')"
            ));
        }
    })
}
