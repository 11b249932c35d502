//! Finding a piece of code by its text, however it is wrapped and indented.

use std::ops::Range;

/// Where `wanted` is in `text`. White space does not count, nor does a comma
/// before a closing bracket: a formatter moves both.
pub fn places(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let text = letters(text);
    let wanted: Vec<char> = letters(wanted)
        .into_iter()
        .map(|(_, letter)| letter)
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    text.windows(wanted.len())
        .filter(|window| window.iter().map(|(_, letter)| letter).eq(&wanted))
        .filter_map(|window| {
            let ((first, _), (last, letter)) = (window.first()?, window.last()?);
            Some(*first..last + letter.len_utf8())
        })
        .collect()
}

/// Whether both are the same code.
pub fn is_same(a: &str, b: &str) -> bool {
    let only = |text| {
        letters(text)
            .into_iter()
            .map(|(_, letter)| letter)
            .collect::<String>()
    };
    only(a) == only(b)
}

/// What counts of a text, with where it is.
fn letters(text: &str) -> Vec<(usize, char)> {
    let solid: Vec<(usize, char)> = text
        .char_indices()
        .filter(|(_, letter)| !letter.is_whitespace())
        .collect();
    let closes = |at: usize| matches!(solid.get(at), Some((_, ')' | ']' | '}')));
    let counts = |at: usize, letter: char| letter != ',' || !closes(at + 1);
    solid
        .iter()
        .enumerate()
        .filter(|(at, (_, letter))| counts(*at, *letter))
        .map(|(_, found)| *found)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_does_not_matter() {
        let text = "fn a() {\n    b(\n        c,\n        d,\n    );\n}";
        let found = places(text, "b(c, d);");
        assert_eq!(found.len(), 1);
        assert_eq!(
            &text[found[0].clone()],
            "b(\n        c,\n        d,\n    );"
        );
        assert!(places(text, "b(c, e)").is_empty());
        assert!(is_same("a( b,\n)", "a(b)"));
        assert!(!is_same("a(b)", "a(c)"));
    }

    #[test]
    fn every_place_is_found() {
        assert_eq!(places("ab ab", "a b").len(), 2);
        assert!(places("ab", "").is_empty());
    }
}
