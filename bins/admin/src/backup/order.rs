//! The order in which objects come back: nothing before what it rests on, and whoever
//! holds a name before those who want it, too.

use std::collections::BTreeSet;

use kite_core::crd::{HolderKind, KiteReservation};
use kube::ResourceExt as _;

use super::{document::Entry, kinds::Kind};

/// An entry with its kind.
pub(super) type Item<'a> = (Kind, &'a Entry);

/// All entries in the order in which they come back.
pub(super) fn in_order<'a>(entries: &'a [Entry], namespace: &str) -> Vec<Item<'a>> {
    let items = entries.iter();
    let mut items: Vec<Item<'a>> = items
        .filter_map(|entry| Some((Kind::of(&entry.object)?, entry)))
        .collect();
    let holders: BTreeSet<_> = items.iter().filter_map(holder).map(|it| it.1).collect();
    items.sort_by_key(|item| {
        let is_holder = holders.contains(&item.1.former_uid);
        let is_of_kite = item.1.object.namespace().as_deref() == Some(namespace);
        match item.0 {
            Kind::Platform => 0,
            Kind::Image => 1,
            Kind::Secret if is_of_kite => 2,
            Kind::Offer | Kind::Password => 3,
            Kind::User if is_holder => 4,
            Kind::Reservation => match holder(item) {
                Some((HolderKind::KiteUser, _)) => 5,
                Some((HolderKind::KiteVirtualMachine, _)) | None => 12,
            },
            Kind::User => 6,
            Kind::SecondFactor => 7,
            Kind::Token => 8,
            Kind::Invite => 9,
            Kind::Secret | Kind::Volume => 10,
            Kind::Machine if is_holder => 11,
            Kind::Machine => 13,
        }
    });
    items
}

/// Who holds a reservation.
fn holder((kind, entry): &Item<'_>) -> Option<(HolderKind, String)> {
    if *kind != Kind::Reservation {
        return None;
    }
    let reservation: KiteReservation = entry.object.clone().try_parse().ok()?;
    Some((reservation.spec.holder.kind, reservation.spec.holder.uid))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn entry(kind: &str, name: &str, namespace: Option<&str>, spec: &Value) -> Entry {
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
            former_uid: format!("uid-of-{name}"),
            object: serde_json::from_value(object).unwrap(),
        }
    }

    #[test]
    fn who_holds_a_name_comes_before_who_wants_it() {
        let held = json!({"claim": "SshId", "holder": {
            "kind": "KiteVirtualMachine", "namespace": "kite-user-ann", "name": "web",
            "uid": "uid-of-web",
        }});
        let space = Some("kite-user-ann");
        let entries = [
            entry("KiteVirtualMachine", "wants-it", space, &json!({})),
            entry("KiteVirtualMachine", "web", space, &json!({})),
            entry("KiteReservation", "ssh-id.web", None, &held),
            entry("Secret", "web-ssh-key", space, &json!({})),
            entry("KiteUser", "ann", None, &json!({})),
            entry("Secret", "kite-seal", Some("kite"), &json!({})),
        ];
        let names: Vec<_> = in_order(&entries, "kite")
            .into_iter()
            .map(|(_, entry)| entry.object.name_any())
            .collect();
        let expected = [
            "kite-seal",
            "ann",
            "web-ssh-key",
            "web",
            "ssh-id.web",
            "wants-it",
        ];
        assert_eq!(names, expected);
    }
}
