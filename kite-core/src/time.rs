//! Times as an API server admits them, which is more than [`Time`] reads.
//!
//! Of `format: date-time` an API server demands that there is a date, a time of day
//! and a zone. How many digits parts of a second have it does not look at, and where
//! no rule of the CRD looks closer, not at the case of letters nor at zones of more
//! than a day either.

use jiff::{SignedDuration, Timestamp, civil::DateTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time: write one such as 2026-12-31T18:00:00Z")]
pub struct ParseTimeError {
    /// What was given.
    pub text: String,
}

/// Reads a time. What is less than a nanosecond is cut off, and what no clock here
/// can show is the nearest that one can.
///
/// # Errors
/// A [`ParseTimeError`] if it is no time of RFC 3339.
pub fn parse(text: &str) -> Result<Time, ParseTimeError> {
    read(text).map(Time).ok_or_else(|| ParseTimeError {
        text: text.to_owned(),
    })
}

/// Characters of a date and a time of day, such as `2026-12-31T18:00:00`.
const UP_TO_SECONDS: usize = 19;

fn read(text: &str) -> Option<Timestamp> {
    let (start, rest) = text.split_at_checked(UP_TO_SECONDS)?;
    let is_time = start.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte.eq_ignore_ascii_case(&b't'),
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    // A leap second is none to an API server.
    if !is_time || start.ends_with("60") {
        return None;
    }
    let start: DateTime = start.to_ascii_uppercase().parse().ok()?;
    let (nanos, zone) = fraction(rest)?;
    let offset = offset(zone)?;
    let Ok(utc) = start.to_zoned(jiff::tz::TimeZone::UTC) else {
        return Some(Timestamp::MAX);
    };
    let exact = SignedDuration::new(-offset, nanos);
    Some(
        utc.timestamp()
            .saturating_add(exact)
            .unwrap_or(Timestamp::MAX),
    )
}

/// Parts of a second in nanoseconds, and what comes after them.
fn fraction(text: &str) -> Option<(i32, &str)> {
    let is_zone = |text: &str| text.starts_with(['z', 'Z', '+', '-']);
    if is_zone(text) {
        return Some((0, text));
    }
    let mut chars = text.chars();
    // Which character it is, the API server does not care.
    chars.next()?;
    let text = chars.as_str();
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, zone) = text.split_at(end);
    let nanos = digits.get(..9).unwrap_or(digits);
    let nanos = format!("{nanos:0<9}").parse().ok()?;
    (end > 0 && is_zone(zone)).then_some((nanos, zone))
}

/// Seconds that a zone is ahead.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let number = |digits: &str| {
        let is_one = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit());
        is_one.then(|| digits.parse::<i64>().ok()).flatten()
    };
    Some(sign * (number(hours)? * 3600 + number(minutes)? * 60))
}

/// Reads a field that must be there.
pub(crate) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads a field that may be absent.
pub(crate) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse(&text))
        .transpose()
        .map_err(D::Error::custom)
}

/// Reads conditions, whose times are such times too.
pub(crate) fn conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Condition>, D::Error> {
    let conditions = Vec::<Value>::deserialize(deserializer)?;
    let read = |mut condition: Value| {
        if let Some(Value::String(text)) = condition.get_mut("lastTransitionTime") {
            let time = parse(text).map_err(D::Error::custom)?;
            *text = time.0.to_string();
        }
        serde_json::from_value(condition).map_err(D::Error::custom)
    };
    conditions.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_however_they_are_spelt() {
        for (text, same) in [
            ("2026-05-04T08:00:00Z", "2026-05-04T08:00:00Z"),
            ("2026-05-04T08:00:00.5Z", "2026-05-04T08:00:00.5Z"),
            (
                "2026-05-04T08:00:00.123456789123Z",
                "2026-05-04T08:00:00.123456789Z",
            ),
            (
                "2026-05-04T08:00:59.9999999999Z",
                "2026-05-04T08:00:59.999999999Z",
            ),
            ("2026-05-04T08:00:00+02:00", "2026-05-04T06:00:00Z"),
            ("2026-05-04T08:00:00-00:30", "2026-05-04T08:30:00Z"),
            ("2026-05-04t08:00:00,25z", "2026-05-04T08:00:00.25Z"),
            ("2026-05-04T08:00:00+99:59", "2026-04-30T04:01:00Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
        ] {
            let same: Timestamp = same.parse().unwrap();
            assert_eq!(parse(text).unwrap().0, same, "{text}");
        }
        let end = parse("9999-12-31T23:59:59-99:59").unwrap();
        assert_eq!(end.0, Timestamp::MAX);
    }

    #[test]
    fn what_is_no_time_says_what_to_write() {
        for text in [
            "",
            "tomorrow",
            "2026-05-04",
            "2026-05-04T08:00Z",
            "2026-05-04T08:00:00",
            "2026-05-04 08:00:00Z",
            "2026-13-04T08:00:00Z",
            "2026-02-30T08:00:00Z",
            "2026-05-04T24:00:00Z",
            "2026-05-04T08:00:60Z",
            "2026-05-04T08:00:00.Z",
            "2026-05-04T08:00:00+2:00",
            "2026-05-04T08:00:00+02:00 ",
            "2026-05-04T08:00:00Zulu",
            "20２6-05-04T08:00:00Z",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.to_string().contains("2026-12-31T18"),
                "{text}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_is_given_is_read_or_refused(text in ".{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_time_is_read_as_it_was_written(
            seconds in -62_000_000_000_i64..253_000_000_000, nanos in 0..1_000_000_000_i32
        ) {
            let time = Timestamp::new(seconds, nanos).unwrap();
            prop_assert_eq!(parse(&time.to_string()).unwrap().0, time);
        }
    }
}
