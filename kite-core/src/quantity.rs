//! Byte quantities such as `512Mi` or `20Gi`, as Kubernetes writes them.

use std::{borrow::Cow, fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes, kept in the spelling in which it was given.
///
/// Accepts a positive decimal number with at most three digits after the point
/// and an optional suffix: `Ki`, `Mi`, `Gi`, `Ti` (powers of 1024) or `k`, `M`,
/// `G`, `T` (powers of 1000). This is the part of
/// `k8s.io/apimachinery/pkg/api/resource.Quantity` that makes sense for sizes.
///
/// ```
/// use kite_core::quantity::Bytes;
///
/// let size: Bytes = "1.5Gi".parse()?;
/// assert_eq!(size.bytes(), 1536 << 20);
/// assert!(size > "1G".parse()?);
/// # Ok::<(), kite_core::quantity::ParseQuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bytes {
    text: String,
    value: u64,
}

/// Why a text is no byte quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size: write a positive number with a unit, such as 512Mi or 20Gi")]
pub struct ParseQuantityError {
    /// What was given.
    pub text: String,
}

/// The regular expression that the CRDs enforce for sizes.
pub const PATTERN: &str = r"^[0-9]{1,15}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$";

impl Bytes {
    /// `count` gibibytes.
    pub fn from_gib(count: u32) -> Self {
        Self {
            text: format!("{count}Gi"),
            value: u64::from(count) << 30,
        }
    }

    /// The quantity in bytes, rounded up.
    pub fn bytes(&self) -> u64 {
        self.value
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same quantity for a Kubernetes object.
    pub fn to_quantity(&self) -> Quantity {
        Quantity(self.text.clone())
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseQuantityError {
            text: text.to_owned(),
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: u128 = match &text[digits.len()..] {
            "" => 1,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let well_formed = |part: &str, most: usize| {
            (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
        };
        if !well_formed(whole, 15) || !well_formed(fraction, 3) {
            return Err(error());
        }
        let thousandths = format!("{fraction:0<3}");
        let parse = |part: &str| part.parse::<u128>().map_err(|_| error());
        let value = ((parse(whole)? * 1000 + parse(&thousandths)?) * unit).div_ceil(1000);
        if value == 0 {
            return Err(error());
        }
        // What the CRDs admit has to be read: one object that cannot be would
        // spoil the lists that it is in.
        Ok(Self {
            text: text.to_owned(),
            value: u64::try_from(value).unwrap_or(u64::MAX),
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Equal when they are the same number of bytes: `1Gi` equals `1024Mi`.
impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
impl Eq for Bytes {}
impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.value.cmp(&other.value)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A CEL rule in place of a pattern, for its message.
        json_schema!({
            "type": "string",
            "maxLength": 24,
            "x-kubernetes-validations": [{
                "rule": format!("self.matches('{}') && quantity(self).isGreaterThan(quantity('0'))", PATTERN.replace('\\', "\\\\")),
                "message": "must be a size with a unit, such as 512Mi or 20Gi",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_those_of_kubernetes() {
        for (text, bytes) in [
            ("1", 1),
            ("1k", 1_000),
            ("1Ki", 1_024),
            ("1.5Gi", 1_610_612_736),
            ("0.001k", 1),
            ("20Gi", 21_474_836_480),
            ("2T", 2_000_000_000_000),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap().bytes(), bytes, "{text}");
        }
        assert_eq!("1Gi".parse::<Bytes>().unwrap(), "1024Mi".parse().unwrap());
    }

    #[test]
    fn what_is_no_size_says_what_to_write() {
        for text in [
            "", "lots", "0", "0Gi", "-1Gi", "1 Gi", "1gi", "1.Gi", ".5Gi", "1.0001Gi", "1e3", "é",
        ] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().contains("20Gi"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn order_is_the_order_of_bytes(a in 1u64..1_000_000, b in 1u64..1_000_000) {
            let mebi: Bytes = format!("{a}Mi").parse().unwrap();
            let kibi: Bytes = format!("{b}Ki").parse().unwrap();
            prop_assert_eq!(mebi.cmp(&kibi), (a * 1024).cmp(&b));
        }
    }
}
