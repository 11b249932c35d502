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

/// A number, or a share of `of`; `None` where nothing is said.
pub(super) fn share(said: &Value, of: i64, divide: fn(i64, i64) -> i64) -> Option<i64> {
    said.as_i64().or_else(|| {
        let percent: i64 = said.as_str()?.strip_suffix('%')?.parse().ok()?;
        Some(divide(of.saturating_mul(percent), 100))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_are_rounded_as_is_said() {
        assert_eq!(share(&json!(2), 7, up), Some(2));
        assert_eq!(share(&json!("50%"), 7, up), Some(4));
        assert_eq!(share(&json!("50%"), 7, down), Some(3));
        assert_eq!(share(&json!("0%"), 7, up), Some(0));
        assert_eq!(share(&Value::Null, 7, up), None);
    }
}
