//! Conditions as `KubeVirt` writes them: times may be null or left out.

use serde_json::{Value, json};

/// The condition `type_` of a status.
pub(crate) fn find<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    let all = status["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == type_)
}

/// Whether the condition `type_` of a status has this status word and reason.
pub(super) fn says(status: &Value, type_: &str, word: &str, reason: &str) -> bool {
    find(status, type_).is_some_and(|c| c["status"] == word && c["reason"] == reason)
}

/// Which times a condition carries beside its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// When it was looked at and when it changed.
    Both,
    /// Only when it changed; the other is null.
    Transition,
    /// Both are null.
    None,
}

/// A condition that takes the place of one in `old`: times stay where nothing
/// but they would change.
pub(super) fn condition(
    old: &Value,
    type_: &str,
    (word, reason, message): (&str, &str, &str),
    times: Times,
    now: &str,
) -> Value {
    let before = find(old, type_);
    let kept = |field: &str, same: bool| match before {
        Some(before) if same && before[field].is_string() => before[field].clone(),
        _ => json!(now),
    };
    let same_status = before.is_some_and(|c| c["status"] == word);
    let same =
        same_status && before.is_some_and(|c| c["reason"] == reason && c["message"] == message);
    json!({
        "type": type_,
        "status": word,
        "reason": reason,
        "message": message,
        "lastProbeTime": match times {
            Times::Both => kept("lastProbeTime", same),
            Times::Transition | Times::None => Value::Null,
        },
        "lastTransitionTime": match times {
            Times::Both | Times::Transition => kept("lastTransitionTime", same_status),
            Times::None => Value::Null,
        },
    })
}
