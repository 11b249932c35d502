//! Numbers of replicas, said as such or as a share.

use serde_json::Value;

/// The part, rounded up.
pub(super) fn up(part: i64, of: i64) -> i64 {
    (part + of - 1) / of
}

/// The part, rounded down.
pub(super) fn down(part: i64, of: i64) -> i64 {
    part / of
}

/// A number of replicas, or a share of those that are wanted; a quarter if nothing is
/// said.
pub(super) fn share(said: &Value, wanted: i64, divide: fn(i64, i64) -> i64) -> i64 {
    said.as_i64().unwrap_or_else(|| {
        let percent = said.as_str().and_then(|it| it.strip_suffix('%'));
        let percent = percent.and_then(|it| it.parse().ok()).unwrap_or(25);
        divide(wanted.saturating_mul(percent), 100)
    })
}
