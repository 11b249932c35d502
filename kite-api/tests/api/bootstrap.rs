//! The first administrator.

use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec},
    names,
};
use serde_json::{Value, json};

use crate::world::{PASSWORD, TOKEN, World, request, send};

const PATH: &str = "/api/v1/auth/bootstrap";

fn body(username: &str) -> Value {
    json!({"token": TOKEN, "username": username, "email": "root@kite.test", "password": PASSWORD})
}

async fn open(world: &World) -> bool {
    let config = world.get("/api/v1/config", "").await;
    config.body["bootstrapOpen"].as_bool().unwrap()
}

#[tokio::test]
async fn the_token_makes_one_administrator_and_is_gone() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    assert!(open(&world).await);

    let made = world.post(PATH, "", body("root")).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/user/accessLevel"), "Admin");
    assert!(world.find_bootstrap_secret().await.is_none());
    assert!(!open(&world).await);

    let me = world.get("/api/v1/me", made.text("/token")).await;
    assert_eq!(me.text("/username"), "root");
    world.sign_in("root").await;

    let again = world.post(PATH, "", body("eve")).await;
    again.is_problem(409, "bootstrap-closed");
    assert!(!again.body.to_string().contains(PASSWORD));
}

#[tokio::test]
async fn without_the_token_nothing_happens() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    for token in ["", "A-token-that-nobody-guesses", "a-token"] {
        let mut body = body("eve");
        body["token"] = token.into();
        let refused = world.post(PATH, "", body).await;
        refused.is_problem(401, "wrong-credentials");
    }
    assert!(open(&world).await);
    let secret = world.find_bootstrap_secret().await.unwrap();
    assert!(secret.metadata.annotations.unwrap_or_default().is_empty());
    let key = ObjectKey::cluster("eve");
    assert!(
        world
            .cluster
            .get_opt::<KiteUser>(&key)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn of_many_racing_for_it_one_wins() {
    let world = World::new().await;
    let other = world.replica().await;
    world.bootstrap_secret().await;
    let requests = (0..8).map(|n| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        let body = body(&format!("admin{n}"));
        send(router, request(http::Method::POST, PATH, "", Some(body)))
    });
    let answers = futures::future::join_all(requests).await;
    let won = answers.iter().filter(|a| a.status == 201).count();
    assert_eq!(won, 1, "{answers:?}");
    assert!(answers.iter().all(|a| a.status == 201 || a.status == 409));
    let users = world.state.caches().users.list(|_| true);
    assert_eq!(users.len(), 1);
}

#[tokio::test]
async fn a_crash_after_the_claim_can_be_repeated_by_the_same_name_only() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::BOOTSTRAP_SECRET);
    let claim = json!({"metadata": {"annotations": {
        "hy3ons.github.io/bootstrap-claimed-for": "root"
    }}});
    world
        .cluster
        .merge_patch::<k8s_openapi::api::core::v1::Secret>(kite_core::managers::API, &key, &claim)
        .await
        .unwrap();

    let other = world.post(PATH, "", body("eve")).await;
    other.is_problem(409, "conflict");
    assert!(other.text("/detail").contains("\"root\""));
    assert_eq!(world.post(PATH, "", body("root")).await.status, 201);
}

#[tokio::test]
async fn a_crash_after_the_account_was_made_is_finished_by_repeating() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let secret = world.find_bootstrap_secret().await.unwrap();
    assert_eq!(world.post(PATH, "", body("root")).await.status, 201);
    // As if the Secret had not been deleted: same uid in the account's mark.
    let mut left = secret;
    left.metadata.resource_version = None;
    left.metadata.uid = None;
    let left = world.cluster.create(&left).await.unwrap();
    let mark = json!({"metadata": {"annotations": {
        "hy3ons.github.io/bootstrap-secret-uid": left.metadata.uid
    }}});
    let key = ObjectKey::cluster("root");
    world
        .cluster
        .merge_patch::<KiteUser>(kite_core::managers::API, &key, &mark)
        .await
        .unwrap();

    let repeated = world.post(PATH, "", body("root")).await;
    assert_eq!(repeated.status, 201, "{repeated:?}");
    assert!(world.find_bootstrap_secret().await.is_none());
}

#[tokio::test]
async fn a_name_that_is_taken_does_not_use_the_token_up() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let user = KiteUser::new("root", KiteUserSpec::new("root"));
    world.cluster.create(&user).await.unwrap();

    let refused = world.post(PATH, "", body("root")).await;
    refused.is_problem(409, "taken");
    let key = ObjectKey::cluster("root");
    let user: KiteUser = world.cluster.get(&key).await.unwrap();
    assert_eq!(user.spec.access_level, AccessLevel::User);
    assert_eq!(world.post(PATH, "", body("boss")).await.status, 201);
}

#[tokio::test]
async fn bad_input_does_not_use_the_token_up() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let mut short = body("root");
    short["password"] = "short".into();
    let refused = world.post(PATH, "", short).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    let refused = world.post(PATH, "", body("Not A Name")).await;
    refused.is_problem(422, "invalid");
    assert_eq!(world.post(PATH, "", body("root")).await.status, 201);
}

#[tokio::test]
async fn where_there_is_an_administrator_no_token_makes_another() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    // One who cannot sign in is none.
    // So is one whose password is not there.
    for (name, credential) in [("nobody", None), ("lost", Some("0".repeat(32)))] {
        let mut spec = KiteUserSpec::new(name);
        spec.access_level = AccessLevel::Admin;
        spec.credential = credential;
        let nobody = KiteUser::new(name, spec);
        let nobody = world.cluster.create(&nobody).await.unwrap();
        world.state.caches().users.caught_up_with(&nobody).await;
    }
    assert!(open(&world).await);
    assert_eq!(world.post(PATH, "", body("root")).await.status, 201);

    world.bootstrap_secret().await;
    let refused = world.post(PATH, "", body("mallory")).await;
    refused.is_problem(409, "bootstrap-closed");
    assert!(refused.text("/detail").contains("root"), "{refused:?}");
    assert!(!open(&world).await);
    let key = ObjectKey::cluster("mallory");
    let mallory = world.cluster.get_opt::<KiteUser>(&key).await.unwrap();
    assert!(mallory.is_none());
}

#[tokio::test]
async fn guessing_the_token_is_slowed_down() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let mut wrong = body("eve");
    wrong["token"] = "guess".into();
    for _ in 0..5 {
        world.post(PATH, "", wrong.clone()).await;
    }
    let refused = world.post(PATH, "", wrong).await;
    refused.is_problem(429, "too-many-requests");
    assert!(refused.headers.contains_key("retry-after"));
}
