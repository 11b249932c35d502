//! Single objects of a backup.

use std::{collections::BTreeSet, fmt, str::FromStr};

use kube::{ResourceExt as _, api::DynamicObject};

use super::{
    document::{Backup, Entry},
    kinds::Kind,
    password::{named, owned},
};

/// What somebody calls an object: `KIND/NAME`, or `KIND/NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split('/').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            return Err("a part of it is empty: write KIND/NAME, such as KiteUser/ann".to_owned());
        }
        match <[String; 3]>::try_from(parts) {
            Ok([kind, namespace, name]) => Ok(Self {
                kind,
                namespace: Some(namespace),
                name,
            }),
            Err(parts) => match <[String; 2]>::try_from(parts) {
                Ok([kind, name]) => Ok(Self {
                    kind,
                    namespace: None,
                    name,
                }),
                Err(_) => Err(
                    "it is neither KIND/NAME nor KIND/NAMESPACE/NAME, such as KiteUser/ann"
                        .to_owned(),
                ),
            },
        }
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

impl Only {
    fn is(&self, object: &DynamicObject) -> bool {
        let kind = object.types.as_ref().map_or("", |it| &it.kind);
        let namespace = object.namespace();
        kind.eq_ignore_ascii_case(&self.kind)
            && object.name_any() == self.name
            && (self.namespace.is_none() || self.namespace == namespace)
    }
}

/// Why nothing can be chosen.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectError {
    /// The backup has it not.
    #[error(
        "--only {0}: the backup has no such object; its objects are listed by --dry-run=server"
    )]
    Unknown(Only),
    /// The backup has several.
    #[error("--only {0}: the backup has {1} of that name: name the namespace, KIND/NAMESPACE/NAME")]
    Ambiguous(Only, usize),
}

/// Objects that were chosen, with what they alone have: claims, the passwords of users, and
/// the keys of VMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<String>);

impl Selection {
    /// What `only` names in `backup`.
    ///
    /// # Errors
    /// A [`SelectError`] if `backup` has nothing of that name, or several.
    pub fn of(backup: &Backup, only: &[Only]) -> Result<Self, SelectError> {
        let mut chosen = Vec::new();
        for wanted in only {
            let entries = backup.entries.iter();
            let found: Vec<_> = entries.filter(|it| wanted.is(&it.object)).collect();
            match found[..] {
                [one] => chosen.push(one),
                [] => return Err(SelectError::Unknown(wanted.clone())),
                _ => return Err(SelectError::Ambiguous(wanted.clone(), found.len())),
            }
        }
        let theirs = backup
            .entries
            .iter()
            .filter(|it| chosen.iter().any(|of| is_had_by(it, of)));
        let all = chosen.iter().copied().chain(theirs);
        Ok(Self(all.map(|it| it.former_uid.clone()).collect()))
    }

    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.0.contains(&entry.former_uid)
    }
}

fn is_had_by(entry: &Entry, whose: &Entry) -> bool {
    match Kind::of(&entry.object) {
        Some(Kind::Reservation) => entry.object.data["spec"]["holder"]["uid"] == whose.former_uid,
        Some(Kind::Password) => {
            owned(&entry.object).is_some_and(|it| named(&whose.object) == Some(it))
        }
        Some(Kind::Secret) => {
            let vm = &whose.object;
            Kind::of(vm) == Some(Kind::Machine)
                && vm.namespace() == entry.object.namespace()
                && kite_core::names::ssh_key_secret(&vm.name_any()) == entry.object.name_any()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn entry(uid: &str, kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> Entry {
        let api_version = if kind == "Secret" {
            "v1"
        } else {
            "hy3ons.github.io/v1"
        };
        let object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        Entry {
            former_uid: uid.to_owned(),
            object: serde_json::from_value(object).unwrap(),
        }
    }

    #[test]
    fn a_vm_has_its_keys_and_claims() {
        let (ann, bob) = (Some("kite-user-ann"), Some("kite-user-bob"));
        let none = json!({});
        let backup = Backup {
            namespace: "kite".to_owned(),
            with_secrets: true,
            entries: vec![
                entry("1", "KiteVirtualMachine", ann, "web", &none),
                entry("2", "KiteVirtualMachine", bob, "web", &none),
                entry("3", "Secret", ann, "web-ssh-key", &none),
                entry("4", "Secret", bob, "web-ssh-key", &none),
                entry(
                    "5",
                    "KiteReservation",
                    None,
                    "ssh-id.a",
                    &json!({"holder": {"uid": "1"}}),
                ),
                entry(
                    "6",
                    "KiteReservation",
                    None,
                    "ssh-id.b",
                    &json!({"holder": {"uid": "2"}}),
                ),
                entry("7", "KiteUser", None, "ann", &json!({"credential": "a"})),
                entry("8", "KitePassword", None, "a", &json!({"user": "ann"})),
                entry("9", "KitePassword", None, "b", &json!({"user": "ann"})),
            ],
        };
        let select = |only: &str| Selection::of(&backup, &[only.parse().unwrap()]);
        let all = |uids: &[&str]| Selection(uids.iter().map(|it| (*it).to_owned()).collect());
        let chosen = select("kitevirtualmachine/kite-user-ann/web").unwrap();
        assert_eq!(chosen, all(&["1", "3", "5"]));
        assert_eq!(select("KiteUser/ann").unwrap(), all(&["7", "8"]));
        let error = select("KiteVirtualMachine/web").unwrap_err();
        assert!(matches!(error, SelectError::Ambiguous(_, 2)), "{error}");
        assert!(matches!(
            select("KiteUser/bob"),
            Err(SelectError::Unknown(_))
        ));
        for wrong in ["ann", "KiteUser/", "a/b/c/d"] {
            assert!(wrong.parse::<Only>().is_err(), "{wrong}");
        }
    }
}
