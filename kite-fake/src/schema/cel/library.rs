//! What calls of Kubernetes' own libraries cost.

use super::cost::{Coster, Estimate};
use super::range::{REGEX, Range, TRAVERSE, replaced};
use super::syntax::{Expr, Node};
use super::types::Type;

/// The longest regular expression of a named format, in characters.
const FORMAT_REGEX: f64 = 128.0;
/// The longest named format.
const FORMAT: u64 = 64;

impl Coster<'_> {
    /// What the libraries of Kubernetes say of their functions.
    #[expect(
        clippy::too_many_arguments,
        clippy::too_many_lines,
        reason = "one line for each function"
    )]
    pub(super) fn library(
        &mut self,
        name: &str,
        overload: &str,
        target: Option<&Node>,
        on: Option<Range>,
        args: &[Node],
        first: Range,
        second: Range,
    ) -> Option<Estimate> {
        let one = Range::just(1);
        Some(match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let (target, on) = (target?, on?);
                match self.element(target) {
                    Some((of, size)) => {
                        let each = match of {
                            Type::Text | Type::Bytes => one.plus(size.by(TRAVERSE)),
                            _ => one,
                        };
                        (on.times(each), None)
                    }
                    None => (on.by(TRAVERSE), None),
                }
            }
            "url" | "jsonpatch.escapeKey" if args.len() == 1 => (first.by(TRAVERSE), Some(first)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let on = on?;
                (on.by(TRAVERSE), Some(on))
            }
            "replace" if args.len() >= 2 => {
                let on = on?;
                (on.by(2.0 * TRAVERSE), Some(replaced(on, first, second)))
            }
            "split" => {
                let on = on?;
                let max = match args.get(1).map(|arg| &arg.expr) {
                    Some(Expr::Int(limit)) => limit.cast_unsigned(),
                    _ => on.max,
                };
                (on.by(2.0 * TRAVERSE), Some(Range { min: 0, max }))
            }
            "join" => {
                let (target, on) = (target?, on?);
                let mut size = Range::just(0);
                if let Some((_, element)) = self.element(target) {
                    size = on.times(element);
                }
                if !args.is_empty() {
                    let between = Range {
                        min: on.min.saturating_sub(1),
                        max: on.max.saturating_sub(1),
                    };
                    size = size.plus(first.times(between));
                }
                (size.by(TRAVERSE), Some(size))
            }
            "find" | "findAll" if !args.is_empty() => {
                let on = on?;
                let cost = on.plus(one).by(TRAVERSE).times(first.by(REGEX));
                let size = Range {
                    min: 0,
                    max: on.max,
                };
                (cost, Some(size))
            }
            "ip" if on.is_some() => (one, None),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => (one, None),
            "containsIP" | "containsCIDR" if on.is_some() && !args.is_empty() => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.plus(address).by(TRAVERSE);
                if name == "containsCIDR" {
                    cost = cost.plus(address.by(TRAVERSE)).plus(one);
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(first.by(TRAVERSE));
                }
                (cost, None)
            }
            "validate" if on.is_some() => (first.by(TRAVERSE).by(FORMAT_REGEX * REGEX), None),
            "_==_" => match (self.kind(args.first()?), self.kind(args.get(1)?)) {
                (Type::Named("kubernetes.NamedFormat"), Type::Named("kubernetes.NamedFormat")) => (
                    Range {
                        min: 1,
                        max: FORMAT,
                    }
                    .by(TRAVERSE),
                    None,
                ),
                (Type::Named(a), Type::Named(b)) if a == b => (one, None),
                _ => return None,
            },
            _ => return None,
        })
    }
}
