//! Reading what is kept.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kite_core::crd::KiteReservation;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, TypeMeta},
};

use super::{
    Error,
    admit::{KeptSecret, is_used},
    document::{Backup, Entry},
    kinds::{Kind, essence},
    password::{catch_up, named, owned},
};
use crate::install::ObjectName;

/// How far reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// How many kinds, and after them Secrets, were asked for.
    pub done: usize,
    /// How many there are to ask for, as far as that is known: which Secrets there are
    /// to ask for the kinds tell.
    pub all: usize,
    /// What was asked for last.
    pub what: &'a str,
}

/// Reads all that is kept of the installation in `namespace`, and tells how far it is.
/// Objects that are being deleted are left out.
///
/// # Errors
/// An [`Error`] if something cannot be read: a backup is whole, or is none.
pub async fn take(
    client: &Client,
    namespace: &str,
    with_secrets: bool,
    mut told: impl FnMut(Reading<'_>),
) -> Result<Backup, Error> {
    let mut entries = Vec::new();
    let kinds = Kind::OWN.len();
    for (done, kind) in (1..).zip(Kind::OWN) {
        entries.extend(list(client, kind).await?);
        told(Reading {
            done,
            all: kinds,
            what: &kind.resource().kind,
        });
    }
    let known: BTreeSet<_> = entries.iter().map(|it| it.former_uid.clone()).collect();
    // Whoever is gone holds nothing any more but what is used up, or kept for its owner.
    entries
        .retain(|it| Kind::of(&it.object) != Some(Kind::Reservation) || is_of(&it.object, &known));
    catch_up(client, &mut entries).await?;
    let named: BTreeSet<_> = entries.iter().filter_map(|it| named(&it.object)).collect();
    // A password that nobody names is about to be swept up.
    entries.retain(|it| owned(&it.object).is_none_or(|it| named.contains(&it)));
    if with_secrets {
        let secrets = KeptSecret::all(namespace, &entries);
        let all = kinds + secrets.len();
        for (done, wanted) in (kinds + 1..).zip(&secrets) {
            entries.extend(secret(client, wanted).await?);
            told(Reading {
                done,
                all,
                what: &format!("Secret {}/{}", wanted.namespace, wanted.name),
            });
        }
    }
    Ok(Backup {
        namespace: namespace.to_owned(),
        with_secrets,
        entries,
    })
}

fn is_of(object: &DynamicObject, known: &BTreeSet<String>) -> bool {
    let reservation = object.clone().try_parse::<KiteReservation>();
    let outlasts = |it: &KiteReservation| it.spec.fulfilled || it.spec.kept.is_some();
    reservation.is_ok_and(|it| outlasts(&it) || known.contains(&it.spec.holder.uid))
}

async fn list(client: &Client, kind: Kind) -> Result<Vec<Entry>, Error> {
    let resource = kind.resource();
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let list = api.list(&ListParams::default()).await;
    let list = list.map_err(|error| {
        let all = ObjectName {
            kind: resource.kind.clone(),
            namespace: None,
            name: "(all)".to_owned(),
        };
        Error::of(all, error)
    })?;
    let there = list.items.into_iter();
    let mut entries: Vec<_> = there
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .filter(|it| kind != Kind::Invite || !is_used(it))
        .map(|object| entry(kind, object))
        .collect();
    entries.sort_by_key(|it| (it.object.namespace(), it.object.name_any()));
    Ok(entries)
}

pub(super) fn entry(kind: Kind, mut object: DynamicObject) -> Entry {
    let resource = kind.resource();
    // Objects of lists do not say it.
    object.types = Some(TypeMeta {
        api_version: resource.api_version,
        kind: resource.kind,
    });
    Entry {
        former_uid: object.uid().unwrap_or_default(),
        object: essence(kind, &object),
    }
}

async fn secret(client: &Client, wanted: &KeptSecret) -> Result<Option<Entry>, Error> {
    let kind = Kind::Secret;
    let (namespace, name) = (&wanted.namespace, &wanted.name);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind.resource());
    let found = api.get_opt(name).await.map_err(|error| {
        let object = ObjectName {
            kind: <Secret as kube::Resource>::kind(&()).into_owned(),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        };
        Error::of(object, error)
    })?;
    let found = found.filter(|it| it.metadata.deletion_timestamp.is_none() && wanted.is(it));
    Ok(found.map(|object| entry(kind, object)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_kept_for_who_is_gone_comes_along() {
        let claim = |claim: &str, field: &str, value: &Value| {
            let mut object = json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": "KiteReservation",
                "metadata": {"name": "some"},
                "spec": {"claim": claim, "holder": {
                    "kind": "KiteVirtualMachine", "namespace": "kite-user-ann", "name": "web",
                    "uid": "uid-of-web",
                }},
            });
            object["spec"][field] = value.clone();
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let kept = json!({"until": "2100-01-01T00:00:00Z", "userUid": "uid-of-ann"});
        let gone = BTreeSet::new();
        assert!(is_of(&claim("Domain", "kept", &kept), &gone));
        assert!(is_of(&claim("Offer", "fulfilled", &json!(true)), &gone));
        let held = claim("Domain", "kept", &Value::Null);
        assert!(!is_of(&held, &gone));
        assert!(is_of(&held, &["uid-of-web".to_owned()].into()));
    }
}
