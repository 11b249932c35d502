//! What bounds accounts that anybody makes.

use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KitePlatform},
    names,
};
use serde_json::{Value, json};

use crate::world::{PASSWORD, World};

const SIGN_UP: &str = "/api/v1/auth/sign-up";

async fn most_a_day(world: &World, most: Value) {
    let patch = json!({"spec": {"signUpsPerDay": most}});
    let key = ObjectKey::cluster(names::PLATFORM);
    let manager = FieldManager::new("test");
    let edited: KitePlatform = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().platforms.caught_up_with(&edited).await;
}

fn account(name: &str) -> Value {
    json!({"username": name, "password": PASSWORD})
}

#[tokio::test]
async fn so_many_sign_up_in_a_day_from_whatever_addresses() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    most_a_day(&world, json!(3)).await;
    // All at once.
    let join = |name: &'static str| world.post(SIGN_UP, "", account(name));
    let answers = tokio::join!(join("aa"), join("bb"), join("cc"), join("dd"), join("ee"));
    let answers = [answers.0, answers.1, answers.2, answers.3, answers.4];
    let made = answers.iter().filter(|it| it.status == 201).count();
    assert_eq!(made, 3, "{answers:?}");
    for refused in answers.iter().filter(|it| it.status != 201) {
        refused.is_problem(429, "too-many-requests");
        assert!(refused.headers.contains_key("retry-after"));
    }
    // Whom administrators let in is not counted.
    let invite = world.post("/api/v1/admin/invites", &root, json!({})).await;
    let mut invited = account("invited");
    invited["invite"] = invite.text("/token").into();
    assert_eq!(world.post(SIGN_UP, "", invited).await.status, 201);
    let made = world
        .post("/api/v1/admin/users", &root, account("made"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let edit = json!({"signUpsPerDay": 4});
    let edited = world.patch("/api/v1/admin/platform", &root, edit).await;
    assert_eq!(edited.body["signUpsPerDay"], 4);
    assert_eq!(world.post(SIGN_UP, "", account("ff")).await.status, 201);
    let refused = world.post(SIGN_UP, "", account("gg")).await;
    refused.is_problem(429, "too-many-requests");
}
