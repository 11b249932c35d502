//! Named formats of strings. A format that the API server does not check holds always.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::names::{label, subdomain};

/// The formats of strings that the API server knows, without hyphens.
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format's name as it is compared: hyphens do not count.
pub(super) fn normalized(format: &str) -> String {
    format.replace('-', "")
}

/// Whether the API server knows a format of strings.
pub(super) fn is_known(format: &str) -> bool {
    KNOWN.contains(&normalized(format).as_str())
}

/// Whether the API server knows a format of numbers.
pub(super) fn is_known_number(format: &str) -> bool {
    ["int32", "int64", "float", "double"].contains(&format)
}

/// Whether `text` is of the named format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "k8s-short-name" => label(text).is_empty(),
        "k8s-long-name" => subdomain(text).is_empty(),
        "isbn" => is_isbn(text, &[10, 13]),
        "isbn10" => is_isbn(text, &[10]),
        "isbn13" => is_isbn(text, &[13]),
        "creditcard" => is_credit_card(text),
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
        "uuid3" => matches(&UUID, text) && digit(text, 12) == Some('3'),
        "uuid4" => matches(&UUID, text) && digit(text, 12) == Some('4') && has_variant(text),
        "uuid5" => matches(&UUID, text) && digit(text, 12) == Some('5') && has_variant(text),
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
    CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
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
    is_go_duration(text) || matches(&WORDY_DURATION, text)
}

/// A span of time as Go writes it: `1h30m`.
pub(super) fn is_go_duration(text: &str) -> bool {
    text == "0" || matches(&DURATION, text)
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

/// A digit of a UUID, with or without hyphens.
fn digit(text: &str, at: usize) -> Option<char> {
    text.chars().filter(|c| *c != '-').nth(at)
}

/// A UUID of the variant of RFC 4122.
fn has_variant(text: &str) -> bool {
    digit(text, 16).is_some_and(|c| matches!(c.to_ascii_lowercase(), '8' | '9' | 'a' | 'b'))
}

/// A book's number with a right check digit; spaces and hyphens may stand between.
fn is_isbn(text: &str, lengths: &[usize]) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if !lengths.contains(&bare.len()) {
        return false;
    }
    let mut digits = Vec::new();
    for (i, c) in bare.chars().enumerate() {
        match c.to_digit(10) {
            Some(digit) => digits.push(digit),
            None if c == 'X' && bare.len() == 10 && i == 9 => digits.push(10),
            None => return false,
        }
    }
    if digits.len() == 10 {
        let sum: u32 = digits.iter().zip((1..=10).rev()).map(|(d, w)| d * w).sum();
        return sum.is_multiple_of(11);
    }
    let sum: u32 = digits
        .iter()
        .zip([1, 3].iter().cycle())
        .map(|(d, w)| d * w)
        .sum();
    sum.is_multiple_of(10)
}

/// A card's number with a right check digit (Luhn), of a known issuer.
fn is_credit_card(text: &str) -> bool {
    let bare: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn: u32 = bare
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(i, digit)| match (i % 2, digit * 2) {
            (0, _) => digit,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    matches(&CARD, &bare) && luhn.is_multiple_of(10)
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
            (
                "uuid4",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
                "6ba7b810-9dad-41d1-c0b4-00c04fd430c8",
            ),
            ("isbn10", "0-321-75104-3", "0321751044"),
            ("isbn", "978-0321751041", "9780321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "a_b"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("something-else", "anything"));
    }
}
