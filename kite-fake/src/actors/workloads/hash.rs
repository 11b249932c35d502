//! Short words that stand for a template.

use serde_json::Value;

use crate::clock::NAME_LETTERS;

/// A word for `template`; another one for each count of `collisions`.
///
/// It looks as the controller's does and, like that, is the same whenever the template
/// is; the letters are others, which follow from how Go prints its structs.
pub(super) fn of(template: &Value, collisions: u64) -> String {
    let mut text = template.to_string();
    if collisions > 0 {
        text.push_str(&collisions.to_string());
    }
    // FNV-1a.
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let digits = sum.to_string().into_bytes().into_iter();
    let letter = |digit: u8| NAME_LETTERS.get(usize::from(digit) % NAME_LETTERS.len());
    digits
        .filter_map(|digit| letter(digit).copied())
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_template_has_a_word_of_its_own() {
        let (a, b) = (json!({"image": "a"}), json!({"image": "b"}));
        assert_eq!(of(&a, 0), of(&a, 0));
        assert_ne!(of(&a, 0), of(&b, 0));
        assert_ne!(of(&a, 0), of(&a, 1));
        assert!(
            of(&a, 0)
                .bytes()
                .all(|letter| NAME_LETTERS.contains(&letter))
        );
    }
}
