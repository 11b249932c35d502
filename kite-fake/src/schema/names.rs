//! Rules for names, with the texts in which the API server refuses them.

use std::sync::LazyLock;

use regex::Regex;

type Lazy = LazyLock<Option<Regex>>;

static SUBDOMAIN: Lazy = LazyLock::new(|| {
    Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok()
});
static LABEL_1123: Lazy = LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").ok());
static LABEL_1035: Lazy = LazyLock::new(|| Regex::new(r"^[a-z]([-a-z0-9]*[a-z0-9])?$").ok());

fn check(text: &str, max: usize, regex: &Lazy, rule: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > max {
        problems.push(format!("must be no more than {max} bytes"));
    }
    if !regex.as_ref().is_some_and(|regex| regex.is_match(text)) {
        problems.push(rule.to_owned());
    }
    problems
}

/// What is wrong with a name of dot-separated labels (RFC 1123, at most 253 bytes).
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    check(
        text,
        253,
        &SUBDOMAIN,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )
}

/// What is wrong with a single label (RFC 1123, at most 63 bytes).
pub fn dns1123_label(text: &str) -> Vec<String> {
    check(
        text,
        63,
        &LABEL_1123,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
         end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    )
}

/// What is wrong with a label that begins with a letter (RFC 1035, at most 63 bytes).
pub fn dns1035_label(text: &str) -> Vec<String> {
    check(
        text,
        63,
        &LABEL_1035,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
         validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    )
}
