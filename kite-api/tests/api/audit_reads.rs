//! What is written down of looks at what is another's.

use http::Method;
use kite_core::{crd::AccessLevel, names};
use serde_json::{Value, json};

use crate::data::{snapshot, volume};
use crate::{
    audit::{Kept, world},
    events::News,
    vm_recordings::{CAST, KEPT, Shelf},
    vm_sessions::{gateway, make_vm, over, report},
    world::{World, request, send},
};

/// Below `admin/`, and nobody's.
const OF_NOBODY: [&str; 6] = [
    "getCapacity",
    "getCertificate",
    "getImage",
    "getPlatform",
    "listAllImages",
    "listImageTags",
];

/// Operations of the document that show what is others': path, name, and whether an
/// account is named in the query.
fn looks() -> Vec<(String, String, bool)> {
    let document = kite_api::openapi_document();
    let mut looks = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let operation = &methods["get"];
        let Some(name) = operation["operationId"].as_str() else {
            continue;
        };
        let parameters = operation["parameters"].as_array();
        let by_owner = parameters
            .into_iter()
            .flatten()
            .any(|it| it["name"] == "owner");
        if by_owner || path.starts_with("/api/v1/admin/") {
            looks.push((path.clone(), name.to_owned(), by_owner));
        }
    }
    looks
}

/// Whoever adds an operation need not think of the log.
#[tokio::test]
async fn every_look_at_what_is_others_is_written_down() {
    let kept = Kept::default();
    let sink = kept.clone();
    let world = World::with(|builder| builder.audit(sink).recordings(Shelf)).await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    snapshot(&world, &web, "web", json!({})).await;
    volume(&world, "ann", "web", json!({"phase": "Available"})).await;
    let mut ended = over();
    ended["recordings"] = json!([CAST]);
    report(&world, &web, &gateway(), 1, ended).await;
    let session = names::connection(gateway().id(), 1);

    let looks = looks();
    assert!(looks.len() > 10, "{looks:?}");
    for (path, name, by_owner) in looks {
        kept.take();
        let (named, recording) = match path.as_str() {
            path if path.contains("/admin/users/") => ("ann", ""),
            path if path.contains("/admin/sessions/") => (session.as_str(), CAST),
            _ => ("web", KEPT[0]),
        };
        let filled = path
            .replace("{name}", named)
            .replace("{recording}", recording);
        let query = if by_owner { "?owner=ann" } else { "" };
        let answer = world.get(&format!("{filled}{query}"), &root).await;
        if OF_NOBODY.contains(&name.as_str()) {
            assert_eq!(kept.take(), Vec::<Value>::new(), "{name}");
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        let record = kept.one();
        assert_eq!(record["operation"], name, "{record:#}");
        assert_eq!(
            (&record["path"], &record["method"]),
            (&json!(filled), &json!("GET"))
        );
        assert_eq!(record["user"], "root");
        assert!(record["by"]["session"].is_string(), "{record:#}");
        assert_eq!(record["address"], "192.0.2.1");
        assert_eq!(record["outcome"], "done");
        let is_of_ann = by_owner || path.contains('{');
        let of = if is_of_ann {
            json!({"account": "ann"})
        } else {
            json!("everybody")
        };
        assert_eq!(record["of"], of, "{record:#}");
    }
}

#[tokio::test]
async fn what_is_ones_own_is_not() {
    let (world, kept) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    make_vm(&world, "ann", "web").await;
    kept.take();
    for path in [
        "vms",
        "vms?owner=ann",
        "vms/web",
        "vms/web?owner=ann",
        "vms/web/sessions",
        "me",
        "me/sessions",
        "me/tokens",
        "images",
        "offers",
        "config",
    ] {
        let answer = world.get(&format!("/api/v1/{path}"), &ann).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    for path in ["admin/users/root", "admin/sessions?user=root", "vms"] {
        let answer = world.get(&format!("/api/v1/{path}"), &root).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    // What is not there was not seen.
    let nothing = world.get("/api/v1/vms/nothing?owner=ann", &root).await;
    nothing.is_problem(404, "not-found");
    assert_eq!(kept.take(), Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_looked_at_again_and_again_is_written_down_once() {
    let (world, kept) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    make_vm(&world, "ann", "web").await;
    let look = async |path: &str, token: &str| {
        let answer = world.get(&format!("/api/v1/{path}"), token).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    };
    kept.take();
    for _ in 0..5 {
        look("vms?owner=ann", &root).await;
        look("vms?owner=ann&limit=1", &root).await;
    }
    assert_eq!(kept.one()["of"], json!({"account": "ann"}));
    // Something else, everybody's, and by somebody else.
    look("vms/web?owner=ann", &root).await;
    assert_eq!(kept.one()["operation"], "getVm");
    look("vms?all=true", &root).await;
    assert_eq!(kept.one()["of"], "everybody");
    look("vms?owner=ann", &root).await;
    assert_eq!(kept.take(), Vec::<Value>::new());
    let other = world.sign_in("root").await;
    kept.take();
    look("vms?owner=ann", &other).await;
    assert!(kept.one()["by"]["session"].is_string());

    let body = json!({"name": "ci", "scopes": ["admin:read"]});
    let made = world.post("/api/v1/me/tokens", &root, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    kept.take();
    for _ in 0..3 {
        look("admin/users", made.text("/token")).await;
    }
    let record = kept.one();
    assert_eq!(record["by"], json!({"token": "ci"}), "{record:#}");
    assert_eq!(record["of"], "everybody");
}

/// A recording shows more than any list: each time counts.
#[tokio::test]
async fn each_replay_is_written_down() {
    let kept = Kept::default();
    let sink = kept.clone();
    let world = World::with(|builder| builder.audit(sink).recordings(Shelf)).await;
    let root = world.user("root", AccessLevel::Admin).await;
    kept.take();
    let path = format!("/api/v1/admin/recordings/{}", KEPT[0]);
    for _ in 0..2 {
        let played = send(&world.router, request(Method::GET, &path, &root, None)).await;
        assert_eq!(played.status, 200, "{played:?}");
        let record = kept.one();
        assert_eq!(record["of"], json!({"account": "ann"}), "{record:#}");
        assert!(record["remarks"][0].as_str().unwrap().contains(KEPT[0]));
    }
}

#[tokio::test]
async fn who_follows_everybody_s_news_is_written_down_and_who_follows_their_own_is_not() {
    let (world, kept) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    kept.take();
    for (query, records) in [("", 0), ("?sessions=own", 0), ("?all=true", 1)] {
        let mut news = News::of(&world, &format!("/api/v1/events{query}"), &root).await;
        news.until("snapshot").await;
        let taken = kept.take();
        assert_eq!(taken.len(), records, "{query}: {taken:#?}");
        if let Some(record) = taken.first() {
            assert_eq!(record["operation"], "followEvents", "{record:#}");
            assert_eq!(record["of"], "everybody");
        }
    }
}

/// Whose it is stands beside what was done, too.
#[tokio::test]
async fn what_is_done_to_others_says_whose_it_is() {
    let (world, kept) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    make_vm(&world, "ann", "web").await;
    kept.take();
    for (who, path, of) in [
        (
            &root,
            "/api/v1/vms/web/stop?owner=ann",
            json!({"account": "ann"}),
        ),
        (&ann, "/api/v1/vms/web/stop", Value::Null),
    ] {
        let answer = world.post(path, who, json!({})).await;
        assert!(answer.status.is_success(), "{answer:?}");
        assert_eq!(kept.one()["of"], of);
    }
}
