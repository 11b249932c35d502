//! The order in which sets of fields list what they have.

use crate::path_element::PathElement;

/// Whether the order of names may not be that of what they mean: in text, 443 comes
/// before 80.
pub(super) fn is_special(name: &str) -> bool {
    let bytes = name.as_bytes();
    matches!(bytes, [b'k' | b'v', b':', ..])
        && (bytes.iter().any(|b| matches!(b, b'\\' | b' ' | b'!'))
            || bytes
                .windows(2)
                .any(|pair| matches!(pair, [b':', b'0'..=b'9' | b'-'])))
}

/// What a member's name means; what means nothing comes first, as `.` does.
pub(super) fn meaning(name: &str) -> Option<PathElement> {
    PathElement::decode(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_names() {
        for name in [
            "k:{\"containerPort\":80}",
            "v:8",
            "v:-1",
            "k:{\"a\":\"b c\"}",
        ] {
            assert!(is_special(name), "{name}");
        }
        for name in [".", "f:a b", "f:a:1", "k:{\"name\":\"a1\"}", "v:\"x\""] {
            assert!(!is_special(name), "{name}");
        }
    }
}
