//! What a new password must be (NIST SP 800-63B §3.1.1.2): long enough, none that many
//! people have, and without a name that others know.
//!
//! `common_passwords.txt` has, sorted and in lower case, those of at least eight characters
//! among the 20,000 most common passwords of the list that Django ships (BSD-3-Clause; by
//! Royce Williams, from the corpus of Have I Been Pwned). Shorter ones are too short anyway.

use kite_core::{
    crd::AccessLevel,
    crd::KiteUserSpec,
    password::{MAX_PASSWORD_BYTES, normalized},
};
use kite_rest::{Bounds, Form};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};

/// Fewest characters of a password, and most bytes, which are no fewer than its characters.
pub const PASSWORD: Bounds = Bounds::between(8, MAX_PASSWORD_BYTES);
/// The same for an administrator's.
pub(crate) const ADMIN_PASSWORD: Bounds = Bounds::between(12, MAX_PASSWORD_BYTES);

/// One a line, sorted, in lower case.
const COMMON: &str = include_str!("common_passwords.txt");
/// Names of fewer characters are in many a good password by chance.
const LEAST_NAME: usize = 3;

/// Whose a new password is to be.
pub struct Owner<'a> {
    /// What they may do; nothing where the password is no account's.
    pub level: Option<AccessLevel>,
    /// Names that others know.
    pub names: &'a [Option<&'a str>],
}

/// Notes on `form` what is wrong with a password that somebody wants to have.
pub fn read_password(form: &mut Form, field: &'static str, password: &str, owner: &Owner<'_>) {
    if let Some(fault) = fault(password, owner) {
        form.error(field, fault);
    }
}

/// Whether `password` has as many characters as an administrator's must have.
pub(crate) fn is_long(password: &str) -> bool {
    normalized(password).chars().count() >= ADMIN_PASSWORD.least
}

/// What is wrong with `password`, if something is.
pub(crate) fn fault(password: &str, owner: &Owner<'_>) -> Option<String> {
    let Bounds { least, most } = match owner.level {
        Some(AccessLevel::Admin) => ADMIN_PASSWORD,
        _ => PASSWORD,
    };
    let password = normalized(password);
    let folded = password.to_lowercase();
    if password.chars().count() < least {
        Some(format!("is too short: use at least {least} characters"))
    } else if let Some(most) = most.filter(|most| password.len() > *most) {
        Some(format!("is too long: use at most {most} bytes"))
    } else if is_common(&folded) {
        Some("is one that many people have: choose another".to_owned())
    } else if names(owner.names).any(|name| folded.contains(&name)) {
        Some("has a name in it that others know: choose another".to_owned())
    } else {
        None
    }
}

/// Whether a password in lower case is on the list.
fn is_common(folded: &str) -> bool {
    // Lines differ in length: the middle of the rest is moved to the begin of its line.
    let (mut from, mut to) = (0, COMMON.len());
    while from < to {
        let middle = from + (to - from) / 2;
        let begin = COMMON[from..middle]
            .rfind('\n')
            .map_or(from, |at| from + at + 1);
        let end = COMMON[begin..].find('\n').map_or(to, |at| begin + at);
        match COMMON[begin..end].cmp(folded) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => from = (end + 1).min(to),
            std::cmp::Ordering::Greater => to = begin,
        }
    }
    false
}

/// The names in lower case, and of an address also what stands before the `@`.
fn names<'a>(names: &'a [Option<&'a str>]) -> impl Iterator<Item = String> + 'a {
    let names = names.iter().flatten().flat_map(|name| {
        let local = name.split_once('@').map(|(local, _)| local);
        [Some(*name), local]
    });
    let names = names.flatten().map(|name| normalized(name).to_lowercase());
    names.filter(|name| name.chars().count() >= LEAST_NAME)
}

/// What an account's password is.
pub(crate) const PASSWORD_MEANING: (&str, &str) = (
    "password",
    "Password of the account: at least 8 characters, of an administrator 12, none that many \
     people have, and without the username or email address in it. Only its hash is kept.",
);

/// How long a password may be that an account is given.
pub(crate) const PASSWORD_BOUNDS: (&str, Bounds) = ("password", PASSWORD);

/// Bounds and meaning of an account's fields.
pub(crate) fn spec_of_user(generator: &mut SchemaGenerator) -> Schema {
    KiteUserSpec::json_schema(generator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_user<'a>(names: &'a [Option<&'a str>]) -> Owner<'a> {
        Owner {
            level: Some(AccessLevel::User),
            names,
        }
    }

    #[test]
    fn the_list_is_sorted_and_each_of_it_is_found() {
        let lines: Vec<_> = COMMON.lines().collect();
        assert!(lines.is_sorted() && lines.len() > 8000, "{}", lines.len());
        for line in lines {
            assert_eq!(line, line.to_lowercase());
            assert!(line.chars().count() >= 8, "{line}");
            assert!(is_common(line), "{line}");
        }
        for other in [
            "",
            "correct horse battery",
            "zzzzzzzzzzzzzzzz",
            "!",
            "passwor",
            "password12345678901",
        ] {
            assert!(!is_common(other), "{other}");
        }
    }

    #[test]
    fn what_many_have_is_refused_however_it_is_written() {
        for common in [
            "password",
            "12345678",
            "qwertyui",
            "password1",
            "PassWord1",
            "ILOVEYOU",
        ] {
            let fault = fault(common, &of_user(&[]));
            assert!(
                fault.is_some_and(|it| it.contains("many people")),
                "{common}"
            );
        }
        assert_eq!(fault("correct horse battery", &of_user(&[])), None);
    }

    #[test]
    fn names_that_others_know_are_not_in_a_password() {
        let names = [Some("alice"), Some("a.liddell@example.org"), None];
        for password in [
            "alice in the woods",
            "xxALICExx--yy",
            "of A.Liddell 2026",
            "a.liddell@example.org",
        ] {
            let fault = fault(password, &of_user(&names));
            assert!(fault.is_some_and(|it| it.contains("a name")), "{password}");
        }
        assert_eq!(fault("example of a good one", &of_user(&names)), None);
        // By chance.
        assert_eq!(fault("goal and mall", &of_user(&[Some("al")])), None);
    }

    #[test]
    fn an_administrator_has_a_longer_one() {
        let admin = Owner {
            level: Some(AccessLevel::Admin),
            names: &[],
        };
        let least = |owner: &Owner<'_>, password: &str| fault(password, owner).is_none();
        assert!(least(&of_user(&[]), "kw7-bat!") && !least(&of_user(&[]), "kw7-bat"));
        assert!(least(&admin, "kw7-bat!kw7-") && !least(&admin, "kw7-bat!kw7"));
        // Counted as people see it: this is "é" eight times, taken apart.
        assert!(!least(&of_user(&[]), &"e\u{301}".repeat(7)));
        assert!(least(&of_user(&[]), &"e\u{301}".repeat(8)));
    }

    #[test]
    fn what_is_too_long_is_said_to_be() {
        let long = "x".repeat(MAX_PASSWORD_BYTES + 1);
        let fault = fault(&long, &of_user(&[]));
        assert!(fault.is_some_and(|it| it.contains("too long")));
    }
}
