//! One spelling of a password: as the profile `OpaqueString` of RFC 8265 has it, so that
//! the same keys on another keyboard or system fit the same hash.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;

/// `password` with every space that is none of ASCII's as U+0020, and in Unicode's
/// normalisation form C. Upper and lower case stay, and so do spaces at either end.
pub fn normalized(password: &str) -> Cow<'_, str> {
    let composer = const { ComposingNormalizerBorrowed::new_nfc() };
    if !password.contains(is_other_space) {
        return composer.normalize(password);
    }
    let spaced = password.replace(is_other_space, " ");
    Cow::Owned(composer.normalize(&spaced).into_owned())
}

/// The characters of the category Zs beside U+0020 (RFC 8265 §4.2.2).
fn is_other_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_password_has_one_spelling() {
        for (typed, same) in [
            ("caf\u{e9} au lait", "cafe\u{301} au lait"),
            (
                "\u{d55c}\u{ae00} password",
                "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af} password",
            ),
            ("two words", "two\u{a0}words"),
            ("two words", "two\u{3000}words"),
            ("\u{e9} \u{e9}", "e\u{301}\u{2003}e\u{301}"),
        ] {
            assert_eq!(normalized(same), typed);
            assert_eq!(normalized(typed), typed);
        }
    }

    #[test]
    fn what_differs_for_its_owner_stays_different() {
        for text in [
            "Upper lower",
            " ends ",
            "\u{ff21}\u{ff22}",
            "\u{fb01}sh",
            "tab\tbed",
        ] {
            assert_eq!(normalized(text), text);
        }
    }
}
