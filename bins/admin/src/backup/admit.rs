//! What a file may have. Whoever restores it may write far more than Kite's objects, and
//! whoever wrote it need not.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kite_core::{crd::KitePlatform, names};
use kube::{ResourceExt as _, api::DynamicObject};

use super::{
    document::{Entry, ReadError},
    kinds::{Kind, essence},
};
use crate::install::ObjectName;

/// Secrets in Kite's namespace that Kite cannot make anew as they were, with their types.
const SECRETS: [(&str, &str); 4] = [
    (names::SEAL_SECRET, OPAQUE),
    (names::GATEWAY_HOST_KEY_SECRET, OPAQUE),
    (names::OIDC_SECRET, OPAQUE),
    (names::UPLOADED_CERTIFICATE, names::TLS_SECRET_TYPE),
];
/// Type of a Secret that names none.
const OPAQUE: &str = "Opaque";

/// A Secret that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeptSecret {
    pub(super) namespace: String,
    pub(super) name: String,
    type_: &'static str,
}

impl KeptSecret {
    /// Those that go with `entries`: Kite's own, the certificate that the platform names,
    /// and the keys of each VM.
    pub(super) fn all(namespace: &str, entries: &[Entry]) -> BTreeSet<Self> {
        let of_kite = |name: &str, type_| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            type_,
        };
        let mut all: BTreeSet<_> = SECRETS
            .iter()
            .map(|(name, type_)| of_kite(name, type_))
            .collect();
        for entry in entries {
            match Kind::of(&entry.object) {
                Some(Kind::Platform) => {
                    let platform = entry.object.clone().try_parse::<KitePlatform>().ok();
                    let name = platform.and_then(|it| it.spec.exposure.certificate.secret_name);
                    all.extend(name.map(|name| of_kite(&name, names::TLS_SECRET_TYPE)));
                }
                Some(Kind::Machine) => {
                    all.insert(Self {
                        namespace: entry.object.namespace().unwrap_or_default(),
                        name: names::ssh_key_secret(&entry.object.name_any()),
                        type_: OPAQUE,
                    });
                }
                _ => {}
            }
        }
        all
    }

    /// Whether `object` is this Secret.
    pub(super) fn is(&self, object: &DynamicObject) -> bool {
        let secret = object.clone().try_parse::<Secret>().ok();
        let type_ = secret.and_then(|it| it.type_.or_else(|| Some(OPAQUE.to_owned())));
        object.namespace().as_ref() == Some(&self.namespace)
            && object.name_any() == self.name
            && type_.as_deref() == Some(self.type_)
    }
}

/// What a file of an installation in `namespace` has, bare of all that is not kept.
pub(super) fn admitted(namespace: &str, entries: Vec<Entry>) -> Result<Vec<Entry>, ReadError> {
    let secrets = KeptSecret::all(namespace, &entries);
    let judged = entries.into_iter().map(|entry| {
        let object = &entry.object;
        let types = object.types.as_ref();
        let Some(kind) = Kind::of(object) else {
            return Err(ReadError::Kind(
                types.map(|it| it.kind.clone()).unwrap_or_default(),
            ));
        };
        let called = ObjectName::found(&kind.resource(), object);
        let is_there = called.namespace.as_deref().is_none_or(is_name);
        if !is_name(&called.name) || !is_there || called.namespace.is_some() != kind.is_namespaced()
        {
            return Err(ReadError::Name(called));
        }
        if kind == Kind::Invite && is_used(object) {
            return Ok(None);
        }
        if kind == Kind::Secret && !secrets.iter().any(|it| it.is(object)) {
            return Err(ReadError::Secret(called));
        }
        Ok(Some(Entry {
            object: essence(kind, object),
            former_uid: entry.former_uid,
        }))
    });
    judged.filter_map(Result::transpose).collect()
}

/// Whether an account was made with an invite: it is of no use any more, and would be
/// for a moment if it came back.
pub(super) fn is_used(invite: &DynamicObject) -> bool {
    !invite.data["status"]["usedBy"].is_null()
}

/// Whether it can be a name in a path of the API server, and is nothing else there.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn entry(object: Value) -> Entry {
        Entry {
            former_uid: object["metadata"]["name"].to_string(),
            object: serde_json::from_value(object).unwrap(),
        }
    }

    fn secret(namespace: &str, name: &str, type_: &str) -> Entry {
        entry(json!({
            "apiVersion": "v1", "kind": "Secret", "type": type_,
            "metadata": {"name": name, "namespace": namespace},
            "data": {"key": "a2V5"},
        }))
    }

    fn own(kind: &str, namespace: Option<&str>, name: &str) -> Value {
        json!({
            "apiVersion": "hy3ons.github.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": {},
        })
    }

    #[test]
    fn a_file_has_no_secrets_but_those_that_are_kept() {
        let mut platform = own("KitePlatform", None, "default");
        platform["spec"] = json!({"exposure": {"certificate": {"secretName": "wildcard"}}});
        let all = |secret| {
            let vm = own("KiteVirtualMachine", Some("kite-user-ann"), "web");
            admitted("kite", vec![entry(platform.clone()), entry(vm), secret])
        };
        for (namespace, name, type_) in [
            ("kite", "kite-seal", "Opaque"),
            ("kite", "kite-certificate", "kubernetes.io/tls"),
            ("kite", "wildcard", "kubernetes.io/tls"),
            ("kite-user-ann", "web-ssh-key", "Opaque"),
        ] {
            assert_eq!(
                all(secret(namespace, name, type_)).unwrap().len(),
                3,
                "{name}"
            );
        }
        for (namespace, name, type_) in [
            ("kube-system", "kite-seal", "Opaque"),
            ("kite", "kite-seal", "kubernetes.io/service-account-token"),
            ("kite", "kite-bootstrap", "Opaque"),
            ("kite", "wildcard", "Opaque"),
            ("other", "wildcard", "kubernetes.io/tls"),
            ("kite-user-ann", "db-ssh-key", "Opaque"),
            ("kube-system", "web-ssh-key", "Opaque"),
        ] {
            let error = all(secret(namespace, name, type_)).unwrap_err().to_string();
            let called = format!("Secret {namespace}/{name}");
            assert!(error.contains(&called), "{error}");
        }
    }

    #[test]
    fn names_are_names_and_stand_where_their_kind_is() {
        for object in [
            own("KiteUser", Some("kube-system"), "ann"),
            own("KiteVirtualMachine", None, "web"),
            own("KiteUser", None, "../../../api/v1/nodes/a"),
            own("KiteVirtualMachine", Some("a/secrets"), "web"),
            own("KiteUser", None, ""),
        ] {
            let error = admitted("kite", vec![entry(object.clone())]).unwrap_err();
            assert!(matches!(error, ReadError::Name(_)), "{object}: {error}");
        }
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        let error = admitted("kite", vec![entry(pod)]).unwrap_err();
        assert!(matches!(&error, ReadError::Kind(kind) if kind == "Pod"));
    }

    #[test]
    fn what_is_not_kept_is_not_read_either() {
        let mut user = own("KiteUser", None, "ann");
        user["metadata"]["finalizers"] = json!(["example.org/never"]);
        user["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1"},
        ]);
        user["status"] = json!({"phase": "Ready"});
        let mut invite = own("KiteInvite", None, "a");
        invite["status"] = json!({"usedBy": {"name": "ann", "uid": "1"}});
        let read = admitted("kite", vec![entry(user), entry(invite)]).unwrap();
        let bare = own("KiteUser", None, "ann");
        let bare: DynamicObject = serde_json::from_value(bare).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].object, bare);
    }
}
