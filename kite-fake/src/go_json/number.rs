//! Numbers as Go's encoder writes them.

use std::io::Write as _;

use serde_json::Number;

/// Writes a number: a float without a fraction has no point, and an exponent from
/// 1e21 and below 1e-6.
pub(super) fn write(out: &mut Vec<u8>, number: &Number) {
    // Writing to memory does not fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        None => serde_json::to_writer(out, number).map_err(Into::into),
        Some(float) if float == 0.0 || (1e-6..1e21).contains(&float.abs()) => {
            write!(out, "{float}")
        }
        Some(float) => {
            let text = format!("{float:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            match exponent.strip_prefix('-') {
                Some(exponent) => write!(out, "{digits}e-{exponent}"),
                None => write!(out, "{digits}e+{exponent}"),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_short() {
        let written = |float: f64| {
            let mut out = Vec::new();
            if let Some(number) = Number::from_f64(float) {
                write(&mut out, &number);
            }
            String::from_utf8_lossy(&out).into_owned()
        };
        for (float, text) in [
            (1.0, "1"),
            (-0.5, "-0.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000_001, "0.000001"),
            (0.000_000_15, "1.5e-7"),
        ] {
            assert_eq!(written(float), text);
        }
    }

    #[test]
    fn integers_are_as_they_are() {
        let mut out = Vec::new();
        write(&mut out, &Number::from(u64::MAX));
        assert_eq!(out, b"18446744073709551615");
    }
}
