//! API tokens: what they may do, and what ends them.

use http::{Method, StatusCode};
use jiff::{Timestamp, ToSpan as _};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteToken, KiteUser},
};
use serde_json::{Value, json};

use crate::world::{PASSWORD, World, request, send};

const ME: &str = "/api/v1/me";
const TOKENS: &str = "/api/v1/me/tokens";

async fn make(world: &World, session: &str, name: &str, scopes: Value) -> String {
    let body = json!({"name": name, "scopes": scopes});
    let made = world.post(TOKENS, session, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.text("/token").to_owned()
}

async fn object(world: &World) -> KiteToken {
    let tokens = world.state.caches().tokens.list(|_| true);
    assert_eq!(tokens.len(), 1);
    let key = ObjectKey::of(tokens[0].as_ref());
    world.cluster.get(&key).await.unwrap()
}

#[tokio::test]
async fn a_token_is_shown_once_and_works_on_every_replica_until_it_is_deleted() {
    let world = World::new().await;
    let other = world.replica().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read", "vms:read"])).await;
    assert!(
        token.starts_with("kite_pat_") && token.len() == 73,
        "{token}"
    );
    let me = send(&other, request(Method::GET, ME, &token, None)).await;
    assert_eq!(me.text("/username"), "ann");

    let listed = world.get(TOKENS, &ann).await;
    assert_eq!(listed.names(), ["ci"]);
    assert_eq!(
        listed.body["items"][0]["scopes"],
        json!(["account:read", "vms:read"])
    );
    assert!(!listed.body.to_string().contains(&token));
    let object = serde_json::to_string(&object(&world).await).unwrap();
    assert!(!object.contains(&token), "only a hash is stored");
    assert!(world.get(TOKENS, &bob).await.names().is_empty());
    // It is no session.
    let sessions = world.get("/api/v1/me/sessions", &ann).await;
    assert_eq!(sessions.body["items"].as_array().unwrap().len(), 1);

    let one = format!("{TOKENS}/ci");
    world.delete(&one, &bob).await.is_problem(404, "not-found");
    assert_eq!(world.delete(&one, &ann).await.status, 204);
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
    world
        .until("the token ends there", async || {
            let asked = request(Method::GET, ME, &token, None);
            send(&other, asked).await.status == 401
        })
        .await;
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say_and_nothing_else() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let vm = json!({
        "name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12",
    });
    assert_eq!(
        world.post("/api/v1/vms", &root, vm.clone()).await.status,
        201
    );
    let asked: [(&str, Method, &str, Option<Value>); 16] = [
        ("see", Method::GET, "/vms", None),
        ("see", Method::GET, "/vms/web", None),
        ("see", Method::GET, "/images", None),
        ("power", Method::POST, "/vms/web/stop", None),
        ("write", Method::PATCH, "/vms/web", Some(json!({"cpu": 2}))),
        ("account", Method::GET, "/me", None),
        ("account", Method::GET, "/me/sessions", None),
        (
            "edit",
            Method::PATCH,
            "/me",
            Some(json!({"email": "a@kite.test"})),
        ),
        (
            "open",
            Method::PATCH,
            "/vms/web",
            Some(json!({"sshPublicKeys": []})),
        ),
        (
            "open",
            Method::PATCH,
            "/vms/web",
            Some(json!({"sshPassword": "staple of the machine"})),
        ),
        (
            "keys",
            Method::PATCH,
            "/me",
            Some(json!({"sshPublicKeys": []})),
        ),
        ("users", Method::GET, "/admin/users", None),
        ("users", Method::GET, "/admin/offers", None),
        (
            "admin",
            Method::PATCH,
            "/admin/users/root",
            Some(json!({"email": null})),
        ),
        ("never", Method::DELETE, "/me/sessions", None),
        ("never", Method::GET, "/me/tokens", None),
    ];
    for (scope, allowed) in [
        ("vms:read", &["see"][..]),
        ("vms:power", &["see", "power"]),
        ("vms:write", &["see", "power", "write"]),
        ("vms:access", &["see", "power", "write", "open"]),
        ("account:read", &["account"]),
        ("account:write", &["account", "edit"]),
        ("account:keys", &["account", "edit", "keys"]),
        ("admin:read", &["users"]),
        ("admin", &["users", "admin"]),
    ] {
        let name = scope.replace(':', "-");
        let token = make(&world, &root, &name, json!([scope])).await;
        for (what, method, path, body) in &asked {
            let path = format!("/api/v1{path}");
            let asked = request(method.clone(), &path, &token, body.clone());
            let answer = send(&world.router, asked).await;
            if allowed.contains(what) {
                assert!(answer.status.is_success(), "{scope} {path}: {answer:?}");
            } else {
                answer.is_problem(403, "forbidden");
                assert!(answer.text("/detail").contains("API token"), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_never_does_more_than_its_user() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::Admin).await;
    let all = json!(["vms:write", "account:write", "admin"]);
    let token = make(&world, &ann, "all", all.clone()).await;
    assert_eq!(world.get("/api/v1/admin/users", &token).await.status, 200);
    let level = json!({"accessLevel": "ReadOnly"});
    world.patch("/api/v1/admin/users/ann", &admin, level).await;
    for path in ["/api/v1/admin/users", "/api/v1/admin/offers"] {
        world.get(path, &token).await.is_problem(403, "forbidden");
    }
    let edit = json!({"email": "ann@kite.test"});
    world
        .patch(ME, &token, edit)
        .await
        .is_problem(403, "forbidden");

    // Nor does it make tokens or change how somebody signs in.
    let token = make(&world, &admin, "all", all.clone()).await;
    let password = json!({"currentPassword": PASSWORD, "newPassword": "another battery"});
    for (path, body) in [
        (TOKENS, json!({"name": "more", "scopes": all})),
        ("/api/v1/me/password", password),
        ("/api/v1/admin/sign-out-everyone", json!({})),
    ] {
        let refused = world.post(path, &token, body).await;
        refused.is_problem(403, "forbidden");
    }
    let refused = world.delete(&format!("{TOKENS}/all"), &token).await;
    refused.is_problem(403, "forbidden");
    let password = json!({"password": "another battery"});
    let refused = world
        .patch("/api/v1/admin/users/ann", &token, password)
        .await;
    refused.is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_token_is_not_taken_from_a_cookie() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let mut asked = request(Method::GET, ME, "", None);
    let cookie = format!("kite_session={token}").parse().unwrap();
    asked.headers_mut().insert("cookie", cookie);
    send(&world.router, asked)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_forged_secret_or_an_ended_token_opens_nothing() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let mut forged = token.clone().into_bytes();
    let last = forged.last_mut().unwrap();
    *last = if *last == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    for wrong in [
        forged.as_str(),
        "kite_pat_",
        "kite_pat_x",
        "kite_pat_../../x",
    ] {
        world
            .get(ME, wrong)
            .await
            .is_problem(401, "unauthenticated");
    }
    assert_eq!(world.get(ME, &token).await.status, 200);
    let soon = Timestamp::now() + 300.milliseconds();
    let body = json!({"name": "soon", "scopes": ["account:read"], "expiresAt": soon});
    let soon = world.post(TOKENS, &ann, body).await;
    let soon = soon.text("/token").to_owned();
    world
        .until("it expires", async || {
            world.get(ME, &soon).await.status == 401
        })
        .await;
    assert_eq!(world.get(TOKENS, &ann).await.names(), ["ci"]);
    // Its name can be used again.
    make(&world, &ann, "soon", json!(["account:read"])).await;
}

#[tokio::test]
async fn suspension_ends_tokens_and_pardon_does_not_bring_them_back() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let path = "/api/v1/admin/users/ann";
    for suspended in [true, false] {
        let edit = json!({"suspended": suspended});
        assert_eq!(world.patch(path, &admin, edit).await.status, 200);
        world
            .get(ME, &token)
            .await
            .is_problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn another_password_ends_tokens_unless_they_are_to_be_kept() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let change = |current: &str, new: &str, keep: Option<bool>| {
        let mut body = json!({"currentPassword": current, "newPassword": new});
        if let Some(keep) = keep {
            body["keepTokens"] = keep.into();
        }
        body
    };
    let path = "/api/v1/me/password";
    let changed = world
        .post(path, &ann, change(PASSWORD, "battery one", Some(true)))
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(world.get(ME, &token).await.status, 200);
    let ann = changed.text("/token");
    let changed = world
        .post(path, ann, change("battery one", "battery two", None))
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(world.get(ME, &token).await.status, 401);

    let ann = changed.text("/token");
    // What it was called before is told, and not passed over.
    let mut before = change("battery two", "battery three", None);
    before["endTokens"] = true.into();
    let refused = world.post("/api/v1/me/password", ann, before).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["endTokens"]);

    let path = "/api/v1/admin/users/ann";
    let new = "battery of admin";
    for (name, edit, status) in [
        ("kept", json!({"password": new, "keepTokens": true}), 200),
        ("ended", json!({"endTokens": true}), 401),
        ("over", json!({"password": new}), 401),
    ] {
        world
            .patch(path, &admin, json!({"password": PASSWORD}))
            .await;
        let ann = world.sign_in("ann").await;
        let token = make(&world, &ann, name, json!(["account:read"])).await;
        assert_eq!(world.patch(path, &admin, edit).await.status, 200);
        assert_eq!(world.get(ME, &token).await.status, status, "{name}");
    }
}

#[tokio::test]
async fn signing_everyone_out_ends_tokens_where_that_is_asked_for() {
    let world = World::new().await;
    let other = world.replica().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    for (tokens, status) in [(false, 200), (true, 401)] {
        let admin = if tokens {
            world.sign_in("root").await
        } else {
            world.user("root", AccessLevel::Admin).await
        };
        let path = "/api/v1/admin/sign-out-everyone";
        let done = world.post(path, &admin, json!({"tokens": tokens})).await;
        assert_eq!(done.status, 204, "{done:?}");
        assert_eq!(world.get(ME, &token).await.status, status);
    }
    world
        .until("the token ends there", async || {
            let asked = request(Method::GET, ME, &token, None);
            send(&other, asked).await.status == 401
        })
        .await;
}

#[tokio::test]
async fn a_later_user_of_the_same_name_does_not_inherit_tokens() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let user: KiteUser = world.cluster.get(&ObjectKey::cluster("ann")).await.unwrap();
    let gone = kube::api::PropagationPolicy::Background;
    world.cluster.delete_by_uid(&user, gone).await.unwrap();
    let next = KiteUser::new("ann", kite_core::crd::KiteUserSpec::new("ann"));
    let next = world.cluster.create(&next).await.unwrap();
    world.state.caches().users.caught_up_with(&next).await;
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn the_last_use_is_written_down_once_an_hour() {
    let world = World::new().await;
    let other = world.replica().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let token = make(&world, &ann, "ci", json!(["account:read"])).await;
    let made = object(&world).await;
    assert_eq!(made.status, None);
    for _ in 0..5 {
        assert_eq!(world.get(ME, &token).await.status, 200);
        let there = request(Method::GET, ME, &token, None);
        assert_eq!(send(&other, there).await.status, StatusCode::OK);
    }
    world
        .until("it is listed", async || {
            let listed = world.get(TOKENS, &ann).await;
            listed.body["items"][0].get("lastUsedAt").is_some()
        })
        .await;
    let used = object(&world).await;
    for _ in 0..5 {
        assert_eq!(world.get(ME, &token).await.status, 200);
    }
    let later = object(&world).await;
    assert_eq!(
        later.metadata.resource_version,
        used.metadata.resource_version
    );

    // An hour later, on a replica that has not written it down itself.
    let key = ObjectKey::of(&used);
    let mut aged = used.clone();
    aged.metadata.managed_fields = None;
    aged.status.as_mut().unwrap().last_used_at = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now() - 61.minutes()),
    );
    let aged = world
        .cluster
        .apply_status(kite_core::managers::API, &aged)
        .await
        .unwrap();
    let third = world.replica().await;
    let there = request(Method::GET, ME, &token, None);
    assert_eq!(send(&third, there).await.status, StatusCode::OK);
    world
        .until("it is written down again", async || {
            let now: KiteToken = world.cluster.get(&key).await.unwrap();
            now.status.unwrap().last_used_at > aged.status.as_ref().unwrap().last_used_at
        })
        .await;
}

#[tokio::test]
async fn what_makes_no_sense_is_named() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let past = "2020-01-01T00:00:00Z";
    let far = Timestamp::now() + (367 * 24).hours();
    for (body, field) in [
        (json!({"name": "A b", "scopes": ["vms:read"]}), "name"),
        (json!({"name": "a", "scopes": []}), "scopes"),
        (json!({"name": "a", "scopes": ["root"]}), "scopes[0]"),
        (
            json!({"name": "a", "scopes": ["vms:read"], "expiresAt": past}),
            "expiresAt",
        ),
        (
            json!({"name": "a", "scopes": ["vms:read"], "expiresAt": far}),
            "expiresAt",
        ),
    ] {
        let refused = world.post(TOKENS, &ann, body).await;
        assert_eq!(refused.is_problem(422, "invalid").fields(), [field]);
    }
    make(&world, &ann, "ci", json!(["vms:read"])).await;
    let again = json!({"name": "ci", "scopes": ["vms:read"]});
    let refused = world.post(TOKENS, &ann, again).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["name"]);
    // Somebody else may call one the same.
    let bob = world.user("bob", AccessLevel::User).await;
    make(&world, &bob, "ci", json!(["vms:read"])).await;
}
