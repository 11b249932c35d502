//! YAML as Kubernetes writes it: no value is folded over lines, so that each is on the line of
//! its name, where people and tests look for it.

use serde::Serialize;

/// A value in YAML.
///
/// # Errors
/// The value cannot be serialized.
pub(crate) fn text(value: &impl Serialize) -> Result<String, serde_saphyr::SerializeError> {
    let unfolded = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, unfolded)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn each_value_is_on_the_line_of_its_name() {
        let long = ["word"; 60].join(" ");
        let value = json!({"a": "x".repeat(300), "b": long, "c": "two\nlines\n"});
        let text = super::text(&value).unwrap();
        assert_eq!(text.lines().filter(|it| it.contains("word")).count(), 1);
        assert!(
            text.contains(&format!("a: {}\n", "x".repeat(300))),
            "{text}"
        );
        assert!(text.contains("c: |\n"), "{text}");
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, value);
    }
}
