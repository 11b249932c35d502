//! Ages as kubectl shows them.

use jiff::Timestamp;
use serde_json::Value;

/// A span of seconds in at most two units: `34s`, `5m10s`, `3h12m`, `2d4h`, `400d`.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1..0 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        _ => {}
    }
    let two = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{small}")
        }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, "d", hours % 24, "h")
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

/// The time since an RFC 3339 time; `<unknown>` if there is none.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    let Some(text) = time.as_str() else {
        return "<unknown>".to_owned();
    };
    match text.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second() - time.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// The age of an object.
pub(super) fn of(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (8 * 86_400, "8d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
