//! The catalogue of images over HTTP.

use http::Method;
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, KiteImage, OsFamily},
};
use serde_json::{Value, json};

use crate::world::{World, request, send};

const IMAGES: &str = "/api/v1/images";
const ADMIN: &str = "/api/v1/admin/images";
const FEDORA: &str = "/api/v1/admin/images/fedora-43";

fn fedora() -> Value {
    json!({
        "name": "fedora-43", "url": "docker://quay.io/containerdisks/fedora:43",
        "osFamily": "RedHat", "minDisk": "5Gi", "refreshSchedule": "0 3 * * 0",
    })
}

async fn stored(world: &World, name: &str) -> KiteImage {
    let key = ObjectKey::cluster(name);
    world.cluster.get(&key).await.unwrap()
}

#[tokio::test]
async fn an_image_from_its_addition_to_its_end() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post(ADMIN, &root, fedora()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.headers["location"], FEDORA);
    assert_eq!(
        made.text("/url"),
        "docker://quay.io/containerdisks/fedora:43"
    );
    let image = stored(&world, "fedora-43").await;
    assert_eq!(image.spec.os_family, OsFamily::RedHat);
    assert!(image.spec.source.registry.is_some());
    let again = world.post(ADMIN, &root, fedora()).await;
    again.is_problem(409, "taken");
    assert_eq!(again.fields(), ["name"]);

    // Where it comes from is for those who look after it: there may be a password in it.
    for (list, who, sees) in [
        (IMAGES, &ann, false),
        (IMAGES, &root, false),
        (ADMIN, &root, true),
    ] {
        let listed = world.get(list, who).await;
        let item = listed.body["items"].as_array().unwrap().iter();
        let mut item = item.filter(|it| it["name"] == "fedora-43");
        let item = item.next().unwrap();
        for field in ["url", "refreshSchedule"] {
            assert_eq!(item.get(field).is_some(), sees, "{item}");
        }
    }
    world.get(ADMIN, &ann).await.is_problem(403, "forbidden");
    world.get(FEDORA, &ann).await.is_problem(403, "forbidden");
    let none = world.get("/api/v1/admin/images/none", &root).await;
    none.is_problem(404, "not-found");

    let edit = json!({"displayName": "Fedora 43", "description": "new", "minDisk": "6Gi"});
    let edited = world.patch(FEDORA, &root, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(edited.text("/displayName"), "Fedora 43");
    assert_eq!(edited.text("/minDisk"), "6Gi");
    let taken_back = world
        .patch(FEDORA, &root, json!({"description": null}))
        .await;
    assert_eq!(taken_back.body.get("description"), None);
    let nothing = world.patch(FEDORA, &root, json!({})).await;
    assert_eq!(nothing.status, 200);
    let moved = world
        .patch(FEDORA, &root, json!({"url": "x", "osFamily": "Suse"}))
        .await;
    moved.is_problem(422, "invalid");
    assert_eq!(moved.fields(), ["url", "osFamily"]);

    let mut stale = request(Method::DELETE, FEDORA, &root, None);
    stale
        .headers_mut()
        .insert("if-match", "\"of-before\"".parse().unwrap());
    send(&world.router, stale)
        .await
        .is_problem(412, "changed-meanwhile");
    assert_eq!(world.delete(FEDORA, &root).await.status, 202);
    world.get(FEDORA, &root).await.is_problem(404, "not-found");
}

#[tokio::test]
async fn images_are_for_administrators_to_manage() {
    let world = World::new().await;
    let sam = world.user("sam", AccessLevel::Manager).await;
    let debian = "/api/v1/admin/images/debian-12";
    for refused in [
        world.post(ADMIN, &sam, fedora()).await,
        world.patch(debian, &sam, json!({"displayName": "x"})).await,
        world.delete(debian, &sam).await,
    ] {
        refused.is_problem(403, "forbidden");
    }
    let name = stored(&world, "debian-12").await.spec.display_name;
    assert_eq!(name.as_deref(), Some("Debian 12"));
}

/// Its answer was lost, and meanwhile images may not come from there any more.
#[tokio::test]
async fn an_image_is_added_once() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mut body = fedora();
    body["name"] = json!("fedora-43.1");
    let ask = async |body: &Value| {
        let mut ask = request(Method::POST, ADMIN, &root, Some(body.clone()));
        ask.headers_mut()
            .insert("idempotency-key", "k-1".parse().unwrap());
        send(&world.router, ask).await
    };
    assert_eq!(ask(&body).await.status, 201);
    world.administer(json!({"imageSources": []})).await;
    let again = ask(&body).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(again.headers["idempotency-replayed"], "true");
    world.administer(json!({"imageSources": null})).await;
    body["minDisk"] = json!("9Gi");
    ask(&body).await.is_problem(422, "idempotency-key-reused");
}

/// Whatever an importer reaches becomes a disk that somebody reads.
#[tokio::test]
async fn images_come_from_where_the_cluster_lets_them() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let with = |url: &str| {
        let mut body = fedora();
        body["url"] = json!(url);
        body["refreshSchedule"] = Value::Null;
        body
    };
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "https://kubernetes.default.svc/",
        "docker://quay.io/containerdisks/../other/fedora",
        "ftp://cloud.debian.org/images/x",
        "https://cloud.debian.org/images/%2e%2e/x",
        "",
    ] {
        let refused = world.post(ADMIN, &root, with(url)).await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.fields(), ["url"], "{refused:?}");
    }
    let refused = world
        .post(ADMIN, &root, with("https://images.example.org/a"))
        .await;
    let told = refused.text("/errors/0/message");
    assert!(
        told.contains("spec.imageSources") && told.contains("https://cloud.debian.org/images/")
    );

    let sources = json!(["https://images.example.org/"]);
    let by_api = json!({ "imageSources": sources });
    let own = world
        .patch("/api/v1/admin/platform", &root, by_api.clone())
        .await;
    own.is_problem(422, "invalid");
    assert_eq!(own.fields(), ["imageSources"]);
    world.administer(by_api).await;
    let made = world
        .post(ADMIN, &root, with("https://images.example.org/a"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let former = world.post(ADMIN, &root, fedora()).await;
    former.is_problem(422, "invalid");
    world.administer(json!({"imageSources": []})).await;
    let nowhere = world
        .post(ADMIN, &root, with("https://images.example.org/b"))
        .await;
    assert!(
        nowhere.text("/errors/0/message").contains("nowhere"),
        "{nowhere:?}"
    );
}

#[tokio::test]
async fn what_is_wrong_with_an_image_is_told_at_once() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let file = "https://cloud.debian.org/images/cloud/debian.qcow2";
    let wrong = json!({
        "name": "A b", "url": file, "checksum": "sha3:abc", "minDisk": "much",
        "osFamily": "BeOS", "description": "x".repeat(1025), "importsToKeep": 21,
    });
    let refused = world.post(ADMIN, &root, wrong).await;
    refused.is_problem(422, "invalid");
    let mut fields = refused.fields();
    fields.sort_unstable();
    let expected = [
        "checksum",
        "description",
        "importsToKeep",
        "minDisk",
        "name",
        "osFamily",
    ];
    assert_eq!(fields, expected, "{refused:?}");
    let wrong = json!({"name": "debian", "url": file, "checksum": "sha3:abc", "minDisk": "3Gi"});
    let refused = world.post(ADMIN, &root, wrong).await;
    assert_eq!(refused.fields(), ["checksum"], "{refused:?}");
    let mut checked = fedora();
    checked["checksum"] = json!("sha256:00");
    let refused = world.post(ADMIN, &root, checked).await;
    assert_eq!(refused.fields(), ["checksum"], "{refused:?}");
    let refreshed = json!({"name": "debian", "url": file, "minDisk": "3Gi",
                           "refreshSchedule": "0 3 * * 0"});
    let refused = world.post(ADMIN, &root, refreshed).await;
    assert_eq!(refused.fields(), ["refreshSchedule"], "{refused:?}");
    let sum = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let right = json!({"name": "debian-12.7", "url": file, "checksum": sum, "minDisk": "3Gi"});
    let made = world.post(ADMIN, &root, right).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/checksum"), sum);
}
