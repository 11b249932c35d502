//! How field managers may be called.

use crate::go;

/// Longest name of a field manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;

/// What is wrong with the name of a field manager.
pub(crate) fn manager_errors(name: &str) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if name.len() > MAX_MANAGER {
        wrong.push((
            "FieldValueTooLong",
            format!("Too long: may not be more than {MAX_MANAGER} bytes"),
        ));
    }
    for (place, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        wrong.push((
            "FieldValueInvalid",
            format!(
                "Invalid value: {}: invalid character U+{:04X} (at position {place})",
                go::quote(name),
                c as u32
            ),
        ));
    }
    wrong
}

/// Go's `unicode.IsPrint`, as far as names of programs go: the only space is U+0020.
pub(crate) fn is_printable(c: char) -> bool {
    !c.is_control() && (c == ' ' || !c.is_whitespace())
}
