//! Creations of secrets and accounts that are asked for again with the same
//! `Idempotency-Key`: after a lost answer, on another replica, at the same moment.

use ::http::{HeaderValue, Method, Request};
use axum::{Router, body::Body};
use kite_api::{ApiState, router};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteToken, KiteUser, SignUp},
};
use kite_fake::fault::{Call, Fault, Faults, Plan};
use serde_json::{Value, json};
use tower::Layer as _;

use crate::{
    gate::Gate,
    invites::{by_invitation, join, make, object, writes},
    world::{Answer, PASSWORD, World, request, send},
};

const ME: &str = "/api/v1/me";
const TOKENS: &str = "/api/v1/me/tokens";
const TOTP: &str = "/api/v1/me/totp";
const SIGN_UP: &str = "/api/v1/auth/sign-up";
const USERS: &str = "/api/v1/admin/users";
const OFFERS: &str = "/api/v1/admin/offers";
const SIGN_IN: &str = "/api/v1/auth/sign-in";

fn keyed(path: &str, token: &str, key: &str, body: &Value) -> Request<Body> {
    let mut request = request(Method::POST, path, token, Some(body.clone()));
    let headers = request.headers_mut();
    headers.insert("idempotency-key", key.parse().unwrap());
    request
}

fn is_replayed(answer: &Answer) -> bool {
    assert_eq!(answer.status, 201, "{answer:?}");
    let header = answer.headers.get("idempotency-replayed");
    assert!(header.is_none_or(|header| header == "true"), "{answer:?}");
    header.is_some()
}

/// A replica to which `fault` happens at the first request that is meant.
async fn broken(
    world: &World,
    fault: Fault,
    meant: impl Fn(&Call) -> bool + Send + Sync + 'static,
) -> (Router, Faults) {
    let faults = Faults::new(Plan::first("meant", fault, meant));
    let service = faults.layer("kite-api").layer(world.service());
    let client = kube::Client::new(service, "default");
    let state = ApiState::builder(client).build().await.unwrap();
    state.synced().await;
    (router(state), faults)
}

fn ci() -> Value {
    json!({"name": "ci", "scopes": ["account:read"]})
}

async fn token_object(world: &World) -> KiteToken {
    let tokens = world.state.caches().tokens.list(|_| true);
    assert_eq!(tokens.len(), 1);
    let key = ObjectKey::of(tokens[0].as_ref());
    world.cluster.get(&key).await.unwrap()
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_api_token() {
    let world = World::new().await;
    let other = world.replica().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let first = send(&world.router, keyed(TOKENS, &ann, "one", &ci())).await;
    assert!(!is_replayed(&first));
    let again = send(&other, keyed(TOKENS, &ann, "one", &ci())).await;
    assert!(is_replayed(&again));
    assert_eq!(again.body, first.body);
    assert_eq!(again.headers["location"], "/api/v1/me/tokens/ci");
    let token = first.text("/token");
    assert_eq!(world.get(ME, token).await.text("/username"), "ann");
    let stored = serde_json::to_string(&token_object(&world).await).unwrap();
    assert!(!stored.contains(token), "it is sealed");
    assert!(
        !world
            .get(TOKENS, &ann)
            .await
            .body
            .to_string()
            .contains(token)
    );

    for body in [
        json!({"name": "ci", "scopes": ["vms:read"]}),
        json!({"name": "another", "scopes": ["account:read"]}),
    ] {
        let reused = send(&world.router, keyed(TOKENS, &ann, "one", &body)).await;
        reused.is_problem(422, "idempotency-key-reused");
    }
    let two = send(&other, keyed(TOKENS, &ann, "two", &ci())).await;
    assert_eq!(two.is_problem(409, "taken").fields(), ["name"]);
    let none = world.post(TOKENS, &ann, ci()).await;
    none.is_problem(409, "taken");
    // The key is one's own.
    let theirs = send(&other, keyed(TOKENS, &bob, "one", &ci())).await;
    assert!(!is_replayed(&theirs));
    assert_ne!(theirs.text("/token"), token);
}

#[tokio::test]
async fn what_can_be_no_key_is_refused_and_creates_nothing() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let longest = "k".repeat(128);
    let mut wrong: Vec<Vec<HeaderValue>> = ["", "two words", &format!("{longest}k")]
        .map(|key| vec![key.parse().unwrap()])
        .into();
    wrong.push(vec![HeaderValue::from_bytes("키".as_bytes()).unwrap()]);
    // Nobody could say which of them counts.
    wrong.push(["one", "two"].map(HeaderValue::from_static).into());
    for keys in wrong {
        let mut request = request(Method::POST, TOKENS, &ann, Some(ci()));
        for key in keys {
            request.headers_mut().append("idempotency-key", key);
        }
        let refused = send(&world.router, request).await;
        let detail = refused.is_problem(400, "malformed").text("/detail");
        assert!(detail.contains("Idempotency-Key"), "{detail}");
    }
    assert!(world.state.caches().tokens.list(|_| true).is_empty());
    let made = send(&world.router, keyed(TOKENS, &ann, &longest, &ci())).await;
    assert!(!is_replayed(&made));
}

#[tokio::test]
async fn an_api_token_that_has_ended_is_not_shown_again() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let ask = || send(&world.router, keyed(TOKENS, &ann, "one", &ci()));
    let first = ask().await;
    let path = format!("{TOKENS}/ci");
    assert_eq!(world.delete(&path, &ann).await.status, 204);
    // Nothing is known of it any more: this is another one.
    let second = ask().await;
    assert!(!is_replayed(&second));
    assert_ne!(second.text("/token"), first.text("/token"));
    assert_eq!(world.get(ME, first.text("/token")).await.status, 401);

    let edit = json!({"endTokens": true});
    let ended = world.patch("/api/v1/admin/users/ann", &root, edit).await;
    assert_eq!(ended.status, 200, "{ended:?}");
    let refused = ask().await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("new key"), "{refused:?}");
    assert!(!refused.body.to_string().contains("kite_pat_"));
    let next = send(&world.router, keyed(TOKENS, &ann, "two", &ci())).await;
    assert!(!is_replayed(&next));
    assert_eq!(world.get(ME, next.text("/token")).await.status, 200);
}

#[tokio::test]
async fn one_that_came_back_from_a_backup_is_not_shown_again() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let ask = || send(&world.router, keyed(TOKENS, &ann, "one", &ci()));
    let first = ask().await;
    let key = ObjectKey::of(&token_object(&world).await);
    let patch = json!({"metadata": {"annotations": {"hy3ons.github.io/api-token": null}}});
    let edited: KiteToken = world
        .cluster
        .merge_patch(FieldManager::new("test"), &key, &patch)
        .await
        .unwrap();
    world.state.caches().tokens.caught_up_with(&edited).await;
    ask().await.is_problem(409, "taken");
    assert_eq!(world.get(ME, first.text("/token")).await.status, 200);
}

#[tokio::test]
async fn of_many_requests_for_a_token_at_once_on_two_replicas_one_makes_it() {
    let world = World::new().await;
    let other = world.replica().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let requests = (0..8).map(|n| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        send(router, keyed(TOKENS, &ann, "one", &ci()))
    });
    let answers = futures::future::join_all(requests).await;
    let made = answers.iter().filter(|answer| !is_replayed(answer)).count();
    assert_eq!(made, 1);
    let first = answers[0].text("/token");
    assert!(answers.iter().all(|it| it.text("/token") == first));
    assert_eq!(world.get(ME, first).await.status, 200);
}

#[tokio::test]
async fn who_asks_at_the_same_moment_is_not_in_their_own_way() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    // It has seen that there is no such token yet, and goes for the key that seals it.
    let seals = |request: &Request<kube::client::Body>| request.uri().path().contains("/secrets");
    let (slow, gate) = Gate::replica(&world, |it| it, seals).await;
    let late = send(&slow, keyed(TOKENS, &ann, "one", &ci()));
    let first = async {
        gate.holds_one().await;
        let made = send(&world.router, keyed(TOKENS, &ann, "one", &ci())).await;
        let is_seen = async || {
            let list = send(&slow, request(Method::GET, TOKENS, &ann, None)).await;
            list.body["items"]
                .as_array()
                .is_some_and(|it| !it.is_empty())
        };
        world.until("the slow one sees it", is_seen).await;
        gate.let_on(9);
        made
    };
    let (late, first) = tokio::join!(late, first);
    assert!(!is_replayed(&first) && is_replayed(&late));
    assert_eq!(first.text("/token"), late.text("/token"));
}

#[tokio::test]
async fn a_key_is_good_for_one_thing_of_one_account() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("eve", AccessLevel::User).await;
    let offer = |name: &str| json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12"});
    let mut vm = offer("web");
    vm["sshPassword"] = json!(PASSWORD);
    let vms = "/api/v1/vms";
    let of_eve = format!("{vms}?owner=eve");
    for (n, (one, other)) in [
        (
            (USERS, new_account("kim", PASSWORD)),
            (USERS, new_account("lee", PASSWORD)),
        ),
        ((OFFERS, offer("small")), (OFFERS, offer("tiny"))),
        (
            (TOKENS, ci()),
            (TOKENS, json!({"name": "cd", "scopes": ["account:read"]})),
        ),
        ((vms, vm.clone()), (&of_eve, vm.clone())),
        (
            (&of_eve, {
                vm["name"] = json!("db");
                vm.clone()
            }),
            (vms, vm.clone()),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("key{n}");
        let made = send(&world.router, keyed(one.0, &root, &key, &one.1)).await;
        assert!(!is_replayed(&made));
        let reused = send(&world.router, keyed(other.0, &root, &key, &other.1)).await;
        reused.is_problem(422, "idempotency-key-reused");
        let again = send(&world.router, keyed(one.0, &root, &key, &one.1)).await;
        assert!(is_replayed(&again));
        // Where it is, of whoever it is.
        let at = made.headers["location"].to_str().unwrap().to_owned();
        if at.starts_with(vms) {
            let there = world.get(&at, &root).await;
            assert_eq!(there.text("/sshId"), made.text("/sshId"), "{at}");
        }
    }
}

#[tokio::test]
async fn a_token_whose_answer_was_lost_to_a_fault_is_had_by_asking_again() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let faults = [
        Fault::ResetBeforeSend,
        Fault::ResetAfterCommit,
        Fault::ServerError,
        Fault::Timeout,
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        let creates = |call: &Call| call.plural == "kitetokens" && call.verb == "create";
        let (broken, faults) = broken(&world, fault, creates).await;
        let body = json!({"name": format!("ci{n}"), "scopes": ["account:read"]});
        let key = format!("key{n}");
        let first = send(&broken, keyed(TOKENS, &ann, &key, &body)).await;
        assert!(faults.unfired().is_empty(), "{fault:?}");
        let again = send(&world.router, keyed(TOKENS, &ann, &key, &body)).await;
        assert_eq!(again.status, 201, "{fault:?} {again:?}");
        if first.status == 201 {
            assert_eq!(again.text("/token"), first.text("/token"), "{fault:?}");
        }
        let me = world.get(ME, again.text("/token")).await;
        assert_eq!(me.status, 200, "{fault:?}");
    }
}

fn new_account(username: &str, password: &str) -> Value {
    json!({"username": username, "password": password, "email": format!("{username}@kite.test")})
}

#[tokio::test]
async fn a_repeated_sign_up_signs_in() {
    let world = World::new().await;
    let other = world.replica().await;
    let body = new_account("ann", PASSWORD);
    let first = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(!is_replayed(&first));
    for router in [&other, &world.router] {
        let again = send(router, keyed(SIGN_UP, "", "one", &body)).await;
        assert!(is_replayed(&again));
        assert_eq!(again.headers["location"], "/api/v1/me");
        assert_eq!(again.body["user"], first.body["user"]);
        // Another session of the same account.
        assert_ne!(again.text("/token"), first.text("/token"));
        let me = world.get(ME, again.text("/token")).await;
        assert_eq!(me.text("/username"), "ann");
    }
    let mut other_body = body.clone();
    other_body["email"] = "ann@example.org".into();
    let reused = send(&other, keyed(SIGN_UP, "", "one", &other_body)).await;
    reused.is_problem(422, "idempotency-key-reused");
    // It makes no account, and so does not count as one.
    for _ in 0..20 {
        let again = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
        assert!(is_replayed(&again));
    }
}

#[tokio::test]
async fn the_key_of_a_sign_up_proves_nothing() {
    let world = World::new().await;
    let body = new_account("ann", PASSWORD);
    let first = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(!is_replayed(&first));
    // Made without a key, or by an administrator.
    world.user("bob", AccessLevel::User).await;

    let guess = new_account("ann", "wrong horse");
    let anybody = world.post(SIGN_UP, "", guess.clone()).await;
    assert_eq!(anybody.is_problem(409, "taken").fields(), ["username"]);
    let mut other_body = guess.clone();
    other_body["email"] = Value::Null;
    for (key, body) in [
        ("one", &guess),
        ("one", &other_body),
        ("two", &guess),
        // The right password with another key is no sign-in.
        ("two", &body),
    ] {
        let refused = send(&world.router, keyed(SIGN_UP, "", key, body)).await;
        assert_eq!(refused.body, anybody.body, "{key} {body}");
        assert!(!refused.headers.contains_key("idempotency-replayed"));
        assert!(!refused.headers.contains_key("set-cookie"));
    }
    let bob = new_account("bob", PASSWORD);
    let refused = send(&world.router, keyed(SIGN_UP, "", "one", &bob)).await;
    refused.is_problem(409, "taken");
}

#[tokio::test]
async fn guessing_by_sign_up_counts_as_guessing_by_sign_in() {
    // Whether the key is that of the account, or of none.
    for username in ["ann", "bob"] {
        let world = World::new().await;
        let body = new_account("ann", PASSWORD);
        let first = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
        assert!(!is_replayed(&first));
        world.user("bob", AccessLevel::User).await;
        let guess = new_account(username, "wrong horse");
        for _ in 0..5 {
            let refused = send(&world.router, keyed(SIGN_UP, "", "one", &guess)).await;
            refused.is_problem(409, "taken");
        }
        let right = json!({"username": username, "password": PASSWORD});
        let refused = world.post(SIGN_IN, "", right).await;
        refused.is_problem(429, "too-many-requests");
        let right = new_account(username, PASSWORD);
        let refused = send(&world.router, keyed(SIGN_UP, "", "one", &right)).await;
        refused.is_problem(429, "too-many-requests");
    }
}

#[tokio::test]
async fn a_repeated_sign_up_is_no_way_around_what_keeps_somebody_out() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let body = new_account("ann", PASSWORD);
    let ask = |body: &Value| send(&world.router, keyed(SIGN_UP, "", "one", body));
    let ann = ask(&body).await.text("/token").to_owned();

    let begun = world.post(TOTP, &ann, json!({"password": PASSWORD})).await;
    let secret = totp_rs::Secret::try_from_base32(begun.text("/secret")).unwrap();
    let app = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let code = json!({"code": app.generate(now).to_string()});
    let confirmed = world.post(&format!("{TOTP}/confirm"), &ann, code).await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    let refused = ask(&body).await;
    refused.is_problem(401, "second-factor-required");
    assert!(refused.text("/detail").contains("sign in with its code"));
    // Nothing of it is told to who does not know the password.
    let guess = new_account("ann", "wrong horse");
    ask(&guess).await.is_problem(409, "taken");

    let path = "/api/v1/admin/users/ann";
    let edit = json!({"removeSecondFactor": true, "suspended": true});
    assert_eq!(world.patch(path, &root, edit).await.status, 200);
    ask(&body).await.is_problem(403, "suspended");
    ask(&guess).await.is_problem(409, "taken");
    // Another password since: the first one is none any more.
    let edit = json!({"suspended": false, "password": "battery staple"});
    assert_eq!(world.patch(path, &root, edit).await.status, 200);
    ask(&body).await.is_problem(409, "taken");
}

#[tokio::test]
async fn of_many_sign_ups_at_once_on_two_replicas_one_makes_the_account() {
    let world = World::new().await;
    let other = world.replica().await;
    let body = new_account("ann", PASSWORD);
    let requests = (0..4).map(|n| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        send(router, keyed(SIGN_UP, "", "one", &body))
    });
    let answers = futures::future::join_all(requests).await;
    let made = answers.iter().filter(|answer| !is_replayed(answer)).count();
    assert_eq!(made, 1);
    let users = world.state.caches().users.list(|_| true);
    assert_eq!(users.len(), 1);
}

#[tokio::test]
async fn a_sign_up_by_invite_is_repeated_like_any_other() {
    let (world, root) = by_invitation().await;
    let other = world.replica().await;
    let made = make(&world, &root, json!({})).await;
    let body = join("ann", made.text("/token"));
    let first = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(!is_replayed(&first));
    let again = send(&other, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(is_replayed(&again));
    assert_eq!(world.get(ME, again.text("/token")).await.status, 200);

    // Another password, another key and another username get what anybody gets.
    let mut guess = body.clone();
    guess["password"] = "wrong horse".into();
    let anybody = world.post(SIGN_UP, "", guess.clone()).await;
    anybody.is_problem(409, "invite-over");
    let eve = join("eve", made.text("/token"));
    for (key, body) in [("one", &guess), ("two", &body), ("one", &eve)] {
        let refused = send(&other, keyed(SIGN_UP, "", key, body)).await;
        assert_eq!(refused.body, anybody.body, "{key} {body}");
    }
    // Also once the invite is not there any more.
    let path = format!("/api/v1/admin/invites/{}", made.text("/name"));
    assert_eq!(world.delete(&path, &root).await.status, 204);
    let again = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(is_replayed(&again));
    let refused = send(&world.router, keyed(SIGN_UP, "", "one", &guess)).await;
    refused.is_problem(401, "wrong-credentials");
    world.platform(SignUp::Closed).await;
    let refused = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
    refused.is_problem(403, "sign-up-closed");
}

#[tokio::test]
async fn at_the_same_moment_one_invite_makes_one_account() {
    let (world, root) = by_invitation().await;
    let other = world.replica().await;
    let made = make(&world, &root, json!({})).await;
    let body = join("ann", made.text("/token"));
    let requests = (0..4).map(|n| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        send(router, keyed(SIGN_UP, "", "one", &body))
    });
    let answers = futures::future::join_all(requests).await;
    let (in_, others): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.status == 201);
    // Who comes before the account is there repeats it, as it is told to.
    for answer in others {
        answer.is_problem(409, "conflict");
    }
    let made_it = in_.iter().filter(|answer| !is_replayed(answer)).count();
    assert_eq!(made_it, 1, "{answers:?}");
    let again = send(&other, keyed(SIGN_UP, "", "one", &body)).await;
    assert!(is_replayed(&again));
    let used = object(&world, &made).await.status.unwrap();
    assert_eq!(used.used_by.unwrap().name, "ann");
}

#[tokio::test]
async fn after_a_fault_at_any_write_of_a_sign_up_the_same_request_signs_in() {
    let (world, root) = by_invitation().await;
    for (row, fault) in [Fault::ResetAfterCommit, Fault::ServerError]
        .into_iter()
        .enumerate()
    {
        for (column, (what, meant)) in writes().into_iter().enumerate() {
            let case = format!("{fault:?} at {what}");
            let made = make(&world, &root, json!({})).await;
            let ann = format!("ann-{row}-{column}");
            let body = join(&ann, made.text("/token"));
            let (broken, faults) = broken(&world, fault, meant).await;
            let first = send(&broken, keyed(SIGN_UP, "", "one", &body)).await;
            assert!(faults.unfired().is_empty(), "{case}");
            let again = send(&world.router, keyed(SIGN_UP, "", "one", &body)).await;
            assert_eq!(again.status, 201, "{case}: {first:?}, then {again:?}");
            let me = world.get(ME, again.text("/token")).await;
            assert_eq!(me.text("/username"), ann, "{case}");
            // A crash has not left an invite that makes another.
            let used = object(&world, &made).await.status.unwrap();
            assert_eq!(used.used_by.unwrap().name, ann, "{case}");
            let key = ObjectKey::cluster(&ann);
            let there: Option<KiteUser> = world.cluster.get_opt(&key).await.unwrap();
            assert!(there.is_some(), "{case}");
        }
    }
}
