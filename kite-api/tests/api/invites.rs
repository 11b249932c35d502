//! Invites: made by administrators, each good for one account.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ::http::{Method, header::HeaderValue};
use axum::Router;
use jiff::{Timestamp, ToSpan as _};
use kite_api::{ApiState, router};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteInvite, KiteUser, KiteUserSpec, SignUp},
};
use kite_fake::fault::{Call, Fault, Faults, Plan};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tower::Layer as _;

use crate::world::{Answer, PASSWORD, World, request, send};

const INVITES: &str = "/api/v1/admin/invites";
const SIGN_UP: &str = "/api/v1/auth/sign-up";

pub async fn by_invitation() -> (World, String) {
    let world = World::new().await;
    world.platform(SignUp::Invite).await;
    let root = world.user("root", AccessLevel::Admin).await;
    (world, root)
}

pub async fn make(world: &World, root: &str, body: Value) -> Answer {
    let made = world.post(INVITES, root, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made
}

pub fn join(username: &str, invite: &str) -> Value {
    json!({"username": username, "password": PASSWORD, "invite": invite})
}

pub async fn object(world: &World, made: &Answer) -> KiteInvite {
    let key = ObjectKey::cluster(made.text("/name"));
    world.cluster.get(&key).await.unwrap()
}

async fn edit_user(world: &World, name: &str, spec: Value) {
    let key = ObjectKey::cluster(name);
    let patch = json!({ "spec": spec });
    let edited: KiteUser = world
        .cluster
        .merge_patch(kite_core::managers::CONTROLLER, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
}

fn users_but_root(world: &World) -> Vec<String> {
    let users = world
        .state
        .caches()
        .users
        .list(|user| user.name_any() != "root");
    users.iter().map(|user| user.name_any()).collect()
}

#[tokio::test]
async fn an_invite_makes_one_account_as_it_says() {
    let (world, root) = by_invitation().await;
    let quota = json!({"vms": 1, "cpu": 2, "memory": "3Gi", "disk": "40Gi"});
    let made = make(
        &world,
        &root,
        json!({"accessLevel": "Manager", "quota": quota, "note": "for Ann"}),
    )
    .await;
    let token = made.text("/token");
    assert!(token.starts_with("kite_invite_"));
    assert_eq!(made.text("/state"), "Open");
    assert!(made.body.get("url").is_none(), "no web address is known");
    let stored = serde_json::to_string(&object(&world, &made).await).unwrap();
    assert!(!stored.contains(token));

    let joined = world.post(SIGN_UP, "", join("ann", token)).await;
    assert_eq!(joined.status, 201, "{joined:?}");
    assert_eq!(joined.text("/user/accessLevel"), "Manager");
    assert_eq!(joined.body["user"]["quota"], quota);

    let again = world.post(SIGN_UP, "", join("eve", token)).await;
    assert_eq!(again.is_problem(409, "invite-over").fields(), ["invite"]);
    assert!(again.text("/detail").contains("was used"));
    assert!(!again.body.to_string().contains(token));

    let list = world.get(INVITES, &root).await;
    assert_eq!(list.text("/items/0/state"), "Used");
    assert_eq!(list.text("/items/0/usedBy"), "ann");
    assert_eq!(list.text("/items/0/createdBy"), "root");
    assert_eq!(list.text("/items/0/note"), "for Ann");
    assert!(list.body["items"][0].get("token").is_none());
    let used = object(&world, &made).await.status.unwrap();
    let ann: KiteUser = world.cluster.get(&ObjectKey::cluster("ann")).await.unwrap();
    assert_eq!(Some(used.used_by.unwrap().uid), ann.uid());
}

#[tokio::test]
async fn the_link_has_the_token_where_no_server_sees_it() {
    let (world, root) = by_invitation().await;
    let mut platform = world.state.caches().platforms.list(|_| true)[0]
        .as_ref()
        .clone();
    platform.metadata.managed_fields = None;
    platform.metadata.resource_version = None;
    let mut status = platform.status.take().unwrap_or_default();
    status.url = Some("https://vm.test".to_owned());
    platform.status = Some(status);
    let written = world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &platform)
        .await
        .unwrap();
    world
        .state
        .caches()
        .platforms
        .caught_up_with(&written)
        .await;
    let made = make(&world, &root, json!({})).await;
    let url = format!("https://vm.test/sign-up#invite={}", made.text("/token"));
    assert_eq!(made.text("/url"), url);
}

#[tokio::test]
async fn the_platform_decides_what_an_invite_is_good_for() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({"accessLevel": "ReadOnly"})).await;
    let token = made.text("/token");

    let without = json!({"username": "ann", "password": PASSWORD});
    let refused = world.post(SIGN_UP, "", without).await;
    let fields = refused.is_problem(403, "sign-up-closed").fields();
    assert_eq!(fields, ["invite"]);

    world.platform(SignUp::Closed).await;
    let refused = world.post(SIGN_UP, "", join("ann", token)).await;
    refused.is_problem(403, "sign-up-closed");

    world.platform(SignUp::Open).await;
    let refused = world.post(SIGN_UP, "", join("ann", "kite_invite_x")).await;
    let fields = refused.is_problem(401, "wrong-credentials").fields();
    assert_eq!(fields, ["invite"], "one that is wrong is not passed over");
    let joined = world.post(SIGN_UP, "", join("ann", token)).await;
    assert_eq!(joined.text("/user/accessLevel"), "ReadOnly");
}

#[tokio::test]
async fn of_two_racing_on_two_replicas_one_wins() {
    let (world, root) = by_invitation().await;
    let other = world.replica().await;
    let made = make(&world, &root, json!({})).await;
    let requests = (0..6).map(|n| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        let body = join(&format!("user{n}"), made.text("/token"));
        send(router, request(Method::POST, SIGN_UP, "", Some(body)))
    });
    let answers = futures::future::join_all(requests).await;
    let won = answers.iter().filter(|a| a.status == 201).count();
    assert_eq!(won, 1, "{answers:?}");
    assert!(answers.iter().all(|a| a.status == 201 || a.status == 409));
    world
        .until("one account is there", async || {
            users_but_root(&world).len() == 1
        })
        .await;
}

/// What a request does when, in the words of the cluster.
pub type Meant = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// The writes of a sign-up by invite, in their order.
pub fn writes() -> [(&'static str, Meant); 4] {
    let status = |call: &Call| call.plural == "kiteinvites" && call.subresource == "status";
    let account = |call: &Call| call.plural == "kiteusers" && call.verb == "create";
    let after = Arc::new(AtomicBool::new(false));
    [
        ("claim", Box::new(status)),
        ("account", Box::new(account)),
        (
            "mark as used",
            Box::new(move |call| {
                if account(call) {
                    after.store(true, Ordering::SeqCst);
                }
                after.load(Ordering::SeqCst) && status(call)
            }),
        ),
        (
            "session",
            Box::new(|call| call.plural == "kitesessions" && call.verb == "create"),
        ),
    ]
}

#[tokio::test]
async fn after_a_fault_at_any_write_the_same_person_goes_on() {
    let (world, root) = by_invitation().await;
    let faults = [
        Fault::ResetBeforeSend,
        Fault::ResetAfterCommit,
        Fault::ServerError,
        Fault::Timeout,
        Fault::Conflict,
        Fault::RivalEdits,
    ];
    for (row, fault) in faults.into_iter().enumerate() {
        let healthy = world.replica().await;
        for (column, (what, meant)) in writes().into_iter().enumerate() {
            go_on_after(&world, &root, &healthy, fault, what, meant, (row, column)).await;
        }
    }
}

async fn go_on_after(
    world: &World,
    root: &str,
    healthy: &Router,
    fault: Fault,
    what: &str,
    meant: Meant,
    (row, column): (usize, usize),
) {
    let case = format!("{fault:?} at {what}");
    let made = make(world, root, json!({})).await;
    let ask = |name: &str| {
        let body = join(name, made.text("/token"));
        request(Method::POST, SIGN_UP, "", Some(body))
    };
    let faults = Faults::new(Plan::first(what, fault, meant));
    let service = faults.layer("kite-api").layer(world.service());
    let client = kube::Client::new(service, "default");
    let state = ApiState::builder(client).build().await.unwrap();
    state.synced().await;
    let broken = router(state);

    let (ann, eve) = (format!("ann-{row}-{column}"), format!("eve-{row}-{column}"));
    let first = send(&broken, ask(&ann)).await;
    // What is created has no older version that somebody could change.
    let can_fire = !matches!(
        (what, fault),
        ("account" | "session", Fault::Conflict | Fault::RivalEdits)
    );
    assert!(!can_fire || faults.unfired().is_empty(), "{case}");
    if first.status != 201 {
        let again = send(healthy, ask(&ann)).await;
        if again.status != 201 {
            again.is_problem(409, "invite-over");
        }
    }
    world.sign_in(&ann).await;
    let refused = send(healthy, ask(&eve)).await;
    refused.is_problem(409, "invite-over");
    let key = ObjectKey::cluster(eve);
    let eve: Option<KiteUser> = world.cluster.get_opt(&key).await.unwrap();
    assert!(eve.is_none(), "{case}");
    let used = object(world, &made).await.status.unwrap();
    assert_eq!(used.used_by.unwrap().name, ann, "{case}");
}

#[tokio::test]
async fn a_claim_holds_for_its_username_until_that_cannot_be_had() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({})).await;
    let token = made.text("/token");
    let mut claimed = object(&world, &made).await;
    claimed.metadata.managed_fields = None;
    claimed.status = Some(serde_json::from_value(json!({"claimedFor": "ann"})).unwrap());
    world
        .cluster
        .apply_status(kite_core::managers::API, &claimed)
        .await
        .unwrap();

    let eve = world.post(SIGN_UP, "", join("eve", token)).await;
    eve.is_problem(409, "conflict");
    assert!(eve.text("/detail").contains("\"ann\""));
    // Somebody else takes the username meanwhile.
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    world.cluster.create(&ann).await.unwrap();
    let refused = world.post(SIGN_UP, "", join("ann", token)).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["username"]);
    assert_eq!(
        world.post(SIGN_UP, "", join("eve", token)).await.status,
        201
    );
}

#[tokio::test]
async fn what_is_refused_uses_nothing_up() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({})).await;
    let token = made.text("/token");
    let before = object(&world, &made).await.resource_version();
    // What is no username or address is refused before anything is asked.
    for _ in 0..30 {
        let mut body = join("Not A Name", token);
        body["email"] = json!("nowhere");
        let wrong = world.post(SIGN_UP, "", body).await;
        let fields = wrong.is_problem(422, "invalid").fields();
        assert_eq!(fields, ["username", "email"]);
    }
    assert_eq!(object(&world, &made).await.resource_version(), before);
    let refused = world.post(SIGN_UP, "", join("root", token)).await;
    refused.is_problem(409, "taken");
    assert!(
        object(&world, &made)
            .await
            .status
            .unwrap_or_default()
            .claimed_for
            .is_none()
    );
    assert_eq!(
        world.post(SIGN_UP, "", join("ann", token)).await.status,
        201
    );
}

#[tokio::test]
async fn an_invite_for_an_address_is_for_that_address() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({"email": "ann@kite.test"})).await;
    let token = made.text("/token");
    let mut body = join("ann", token);
    let refused = world.post(SIGN_UP, "", body.clone()).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["email"]);
    body["email"] = "eve@kite.test".into();
    let refused = world.post(SIGN_UP, "", body.clone()).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["email"]);
    assert!(!refused.body.to_string().contains("ann@kite.test"));
    body["email"] = "Ann@Kite.test".into();
    assert_eq!(world.post(SIGN_UP, "", body).await.status, 201);
}

/// Who only said that an address is theirs does not keep it from whom the invite is for.
#[tokio::test]
async fn an_invite_vouches_for_its_address() {
    let (world, root) = by_invitation().await;
    let eve = world.user("eve", AccessLevel::User).await;
    let says = json!({"email": "ann@kite.test"});
    assert_eq!(world.patch("/api/v1/me", &eve, says).await.status, 200);
    // An invite for nobody in particular does not.
    let made = make(&world, &root, json!({})).await;
    let mut body = join("ann", made.text("/token"));
    body["email"] = "ann@kite.test".into();
    let refused = world.post(SIGN_UP, "", body).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["email"]);

    let made = make(&world, &root, json!({"email": "ann@kite.test"})).await;
    let mut body = join("ann", made.text("/token"));
    body["email"] = "ann@kite.test".into();
    assert_eq!(world.post(SIGN_UP, "", body).await.status, 201);
    let me = world.get("/api/v1/me", &eve).await;
    assert_eq!(me.body["email"], Value::Null, "{me:?}");
}

#[tokio::test]
async fn an_invite_ends() {
    let (world, root) = by_invitation().await;
    let soon = Timestamp::now() + 1.second();
    let made = make(&world, &root, json!({"expiresAt": soon})).await;
    world
        .until("its time is over", async || Timestamp::now() > soon)
        .await;
    let refused = world
        .post(SIGN_UP, "", join("ann", made.text("/token")))
        .await;
    refused.is_problem(409, "invite-over");
    assert!(refused.text("/detail").contains("expired"));
    let list = world.get(INVITES, &root).await;
    assert_eq!(list.text("/items/0/state"), "Expired");

    let made = make(&world, &root, json!({})).await;
    let path = format!("{INVITES}/{}", made.text("/name"));
    assert_eq!(world.delete(&path, &root).await.status, 204);
    world
        .delete(&path, &root)
        .await
        .is_problem(404, "not-found");
    let refused = world
        .post(SIGN_UP, "", join("ann", made.text("/token")))
        .await;
    refused.is_problem(401, "wrong-credentials");
}

#[tokio::test]
async fn who_is_suspended_leaves_no_door_open() {
    let (world, root) = by_invitation().await;
    let boss = world.user("boss", AccessLevel::Admin).await;
    let made = make(&world, &boss, json!({"accessLevel": "Admin"})).await;
    for spec in [
        json!({"suspended": true}),
        json!({"accessLevel": "Manager"}),
    ] {
        edit_user(&world, "boss", spec).await;
        let refused = world
            .post(SIGN_UP, "", join("ann", made.text("/token")))
            .await;
        refused.is_problem(409, "invite-over");
        let list = world.get(INVITES, &root).await;
        assert_eq!(list.text("/items/0/state"), "Void");
        edit_user(
            &world,
            "boss",
            json!({"suspended": null, "accessLevel": "Admin"}),
        )
        .await;
    }
    // An account of the name that comes later is another.
    let key = ObjectKey::cluster("boss");
    let old: KiteUser = world.cluster.get(&key).await.unwrap();
    let gone = kube::api::PropagationPolicy::Background;
    let uid = old.uid().unwrap();
    world
        .cluster
        .delete::<KiteUser>(&key, &uid, gone)
        .await
        .unwrap();
    let mut new = KiteUser::new("boss", old.spec.clone());
    new.spec.suspended = false;
    world
        .until("the name is free", async || {
            world.cluster.create(&new).await.is_ok()
        })
        .await;
    let refused = world
        .post(SIGN_UP, "", join("ann", made.text("/token")))
        .await;
    refused.is_problem(409, "invite-over");
}

#[tokio::test]
async fn guessing_invites_is_slowed_down() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({})).await;
    let mut other = made.text("/token").to_owned();
    let last = other.pop().unwrap();
    other.push(if last == 'A' { 'B' } else { 'A' });
    for n in 0..10 {
        let guess = if n % 2 == 0 {
            "kite_invite_guess"
        } else {
            &other
        };
        let refused = world
            .post(SIGN_UP, "", join(&format!("eve{n}"), guess))
            .await;
        refused.is_problem(401, "wrong-credentials");
    }
    let refused = world.post(SIGN_UP, "", join("eve", &other)).await;
    refused.is_problem(429, "too-many-requests");
}

#[tokio::test]
async fn a_class_signs_up_from_one_address() {
    let (world, root) = by_invitation().await;
    for n in 0..12 {
        let made = make(&world, &root, json!({})).await;
        let body = join(&format!("pupil{n}"), made.text("/token"));
        assert_eq!(world.post(SIGN_UP, "", body).await.status, 201, "{n}");
    }
}

#[tokio::test]
async fn only_administrators_and_their_tokens_invite() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({})).await;
    let path = format!("{INVITES}/{}", made.text("/name"));
    for level in [AccessLevel::User, AccessLevel::Manager] {
        let who = world
            .user(&format!("{level:?}").to_lowercase(), level)
            .await;
        world.get(INVITES, &who).await.is_problem(403, "forbidden");
        let refused = world
            .post(INVITES, &who, json!({"accessLevel": "ReadOnly"}))
            .await;
        refused.is_problem(403, "forbidden");
        world.delete(&path, &who).await.is_problem(403, "forbidden");
    }
    for (scope, reads, writes) in [
        ("vms:write", 403, 403),
        ("admin:read", 200, 403),
        ("admin", 200, 201),
    ] {
        let name = scope.replace(':', "-");
        let body = json!({"name": name, "scopes": [scope]});
        let token = world.post("/api/v1/me/tokens", &root, body).await;
        let token = token.text("/token");
        assert_eq!(world.get(INVITES, token).await.status, reads, "{scope}");
        let made = world.post(INVITES, token, json!({})).await;
        assert_eq!(made.status, writes, "{scope}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_named() {
    let (world, root) = by_invitation().await;
    let far = Timestamp::now() + (91 * 24).hours();
    for (body, field) in [
        (json!({"email": "nobody"}), "email"),
        (json!({"accessLevel": "Root"}), "accessLevel"),
        (json!({"note": "x".repeat(201)}), "note"),
        (json!({"expiresAt": "2020-01-01T00:00:00Z"}), "expiresAt"),
        (json!({"expiresAt": far}), "expiresAt"),
    ] {
        let refused = world.post(INVITES, &root, body).await;
        assert_eq!(refused.is_problem(422, "invalid").fields(), [field]);
    }
    let body = json!({"quota": {"vms": 1}});
    let refused = world.post(INVITES, &root, body).await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields, ["quota.cpu", "quota.memory", "quota.disk"]);
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_token() {
    let (world, root) = by_invitation().await;
    let other = world.replica().await;
    let ask = |body: Value, key: &'static str| {
        let mut request = request(Method::POST, INVITES, &root, Some(body));
        let headers = request.headers_mut();
        headers.insert("idempotency-key", HeaderValue::from_static(key));
        request
    };
    let body = json!({"note": "for Ann"});
    let first = send(&world.router, ask(body.clone(), "one")).await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = send(&other, ask(body.clone(), "one")).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.text("/token"), first.text("/token"));
    assert_eq!(again.text("/name"), first.text("/name"));
    let stored = serde_json::to_string(&object(&world, &first).await).unwrap();
    assert!(!stored.contains(first.text("/token")));
    let reused = send(&other, ask(json!({"note": "for Bob"}), "one")).await;
    reused.is_problem(422, "idempotency-key-reused");
    let two = send(&other, ask(body, "two")).await;
    assert_ne!(two.text("/token"), first.text("/token"));

    // Withdrawn and asked for again, it is another one.
    let path = format!("{INVITES}/{}", first.text("/name"));
    assert_eq!(world.delete(&path, &root).await.status, 204);
    let third = send(&world.router, ask(json!({"note": "for Ann"}), "one")).await;
    assert_ne!(third.text("/token"), first.text("/token"));
}

/// Has the API server refuse accounts whose name does not begin so.
fn require_prefix(world: &World, prefix: &str) {
    world.refuse(&json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["hy3ons.github.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": ["kiteusers"],
        }]},
        "validations": [{
            "expression": format!("object.metadata.name.startsWith('{prefix}')"),
            "message": format!("name it {prefix}…"),
            "reason": "Forbidden",
        }],
    }));
}

#[tokio::test]
async fn an_account_that_a_policy_refuses_leaves_its_invite_to_another_name() {
    let (world, root) = by_invitation().await;
    let made = make(&world, &root, json!({})).await;
    let token = made.text("/token").to_owned();
    require_prefix(&world, "team-");
    let refused = world.post(SIGN_UP, "", join("bob", &token)).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(refused.text("/detail"), "name it team-…");
    let invite = object(&world, &made).await;
    assert!(invite.status.unwrap_or_default().claimed_for.is_none());
    let joined = world.post(SIGN_UP, "", join("team-bob", &token)).await;
    assert_eq!(joined.status, 201, "{joined:?}");
    assert_eq!(users_but_root(&world), ["team-bob"]);
}
