//! Linking an account that one has with a person at a provider.

use http::Method;
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, Identity, KiteUser},
};
use serde_json::{Value, json};

use super::{Provider, come_back, get, location, me, settings_of, sign_in, user, world};
use crate::{
    demand::set_up,
    gate::Gate,
    refresh::Jar,
    world::{Answer, PASSWORD, World, send},
};

const IDENTITIES: &str = "/api/v1/me/identities";

/// A browser in which `name` is signed in with the password.
async fn browser(world: &World, name: &str) -> Jar {
    let mut jar = Jar::default();
    let body = json!({"username": name, "password": PASSWORD, "cookie": true});
    let request = jar.request(Method::POST, "/api/v1/auth/sign-in", Some(body));
    let answer = send(&world.router, request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    jar.take(&answer);
    jar
}

async fn ask_to_link(world: &World, jar: &mut Jar, body: Value) -> Answer {
    let request = jar.request(Method::POST, IDENTITIES, Some(body));
    let answer = send(&world.router, request).await;
    jar.take(&answer);
    answer
}

/// Begins to link: the way back.
async fn begin(world: &World, jar: &mut Jar, provider: &Provider) -> String {
    let body = json!({"provider": "staff", "password": PASSWORD});
    let begun = ask_to_link(world, jar, body).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    provider.authorize(begun.text("/url"))
}

async fn list(world: &World, jar: &Jar) -> Value {
    let answer = send(&world.router, get(jar, IDENTITIES)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["items"].clone()
}

async fn unlink(world: &World, jar: &Jar, id: &Value) -> Answer {
    let path = format!("{IDENTITIES}/{}", id.as_str().unwrap());
    send(&world.router, jar.request(Method::DELETE, &path, None)).await
}

#[tokio::test]
async fn an_account_is_linked_used_and_unlinked() {
    let (world, provider) = world().await;
    world.user("bob", AccessLevel::User).await;
    let mut jar = browser(&world, "bob").await;
    let back = begin(&world, &mut jar, &provider).await;
    assert_eq!(list(&world, &jar).await, json!([]));
    let done = come_back(&world.router, &mut jar, &back).await;
    assert_eq!(location(&done), "/account");
    let items = list(&world, &jar).await;
    assert_eq!(items[0]["displayName"], "Staff login");
    assert_eq!(items[0]["subject"], "1001");

    let (other, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(me(&world, &other).await.text("/username"), "bob");
    // Linked once more it is linked once.
    let back = begin(&world, &mut jar, &provider).await;
    location(&come_back(&world.router, &mut jar, &back).await);
    assert_eq!(list(&world, &jar).await.as_array().unwrap().len(), 1);

    let gone = unlink(&world, &jar, &items[0]["id"]).await;
    assert_eq!(gone.status, 204, "{gone:?}");
    unlink(&world, &jar, &items[0]["id"])
        .await
        .is_problem(404, "not-found");
    // Who came in by it is out, whoever unlinked it is not.
    assert_eq!(other.me(&world.router).await, 401);
    assert_eq!(jar.me(&world.router).await, 200);
    let (_, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(user(&world, "ann").await.spec.identities.len(), 1);
}

async fn take_identities(world: &World, name: &str) {
    let patch = json!({"spec": {"identities": []}});
    let key = ObjectKey::cluster(name);
    let edit = world
        .cluster
        .merge_patch(kite_core::managers::CONTROLLER, &key, &patch);
    let edited: KiteUser = edit.await.unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
}

#[tokio::test]
async fn without_the_identity_what_began_with_it_is_over_on_every_replica() {
    let (world, provider) = world().await;
    let other = world.replica_with(settings_of).await;
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(jar.me(&other).await, 200);
    take_identities(&world, "ann").await;
    assert_eq!(jar.me(&world.router).await, 401);
    world
        .until("she is out there, too", async || {
            jar.me(&other).await == 401
        })
        .await;
}

#[tokio::test]
async fn a_session_that_is_made_while_its_identity_goes_opens_nothing() {
    let (world, provider) = world().await;
    location(&sign_in(&world, &provider).await.1);
    let makes_session = |request: &::http::Request<kube::client::Body>| {
        request.method() == Method::POST && request.uri().path().ends_with("/kitesessions")
    };
    let (slow, gate) = Gate::replica(&world, settings_of, makes_session).await;
    let mut jar = Jar::default();
    let back = super::leave(&slow, &mut jar, &provider, super::START).await;
    let meanwhile = async {
        gate.holds_one().await;
        take_identities(&world, "ann").await;
        gate.let_on(1);
    };
    let (done, ()) = tokio::join!(come_back(&slow, &mut jar, &back), meanwhile);
    location(&done);
    assert_eq!(jar.me(&world.router).await, 401);
}

#[tokio::test]
async fn who_unlinks_what_they_came_in_by_is_signed_out() {
    let (world, provider) = world().await;
    let (mut ann, done) = sign_in(&world, &provider).await;
    location(&done);
    let items = list(&world, &ann).await;
    assert_eq!(items[0]["current"], true);
    let body = json!({"spec": {"identities": [
        {"issuer": provider.issuer, "subject": "1001"},
        {"issuer": provider.issuer, "subject": "1002"},
    ]}});
    let key = ObjectKey::cluster("ann");
    let edit = world
        .cluster
        .merge_patch(kite_core::managers::CONTROLLER, &key, &body);
    let edited: KiteUser = edit.await.unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    let gone = unlink(&world, &ann, &items[0]["id"]).await;
    assert_eq!(gone.status, 204, "{gone:?}");
    ann.take(&gone);
    assert!(
        ann.0.keys().all(|name| !name.contains("access")),
        "{:?}",
        ann.0
    );
    assert_eq!(ann.me(&world.router).await, 401);
}

#[tokio::test]
async fn linking_asks_for_the_password_and_a_browser() {
    let (world, provider) = world().await;
    let token = world.user("bob", AccessLevel::User).await;
    let mut jar = browser(&world, "bob").await;
    let ask = json!({"provider": "staff"});
    let refused = ask_to_link(&world, &mut jar, ask).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    let wrong = json!({"provider": "staff", "password": "wrong horse"});
    let refused = ask_to_link(&world, &mut jar, wrong).await;
    refused.is_problem(401, "wrong-credentials");
    let wrong = json!({"provider": "none", "password": PASSWORD, "returnTo": "//evil.test"});
    let refused = ask_to_link(&world, &mut jar, wrong).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["returnTo"]);
    let wrong = json!({"provider": "none", "password": PASSWORD});
    let refused = ask_to_link(&world, &mut jar, wrong).await;
    refused.is_problem(404, "not-found");
    let body = json!({"provider": "staff", "password": PASSWORD});
    let refused = world.post(IDENTITIES, &token, body.clone()).await;
    refused.is_problem(409, "conflict");
    // Another site's page has no say in it.
    let mut request = jar.request(Method::POST, IDENTITIES, Some(body));
    let site = "cross-site".parse().unwrap();
    request.headers_mut().insert("sec-fetch-site", site);
    let refused = send(&world.router, request).await;
    refused.is_problem(403, "cross-origin");
    assert_eq!(
        provider.requests.load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}

#[tokio::test]
async fn an_old_session_links_nothing_that_its_owner_does_not_prove() {
    let (world, provider) = world().await;
    let token = world.user("bob", AccessLevel::User).await;
    let mut jar = browser(&world, "bob").await;
    let right = json!({"provider": "staff", "password": PASSWORD});
    let wrong = json!({"provider": "staff", "password": "wrong horse"});
    world.age_proofs().await;
    let refused = ask_to_link(&world, &mut jar, wrong.clone()).await;
    refused.is_problem(401, "wrong-credentials");
    // Where there is no second factor, the password that is sent is the proof.
    let begun = ask_to_link(&world, &mut jar, right.clone()).await;
    assert_eq!(begun.status, 200, "{begun:?}");

    let app = set_up(&world, &token).await;
    world.age_proofs().await;
    let refused = ask_to_link(&world, &mut jar, wrong).await;
    refused.is_problem(401, "wrong-credentials");
    let refused = ask_to_link(&world, &mut jar, right.clone()).await;
    refused.is_problem(403, "proof-required");
    let evidence = json!({"password": PASSWORD, "code": app.code(1)});
    let prove = jar.request(Method::POST, "/api/v1/auth/prove", Some(evidence));
    let proved = send(&world.router, prove).await;
    assert_eq!(proved.status, 200, "{proved:?}");
    let begun = ask_to_link(&world, &mut jar, right).await;
    assert_eq!(begun.status, 200, "{begun:?}");

    // Who has no password has to have come from the provider a moment ago.
    let (mut ann, done) = sign_in(&world, &provider).await;
    location(&done);
    let more = json!({"provider": "staff"});
    let begun = ask_to_link(&world, &mut ann, more.clone()).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    world.age_proofs().await;
    let refused = ask_to_link(&world, &mut ann, more).await;
    refused.is_problem(403, "proof-required");
}

#[tokio::test]
async fn a_way_back_links_only_in_the_session_that_began() {
    let (world, provider) = world().await;
    world.user("bob", AccessLevel::User).await;
    world.user("eve", AccessLevel::User).await;
    let mut bob = browser(&world, "bob").await;
    let eve = browser(&world, "eve").await;
    let back = begin(&world, &mut bob, &provider).await;
    let flow = bob.0[super::FLOW].clone();
    // Eve's identity to Bob's account, or Bob's to Eve's: neither.
    let mut both = eve.clone();
    both.0.insert(super::FLOW.to_owned(), flow.clone());
    let refused = come_back(&world.router, &mut both, &back).await;
    refused.is_problem(409, "conflict");
    let mut alone = Jar([(super::FLOW.to_owned(), flow.clone())].into());
    let refused = come_back(&world.router, &mut alone, &back).await;
    refused.is_problem(409, "conflict");
    // Nor when the session is over, or another of the same account.
    let mut again = browser(&world, "bob").await;
    again.0.insert(super::FLOW.to_owned(), flow);
    let refused = come_back(&world.router, &mut again, &back).await;
    refused.is_problem(409, "conflict");
    let out = bob.request(Method::POST, "/api/v1/auth/sign-out", None);
    assert_eq!(send(&world.router, out).await.status, 204);
    let refused = come_back(&world.router, &mut bob, &back).await;
    refused.is_problem(409, "conflict");
    for name in ["bob", "eve"] {
        assert!(user(&world, name).await.spec.identities.is_empty());
    }
}

#[tokio::test]
async fn one_identity_is_not_linked_with_two_accounts() {
    let (world, provider) = world().await;
    world.user("bob", AccessLevel::User).await;
    let (ann, done) = sign_in(&world, &provider).await;
    location(&done);
    let mut bob = browser(&world, "bob").await;
    let back = begin(&world, &mut bob, &provider).await;
    let refused = come_back(&world.router, &mut bob, &back).await;
    refused.is_problem(409, "taken");
    assert!(user(&world, "bob").await.spec.identities.is_empty());
    // It is Ann's only way in.
    let items = list(&world, &ann).await;
    let refused = unlink(&world, &ann, &items[0]["id"]).await;
    refused.is_problem(409, "conflict");
    let body = json!({"newPassword": PASSWORD});
    let request = ann.request(Method::POST, "/api/v1/me/password", Some(body));
    let answer = send(&world.router, request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let ann = browser(&world, "ann").await;
    assert_eq!(unlink(&world, &ann, &items[0]["id"]).await.status, 204);
    let back = begin(&world, &mut bob, &provider).await;
    location(&come_back(&world.router, &mut bob, &back).await);
    assert_eq!(user(&world, "bob").await.spec.identities.len(), 1);
}

#[tokio::test]
async fn where_two_accounts_have_an_identity_the_reservation_decides() {
    use kite_core::{
        cluster::Cluster as _,
        crd::{Claim, Holder, HolderKind, KiteReservation, KiteReservationSpec, KiteUser},
    };
    let (world, provider) = world().await;
    let identity = Identity {
        issuer: provider.issuer.clone(),
        subject: "1001".to_owned(),
    };
    for name in ["bob", "eve"] {
        world.user(name, AccessLevel::User).await;
        let patch = json!({"spec": {"identities": [&identity]}});
        let key = ObjectKey::cluster(name);
        let manager = kite_core::managers::CONTROLLER;
        let edited: KiteUser = world
            .cluster
            .merge_patch(manager, &key, &patch)
            .await
            .unwrap();
        world.state.caches().users.caught_up_with(&edited).await;
    }
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(409, "taken");
    let bob = user(&world, "bob").await;
    let holder = Holder {
        kind: HolderKind::KiteUser,
        namespace: None,
        name: "bob".to_owned(),
        uid: bob.metadata.uid.unwrap(),
    };
    let name = identity.reservation();
    let spec = KiteReservationSpec::new(Claim::Identity, holder);
    let reservation = KiteReservation::new(&name, spec);
    world.cluster.create(&reservation).await.unwrap();
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(me(&world, &jar).await.text("/username"), "bob");
}

#[tokio::test]
async fn administrators_see_who_accounts_are_and_unlink_those_of_others() {
    let (world, provider) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    world.user("bob", AccessLevel::User).await;
    let mut bob = browser(&world, "bob").await;
    let back = begin(&world, &mut bob, &provider).await;
    location(&come_back(&world.router, &mut bob, &back).await);
    let (other, done) = sign_in(&world, &provider).await;
    location(&done);

    let seen = world.get("/api/v1/admin/users/bob", &root).await;
    let linked = &seen.body["identities"][0];
    assert_eq!(linked["issuer"], json!(provider.issuer));
    assert_eq!(linked["subject"], "1001");
    let path = |name: &str| {
        let id = linked["id"].as_str().unwrap();
        format!("/api/v1/admin/users/{name}/identities/{id}")
    };
    let refused = world.delete(&path("bob"), &mia).await;
    refused.is_problem(403, "forbidden");
    let refused = world.delete(&path("mia"), &root).await;
    refused.is_problem(404, "not-found");
    let gone = world.delete(&path("bob"), &root).await;
    assert_eq!(gone.status, 204, "{gone:?}");
    // Who came in by it is out; who came in by the password is not.
    assert_eq!(other.me(&world.router).await, 401);
    assert_eq!(bob.me(&world.router).await, 200);
    assert!(user(&world, "bob").await.spec.identities.is_empty());

    // The only way in stays, and one's own is looked after on one's own page.
    let (_, done) = sign_in(&world, &provider).await;
    location(&done);
    let refused = world.delete(&path("ann"), &root).await;
    let detail = refused.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("give it a password"), "{refused:?}");
    let refused = world.delete(&path("root"), &root).await;
    let detail = refused.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("/api/v1/me/identities"), "{refused:?}");
}
