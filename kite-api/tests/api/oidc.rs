//! Signing in at an OpenID Connect provider.

mod addresses;
mod attacks;
mod bound;
mod linking;
mod provider;

use std::sync::atomic::{AtomicBool, Ordering};

use axum::{Router, body::Body};
use http::{Method, Request, header};
use kite_api::{ApiState, ApiStateBuilder};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, Identity, KitePlatform, KiteUser},
    names,
};
use kite_fake::fault::{Fault, Faults, Plan};
use serde_json::{Value, json};
use tower::Layer as _;

use self::provider::Provider;
use crate::{
    gate::Gate,
    refresh::Jar,
    world::{Answer, World, send},
};

const START: &str = "/api/v1/auth/oidc/staff";
const ORIGIN: &str = "https://kite.test";
const FLOW: &str = "__Host-kite_oidc";

fn settings_of(builder: ApiStateBuilder) -> ApiStateBuilder {
    builder
        .secure_cookies(true)
        .local_providers()
        .origins([ORIGIN.to_owned()])
}

/// A platform with one provider at which everybody gets an account.
async fn world() -> (World, Provider) {
    let provider = Provider::start().await;
    let world = World::with(settings_of).await;
    set(&world, &provider, json!({"signUp": true})).await;
    (world, provider)
}

/// Sets the provider up, with settings beside the needed ones.
async fn set(world: &World, provider: &Provider, settings: Value) {
    let mut one = json!({
        "name": "staff", "displayName": "Staff login", "issuer": provider.issuer,
        "clientId": "kite",
    });
    for (name, value) in settings.as_object().unwrap() {
        one[name] = value.clone();
    }
    let key = ObjectKey::cluster(names::PLATFORM);
    let patch = json!({"spec": {"signInProviders": [one]}});
    let edit = world
        .cluster
        .merge_patch(kite_core::managers::API, &key, &patch);
    let written: KitePlatform = edit.await.unwrap();
    world
        .state
        .caches()
        .platforms
        .caught_up_with(&written)
        .await;
}

fn get(jar: &Jar, path: &str) -> Request<Body> {
    jar.request(Method::GET, path, None)
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 302, "{answer:?}");
    answer.headers[header::LOCATION].to_str().unwrap()
}

/// Leaves for the provider: the way back.
async fn leave(router: &Router, jar: &mut Jar, provider: &Provider, start: &str) -> String {
    let left = send(router, get(jar, start)).await;
    jar.take(&left);
    provider.authorize(location(&left))
}

async fn come_back(router: &Router, jar: &mut Jar, back: &str) -> Answer {
    let answer = send(router, get(jar, back)).await;
    jar.take(&answer);
    answer
}

/// Signs in with a browser of one's own.
async fn sign_in(world: &World, provider: &Provider) -> (Jar, Answer) {
    let mut jar = Jar::default();
    let back = leave(&world.router, &mut jar, provider, START).await;
    let answer = come_back(&world.router, &mut jar, &back).await;
    (jar, answer)
}

async fn user(world: &World, name: &str) -> KiteUser {
    world.cluster.get(&ObjectKey::cluster(name)).await.unwrap()
}

async fn me(world: &World, jar: &Jar) -> Answer {
    send(&world.router, get(jar, "/api/v1/me")).await
}

#[tokio::test]
async fn somebody_gets_an_account_by_signing_in_and_the_same_one_again() {
    let (world, provider) = world().await;
    let config = world.get("/api/v1/config", "").await;
    assert_eq!(
        config.body["signInProviders"],
        json!([{"name": "staff", "displayName": "Staff login"}])
    );
    provider.says(json!({
        "sub": "1001", "preferred_username": "Ann.Lee@corp.test",
        "email": "ann@corp.test", "email_verified": true,
    }));
    let mut jar = Jar::default();
    let start = format!("{START}?returnTo=/vms/web%3Ftab%3D1");
    let back = leave(&world.router, &mut jar, &provider, &start).await;
    assert!(jar.0.contains_key(FLOW), "{jar:?}");
    let done = come_back(&world.router, &mut jar, &back).await;
    assert_eq!(location(&done), "/vms/web?tab=1");
    assert!(!jar.0.contains_key(FLOW), "{jar:?}");
    let me_then = me(&world, &jar).await;
    assert_eq!(me_then.text("/username"), "ann-lee");
    assert_eq!(me_then.text("/email"), "ann@corp.test");
    assert_eq!(me_then.text("/accessLevel"), "User");
    let made = user(&world, "ann-lee").await;
    let subject = "1001".to_owned();
    let issuer = provider.issuer.clone();
    assert_eq!(made.spec.identities, [Identity { issuer, subject }]);
    assert!(!made.spec.has_password());

    // Whatever the provider calls them later.
    provider.says(json!({"sub": "1001", "preferred_username": "ann-kim"}));
    let (jar, _) = sign_in(&world, &provider).await;
    assert_eq!(me(&world, &jar).await.text("/username"), "ann-lee");
    // The session is one like any other.
    let list = send(&world.router, get(&jar, "/api/v1/me/sessions")).await;
    assert_eq!(list.body["total"], 2);
}

#[tokio::test]
async fn begun_at_one_replica_it_ends_at_another() {
    let (world, provider) = world().await;
    let other = world.replica_with(settings_of).await;
    let mut jar = Jar::default();
    let back = leave(&other, &mut jar, &provider, START).await;
    let done = come_back(&world.router, &mut jar, &back).await;
    assert_eq!(location(&done), "/");
    assert_eq!(jar.me(&other).await, 200);
}

#[tokio::test]
async fn two_replicas_make_one_account_of_one_person() {
    let (world, provider) = world().await;
    let other = world.replica_with(settings_of).await;
    let (mut one, mut two) = (Jar::default(), Jar::default());
    let back_one = leave(&world.router, &mut one, &provider, START).await;
    let back_two = leave(&other, &mut two, &provider, START).await;
    let (here, there) = tokio::join!(
        come_back(&world.router, &mut one, &back_one),
        come_back(&other, &mut two, &back_two),
    );
    assert_eq!((location(&here), location(&there)), ("/", "/"));
    assert_eq!(me(&world, &one).await.text("/name"), "ann");
    assert_eq!(me(&world, &two).await.text("/name"), "ann");
}

#[tokio::test]
async fn nobody_gets_into_an_account_by_its_name_or_address() {
    let (world, provider) = world().await;
    world.user("ann", AccessLevel::Admin).await;
    let key = ObjectKey::cluster("ann");
    let patch = json!({"spec": {"email": "ann@corp.test"}});
    let edited: KiteUser = world
        .cluster
        .merge_patch(kite_core::managers::API, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    let (jar, refused) = sign_in(&world, &provider).await;
    refused.is_problem(409, "taken");
    assert!(jar.0.is_empty(), "{jar:?}");
    // With another name there is another account, without the address.
    provider.says(json!({
        "sub": "1002", "preferred_username": "eve", "email": "ann@corp.test",
        "email_verified": true,
    }));
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    let eve = me(&world, &jar).await;
    assert_eq!(eve.text("/username"), "eve");
    assert!(eve.body.get("email").is_none(), "{eve:?}");
    // Another provider's person of the same subject is somebody else.
    let second = Provider::start().await;
    second.says(json!({"sub": "1002", "preferred_username": "eve"}));
    set(&world, &second, json!({"signUp": true})).await;
    let (_, refused) = sign_in(&world, &second).await;
    refused.is_problem(409, "taken");
}

#[tokio::test]
async fn who_has_no_account_gets_one_only_where_the_provider_may_give_it() {
    let (world, provider) = world().await;
    set(&world, &provider, json!({})).await;
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(403, "sign-up-closed");
    // As an administrator makes it beforehand.
    let mut made = KiteUser::new("boss", kite_core::crd::KiteUserSpec::new("boss"));
    made.spec.identities = vec![Identity {
        issuer: provider.issuer.clone(),
        subject: "1001".to_owned(),
    }];
    let made = world.cluster.create(&made).await.unwrap();
    world.state.caches().users.caught_up_with(&made).await;
    let (jar, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(me(&world, &jar).await.text("/username"), "boss");
    // A name that is none of a user here.
    set(&world, &provider, json!({"signUp": true})).await;
    provider.says(json!({"sub": "1003", "preferred_username": "앤"}));
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(409, "conflict");
}

#[tokio::test]
async fn groups_say_who_may_come_in_and_as_what_at_every_sign_in() {
    let (world, provider) = world().await;
    let levels = json!([
        {"group": "kite-admins", "accessLevel": "Admin"},
        {"group": "kite-guests", "accessLevel": "ReadOnly"},
    ]);
    let settings = json!({
        "signUp": true, "allowedGroups": ["staff", "kite-admins", "kite-guests"],
        "accessLevels": levels,
    });
    set(&world, &provider, settings).await;
    let level = async |groups: Value| {
        provider.says(json!({"sub": "1001", "preferred_username": "ann", "groups": groups}));
        let (jar, done) = sign_in(&world, &provider).await;
        location(&done);
        me(&world, &jar).await.text("/accessLevel").to_owned()
    };
    assert_eq!(level(json!(["kite-guests"])).await, "ReadOnly");
    assert_eq!(level(json!(["kite-guests", "kite-admins"])).await, "Admin");
    // Nobody would be left to mend the settings.
    assert_eq!(level(json!(["staff"])).await, "Admin");
    world.user("root", AccessLevel::Admin).await;
    assert_eq!(level(json!(["staff"])).await, "User");
    // Those who are told of only when asked, too.
    provider.says(json!({"sub": "1001"}));
    provider.play(|play| play.user_info = json!({"groups": "kite-guests"}));
    let (jar, _) = sign_in(&world, &provider).await;
    assert_eq!(me(&world, &jar).await.text("/accessLevel"), "ReadOnly");
    provider.says(json!({"sub": "1001", "groups": ["others"]}));
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(403, "forbidden");
    provider.says(json!({"sub": "1001"}));
    provider.play(|play| play.user_info = json!({"sub": "1002", "groups": "staff"}));
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(400, "sign-in-failed");
}

#[tokio::test]
async fn of_two_last_administrators_who_are_lowered_at_once_one_stays() {
    let (world, provider) = world().await;
    let levels = json!([{"group": "kite-admins", "accessLevel": "Admin"}]);
    set(
        &world,
        &provider,
        json!({"signUp": true, "accessLevels": levels}),
    )
    .await;
    let is = |subject: &str, name: &str, group: &str| {
        let groups = json!([group]);
        provider.says(json!({"sub": subject, "preferred_username": name, "groups": groups}));
    };
    is("1001", "ann", "kite-admins");
    location(&sign_in(&world, &provider).await.1);
    is("1002", "bob", "kite-admins");
    location(&sign_in(&world, &provider).await.1);

    let lowers = |request: &Request<kube::client::Body>| {
        request.method() == Method::PATCH && request.uri().path().contains("/kiteusers/")
    };
    let (here, first) = Gate::replica(&world, settings_of, lowers).await;
    let (there, second) = Gate::replica(&world, settings_of, lowers).await;
    let (mut one, mut two) = (Jar::default(), Jar::default());
    is("1001", "ann", "staff");
    let back_one = leave(&here, &mut one, &provider, START).await;
    let bob = async {
        // Ann's replica has seen that Bob is an administrator.
        first.holds_one().await;
        is("1002", "bob", "staff");
        let back_two = leave(&there, &mut two, &provider, START).await;
        let both = async {
            second.holds_one().await;
            first.let_on(2);
            second.let_on(2);
        };
        tokio::join!(come_back(&there, &mut two, &back_two), both).0
    };
    let (ann, bob) = tokio::join!(come_back(&here, &mut one, &back_one), bob);
    assert_eq!((location(&ann), location(&bob)), ("/", "/"));
    let mut levels = Vec::new();
    for name in ["ann", "bob"] {
        levels.push(user(&world, name).await.spec.access_level);
    }
    assert!(levels.contains(&AccessLevel::Admin), "{levels:?}");
}

#[tokio::test]
async fn who_is_lowered_without_knowing_of_another_is_raised_again() {
    let (world, provider) = world().await;
    let levels = json!([{"group": "kite-admins", "accessLevel": "Admin"}]);
    set(
        &world,
        &provider,
        json!({"signUp": true, "accessLevels": levels}),
    )
    .await;
    world.user("root", AccessLevel::Admin).await;
    let is = |group: &str| {
        let groups = json!([group]);
        provider.says(json!({"sub": "1001", "preferred_username": "ann", "groups": groups}));
    };
    is("kite-admins");
    location(&sign_in(&world, &provider).await.1);

    let lowered = AtomicBool::new(false);
    let faults = Faults::new(Plan::first(
        "second look",
        Fault::ServerError,
        move |call| {
            let is_user = call.plural == "kiteusers";
            if is_user && call.verb == "patch" {
                lowered.store(true, Ordering::SeqCst);
            }
            is_user && call.verb == "list" && lowered.load(Ordering::SeqCst)
        },
    ));
    let service = faults.layer("kite-api").layer(world.service());
    let client = kube::Client::new(service, "default");
    let state = settings_of(ApiState::builder(client))
        .build()
        .await
        .unwrap();
    state.synced().await;
    let broken = kite_api::router(state);
    is("staff");
    let mut jar = Jar::default();
    let back = leave(&broken, &mut jar, &provider, START).await;
    location(&come_back(&broken, &mut jar, &back).await);
    assert!(faults.unfired().is_empty());
    let level = user(&world, "ann").await.spec.access_level;
    assert_eq!(level, AccessLevel::Admin);
    // Once it can be found out, the groups count.
    location(&sign_in(&world, &provider).await.1);
    assert_eq!(
        user(&world, "ann").await.spec.access_level,
        AccessLevel::User
    );
}

#[tokio::test]
async fn suspended_people_stay_out_and_their_sessions_end() {
    let (world, provider) = world().await;
    let (jar, _) = sign_in(&world, &provider).await;
    assert_eq!(jar.me(&world.router).await, 200);
    let key = ObjectKey::cluster("ann");
    let patch = json!({"spec": {"suspended": true}});
    let edited: KiteUser = world
        .cluster
        .merge_patch(kite_core::managers::API, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    assert_eq!(jar.me(&world.router).await, 401);
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(403, "suspended");
}

#[tokio::test]
async fn a_client_with_a_secret_proves_itself_by_the_secret_of_the_cluster() {
    let (world, provider) = world().await;
    let settings = json!({"signUp": true, "clientSecretKey": "staff"});
    set(&world, &provider, settings).await;
    provider.play(|play| play.secret = Some("s3cret/+".to_owned()));
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(500, "internal");
    assert!(
        refused.text("/detail").contains("Secret kite-oidc"),
        "{refused:?}"
    );
    let mut secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(json!({
        "metadata": {"name": names::OIDC_SECRET, "namespace": names::PLATFORM_NAMESPACE},
        "stringData": {"staff": "wrong", "staff.issuer": provider.issuer},
    }))
    .unwrap();
    world.cluster.create(&secret).await.unwrap();
    let (_, refused) = sign_in(&world, &provider).await;
    refused.is_problem(500, "internal");
    assert!(refused.text("/detail").contains("client id"), "{refused:?}");
    let bound = ("staff.issuer".to_owned(), format!("{}\n", provider.issuer));
    let staff = ("staff".to_owned(), "s3cret/+\n".to_owned());
    secret.string_data = Some([staff, bound].into());
    world
        .cluster
        .apply(kite_core::managers::CONTROLLER, &secret)
        .await
        .unwrap();
    // As the standard has it, both are written like form fields.
    provider.play(|play| play.secret = Some("s3cret%2F%2B".to_owned()));
    let (_, done) = sign_in(&world, &provider).await;
    location(&done);
}

#[tokio::test]
async fn a_provider_that_is_down_or_wrong_is_told_of_and_asked_seldom() {
    let (world, provider) = world().await;
    provider.play(|play| play.is_down = true);
    let requests = || provider.requests.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..5 {
        let refused = world.get(START, "").await;
        refused.is_problem(503, "unavailable");
    }
    assert_eq!(requests(), 1);
    // Another one that names another issuer, or leads astray.
    for document in [
        json!({"issuer": "https://login.example.org"}),
        json!({"token_endpoint": "http://login.example.org/token"}),
        json!({"jwks_uri": "file:///etc/passwd"}),
    ] {
        let wrong = Provider::start().await;
        wrong.play(|play| play.document = document);
        set(&world, &wrong, json!({})).await;
        world.get(START, "").await.is_problem(500, "internal");
    }
    let nowhere = Provider {
        issuer: "http://127.0.0.1:1".to_owned(),
        ..provider.clone()
    };
    set(&world, &nowhere, json!({})).await;
    world.get(START, "").await.is_problem(503, "unavailable");
    let refused = world.get("/api/v1/auth/oidc/other", "").await;
    refused.is_problem(404, "not-found");
}

#[tokio::test]
async fn browsers_are_led_to_a_page_that_says_it_in_words() {
    let (world, provider) = world().await;
    let visit = async |jar: &Jar, path: &str| {
        let mut request = get(jar, path);
        let pages = "text/html,application/xhtml+xml".parse().unwrap();
        request.headers_mut().insert(header::ACCEPT, pages);
        let answer = send(&world.router, request).await;
        location(&answer).to_owned()
    };
    let mut jar = Jar::default();
    assert_eq!(
        visit(&jar, "/api/v1/auth/oidc/other").await,
        "/sign-in?failed=no-provider&provider=other"
    );
    assert_eq!(
        visit(&jar, &format!("{START}?returnTo=//evil.test")).await,
        "/sign-in?failed=bad-return&provider=staff"
    );
    assert_eq!(
        visit(&jar, &format!("{START}/callback?state=none&code=none")).await,
        "/sign-in?failed=expired&provider=staff"
    );
    set(&world, &provider, json!({})).await;
    let back = leave(&world.router, &mut jar, &provider, START).await;
    assert_eq!(
        visit(&jar, &back).await,
        "/sign-in?failed=no-account&provider=staff"
    );
}

#[tokio::test]
async fn wrong_settings_of_providers_are_refused_by_field() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/platform";
    let provider = |field: &str, value: Value| {
        let mut one = json!({
            "name": "staff", "issuer": "https://login.example.org", "clientId": "kite",
        });
        one[field] = value;
        json!({"signInProviders": [one]})
    };
    for (field, value) in [
        ("issuer", json!("http://login.example.org")),
        ("issuer", json!("login.example.org")),
        ("issuer", json!("https://login.example.org?a=b")),
        ("issuer", json!("javascript:alert(1)")),
        ("name", json!("Staff!")),
        ("clientId", json!("")),
        ("clientSecretKey", json!("a/b")),
        ("scopes", json!(["two words"])),
    ] {
        let refused = world
            .patch(path, &root, provider(field, value.clone()))
            .await;
        let fields = refused.is_problem(422, "invalid").fields();
        let named = format!("signInProviders[0].{field}");
        assert!(
            fields.iter().any(|it| it.starts_with(&named)),
            "{value} {refused:?}"
        );
    }
    for (field, value, place) in [
        ("issuer", json!(1), "issuer"),
        (
            "accessLevels",
            json!([{"group": "a"}]),
            "accessLevels[0].accessLevel",
        ),
    ] {
        let refused = world.patch(path, &root, provider(field, value)).await;
        let fields = refused.is_problem(422, "invalid").fields();
        assert_eq!(fields, [format!("signInProviders[0].{place}")]);
    }
    let misspelt = provider("clientID", json!("kite"));
    let refused = world.patch(path, &root, misspelt).await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields, ["signInProviders[0].clientID"]);
    let refused = world
        .patch(path, &root, json!({"signInProviders": "all"}))
        .await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields, ["signInProviders"]);
    let nine: Vec<_> = (0..9)
        .map(|n| json!({"name": format!("p{n}"), "issuer": "https://a.test", "clientId": "k"}))
        .collect();
    let refused = world
        .patch(path, &root, json!({"signInProviders": nine}))
        .await;
    refused.is_problem(422, "invalid");
    for issuer in [
        "http://127.0.0.1:8000",
        "http://[::1]:8000/a",
        "https://login.example.org/realms/a",
    ] {
        let done = world
            .patch(path, &root, provider("issuer", json!(issuer)))
            .await;
        assert_eq!(done.status, 200, "{done:?}");
    }
    let shown = world.get(path, &root).await;
    assert_eq!(shown.text("/signInProviders/0/groupsClaim"), "groups");
}
