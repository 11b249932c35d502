//! What a username and an email address look like, as the rules of `KiteUser` have it.

use kite_rest::is_label;

/// What to say of a username that is none.
pub(crate) const NO_USERNAME: &str = "must be 2 to 32 lower-case letters, digits and hyphens, \
                                      begin with a letter and not end with a hyphen";
/// What to say of an email address that is none.
pub(crate) const NO_ADDRESS: &str = "must be an address such as ann@example.org";

/// Whether somebody can be called so.
pub(crate) fn is_username(text: &str) -> bool {
    (2..=32).contains(&text.len())
        && is_label(text)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Whether it is an email address.
pub(crate) fn is_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split('@').collect();
    let inner_dot = |host: &str| {
        let mut parts = host.splitn(2, '.');
        parts.all(|part| !part.is_empty()) && host.contains('.')
    };
    !text.contains(char::is_whitespace)
        && matches!(parts.as_slice(), [user, host] if !user.is_empty() && inner_dot(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usernames_are_labels_that_begin_with_a_letter() {
        for good in ["al", "ann", "a-1", &"a".repeat(32)] {
            assert!(is_username(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "1a",
            "-a",
            "a-",
            "Ann",
            "a.b",
            "a/b",
            "\u{e4}nn",
            &"a".repeat(33),
        ] {
            assert!(!is_username(bad), "{bad}");
        }
    }

    #[test]
    fn addresses_have_one_at_sign_and_a_dot_inside_the_host() {
        for good in ["ann@example.org", "a+b@x.y", "a@b.c.d"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "ann",
            "ann@example",
            "@example.org",
            "a b@example.org",
            "a@b@c.d",
            "a@.b",
            "a@b.",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
