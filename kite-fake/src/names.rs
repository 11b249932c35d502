//! What names must look like, and what the server says of those that do not.

use std::sync::LazyLock;

use regex::Regex;

/// What kind of name an object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, the usual one.
    Subdomain,
    /// RFC 1123 label: no dots.
    Label,
    /// Anything that can stand in a path: RBAC's kinds.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name. A prefix (`generateName`) may end in a dash.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        // What is generated after the prefix ends in a letter or digit.
        let masked = match name.strip_suffix('-') {
            Some(head) if prefix && !head.is_empty() => format!("{head}a"),
            _ => name.to_owned(),
        };
        match self {
            Self::Subdomain => subdomain(&masked),
            Self::Label => label(&masked),
            Self::PathSegment => path_segment(&masked, prefix),
        }
    }
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(concat!("^(?:", $text, ")$")).ok());
    };
}

pattern!(
    SUBDOMAIN,
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
);
pattern!(LABEL_1035, "[a-z]([-a-z0-9]*[a-z0-9])?");
pattern!(LABEL, "[a-z0-9]([-a-z0-9]*[a-z0-9])?");
pattern!(
    WILDCARD,
    "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
);
pattern!(QUALIFIED, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]");
pattern!(LABEL_VALUE, "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?");
pattern!(CONFIG_KEY, "[-._a-zA-Z0-9]+");

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD_TEXT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// What is wrong with an RFC 1123 subdomain.
pub fn subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !fits(&SUBDOMAIN, name) {
        wrong.push(SUBDOMAIN_TEXT.to_owned());
    }
    wrong
}

/// What is wrong with an RFC 1123 label.
pub fn label(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !fits(&LABEL, name) {
        wrong.push(if fits(&SUBDOMAIN, name) {
            "must not contain dots".to_owned()
        } else {
            LABEL_TEXT.to_owned()
        });
    }
    wrong
}

/// What is wrong with an RFC 1035 label, which begins with a letter.
pub fn label_1035(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !fits(&LABEL_1035, name) {
        wrong.push(LABEL_1035_TEXT.to_owned());
    }
    wrong
}

/// What is wrong with `*.` and a subdomain.
pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !fits(&WILDCARD, name) {
        wrong.push(WILDCARD_TEXT.to_owned());
    }
    wrong
}

fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if !prefix && (name == "." || name == "..") {
        wrong.push(format!("may not be '{name}'"));
        return wrong;
    }
    for part in ["/", "%"] {
        if name.contains(part) {
            wrong.push(format!("may not contain '{part}'"));
        }
    }
    wrong
}

/// What is wrong with a qualified name: a label key, an annotation key, a finalizer.
pub fn qualified(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let part = match parts.as_slice() {
        [part] => *part,
        [domain, part] => {
            if domain.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    subdomain(domain)
                        .into_iter()
                        .map(|m| format!("prefix part {m}")),
                );
            }
            *part
        }
        _ => {
            wrong.push(format!(
                "a qualified name {QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return wrong;
        }
    };
    if part.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !fits(&QUALIFIED, part) {
        wrong.push(format!("name part {QUALIFIED_TEXT}"));
    }
    wrong
}

/// What is wrong with the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !fits(&LABEL_VALUE, value) {
        wrong.push(LABEL_VALUE_TEXT.to_owned());
    }
    wrong
}

/// What is wrong with a key of a `ConfigMap` or Secret.
pub fn config_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if key.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !fits(&CONFIG_KEY, key) {
        wrong.push(CONFIG_KEY_TEXT.to_owned());
    }
    match key {
        "." | ".." => wrong.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// What is wrong with the name of a port (IANA service name).
pub fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(allowed) || name.is_empty() {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// What is wrong with the number of a port.
pub fn port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}
/// `group/version`, or just the version in the core group.
pub fn join_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
