//! Priority levels: how many requests of a kind run at once, and what happens to the rest.

use serde_json::{Value, json};

use super::{Errors, fixed};
use crate::builtin::check;
use crate::members::{default, has, number, object_mut, text};
use crate::schema::{FieldError, Validation};

/// Most queues of a level.
const MAX_QUEUES: i64 = 10_000_000;
/// Bits of a request's hash, from which its queues are dealt.
const HASH_BITS: f64 = 60.0;

const POSITIVE: &str = "must be positive";

/// A limited level has some shares, and refuses what is too much.
pub(in crate::builtin) fn default_level(level: &mut Value) {
    let spec = object_mut(level, "spec");
    if text(spec, "type") == "Exempt" {
        let exempt = object_mut(spec, "exempt");
        default(exempt, "nominalConcurrencyShares", 0);
        default(exempt, "lendablePercent", 0);
    } else if has(spec, "limited") {
        let limited = object_mut(spec, "limited");
        default(limited, "nominalConcurrencyShares", 30);
        default(limited, "lendablePercent", 0);
        let response = object_mut(limited, "limitResponse");
        if text(response, "type") == "Queue" {
            let queuing = object_mut(response, "queuing");
            default(queuing, "queues", 64);
            default(queuing, "handSize", 8);
            default(queuing, "queueLengthLimit", 50);
        }
    }
}

/// Checks a level. Two are the same in every cluster, but for what the exempt one lends.
pub(in crate::builtin) fn validate_level(level: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let name = text(&level["metadata"], "name");
    let spec = &level["spec"];
    let kind = text(spec, "type");
    if (name == "exempt") != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.push(FieldError::invalid("spec.type", &json!(kind), why));
    }
    match kind {
        "Exempt" => {
            if has(spec, "limited") {
                let why = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden("spec.limited", why));
            }
            let exempt = &spec["exempt"];
            shares(exempt, "spec.exempt", errors);
            lendable(exempt, "spec.exempt", errors);
        }
        "Limited" => {
            if has(spec, "exempt") {
                let why = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden("spec.exempt", why));
            }
            if has(spec, "limited") {
                limited(&spec["limited"], errors);
            } else {
                let why = "must not be empty when type is Limited";
                errors.push(FieldError::required("spec.limited", why));
            }
        }
        _ => errors.push(FieldError::not_supported(
            "spec.type",
            &json!(kind),
            &["Exempt", "Limited"],
        )),
    }
    match name {
        "exempt" => {
            let mut expected = json!({"type": "Exempt"});
            if has(spec, "exempt") {
                expected["exempt"] = spec["exempt"].clone();
            }
            let but = " except the 'spec.exempt' field";
            fixed(name, spec, &expected, but, errors);
        }
        "catch-all" => {
            let expected = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5,
                "lendablePercent": 0, "limitResponse": {"type": "Reject"}}});
            fixed(name, spec, &expected, "", errors);
        }
        _ => {}
    }
}

fn not_negative(of: &Value, member: &str, path: &str, wrong: &str, errors: &mut Errors) {
    if number(of, member).is_some_and(|given| given < 0) {
        let field = format!("{path}.{member}");
        errors.push(FieldError::invalid(field, &of[member], wrong));
    }
}

fn shares(of: &Value, path: &str, errors: &mut Errors) {
    let wrong = "must be a non-negative integer";
    not_negative(of, "nominalConcurrencyShares", path, wrong, errors);
}

fn lendable(of: &Value, path: &str, errors: &mut Errors) {
    if let Some(percent) = number(of, "lendablePercent")
        && !(0..=100).contains(&percent)
    {
        errors.push(FieldError::invalid(
            format!("{path}.lendablePercent"),
            &json!(percent),
            "must be between 0 and 100, inclusive",
        ));
    }
}

fn limited(limited: &Value, errors: &mut Errors) {
    const PATH: &str = "spec.limited";
    shares(limited, PATH, errors);
    response(&limited["limitResponse"], errors);
    lendable(limited, PATH, errors);
    let wrong = "if specified, must be a non-negative integer";
    not_negative(limited, "borrowingLimitPercent", PATH, wrong, errors);
}

fn response(response: &Value, errors: &mut Errors) {
    const QUEUING: &str = "spec.limited.limitResponse.queuing";
    match text(response, "type") {
        "Reject" => {
            if has(response, "queuing") {
                let why = "must be nil if limited.limitResponse.type is not Limited";
                errors.push(FieldError::forbidden(QUEUING, why));
            }
        }
        "Queue" => {
            if has(response, "queuing") {
                queuing(&response["queuing"], QUEUING, errors);
            } else {
                let why = "must not be empty if limited.limitResponse.type is Limited";
                errors.push(FieldError::required(QUEUING, why));
            }
        }
        other => errors.push(FieldError::not_supported(
            "spec.limited.limitResponse.type",
            &json!(other),
            &["Queue", "Reject"],
        )),
    }
}

fn queuing(queuing: &Value, path: &str, errors: &mut Errors) {
    let [length, queues, hand] =
        ["queueLengthLimit", "queues", "handSize"].map(|it| number(queuing, it).unwrap_or(0));
    let mut refuse = |member: &str, given: i64, wrong: String| {
        let field = check::join(path, member);
        errors.push(FieldError::invalid(field, &json!(given), wrong));
    };
    if length <= 0 {
        refuse("queueLengthLimit", length, POSITIVE.to_owned());
    }
    if queues <= 0 {
        refuse("queues", queues, POSITIVE.to_owned());
    } else if queues > MAX_QUEUES {
        let wrong = format!("must not be greater than {MAX_QUEUES}");
        refuse("queues", queues, wrong);
    }
    if hand <= 0 {
        refuse("handSize", hand, POSITIVE.to_owned());
    } else if hand > queues {
        let wrong = format!("should not be greater than queues ({queues})");
        refuse("handSize", hand, wrong);
    } else if bits(queues, hand) > HASH_BITS {
        let wrong = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        refuse("handSize", hand, wrong);
    }
}

/// Bits that it takes to deal a hand of queues.
fn bits(queues: i64, hand: i64) -> f64 {
    let [queues, hand] = [queues, hand].map(|it| i32::try_from(it).map_or(f64::MAX, f64::from));
    (queues.log2() * hand).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(name: &str, spec: &Value) -> Vec<String> {
        let mut level = json!({"metadata": {"name": name}, "spec": spec});
        default_level(&mut level);
        let mut found = Validation::default();
        validate_level(&level, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_levels_are_the_same_everywhere() {
        assert_eq!(
            wrongs(
                "exempt",
                &json!({"type": "Exempt", "exempt": {"lendablePercent": 10}})
            ),
            Vec::<String>::new()
        );
        let reject = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}});
        assert_eq!(
            wrongs("catch-all", &json!({"type": "Limited", "limited": reject})),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("exempt", &json!({"type": "Limited", "limited": reject})),
            [
                "spec.type: Invalid value: \"Limited\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec: Invalid value: {\"limited\":{\"lendablePercent\":0,\"limitResponse\":{\"type\":\"Reject\"},\"nominalConcurrencyShares\":5},\"type\":\"Limited\"}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
            ]
        );
        assert_eq!(
            wrongs(
                "x",
                &json!({"type": "Exempt", "limited": {}, "exempt":
                {"nominalConcurrencyShares": -1, "lendablePercent": 101}})
            ),
            [
                "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec.limited: Forbidden: must be nil if the type is not Limited",
                "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            ]
        );
    }

    #[test]
    fn what_is_too_much_waits_or_is_refused() {
        let of = |limited: Value| wrongs("x", &json!({"type": "Limited", "limited": limited}));
        assert_eq!(
            of(json!({"limitResponse": {"type": "Queue"}})),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("x", &json!({"type": "Limited", "exempt": {}})),
            [
                "spec.exempt: Forbidden: must be nil if the type is Limited",
                "spec.limited: Required value: must not be empty when type is Limited",
            ]
        );
        assert_eq!(
            wrongs("x", &json!({"type": "Some"})),
            ["spec.type: Unsupported value: \"Some\": supported values: \"Exempt\", \"Limited\""]
        );
        assert_eq!(
            of(
                json!({"nominalConcurrencyShares": -1, "lendablePercent": -1,
                "borrowingLimitPercent": -1,
                "limitResponse": {"type": "Reject", "queuing": {}}})
            ),
            [
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited",
                "spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ]
        );
        assert_eq!(
            of(json!({})),
            [
                "spec.limited.limitResponse.type: Unsupported value: \"\": supported values: \"Queue\", \"Reject\""
            ]
        );
    }

    #[test]
    fn a_hand_is_dealt_from_the_queues() {
        let of = |queues: i64, hand: i64, length: i64| {
            let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": length});
            let response = json!({"type": "Queue", "queuing": queuing});
            wrongs(
                "x",
                &json!({"type": "Limited", "limited": {"limitResponse": response}}),
            )
        };
        assert_eq!(of(1024, 6, 1), Vec::<String>::new());
        assert_eq!(
            of(0, 0, 0),
            [
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: 0: must be positive",
                "spec.limited.limitResponse.queuing.queues: Invalid value: 0: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 0: must be positive",
            ]
        );
        assert_eq!(
            of(10_000_001, 1, 1),
            [
                "spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000"
            ]
        );
        assert_eq!(
            of(4, 5, 1),
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"
            ]
        );
        assert_eq!(
            of(1024, 7, 1),
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 7: required entropy bits of deckSize 1024 and handSize 7 should not be greater than 60"
            ]
        );
    }
}
