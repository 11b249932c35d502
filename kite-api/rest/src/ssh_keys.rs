//! [`SshKeys`]: lists of SSH public keys in bodies.

use std::borrow::Cow;

use kite_core::public_key::{PublicKey, PublicKeyError};
use serde_json::Value;

use crate::{
    described_as::described_as,
    field::Field,
    shape::{Fault, FaultKind, faults_by_schema},
};

/// Public keys that can log in, each in one line as `authorized_keys` files have it.
pub struct SshKeys(pub Vec<String>);

described_as!(SshKeys as Vec<String>);

impl Field for SshKeys {
    fn expected() -> Cow<'static, str> {
        Vec::<String>::expected()
    }

    fn parse(value: &Value) -> Option<Self> {
        Vec::parse(value).map(Self)
    }

    /// Keys come out of files with line breaks, and out of mails with tabs.
    fn tidied(value: &Value) -> Option<Value> {
        let tidied = |key: &Value| {
            let whole = key.as_str().and_then(|key| PublicKey::parse_new(key).ok());
            whole.map_or_else(|| key.clone(), |key| key.as_str().into())
        };
        Some(value.as_array()?.iter().map(tidied).collect())
    }

    fn faults(value: &Value, place: &str) -> Vec<Fault> {
        let mut faults = faults_by_schema::<Self>(value, place);
        let keys = value.as_array().into_iter().flatten().enumerate();
        faults.extend(keys.filter_map(|(at, key)| {
            let why = PublicKey::parse_new(key.as_str()?).err()?;
            Some(Fault {
                place: format!("{place}[{at}]"),
                // What has to stay secret is not repeated.
                value: (why != PublicKeyError::Private).then(|| key.clone()),
                kind: FaultKind::Told(why.to_string()),
            })
        }));
        faults
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::Form;

    const KEY: &str = "ssh-ed25519 \
        AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann@laptop";

    #[test]
    fn keys_are_tidied_before_anybody_looks_at_them() {
        let keys = json!([format!("{KEY}\r\n"), KEY.replace(' ', "\t")]);
        let mut form = Form::new(json!({ "keys": keys }).as_object().unwrap().clone());
        let SshKeys(keys) = form.optional("keys").unwrap();
        assert_eq!(keys, [KEY, KEY]);
        assert_eq!(form.value_of("keys"), Some(json!([KEY, KEY])));
        form.finish().unwrap();
    }

    #[test]
    fn each_key_is_told_of_by_itself() {
        let private = "-----BEGIN OPENSSH PRIVATE KEY-----";
        let keys = json!([KEY, "ssh-ed25519 AAAA", 5, private]);
        let mut form = Form::new(json!({ "keys": keys }).as_object().unwrap().clone());
        assert!(form.optional::<SshKeys>("keys").is_none());
        let problem = form.finish().unwrap_err();
        let mut told: Vec<_> = problem
            .errors()
            .iter()
            .map(|it| (it.field.as_str(), it.value.clone()))
            .collect();
        told.sort_by_key(|(field, _)| *field);
        assert_eq!(
            told,
            [
                ("keys[1]", Some(json!("ssh-ed25519 AAAA"))),
                ("keys[2]", Some(json!(5))),
                ("keys[3]", None),
            ]
        );
    }
}
