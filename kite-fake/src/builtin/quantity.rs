//! Kubernetes quantities in canonical form: `1024Mi` is `1Gi`, `0.5` is `500m`.

/// What a text must be to be a quantity, in the server's words.
pub(super) const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The three ways to write the scale of a number, which a quantity keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: &[(&str, u32)] = &[
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// A quantity as a whole number of nanounits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    nano: i128,
}

const NANO: i128 = 1_000_000_000;

/// Greater numbers are capped, as the server caps them at 2^63 - 1.
const MAX: i128 = (i64::MAX as i128) * NANO;

/// Reads a quantity.
pub(super) fn parse(text: &str) -> Option<Quantity> {
    read(text).map(|(quantity, _)| quantity)
}

/// Writes a quantity in canonical form; `None` if it is none.
pub(super) fn canonical(text: &str) -> Option<String> {
    let (quantity, form) = read(text)?;
    Some(write(quantity, form))
}

/// A quantity in nanounits, for sums and comparisons.
pub(crate) fn nano(text: &str) -> Option<i128> {
    parse(text).map(|quantity| quantity.nano)
}

/// Writes a sum in the form of another quantity.
pub(crate) fn text_like(nano: i128, like: &str) -> String {
    let form = read(like).map_or(Form::Decimal, |(_, form)| form);
    write(Quantity { nano }, form)
}

fn read(text: &str) -> Option<(Quantity, Form)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (form, shift, power) = scale(suffix)?;
    // digits × 10^-len(fraction) × 2^shift × 10^power, rounded up, in nanounits.
    let mut digits: i128 = 0;
    let fraction = fraction.trim_end_matches('0');
    for digit in whole.bytes().chain(fraction.bytes()) {
        digits = digits
            .saturating_mul(10)
            .saturating_add(i128::from(digit - b'0'));
    }
    let decimals = i32::try_from(fraction.len()).ok()?;
    let mut nano = digits.saturating_mul(1i128.checked_shl(shift)?);
    let exponent = power.saturating_add(9).saturating_sub(decimals);
    if exponent >= 0 {
        for _ in 0..exponent.min(60) {
            nano = nano.saturating_mul(10);
        }
    } else {
        for _ in 0..exponent.unsigned_abs().min(60) {
            nano = nano / 10 + i128::from(nano % 10 != 0);
        }
    }
    let nano = nano.min(MAX);
    Some((
        Quantity {
            nano: if negative { -nano } else { nano },
        },
        form,
    ))
}

/// The form of a suffix, its power of two, and its power of ten.
fn scale(suffix: &str) -> Option<(Form, u32, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Form::Decimal, 0, *power));
    }
    if let Some((_, shift)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Form::Binary, *shift, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((Form::Exponent, 0, exponent.parse().ok()?))
}

fn write(quantity: Quantity, form: Form) -> String {
    let nano = quantity.nano;
    if nano == 0 {
        return "0".to_owned();
    }
    if form == Form::Binary && nano % NANO == 0 {
        let number = nano / NANO;
        // Numbers below 1Ki are written without a suffix, as decimals are.
        for (suffix, shift) in BINARY.iter().rev() {
            if number % (1i128 << shift) == 0 {
                return format!("{}{suffix}", number >> shift);
            }
        }
        return number.to_string();
    }
    let (mut power, mut number) = (-9, nano);
    while number % 1000 == 0 && power < 18 {
        number /= 1000;
        power += 3;
    }
    let suffix = match form {
        Form::Exponent if power != 0 => format!("e{power}"),
        Form::Exponent => String::new(),
        Form::Decimal | Form::Binary => DECIMAL
            .iter()
            .find(|(_, scale)| *scale == power)
            .map(|(name, _)| (*name).to_owned())
            .unwrap_or_default(),
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_become_canonical() {
        for (text, written) in [
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0", "0"),
            ("0Mi", "0"),
            ("-1500m", "-1500m"),
            ("100Ki", "100Ki"),
            ("512", "512"),
            ("1.0", "1"),
            (".5", "500m"),
            ("5Gi", "5Gi"),
            ("+2", "2"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(written), "{text}");
        }
        for text in ["", "lots", "1.2.3", "1GiB", "Gi", "1e", "--1", "1 Gi", "."] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable_and_keeps_the_value(
            text in "[+-]?[0-9]{1,12}(\\.[0-9]{1,6})?(Ki|Mi|Gi|Ti|n|u|m|k|M|G|T|e3|E-2)?"
        ) {
            let once = canonical(&text).unwrap();
            prop_assert_eq!(canonical(&once).unwrap(), once.clone());
            prop_assert_eq!(parse(&once).unwrap(), parse(&text).unwrap());
        }

        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = canonical(&text);
        }
    }
}
