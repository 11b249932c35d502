//! Spans of time such as `90m` or `72h`, as custom resources have them.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time, kept in the spelling in which it was given.
///
/// Accepts one or more decimal numbers, each with a unit: `h`, `m`, `s`, `ms`, `us`
/// or `ns`, such as `72h` or `1h30m`. Nothing is less than a nanosecond, nothing
/// negative, and nothing longer than 292 years. This is the part of Go's
/// `time.ParseDuration` that makes sense for spans; the CRDs admit exactly this.
///
/// ```
/// use kite_core::span::Span;
///
/// let span: Span = "1h30m".parse()?;
/// assert_eq!(span.duration().as_secs(), 5400);
/// assert_eq!(span.as_str(), "1h30m");
/// # Ok::<(), kite_core::span::ParseSpanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Span {
    text: String,
    value: Duration,
}

/// Why a text is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a span of time: write numbers with units, such as 90m or 72h")]
pub struct ParseSpanError {
    /// What was given.
    pub text: String,
}

/// The regular expression that the CRDs enforce for spans.
pub const PATTERN: &str = r"^([0-9]{1,9}(\.[0-9]{1,9})?(h|m|s|ms|us)|[0-9]{1,9}ns)+$";

/// Most characters of a span.
pub const MAX_LENGTH: usize = 32;

/// Digits of a number, and of its fraction.
const DIGITS: usize = 9;

/// Whether a nanosecond can have a fraction.
#[derive(Clone, Copy, PartialEq)]
enum Fractions {
    /// No, as the CRDs say.
    Refused,
    /// Yes: earlier CRDs admitted it.
    Ignored,
}

impl Span {
    /// The span.
    pub fn duration(&self) -> Duration {
        self.value
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn read(text: &str, fractions: Fractions) -> Result<Self, ParseSpanError> {
        let error = || ParseSpanError {
            text: text.to_owned(),
        };
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(error());
        }
        let mut total: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (whole, after) = digits(rest).ok_or_else(error)?;
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => digits(after).ok_or_else(error)?,
                None => ("", after),
            };
            let (unit, after) = unit(after).ok_or_else(error)?;
            if unit == 1 && !fraction.is_empty() && fractions == Fractions::Refused {
                return Err(error());
            }
            total = number(whole)
                .and_then(|whole| whole.checked_mul(unit))
                .and_then(|whole| whole.checked_add(part(fraction, unit)?))
                .and_then(|one| total.checked_add(one))
                // As much as Go's durations hold, and so CEL's.
                .filter(|total| i64::try_from(*total).is_ok())
                .ok_or_else(error)?;
            rest = after;
        }
        Ok(Self {
            text: text.to_owned(),
            value: Duration::from_nanos(total),
        })
    }
}

/// One to nine digits, and what comes after them.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=DIGITS).contains(&end).then(|| text.split_at(end))
}

/// Nanoseconds of the unit that `text` begins with, and what comes after it.
fn unit(text: &str) -> Option<(u64, &str)> {
    // The longer before those that they begin with.
    const UNITS: [(&str, u64); 6] = [
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
    ];
    UNITS
        .iter()
        .find_map(|(name, length)| Some((*length, text.strip_prefix(name)?)))
}

fn number(digits: &str) -> Option<u64> {
    digits.parse().ok()
}

/// Nanoseconds of a fraction of a unit, rounded down.
fn part(fraction: &str, unit: u64) -> Option<u64> {
    if fraction.is_empty() {
        return Some(0);
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(number(fraction)?) * u128::from(unit) / scale;
    u64::try_from(part).ok()
}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text, Fractions::Refused)
    }
}

/// In whole seconds where it has no parts of them.
impl From<Duration> for Span {
    fn from(value: Duration) -> Self {
        let (seconds, nanos) = (value.as_secs(), value.subsec_nanos());
        let whole = if seconds < 1_000_000_000 {
            format!("{seconds}s")
        } else {
            format!("{}h{}s", seconds / 3600, seconds % 3600)
        };
        let text = match (seconds, nanos) {
            (_, 0) => whole,
            (0, nanos) => format!("{nanos}ns"),
            (_, nanos) => format!("{whole}{nanos}ns"),
        };
        Self { text, value }
    }
}

impl From<&Span> for Duration {
    fn from(span: &Span) -> Self {
        span.value
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Equal when they last as long: `1h` equals `60m`.
impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
impl Eq for Span {}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Also reads what earlier CRDs admitted.
impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::read(&text, Fractions::Ignored).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_last_as_long_as_they_say() {
        for (text, nanos) in [
            ("90m", 5_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("0.5h", 1_800_000_000_000),
            ("1.000000001s", 1_000_000_001),
            ("0s", 0),
            ("007s", 7_000_000_000),
            ("1ms1us1ns", 1_001_001),
            ("0.1us", 100),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.duration().as_nanos(), nanos, "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("60m".parse::<Span>().unwrap(), "1h".parse().unwrap());
    }

    #[test]
    fn what_is_no_span_says_what_to_write() {
        for text in [
            "",
            "0",
            "1",
            "h",
            "1h-1m",
            "20m-1m",
            "-1h",
            "+1h",
            "1h+1m",
            "1.h",
            ".5h",
            "0.1ns",
            "1d",
            "1 h",
            " 1h",
            "1h ",
            "1h\n",
            "1H",
            "1e3s",
            "1µs",
            "1.2.3s",
            "1234567890s",
            "1.1234567890s",
            "٣h",
            "999999999h",
            "999999999h999999999h999999999h",
            "1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h",
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.to_string().contains("72h"), "{text}: {error}");
        }
    }

    #[test]
    fn what_was_stored_under_an_earlier_crd_is_read() {
        let read = |text: &str| serde_json::from_value::<Span>(text.into());
        assert_eq!(read("0.1ns").unwrap().duration(), Duration::ZERO);
        assert_eq!(read("2.9ns").unwrap().duration().as_nanos(), 2);
        assert!(read("1h-1m").is_err());
    }

    /// Parts of spans, and of what looks like one.
    fn spelling() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[0-9]{1,10}",
            "(\\.[0-9]{0,10})?",
            "[+ -]?",
            "(h|m|s|ms|us|ns|µs|d|H)?",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    /// How long a text lasts that fits the pattern.
    fn nanoseconds(text: &str) -> u128 {
        let parts = regex::Regex::new(r"([0-9]+)(?:\.([0-9]+))?(h|ms|us|ns|m|s)").unwrap();
        let length = |part: regex::Captures<'_>| {
            let unit: u128 = match &part[3] {
                "h" => 3_600_000_000_000,
                "m" => 60_000_000_000,
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                "us" => 1_000,
                _ => 1,
            };
            let fraction = part.get(2).map_or("0", |it| it.as_str());
            let digits = u32::try_from(fraction.len()).unwrap();
            part[1].parse::<u128>().unwrap() * unit
                + fraction.parse::<u128>().unwrap() * unit / 10_u128.pow(digits)
        };
        parts.captures_iter(text).map(length).sum()
    }

    proptest! {
        #[test]
        fn whatever_is_given_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<Span>();
        }

        /// What fits the pattern and is not longer than CEL's spans can be.
        #[test]
        fn what_is_taken_is_what_the_crds_take(text in spelling()) {
            let fits = text.len() <= MAX_LENGTH
                && regex::Regex::new(PATTERN).unwrap().is_match(&text)
                && i64::try_from(nanoseconds(&text)).is_ok();
            prop_assert_eq!(text.parse::<Span>().is_ok(), fits, "{}", text);
        }

        #[test]
        fn a_duration_keeps_its_length(nanos in 0..i64::MAX.unsigned_abs()) {
            let span = Span::from(Duration::from_nanos(nanos));
            let again: Span = span.as_str().parse().unwrap();
            prop_assert_eq!(again.duration().as_nanos(), u128::from(nanos));
        }
    }
}
