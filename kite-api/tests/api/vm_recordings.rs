//! What was recorded of sessions in VMs: who replays it, by its session and without.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{Method, header};
use jiff::{Timestamp, ToSpan as _};
use kite_api::{Recorded, Recordings};
use kite_core::{crd::AccessLevel, names};
use serde_json::json;

use crate::{
    vm_sessions::{ALL, gateway, make_vm, over, report},
    world::{World, request, send},
};

pub const CAST: &str = "20260101T000000Z_kite-user-ann_web_web_0a.cast";

/// One recording, and a disk that fails for another.
pub struct Shelf;

#[async_trait]
impl Recordings for Shelf {
    async fn read(&self, name: &str) -> io::Result<Option<Recorded>> {
        let text = Bytes::from_static(b"{\"version\": 2}\n[0.1, \"o\", \"hello\"]\n");
        match name {
            CAST => Ok(Some(Recorded {
                length: text.len() as u64,
                bytes: futures::stream::iter([Ok(text)]).boxed(),
            })),
            "broken.cast" => Err(io::Error::other("no such bucket")),
            _ if KEPT.contains(&name) => Ok(Some(Recorded {
                length: text.len() as u64,
                bytes: futures::stream::iter([Ok(text)]).boxed(),
            })),
            _ => Ok(None),
        }
    }

    fn names(&self, from: &str) -> BoxStream<'_, io::Result<(String, u64)>> {
        let all = [CAST, "notes.txt"].into_iter().chain(KEPT);
        let mut named: Vec<_> = all
            .filter(|name| *name >= from)
            .map(|name| Ok((name.to_owned(), 7)))
            .collect();
        if from.starts_with("20261231") {
            named.push(Err(io::Error::other("no such bucket")));
        }
        futures::stream::iter(named).boxed()
    }
}

/// What is kept though no session is known that it is of.
pub const KEPT: [&str; 4] = [
    "20251111T235959Z_kite-user-ann_web_ann-web_01.cast",
    "20251112T000000Z_kite-user-ann_db_ann-db_02.cast",
    "20251112T100000Z_kite-user-gone_web_gone_web_03.cast",
    "20251113T000000Z_kite-user-ann_web_ann-web_04.cast",
];
const ARCHIVE: &str = "/api/v1/admin/recordings";

#[tokio::test]
async fn administrators_find_what_is_kept_though_its_session_is_not() {
    let world = World::with(|builder| builder.recordings(Shelf)).await;
    let bare = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    world.user("ann", AccessLevel::User).await;
    let names = async |query: &str| {
        let listed = world.get(&format!("{ARCHIVE}{query}"), &root).await;
        assert_eq!(listed.status, 200, "{listed:?}");
        let items = listed.body["items"].as_array().unwrap().clone();
        let names = items
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), items)
    };
    let (of_day, items) = names("?day=2025-11-12").await;
    assert_eq!(of_day, [KEPT[2], KEPT[1]], "the newest first");
    assert_eq!(items[0]["owner"], "gone");
    assert_eq!(items[0]["login"], "gone_web");
    assert_eq!(items[1]["vm"], "db");
    assert_eq!(items[1]["begunAt"], "2025-11-12T00:00:00Z");
    assert_eq!(names("?day=2025-11-12&user=ann").await.0, [KEPT[1]]);
    assert_eq!(names("?day=2025-11-12&vm=web").await.0, [KEPT[2]]);
    assert_eq!(names("?day=2025-11-12&limit=1").await.0, [KEPT[2]]);
    assert!(names("").await.0.is_empty(), "nothing was recorded today");
    let path = |name: &str| format!("{ARCHIVE}/{name}");
    for name in KEPT {
        let played = world.get(&path(name), &root).await;
        assert_eq!(played.status, 200);
        assert!(played.body.as_str().unwrap().contains("hello"));
    }
    // Nobody else, no token, and nothing that is no recording.
    for path in [ARCHIVE.to_owned(), path(KEPT[0])] {
        let refused = world.get(&path, &mia).await;
        refused.is_problem(403, "forbidden");
    }
    let body = json!({"name": "all", "scopes": ["admin"]});
    let token = world.post("/api/v1/me/tokens", &root, body).await;
    for path in [ARCHIVE.to_owned(), path(KEPT[0])] {
        let refused = world.get(&path, token.text("/token")).await;
        refused.is_problem(403, "forbidden");
    }
    for name in [
        "notes.txt",
        "broken.cast",
        "20251112T000000Z_kite-user-ann_db_ann-db_99.cast",
        "..%2F..%2Fetc%2Fpasswd.cast",
    ] {
        let refused = world.get(&path(name), &root).await;
        refused.is_problem(404, "not-found");
    }
    let failed = world.get(&format!("{ARCHIVE}?day=2026-12-31"), &root).await;
    failed.is_problem(503, "unavailable");
    assert!(!failed.body.to_string().contains("bucket"));
    let nonsense = world.get(&format!("{ARCHIVE}?day=yesterday"), &root).await;
    assert!(
        nonsense.text("/detail").contains("a day such as"),
        "{nonsense:?}"
    );
    let nowhere = send(&bare, request(Method::GET, ARCHIVE, &root, None)).await;
    nowhere.is_problem(404, "not-found");
    assert!(nowhere.text("/detail").contains("--recordings-from"));
}

#[tokio::test]
async fn administrators_replay_what_is_kept() {
    let world = World::with(|builder| builder.recordings(Shelf)).await;
    let bare = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    let kept = json!({"recordings": [CAST, "lost.cast", "broken.cast"]});
    let live = kept.clone();
    let mut kept = kept;
    kept["ended"] = over()["ended"].clone();
    report(&world, &web, &gateway(), 1, kept).await;
    report(&world, &web, &gateway(), 2, live).await;
    let path = |number: i64, recording: &str| {
        let name = names::connection(gateway().id(), number);
        format!("{ALL}/{name}/recordings/{recording}")
    };

    let played = world.get(&path(1, CAST), &root).await;
    assert_eq!(played.status, 200);
    assert_eq!(
        played.headers[header::CONTENT_TYPE],
        "application/x-asciicast"
    );
    assert!(
        played.body.as_str().unwrap().contains("hello"),
        "{played:?}"
    );
    // Not even the VM's owner, and no token.
    for who in [&mia, &ann] {
        world
            .get(&path(1, CAST), who)
            .await
            .is_problem(403, "forbidden");
    }
    let body = json!({"name": "all", "scopes": ["admin"]});
    let token = world.post("/api/v1/me/tokens", &root, body).await;
    let by_token = world.get(&path(1, CAST), token.text("/token")).await;
    by_token.is_problem(403, "forbidden");

    // A session is over before the last of it is stored.
    let fresh = world.get(&path(1, "lost.cast"), &root).await;
    fresh.is_problem(409, "conflict");
    assert_eq!(fresh.headers[header::RETRY_AFTER], "2");
    assert!(fresh.text("/detail").contains("being stored"), "{fresh:?}");
    let long_ago = Timestamp::now() - 121.seconds();
    let ended = json!({"at": long_ago.to_string(), "why": "closed by the user"});
    let old = json!({"recordings": ["lost.cast"], "ended": ended});
    report(&world, &web, &gateway(), 3, old).await;
    let lost = world.get(&path(3, "lost.cast"), &root).await;
    lost.is_problem(404, "not-found");
    assert!(!lost.headers.contains_key(header::RETRY_AFTER));
    assert!(lost.text("/detail").contains("not kept"), "{lost:?}");
    let under_way = world.get(&path(2, "lost.cast"), &root).await;
    under_way.is_problem(409, "conflict");
    assert!(!under_way.headers.contains_key(header::RETRY_AFTER));
    assert!(under_way.text("/detail").contains("under way"));
    let broken = world.get(&path(1, "broken.cast"), &root).await;
    broken.is_problem(503, "unavailable");
    assert!(!broken.body.to_string().contains("bucket"));
    // Only what the session names, and nothing that leads elsewhere.
    for name in ["other.cast", "..%2F..%2Fetc%2Fpasswd.cast"] {
        let refused = world.get(&path(1, name), &root).await;
        refused.is_problem(404, "not-found");
        assert!(!refused.text("/detail").contains("kept"), "{refused:?}");
    }
    let nowhere = send(&bare, request(Method::GET, &path(1, CAST), &root, None)).await;
    nowhere.is_problem(404, "not-found");
    assert!(nowhere.text("/detail").contains("--recordings-from"));
}
