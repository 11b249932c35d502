//! Reading what a reconcile asks for.

use std::time::Duration;

use kube::runtime::controller::Action;

/// After what time the object is to be reconciled again. kube's `Action` does
/// not tell, except in its debug text.
pub(super) fn requeue_after(action: &Action) -> Result<Option<Duration>, String> {
    if *action == Action::await_change() {
        return Ok(None);
    }
    let text = format!("{action:?}");
    let found = text
        .split_once("Some(")
        .and_then(|(_, rest)| rest.split_once(')'))
        .and_then(|(number, _)| duration(number));
    // Whether the text was understood can be asked.
    match found {
        Some(after) if *action == Action::requeue(after) => Ok(Some(after)),
        _ => Err(format!("what a reconcile asks for cannot be read: {text}")),
    }
}

/// A duration as its debug text writes it: `1.5s`, `20ms`.
fn duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let nanos_of_unit: u128 = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "µs" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = whole.parse::<u128>().ok()?.checked_mul(nanos_of_unit)?;
    let mut value = nanos_of_unit;
    for digit in fraction.chars() {
        value /= 10;
        nanos += u128::from(digit.to_digit(10)?) * value;
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wish_is_understood() {
        assert_eq!(requeue_after(&Action::await_change()), Ok(None));
        for after in [
            Duration::ZERO,
            Duration::from_nanos(7),
            Duration::from_nanos(1_500),
            Duration::from_micros(2_500),
            Duration::from_millis(20),
            Duration::from_secs(300),
            Duration::new(1, 500_000_001),
            Duration::MAX,
        ] {
            let read = requeue_after(&Action::requeue(after));
            assert_eq!(read, Ok(Some(after)));
        }
    }
}
