//! What of an object's spec audit records show.

use std::collections::BTreeMap;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// What is different, and what of that is shown: before, and after.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) fields: Vec<String>,
    pub(super) before: BTreeMap<String, Value>,
    pub(super) after: BTreeMap<String, Value>,
}

/// The difference between two specs.
pub(super) fn difference(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    shown: &[&str],
) -> Difference {
    let mut difference = Difference::default();
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        if old == new {
            continue;
        }
        difference.fields.push(name.clone());
        if !shown.contains(&name.as_str()) {
            continue;
        }
        let values = [(old, &mut difference.before), (new, &mut difference.after)];
        for (value, told) in values {
            if let Some(value) = value {
                told.insert(name.clone(), shown_value(name, value));
            }
        }
    }
    difference
}

/// A value without what is secret in it, and with fingerprints for public keys.
fn shown_value(name: &str, value: &Value) -> Value {
    if is_secret(name) {
        return Value::from("(not shown)");
    }
    match value {
        Value::String(key) if name == "sshPublicKeys" => fingerprint(key).into(),
        Value::Array(items) => items.iter().map(|it| shown_value(name, it)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shown_value(name, value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Whether a field of this name could hold a secret. The key under which a Secret has one
/// is none.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let words = ["password", "hash", "secret", "token", "private", "recovery"];
    !["clientsecretkey", "tokenepoch", "secretname"].contains(&name.as_str())
        && words.iter().any(|word| name.contains(word))
}

/// A public key as `ssh-keygen -l` shows it, with its comment.
fn fingerprint(key: &str) -> String {
    let mut words = key.split_whitespace();
    let blob = words.by_ref().find_map(|word| {
        let blob = STANDARD.decode(word).ok()?;
        // Every kind of key begins with the length of its name.
        blob.starts_with(&[0, 0, 0]).then_some(blob)
    });
    let Some(blob) = blob else {
        return "(no public key)".to_owned();
    };
    let fingerprint = STANDARD_NO_PAD.encode(Sha256::digest(&blob));
    let comment: Vec<&str> = words.collect();
    let text = format!("SHA256:{fingerprint} {}", comment.join(" "));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(before: Value, after: Value) -> Difference {
        let (Value::Object(before), Value::Object(after)) = (before, after) else {
            panic!("objects");
        };
        difference(
            &before,
            &after,
            &["accessLevel", "quota", "sshPublicKeys", "suspended"],
        )
    }

    #[test]
    fn what_matters_is_shown_and_no_secret_is() {
        const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJNrJ1zQ8Vn3f0RmBIqO4uh3Q6u2pTgeMrVn8pVb7mWq";
        let told = of(
            json!({
                "accessLevel": "User",
                "suspended": false,
                "passwordHash": "$argon2id$a",
                "sshPublicKeys": [],
                "username": "ann",
                "displayName": "a",
            }),
            json!({
                "accessLevel": "Admin",
                "suspended": false,
                "passwordHash": "$argon2id$b",
                "sshPublicKeys": [format!("ssh-ed25519 {KEY} ann@home"), "nonsense"],
                "username": "ann",
                "displayName": "b",
                "quota": {"cpu": 4, "token": "x"},
            }),
        );
        let blob = STANDARD.decode(KEY).unwrap_or_default();
        let hash = STANDARD_NO_PAD.encode(Sha256::digest(blob));
        assert_eq!(
            told.fields,
            [
                "accessLevel",
                "displayName",
                "passwordHash",
                "quota",
                "sshPublicKeys"
            ]
        );
        assert_eq!(
            json!(told.before),
            json!({"accessLevel": "User", "sshPublicKeys": []})
        );
        assert_eq!(
            json!(told.after),
            json!({
                "accessLevel": "Admin",
                "quota": {"cpu": 4, "token": "(not shown)"},
                "sshPublicKeys": [format!("SHA256:{hash} ann@home"), "(no public key)"],
            })
        );
    }
}
