//! What counts as news, and what does not.

#![allow(clippy::unwrap_used)]

use kite_core::{crd::AccessLevel, password::PasswordHash};

use super::*;
use crate::notices::store::{Annotations, applied, stored};

const A: &str = "ssh-ed25519 AAAA ann@laptop";
const B: &str = "ssh-ed25519 BBBB ann@desk";

fn ann() -> KiteUser {
    let spec = KiteUserSpec {
        ssh_public_keys: vec![A.to_owned()],
        credential: Some("0".repeat(32)),
        ..KiteUserSpec::new("ann")
    };
    KiteUser::new("ann", spec)
}

fn write(user: &mut KiteUser, notes: &Map<String, Value>) {
    *user.annotations_mut() = applied(user.annotations(), notes);
}

fn find_out(user: &mut KiteUser) {
    let notes = found(user, Timestamp::UNIX_EPOCH);
    write(user, &notes);
    // Once it is written down it is no news.
    assert!(found(user, Timestamp::UNIX_EPOCH).is_empty(), "{user:?}");
}

fn edit(user: &mut KiteUser, edit: &Value) {
    let edit = edit.as_object().unwrap();
    let notes = note_edit(user, edit);
    write(user, &notes);
    user.spec = merged(&user.spec, edit).unwrap();
}

fn kinds(annotations: &Annotations) -> Vec<String> {
    let kinds = stored::<AccountNotice>(annotations).into_iter();
    let mut kinds: Vec<_> = kinds.map(|(_, it)| format!("{:?}", it.kind)).collect();
    kinds.sort();
    kinds
}

#[test]
fn an_account_begins_without_news() {
    let mut new = ann();
    note_new(&mut new);
    assert!(found(&new, Timestamp::UNIX_EPOCH).is_empty());
    assert!(kinds(new.annotations()).is_empty());
    // So does one of which an earlier version wrote nothing down.
    let mut earlier = ann();
    find_out(&mut earlier);
    assert!(kinds(earlier.annotations()).is_empty());
}

#[test]
fn what_others_write_is_news_once() {
    let mut user = ann();
    find_out(&mut user);
    user.spec.ssh_public_keys.push(B.to_owned());
    user.spec.credential = Some("1".repeat(32));
    user.spec.access_level = AccessLevel::Manager;
    find_out(&mut user);
    assert_eq!(kinds(user.annotations()), ["Key", "Password", "Quota"]);
    // Nobody has to know that something opens no more.
    user.spec.ssh_public_keys.clear();
    user.spec.credential = None;
    find_out(&mut user);
    assert_eq!(kinds(user.annotations()).len(), 3);
}

#[test]
fn what_the_api_writes_is_told_by_the_same_write() {
    let mut user = ann();
    edit(&mut user, &json!({"sshPublicKeys": [A, B]}));
    assert_eq!(kinds(user.annotations()), ["Key"]);
    edit(
        &mut user,
        &json!({"quota": {"vms": 1, "cpu": 1, "memory": "1Gi", "disk": "1Gi"}}),
    );
    edit(
        &mut user,
        &json!({"credential": "1".repeat(32), "passwordHash": null}),
    );
    edit(
        &mut user,
        &json!({"identities": [{"issuer": "https://id.test", "subject": "ann"}]}),
    );
    let expected = ["Identity", "Key", "Password", "Quota"];
    assert_eq!(kinds(user.annotations()), expected);
    find_out(&mut user);
    assert_eq!(kinds(user.annotations()), expected);
    // One spelling of a size is as good as another, and so is one name of a key.
    edit(&mut user, &json!({"quota": {"memory": "1024Mi"}}));
    edit(
        &mut user,
        &json!({"email": "ann@kite.test", "sshPublicKeys": ["ssh-ed25519 AAAA x", B]}),
    );
    assert_eq!(kinds(user.annotations()), expected);
}

#[test]
fn a_hash_that_is_taken_in_is_the_same_password() {
    let hash = PasswordHash::from_phc("$2b$04$x");
    for credential in [names::credential(&hash), names::credential_of("ann", &hash)] {
        let mut user = ann();
        find_out(&mut user);
        user.spec.password_hash = Some(hash.clone());
        find_out(&mut user);
        user.spec.credential = Some(credential);
        find_out(&mut user);
        user.spec.password_hash = None;
        find_out(&mut user);
        assert_eq!(kinds(user.annotations()), ["Password"]);
    }
}
