//! [`Person`]: what a provider says of somebody, as far as Kite believes it.

use kite_core::crd::{Identity, SignInProvider};
use serde_json::{Map, Value};

/// Most groups of a person that are looked at.
const MOST_GROUPS: usize = 1000;
/// Fewest and most characters of a username.
const USERNAME: std::ops::RangeInclusive<usize> = 2..=32;
/// Most characters of an email address.
const MOST_EMAIL: usize = 254;

/// Somebody who has proved to a provider who they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Person {
    pub(super) identity: Identity,
    /// What a new account would be called.
    pub(super) username: Option<String>,
    /// Only where the provider has verified it.
    pub(super) email: Option<String>,
    pub(super) groups: Vec<String>,
}

impl Person {
    /// Reads claims that were verified; they have a subject.
    pub(super) fn of(provider: &SignInProvider, claims: &Map<String, Value>) -> Self {
        let text = |name: &str| find(claims, name).and_then(Value::as_str);
        let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
        let email = text("email").filter(|email| is_verified && email.len() <= MOST_EMAIL);
        Self {
            identity: Identity {
                issuer: provider.issuer.clone(),
                subject: text("sub").unwrap_or_default().to_owned(),
            },
            username: text(&provider.username_claim).and_then(as_username),
            email: email.map(str::to_owned),
            groups: groups(find(claims, &provider.groups_claim)),
        }
    }
}

/// Whether the claims lack something that Kite needs, so that the provider is
/// worth asking for more.
pub(super) fn lacks(provider: &SignInProvider, claims: &Map<String, Value>) -> bool {
    let needs_groups = !provider.access_levels.is_empty() || !provider.allowed_groups.is_empty();
    (provider.sign_up && find(claims, &provider.username_claim).is_none())
        || (needs_groups && find(claims, &provider.groups_claim).is_none())
}

/// A claim of this name; a name such as `realm_access.roles` also stands for one
/// within another.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let whole = claims.get(name);
    whole.or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        find(claims.get(outer)?.as_object()?, inner)
    })
}

/// A list of groups, or a single one.
fn groups(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups
            .iter()
            .filter_map(Value::as_str)
            .take(MOST_GROUPS)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// A username as Kite's are: what stands before the `@`, in lower case, with
/// hyphens for what usernames do not have. It is no proof of anything.
fn as_username(text: &str) -> Option<String> {
    let before = text.split('@').next().unwrap_or_default();
    let mut name = String::new();
    for c in before.trim().chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if c.is_ascii() {
            if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        } else {
            // Somebody else's name might remain.
            return None;
        }
    }
    let name = name.trim_end_matches('-');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    (begins && USERNAME.contains(&name.len())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn provider() -> SignInProvider {
        SignInProvider::new("staff", "https://login.example.org", "kite")
    }

    fn person(claims: &Value) -> Person {
        Person::of(&provider(), claims.as_object().unwrap())
    }

    #[test]
    fn usernames_are_made_of_what_providers_call_people() {
        for (text, name) in [
            ("ann", Some("ann")),
            ("Ann.Lee@example.org", Some("ann-lee")),
            ("EXAMPLE\\ann", Some("example-ann")),
            ("ann__lee-", Some("ann-lee")),
            ("7of9", None),
            ("a", None),
            ("앤", None),
            ("änn", None),
            ("@example.org", None),
            ("", None),
        ] {
            assert_eq!(as_username(text).as_deref(), name, "{text}");
        }
        assert_eq!(as_username(&"a".repeat(33)), None);
    }

    #[test]
    fn an_address_counts_only_if_it_is_verified() {
        let email = |verified: Value| {
            person(&json!({"sub": "1", "email": "ann@example.org", "email_verified": verified}))
                .email
        };
        assert_eq!(email(json!(true)).as_deref(), Some("ann@example.org"));
        assert_eq!(email(json!(false)), None);
        assert_eq!(email(json!("true")), None);
        assert_eq!(email(Value::Null), None);
    }

    #[test]
    fn groups_come_as_a_list_alone_or_from_within() {
        let mut provider = provider();
        let mut groups_of = |claim: &str, claims: Value| {
            provider.groups_claim = claim.to_owned();
            Person::of(&provider, claims.as_object().unwrap()).groups
        };
        assert_eq!(
            groups_of("groups", json!({"groups": ["a", 1, "b"]})),
            ["a", "b"]
        );
        assert_eq!(groups_of("role", json!({"role": "a"})), ["a"]);
        let within = json!({"realm_access": {"roles": ["a"]}});
        assert_eq!(groups_of("realm_access.roles", within), ["a"]);
        let dotted = json!({"https://example.org/groups": ["a"]});
        assert_eq!(groups_of("https://example.org/groups", dotted), ["a"]);
        assert!(groups_of("groups", json!({"groups": {"a": true}})).is_empty());
    }

    #[test]
    fn more_is_asked_for_only_where_it_is_needed() {
        let mut provider = provider();
        let claims = json!({"sub": "1", "preferred_username": "ann"});
        let claims = claims.as_object().unwrap();
        assert!(!lacks(&provider, &Map::new()));
        provider.sign_up = true;
        assert!(lacks(&provider, &Map::new()));
        assert!(!lacks(&provider, claims));
        provider.allowed_groups = vec!["staff".to_owned()];
        assert!(lacks(&provider, claims));
    }
}
