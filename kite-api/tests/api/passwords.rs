//! What a new password must be, wherever one is set.

use ::http::{Method, header};
use kite_core::crd::AccessLevel;
use serde_json::{Value, json};

use crate::{
    gate::Gate,
    lists::new_vm,
    world::{Answer, PASSWORD, TOKEN, World, request, send},
};

/// Every place at which the API is told a new password of somebody called `alice`, or of
/// a VM of hers: a name for it, the field, and what sends it.
const PLACES: [(&str, &str); 7] = [
    ("bootstrap", "password"),
    ("sign-up", "password"),
    ("own", "newPassword"),
    ("create", "password"),
    ("edit", "password"),
    ("new VM", "sshPassword"),
    ("VM", "sshPassword"),
];

async fn set(world: &World, tokens: &[String; 2], place: &str, password: &str) -> Answer {
    let [alice, root] = tokens;
    let (method, path, token, mut body, field) = match place {
        "bootstrap" => (
            Method::POST,
            "/api/v1/auth/bootstrap",
            "",
            json!({"token": TOKEN, "username": "alice2", "email": "alice@kite.test"}),
            "password",
        ),
        "sign-up" => (
            Method::POST,
            "/api/v1/auth/sign-up",
            "",
            json!({"username": "alice3", "email": "alice@kite.test"}),
            "password",
        ),
        "own" => (
            Method::POST,
            "/api/v1/me/password",
            alice.as_str(),
            json!({"currentPassword": PASSWORD}),
            "newPassword",
        ),
        "create" => (
            Method::POST,
            "/api/v1/admin/users",
            root.as_str(),
            json!({"username": "alice4", "email": "alice@kite.test"}),
            "password",
        ),
        "edit" => (
            Method::PATCH,
            "/api/v1/admin/users/alice",
            root.as_str(),
            json!({}),
            "password",
        ),
        "new VM" => (
            Method::POST,
            "/api/v1/vms",
            alice.as_str(),
            new_vm("db"),
            "sshPassword",
        ),
        "VM" => (
            Method::PATCH,
            "/api/v1/vms/web",
            alice.as_str(),
            json!({}),
            "sshPassword",
        ),
        other => panic!("where is {other}?"),
    };
    body[field] = Value::from(password);
    send(&world.router, request(method, path, token, Some(body))).await
}

#[tokio::test]
async fn what_many_have_or_others_know_is_refused_everywhere() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let alice = world.user("alice", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::User).await;
    let made = world.post("/api/v1/vms", &alice, new_vm("web")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let admin = world.user("super", AccessLevel::Admin).await;
    let tokens = [alice, admin];
    drop(root);
    for (place, field) in PLACES {
        for password in [
            "password",
            "Password1",
            "1234567890",
            "QWERTYUIOP",
            "111111111111",
            "alice in the woods",
            "my ALICE2026 !!",
            "short",
        ] {
            let refused = set(&world, &tokens, place, password).await;
            assert_eq!(
                refused.is_problem(422, "invalid").fields(),
                [field],
                "{place}: {password}"
            );
            let error = &refused.body["errors"][0];
            assert_eq!(error.get("value"), None, "{place}: {error}");
        }
    }
    // None of it was done: she still signs in as before.
    world.sign_in("alice").await;
}

#[tokio::test]
async fn an_administrator_takes_a_longer_one() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("bob", AccessLevel::User).await;
    let eleven = "kw7-bat!kw7";
    let own = json!({"currentPassword": PASSWORD, "newPassword": eleven});
    let refused = world.post("/api/v1/me/password", &root, own).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["newPassword"]);
    let new = |level: &str| json!({"username": "eve", "password": eleven, "accessLevel": level});
    let refused = world.post("/api/v1/admin/users", &root, new("Admin")).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    let made = world
        .post("/api/v1/admin/users", &root, new("Manager"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    // Raised with it, and once raised with the next one. A password of which only a hash is
    // known may be short.
    let path = "/api/v1/admin/users/bob";
    let both = json!({"accessLevel": "Admin", "password": eleven});
    let refused = world.patch(path, &root, both).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    let raise = json!({"accessLevel": "Admin"});
    let refused = world.patch(path, &root, raise.clone()).await;
    refused.is_problem(409, "conflict");
    assert_eq!(refused.fields(), ["accessLevel"]);
    let both = json!({"accessLevel": "Admin", "password": "kw7-bat!kw7-"});
    let raised = world.patch(path, &root, both).await;
    assert_eq!(raised.status, 200, "{raised:?}");
    let refused = world.patch(path, &root, json!({"password": eleven})).await;
    refused.is_problem(422, "invalid");

    // However it was set, its length is known; of no other one.
    let path = "/api/v1/admin/users/eve";
    let refused = world.patch(path, &root, raise.clone()).await;
    refused.is_problem(409, "conflict");
    let set = async |password: &str| {
        let body = json!({"password": password});
        world.patch(path, &root, body).await.status
    };
    assert_eq!(set("kw7-bat!kw7-").await, 200);
    assert_eq!(set(eleven).await, 200);
    let refused = world.patch(path, &root, raise.clone()).await;
    refused.is_problem(409, "conflict");
    let eve = world
        .post(
            "/api/v1/auth/sign-in",
            "",
            json!({"username": "eve", "password": eleven}),
        )
        .await;
    let own = json!({"currentPassword": eleven, "newPassword": "kw7-bat!kw7-"});
    let changed = world
        .post("/api/v1/me/password", eve.text("/token"), own)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let raised = world.patch(path, &root, raise.clone()).await;
    assert_eq!(raised.status, 200, "{raised:?}");
    let body = json!({"username": "uma", "password": PASSWORD});
    let made = world.post("/api/v1/auth/sign-up", "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let raised = world.patch("/api/v1/admin/users/uma", &root, raise).await;
    assert_eq!(raised.status, 200, "{raised:?}");

    // By an invite, too, which keeps good.
    let invite = world
        .post(
            "/api/v1/admin/invites",
            &root,
            json!({"accessLevel": "Admin"}),
        )
        .await;
    let join = |password: &str| {
        let body = json!({"username": "zoe", "password": password,
                          "invite": invite.text("/token")});
        world.post("/api/v1/auth/sign-up", "", body)
    };
    let refused = join(eleven).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    assert_eq!(join("kw7-bat!kw7-").await.status, 201);
}

#[tokio::test]
async fn a_password_fits_however_its_characters_are_put_together() {
    let world = World::new().await;
    let (composed, apart) = ("caf\u{e9} au lait noir", "cafe\u{301} au\u{a0}lait noir");
    let body = json!({"username": "ann", "password": apart});
    let made = world.post("/api/v1/auth/sign-up", "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    for (password, status) in [(composed, 200), (apart, 200), ("cafe au lait noir", 401)] {
        let body = json!({"username": "ann", "password": password});
        let answer = world.post("/api/v1/auth/sign-in", "", body).await;
        assert_eq!(answer.status, status, "{password:?}");
    }
}

/// A replica whose write of eve's account is held, with eve, whose password is long.
async fn held(world: &World, root: &str) -> (axum::Router, Gate, String) {
    let body = json!({"username": "eve", "password": LONG});
    let made = world.post("/api/v1/admin/users", root, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    world.prepare_namespace("eve").await;
    let body = json!({"username": "eve", "password": LONG});
    let eve = world.post("/api/v1/auth/sign-in", "", body).await;
    let (slow, gate) = Gate::replica(
        world,
        |it| it,
        |request| {
            request.method() == Method::PATCH && request.uri().path().ends_with("/kiteusers/eve")
        },
    )
    .await;
    (slow, gate, eve.text("/token").to_owned())
}

const LONG: &str = "kw7-bat!kw7-";
const SHORT: &str = "kw7-bat!kw7";
const EVE: &str = "/api/v1/admin/users/eve";

#[tokio::test]
async fn who_sets_a_short_password_while_they_are_raised_is_not_raised() {
    // Who sent an `If-Match` is told of it, and nobody else.
    for (condition, status, kind) in [
        (None, 409, "conflict"),
        (Some("*"), 409, "conflict"),
        (Some("its own"), 412, "changed-meanwhile"),
    ] {
        let world = World::new().await;
        let root = world.user("root", AccessLevel::Admin).await;
        let (slow, gate, _) = held(&world, &root).await;
        let body = json!({"accessLevel": "Admin"});
        let mut raise = request(Method::PATCH, EVE, &root, Some(body));
        if let Some(condition) = condition {
            let eve = world.get(EVE, &root).await;
            let tag = match condition {
                "*" => condition,
                _ => eve.text("/etag"),
            };
            let headers = raise.headers_mut();
            headers.insert(header::IF_MATCH, tag.parse().unwrap());
        }
        let meanwhile = async {
            gate.holds_one().await;
            let short = json!({"password": SHORT});
            assert_eq!(world.patch(EVE, &root, short).await.status, 200);
            gate.let_on(9);
        };
        let (raised, ()) = tokio::join!(send(&slow, raise), meanwhile);
        raised.is_problem(status, kind);
        let told = raised.text("/detail").contains("If-Match");
        assert_eq!(told, status == 412, "{raised:?}");
        assert_eq!(world.get(EVE, &root).await.text("/accessLevel"), "User");
    }
}

#[tokio::test]
async fn who_is_raised_while_they_set_a_short_password_keeps_the_long_one() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (slow, gate, eve) = held(&world, &root).await;
    let meanwhile = async {
        gate.holds_one().await;
        let raise = json!({"accessLevel": "Admin"});
        assert_eq!(world.patch(EVE, &root, raise).await.status, 200);
        gate.let_on(9);
    };
    let own = json!({"currentPassword": LONG, "newPassword": SHORT});
    let set = request(Method::POST, "/api/v1/me/password", &eve, Some(own));
    let (set, ()) = tokio::join!(send(&slow, set), meanwhile);
    set.is_problem(409, "conflict");
    for (password, status) in [(LONG, 200), (SHORT, 401)] {
        let body = json!({"username": "eve", "password": password});
        let answer = world.post("/api/v1/auth/sign-in", "", body).await;
        assert_eq!(answer.status, status, "{password}");
    }
}
