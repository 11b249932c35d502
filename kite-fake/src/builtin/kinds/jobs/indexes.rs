//! Sets of completion indexes as they are written: `0-3,5`.

use crate::go;

/// One run of indexes: the first and the last.
type Run = (i64, i64);

/// How many indexes a text names.
///
/// # Errors
///
/// What is wrong, in the API server's words: each is below `completions`, and they rise.
pub(super) fn total(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    for run in text.split(',').filter(|_| !text.is_empty()) {
        let (from, to) = read(run, completions)?;
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(rising(last, from));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

/// The first index that both texts name; what cannot be read is left out.
pub(super) fn shared(some: &str, others: &str, completions: i64) -> Option<i64> {
    let runs = |text: &str| -> Vec<Run> {
        let all = text.split(',');
        all.filter_map(|run| read(run, completions).ok()).collect()
    };
    let (some, others) = (runs(some), runs(others));
    let (mut left, mut right) = (some.iter().peekable(), others.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn read(run: &str, completions: i64) -> Result<Run, String> {
    let index = |text: &str| match text.parse::<i64>() {
        Ok(index) if index < completions => Ok(index),
        Ok(_) => Err(format!("too large index: {}", go::quote(text))),
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {}",
            go::quote(text)
        )),
    };
    let parts: Vec<&str> = run.split('-').collect();
    match parts[..] {
        [one] => index(one).map(|one| (one, one)),
        [from, to] => {
            let (from, to) = (index(from)?, index(to)?);
            if from >= to {
                return Err(rising(from, to));
            }
            Ok((from, to))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go::quote(run)
        )),
    }
}

fn rising(last: i64, next: i64) -> String {
    format!("non-increasing order, previous: {last}, current: {next}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_rise_below_the_completions() {
        assert_eq!(total("", 5), Ok(0));
        assert_eq!(total("0-2,4", 5), Ok(4));
        for (text, wrong) in [
            ("0,5", "too large index: \"5\""),
            ("2,1", "non-increasing order, previous: 2, current: 1"),
            ("2-1", "non-increasing order, previous: 2, current: 1"),
            ("a", "cannot convert string to integer for index: \"a\""),
            ("1,", "cannot convert string to integer for index: \"\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ] {
            assert_eq!(total(text, 5), Err(wrong.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_first_index_of_both_is_found() {
        assert_eq!(shared("0-2,5", "3,5-6", 9), Some(5));
        assert_eq!(shared("0-2", "1", 9), Some(1));
        assert_eq!(shared("0,2,4", "1,3", 9), None);
        assert_eq!(shared("", "1", 9), None);
    }
}
