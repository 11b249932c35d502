//! What asks for a fresh proof of who one is: every operation of the document, asked.

use std::collections::BTreeSet;

use ::http::Method;
use kite_api::proof::{self, Asks, of_operation};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser},
};
use serde_json::{Value, json};

use crate::data::{snapshot, volume};
use crate::{
    lists::new_vm,
    totp,
    world::{Answer, PASSWORD, World, request, send},
};

const PROVE: &str = "/api/v1/auth/prove";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg ann";

/// One operation of the document.
struct Operation {
    id: String,
    method: Method,
    path: String,
    description: Value,
}

fn operations() -> Vec<Operation> {
    let document = kite_api::openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, description)| Operation {
            id: description["operationId"].as_str().unwrap().to_owned(),
            method: method.to_uppercase().parse().unwrap(),
            path: path.clone(),
            description: description.clone(),
        })
    });
    all.collect()
}

impl Operation {
    fn body(&self) -> Option<Value> {
        let body = self.description.get("requestBody")?;
        Some(body["content"]["application/json"]["example"].clone())
    }

    async fn ask(&self, world: &World, token: &str, query: &str, body: Option<Value>) -> Answer {
        let path = self.path.replace("{name}", "web");
        let path = path.replace("{id}", "x").replace("{session}", "x");
        let path = path.replace("{recording}", "x.cast");
        let path = format!("{path}{query}");
        let asked = request(self.method.clone(), &path, token, body);
        send(&world.router, asked).await
    }
}

fn asks_for_proof(answer: &Answer) -> bool {
    answer.body["type"] == "urn:kite:problem:proof-required"
}

#[test]
fn every_operation_that_changes_something_is_in_the_table() {
    let writing = operations().into_iter().filter(|it| !it.method.is_safe());
    let writing: BTreeSet<_> = writing.map(|it| it.id).collect();
    let table: BTreeSet<_> = proof::operations().map(|(id, _)| id.to_owned()).collect();
    assert_eq!(writing, table);
    assert_eq!(table.len(), proof::operations().count());
}

#[test]
fn the_document_says_what_asks() {
    for operation in operations() {
        let asks = of_operation(&operation.id) != Asks::Never;
        let refused = operation.description["responses"]["403"]["description"]
            .as_str()
            .unwrap_or_default();
        assert_eq!(
            refused.contains("`proof-required`"),
            asks,
            "{}",
            operation.id
        );
        let when = &operation.description["x-kite-proof"];
        assert_eq!(when.is_string(), asks, "{}", operation.id);
    }
}

#[test]
fn what_takes_the_password_for_the_proof_has_a_test_of_its_own() {
    let beside = proof::operations();
    let beside = beside.filter(|(_, asks)| *asks == Asks::BesidePassword);
    let beside: Vec<_> = beside.map(|(id, _)| id).collect();
    // Of the first in `oidc::linking`, of the others below.
    assert_eq!(
        beside,
        ["linkIdentity", "changePassword", "beginSecondFactor"]
    );
}

/// Somebody who has signed in an hour ago, and may do everything.
async fn an_hour_later() -> (World, String) {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::Admin).await;
    for token in [&ann, &root] {
        let mut vm = new_vm("web");
        vm.as_object_mut().unwrap().remove("sshId");
        let made = world.post("/api/v1/vms", token, vm).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    for owner in ["ann", "root"] {
        let web = world.vm(owner, "web").await.unwrap();
        snapshot(&world, &web, "web", json!({})).await;
        volume(&world, owner, "web", json!({"phase": "Available"})).await;
    }
    world.age_proofs().await;
    (world, root)
}

#[tokio::test]
async fn an_old_session_is_asked_for_a_proof_by_what_the_table_says() {
    let (world, root) = an_hour_later().await;
    // Ends sessions, has no end of its own, or is the proof.
    let elsewhere = ["signOut", "endOtherSessions", "prove"];
    let mut asked = BTreeSet::new();
    // What would be deleted is asked about before.
    let mut all = operations();
    all.sort_by_key(|it| it.method == Method::DELETE);
    for operation in all {
        let id = operation.id.as_str();
        let is_stream = operation.path.ends_with("/events");
        if elsewhere.contains(&id) || is_stream {
            continue;
        }
        let body = operation.body();
        let expected: Vec<(&str, Option<Value>, bool)> = match of_operation(id) {
            Asks::Never => vec![("", body, false)],
            Asks::Always => vec![("", body, true)],
            Asks::ForOthers => vec![("?owner=ann", body.clone(), true), ("", body, false)],
            // The password is the proof: those are other tests.
            Asks::BesidePassword => continue,
            Asks::For(fields) | Asks::ForOthersOr(fields) => {
                let mut plain = body.unwrap();
                for field in fields {
                    plain.as_object_mut().unwrap().remove(*field);
                }
                let with = fields.iter().map(|field| {
                    let mut body = plain.clone();
                    body[*field] = match *field {
                        "sshPublicKeys" => json!([KEY]),
                        "sshPassword" => json!("staple of the machine"),
                        "sshLogin" => json!("KeyAndPassword"),
                        "domainPrefix" => json!("shop"),
                        other => panic!("what is {other}?"),
                    };
                    ("", Some(body), true)
                });
                let own = [("", Some(plain.clone()), false)];
                let of_others = matches!(of_operation(id), Asks::ForOthersOr(_))
                    .then(|| ("?owner=ann", Some(plain.clone()), true));
                with.chain(of_others).chain(own).collect()
            }
        };
        for (query, body, is_asked) in expected {
            if id == "claimOffer" {
                // There has to be one to get that far.
                continue;
            }
            let answer = operation.ask(&world, &root, query, body.clone()).await;
            assert_eq!(
                asks_for_proof(&answer),
                is_asked,
                "{id}{query} {body:?}: {answer:?}"
            );
            if is_asked {
                assert_eq!(answer.status, 403);
                assert!(answer.text("/detail").contains("auth/prove"));
                asked.insert(operation.id.clone());
            }
        }
    }
    assert!(asked.len() > 24, "{asked:?}");
    // Nothing of it was done.
    let users = world.get("/api/v1/admin/users", &root).await;
    assert_eq!(users.names(), ["ann", "root"]);
}

#[tokio::test]
async fn a_claimed_offer_is_opened_by_who_has_proved_it_only() {
    let (world, root) = an_hour_later().await;
    let fresh = world.sign_in("root").await;
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    let made = world.post("/api/v1/admin/offers", &fresh, offer).await;
    assert_eq!(made.status, 201, "{made:?}");
    let claim = |body: Value| world.post("/api/v1/offers/small/claim", &root, body);
    let refused = claim(json!({"name": "a", "sshPublicKeys": [KEY]})).await;
    refused.is_problem(403, "proof-required");
    let claimed = claim(json!({"name": "a"})).await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
}

#[tokio::test]
async fn a_proof_counts_on_every_replica_and_for_its_session_only() {
    let (world, root) = an_hour_later().await;
    let other = world.replica().await;
    let second = world.sign_in("root").await;
    world.age_proofs().await;
    let make = |router, token: &str, name: &str| {
        let body = json!({"name": name, "scopes": ["vms:read"]});
        let asked = request(Method::POST, "/api/v1/me/tokens", token, Some(body));
        send(router, asked)
    };
    let refused = make(&world.router, &root, "a").await;
    refused.is_problem(403, "proof-required");
    let me = world.get("/api/v1/me", &root).await;
    assert_eq!(me.body.get("provedUntil"), None);

    let wrong = world
        .post(PROVE, &root, json!({"password": "wrong horse"}))
        .await;
    assert_eq!(
        wrong.is_problem(401, "wrong-credentials").fields(),
        ["password"]
    );
    make(&world.router, &root, "a")
        .await
        .is_problem(403, "proof-required");

    let proved = world
        .post(PROVE, &root, json!({"password": PASSWORD}))
        .await;
    assert_eq!(proved.status, 200, "{proved:?}");
    // At once, though the other replica may not have heard of it.
    assert_eq!(make(&other, &root, "b").await.status, 201);
    assert_eq!(make(&world.router, &root, "a").await.status, 201);
    let me = world.get("/api/v1/me", &root).await;
    assert_eq!(me.text("/provedUntil"), proved.text("/provedUntil"));
    make(&other, &second, "c")
        .await
        .is_problem(403, "proof-required");
}

#[tokio::test]
async fn guesses_at_a_proof_are_counted_like_those_at_a_sign_in() {
    let (world, root) = an_hour_later().await;
    for _ in 0..5 {
        let wrong = world
            .post(PROVE, &root, json!({"password": "wrong horse"}))
            .await;
        wrong.is_problem(401, "wrong-credentials");
    }
    let right = world
        .post(PROVE, &root, json!({"password": PASSWORD}))
        .await;
    right.is_problem(429, "too-many-requests");
}

#[tokio::test]
async fn a_second_factor_is_part_of_the_proof() {
    let world = World::new().await;
    let (token, app, codes) = totp::ann(&world).await;
    world.age_proofs().await;
    let password = json!({"password": PASSWORD});
    let refused = world.post(PROVE, &token, password).await;
    refused.is_problem(401, "second-factor-required");
    // Nor do requests that have the password in them do without the code.
    let change = json!({"currentPassword": PASSWORD, "newPassword": "another battery"});
    let refused = world
        .post("/api/v1/me/password", &token, change.clone())
        .await;
    refused.is_problem(403, "proof-required");
    let wrong = json!({"password": PASSWORD, "code": "000000x"});
    let refused = world.post(PROVE, &token, wrong).await;
    assert_eq!(
        refused.is_problem(401, "second-factor-required").fields(),
        ["code"]
    );
    let right = json!({"password": PASSWORD, "code": app.code(1)});
    let proved = world.post(PROVE, &token, right).await;
    assert_eq!(proved.status, 200, "{proved:?}");
    let changed = world.post("/api/v1/me/password", &token, change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert!(!codes.is_empty());
}

#[tokio::test]
async fn a_password_in_the_body_is_the_proof_where_there_is_no_second_factor() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    world.age_proofs().await;
    let body = json!({"password": "wrong horse"});
    let refused = world.post("/api/v1/me/totp", &token, body).await;
    refused.is_problem(401, "wrong-credentials");
    let body = json!({"password": PASSWORD});
    let begun = world.post("/api/v1/me/totp", &token, body).await;
    let app = totp::App::of(&begun);
    // What belongs to it needs no second one.
    let code = json!({"code": app.code(0)});
    let confirmed = world.post("/api/v1/me/totp/confirm", &token, code).await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
}

#[tokio::test]
async fn whoever_has_no_password_signs_in_at_the_provider_again() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    // As somebody who only ever came in by a provider.
    let patch = json!({"spec": {"passwordHash": null, "credential": null}});
    let key = ObjectKey::cluster("ann");
    let manager = FieldManager::new("test");
    let edited: KiteUser = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    // The session began with the password; it has to be one that did not.
    let sessions = world.state.caches().sessions.list(|_| true);
    let session = sessions.first().unwrap();
    let spec = kite_core::crd::KiteSessionSpec {
        credential: None,
        ..session.spec.clone()
    };
    world
        .cluster
        .delete_by_uid(session.as_ref(), kube::api::PropagationPolicy::Background)
        .await
        .unwrap();
    world
        .state
        .caches()
        .sessions
        .caught_up_with_deletion(session)
        .await;
    let name = session.metadata.name.clone().unwrap();
    let session = kite_core::crd::KiteSession::new(&name, spec);
    let made = world.cluster.create(&session).await.unwrap();
    world.state.caches().sessions.caught_up_with(&made).await;

    let edit = json!({"email": "ann@kite.test"});
    let fresh = world.patch("/api/v1/me", &token, edit.clone()).await;
    assert_eq!(fresh.status, 200, "{fresh:?}");
    world.age_proofs().await;
    let refused = world.patch("/api/v1/me", &token, edit).await;
    let detail = refused.is_problem(403, "proof-required").text("/detail");
    assert!(detail.contains("provider"), "{detail}");
    // Nor does a first password come from a session that is in other hands.
    let body = json!({"newPassword": PASSWORD});
    let refused = world.post("/api/v1/me/password", &token, body).await;
    refused.is_problem(403, "proof-required");
    let refused = world
        .post(PROVE, &token, json!({"password": PASSWORD}))
        .await;
    refused.is_problem(409, "conflict");
}

#[tokio::test]
async fn an_api_token_proves_nothing_and_is_asked_for_nothing() {
    let (world, _) = an_hour_later().await;
    let root = world.sign_in("root").await;
    let scopes = json!(["vms:access", "account:keys", "admin"]);
    let body = json!({"name": "all", "scopes": scopes});
    let made = world.post("/api/v1/me/tokens", &root, body).await;
    let token = made.text("/token");
    let refused = world
        .post(PROVE, token, json!({"password": PASSWORD}))
        .await;
    refused.is_problem(403, "forbidden");
    for (path, edit) in [
        ("/api/v1/me", json!({"sshPublicKeys": [KEY]})),
        ("/api/v1/vms/web", json!({"sshPublicKeys": [KEY]})),
        ("/api/v1/admin/users/ann", json!({"email": null})),
    ] {
        let edited = world.patch(path, token, edit).await;
        assert_eq!(edited.status, 200, "{path}: {edited:?}");
    }
    // Keys of others' accounts take the scope for keys, too.
    let body = json!({"name": "some", "scopes": ["admin"]});
    let made = world.post("/api/v1/me/tokens", &root, body).await;
    let path = "/api/v1/admin/users/ann";
    let refused = world
        .patch(path, made.text("/token"), json!({"sshPublicKeys": [KEY]}))
        .await;
    refused.is_problem(403, "forbidden");
    // To take them off is no less.
    let body = json!({"name": "less", "scopes": ["account:write", "vms:write"]});
    let made = world.post("/api/v1/me/tokens", &root, body).await;
    for path in ["/api/v1/me", "/api/v1/vms/web"] {
        for keys in [json!(null), json!([])] {
            let edit = json!({"sshPublicKeys": keys});
            let refused = world.patch(path, made.text("/token"), edit).await;
            refused.is_problem(403, "forbidden");
        }
    }
}

#[tokio::test]
async fn a_new_password_tells_of_the_keys_that_came_since_the_one_before() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let change = |token: String, current: &'static str, new: &'static str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        let world = &world;
        async move { world.post("/api/v1/me/password", &token, body).await }
    };
    let first = change(ann, PASSWORD, "another battery").await;
    assert_eq!(first.body["keysSincePassword"], json!([]));
    let token = first.text("/token").to_owned();
    let edited = world
        .patch("/api/v1/me", &token, json!({"sshPublicKeys": [KEY]}))
        .await;
    let added = edited.text("/sshKeys/0/addedAt").to_owned();
    assert_eq!(edited.text("/sshKeys/0/publicKey"), KEY);
    let second = change(token, "another battery", "battery staple").await;
    assert_eq!(second.text("/keysSincePassword/0/publicKey"), KEY);
    assert_eq!(second.text("/keysSincePassword/0/addedAt"), added);
    // It is older than the password now.
    let token = second.text("/token").to_owned();
    let third = change(token, "battery staple", "staple of a battery").await;
    assert_eq!(third.body["keysSincePassword"], json!([]));
}
