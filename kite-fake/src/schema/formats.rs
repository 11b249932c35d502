//! Named formats of strings. A format that the API server does not check holds always.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

/// Whether `text` is of the named format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "email" => matches(&EMAIL, text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => matches(&MAC, text),
        "uri" => matches(&URI, text),
        "uuid" => matches(&UUID, text),
        "uuid3" => matches(&UUID, text) && version(text) == Some('3'),
        "uuid4" => matches(&UUID, text) && version(text) == Some('4'),
        "uuid5" => matches(&UUID, text) && version(text) == Some('5'),
        "byte" => STANDARD.decode(text).is_ok(),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "hexcolor" => matches(&HEX_COLOR, text),
        "rgbcolor" => matches(&RGB_COLOR, text),
        "ssn" => matches(&SSN, text),
        _ => true,
    }
}

type Lazy = LazyLock<Option<Regex>>;

macro_rules! lazy {
    ($($name:ident = $pattern:literal;)*) => {
        $(static $name: Lazy = LazyLock::new(|| Regex::new($pattern).ok());)*
    };
}

lazy! {
    DATE_TIME = r"(?i)^\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:?\d{2})$";
    DURATION = r"^[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*$";
    WORDY_DURATION = r"^(\d+(\.\d+)?)\s*(ns|nanoseconds?|us|µs|microseconds?|ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?|w|weeks?)$";
    EMAIL = r"^[^\s@<>,;:]+@[^\s@<>,;:.]+(\.[^\s@<>,;:.]+)*$";
    MAC = r"(?i)^([0-9a-f]{2}([:-][0-9a-f]{2}){5}|[0-9a-f]{2}([:-][0-9a-f]{2}){7}|[0-9a-f]{4}(\.[0-9a-f]{4}){2,3})$";
    URI = r"^[A-Za-z][A-Za-z0-9+.-]*:\S*$|^/\S*$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*\d{1,3}%?\s*,\s*\d{1,3}%?\s*,\s*\d{1,3}%?\s*\)$";
    SSN = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
}

fn matches(regex: &Lazy, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    matches(&DATE_TIME, text) && text.get(..10).is_some_and(is_date) && {
        let number =
            |range: std::ops::Range<usize>| text.get(range).and_then(|s| s.parse::<u8>().ok());
        number(11..13).is_some_and(|h| h < 24)
            && number(14..16).is_some_and(|m| m < 60)
            && number(17..19).is_some_and(|s| s < 60)
    }
}

fn is_duration(text: &str) -> bool {
    text == "0" || matches(&DURATION, text) || matches(&WORDY_DURATION, text)
}

fn is_hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.trim_end_matches('.').split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let Ok(prefix) = prefix.parse::<u8>() else {
        return false;
    };
    address.parse::<Ipv4Addr>().is_ok() && prefix <= 32
        || address.parse::<Ipv6Addr>().is_ok() && prefix <= 128
}

/// The version digit of a UUID, with or without hyphens.
fn version(text: &str) -> Option<char> {
    text.chars().filter(|c| *c != '-').nth(12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hold_and_fail() {
        for (format, good, bad) in [
            ("date-time", "2024-01-01T10:00:00Z", "2024-13-01T10:00:00Z"),
            ("date-time", "2024-01-01T10:00:00.5+02:00", "yesterday"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "5 parsecs"),
            ("duration", "3 days", "h"),
            ("email", "a@example.com", "nope"),
            ("hostname", "a.example.com", "-a"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "xyz"),
            ("byte", "aGk=", "%"),
            ("mac", "00:00:5e:00:53:01", "00:00"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("something-else", "anything"));
    }
}
