//! News: the first snapshot, what changes, and how a stream ends.

use std::time::Duration;

use axum::body::BodyDataStream;
use futures::StreamExt as _;
use http::Method;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteSession, KiteUser},
    names,
};
use kube::api::{ListParams, PropagationPolicy};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{World, request};

/// A stream of events that is being read.
pub struct News {
    body: BodyDataStream,
    text: String,
}

impl News {
    pub async fn of(world: &World, path: &str, token: &str) -> Self {
        let request = request(Method::GET, path, token, None);
        let response = world.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let rest_len = rest.len();
                let line = |name: &str| {
                    let start = format!("{name}: ");
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(&start))
                        .map(str::to_owned)
                };
                let (name, data) = (line("event"), line("data"));
                self.text.drain(..self.text.len() - rest_len);
                if let (Some(name), Some(data)) = (name, data) {
                    return Some((name, serde_json::from_str(&data).unwrap()));
                }
                continue;
            }
            let next = tokio::time::timeout(Duration::from_secs(60), self.body.next()).await;
            let chunk = next.expect("nothing came")?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event of this name; others are passed over.
    pub async fn until(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next().await.expect("the stream ended");
            if found == name {
                return data;
            }
        }
    }
}

fn new_vm(name: &str) -> Value {
    json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12"})
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_tells_what_changes() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    world.post("/api/v1/vms", &ann, new_vm("old")).await;
    let mut news = News::of(&world, "/api/v1/events", &ann).await;
    let (name, all) = news.next().await.unwrap();
    assert_eq!(name, "snapshot");
    assert_eq!(all["vms"][0]["name"], "old");
    assert_eq!(all["images"][0]["name"], "debian-12");
    assert_eq!(all["me"]["username"], "ann");

    world.post("/api/v1/vms", &bob, new_vm("theirs")).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let vm = news.until("vm").await;
    assert_eq!(vm["name"], "web", "nobody is told of others' VMs");
    assert_eq!(vm, world.get("/api/v1/vms/web", &ann).await.body);
    world.post("/api/v1/vms/web/stop", &ann, json!({})).await;
    assert_eq!(news.until("vm").await["powerState"], "Off");
    world.delete("/api/v1/vms/web", &ann).await;
    let gone = news.until("vm-deleted").await;
    assert_eq!(
        (&gone["name"], &gone["owner"]),
        (&json!("web"), &json!("ann"))
    );
    world
        .patch("/api/v1/me", &ann, json!({"email": "ann@kite.test"}))
        .await;
    assert_eq!(news.until("me").await["email"], "ann@kite.test");
}

#[tokio::test]
async fn administrators_follow_everybody_and_others_are_refused() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let boss = world.user("boss", AccessLevel::Manager).await;
    world
        .get("/api/v1/events?all=true", &ann)
        .await
        .is_problem(403, "forbidden");
    world
        .get("/api/v1/events", "")
        .await
        .is_problem(401, "unauthenticated");
    let mut news = News::of(&world, "/api/v1/events?all=true", &boss).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let vm = news.until("vm").await;
    assert_eq!((&vm["name"], &vm["owner"]), (&json!("web"), &json!("ann")));
    // Who may not see them any more is told no more of them.
    edit_user(&world, "boss", json!({"accessLevel": "User"})).await;
    news.until("signed-out").await;
    assert!(news.next().await.is_none());
}

#[tokio::test]
async fn that_an_owner_is_suspended_is_told_with_the_vms() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let boss = world.user("boss", AccessLevel::Manager).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    world.post("/api/v1/vms", &bob, new_vm("db")).await;
    let mut news = News::of(&world, "/api/v1/events?all=true", &boss).await;
    let all = news.until("snapshot").await;
    assert_eq!(all["vms"][0].get("ownerSuspended"), None);
    for suspended in [true, false] {
        // As an administrator may do with kubectl.
        edit_user(&world, "ann", json!({"suspended": suspended})).await;
        let says = suspended.then_some(&Value::Bool(true));
        // The VM itself may change, too, before and after: it goes off.
        loop {
            // Comments come all the time, so that the stream is never silent.
            let told = tokio::time::timeout(Duration::from_secs(60), news.until("vm"));
            let vm = told.await.expect("nobody is told");
            assert_eq!(vm["owner"], "ann", "bob's are as they were");
            if vm.get("ownerSuspended") == says {
                break;
            }
        }
        let list = world.get("/api/v1/vms?all=true", &boss).await;
        let of = |name: &str| {
            let items = list.body["items"].as_array().unwrap().iter();
            let mut items = items.filter(|it| it["name"] == name);
            items.next().unwrap().get("ownerSuspended").cloned()
        };
        assert_eq!(of("web").as_ref(), says);
        assert_eq!(of("db"), None);
        let one = world.get("/api/v1/vms/web?owner=ann", &boss).await;
        assert_eq!(one.body.get("ownerSuspended"), says);
        let mut late = News::of(&world, "/api/v1/events?all=true", &boss).await;
        let all = late.until("snapshot").await;
        assert_eq!(all["vms"][0].get("ownerSuspended"), says);
    }
}

async fn edit_user(world: &World, name: &str, spec: Value) {
    let key = ObjectKey::cluster(name);
    let patch = json!({ "spec": spec });
    let _: KiteUser = world
        .cluster
        .merge_patch(kite_core::managers::CONTROLLER, &key, &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stream_ends_with_its_session_and_with_its_account() {
    let world = World::new().await;
    let first = world.user("ann", AccessLevel::User).await;
    let mut news = News::of(&world, "/api/v1/events", &first).await;
    let second = world.sign_in("ann").await;
    let mut other = News::of(&world, "/api/v1/events", &second).await;
    // As an administrator may do with kubectl.
    let key = ObjectKey::cluster(names::session(&first));
    let session: KiteSession = world.cluster.get(&key).await.unwrap();
    world
        .cluster
        .delete_by_uid(&session, PropagationPolicy::Background)
        .await
        .unwrap();
    news.until("signed-out").await;
    assert!(news.next().await.is_none());

    other.until("snapshot").await;
    edit_user(&world, "ann", json!({"suspended": true})).await;
    other.until("signed-out").await;
    assert!(other.next().await.is_none());
    let left = world
        .cluster
        .list::<KiteSession>(None, &ListParams::default())
        .await;
    assert_eq!(left.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_session_that_expires_ends_its_stream() {
    let lifetime = Duration::from_secs(5);
    let world = World::with(|builder| builder.session_lifetime(lifetime)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut news = News::of(&world, "/api/v1/events", &ann).await;
    news.until("signed-out").await;
    assert!(news.next().await.is_none());
}

#[tokio::test]
async fn who_reads_too_slowly_is_given_everything_again() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let mut news = News::of(&world, "/api/v1/events", &ann).await;
    news.until("snapshot").await;
    // More than a stream may lag behind, while nobody reads.
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    for turn in 0..1100_u32 {
        let patch = json!({"metadata": {"annotations": {"turn": turn.to_string()}}});
        let written = world
            .cluster
            .merge_patch::<kite_core::crd::KiteVirtualMachine>(
                kite_core::managers::CONTROLLER,
                &key,
                &patch,
            )
            .await
            .unwrap();
        if turn == 1099 {
            world.state.caches().vms.caught_up_with(&written).await;
        }
    }
    world.post("/api/v1/vms/web/stop", &ann, json!({})).await;
    let all = news.until("snapshot").await;
    assert_eq!(all["vms"][0]["powerState"], "Off");
}

#[tokio::test]
async fn a_stream_of_a_token_needs_its_scopes_and_ends_with_it() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let make = async |name: &str, scopes: Value| {
        let body = json!({"name": name, "scopes": scopes});
        let made = world.post("/api/v1/me/tokens", &ann, body).await;
        made.text("/token").to_owned()
    };
    for scope in ["account:read", "vms:write"] {
        let token = make(&scope.replace(':', "-"), json!([scope])).await;
        let refused = world.get("/api/v1/events", &token).await;
        refused.is_problem(403, "forbidden");
    }
    let both = json!(["account:read", "vms:read"]);
    let token = make("one", both.clone()).await;
    let mut news = News::of(&world, "/api/v1/events", &token).await;
    news.until("snapshot").await;
    let path = "/api/v1/me/tokens/one";
    assert_eq!(world.delete(path, &ann).await.status, 204);
    news.until("signed-out").await;

    let token = make("two", both).await;
    let mut news = News::of(&world, "/api/v1/events", &token).await;
    let mut browser = News::of(&world, "/api/v1/events", &ann).await;
    let everyone = "/api/v1/admin/sign-out-everyone";
    let done = world.post(everyone, &root, json!({"tokens": true})).await;
    assert_eq!(done.status, 204, "{done:?}");
    news.until("signed-out").await;
    browser.until("signed-out").await;
}

#[tokio::test]
async fn snapshots_and_volumes_are_told_of_to_who_asks_for_that() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let sam = world.user("sam", AccessLevel::Manager).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let mut own = News::of(&world, "/api/v1/events?disks=own", &ann).await;
    let mut others = News::of(&world, "/api/v1/events?disks=own", &bob).await;
    let mut all = News::of(&world, "/api/v1/events?disks=all", &sam).await;
    for news in [&mut own, &mut others, &mut all] {
        news.until("snapshot").await;
    }
    let body = json!({"name": "first", "vm": "web"});
    world.post("/api/v1/snapshots", &ann, body).await;
    let told = json!({"name": "web", "owner": "ann"});
    assert_eq!(own.until("vm-snapshots").await, told);
    assert_eq!(all.until("vm-snapshots").await, told);
    let body = json!({"name": "data", "size": "1Gi"});
    world.post("/api/v1/volumes", &ann, body).await;
    assert_eq!(own.until("volumes").await, json!({"owner": "ann"}));
    assert_eq!(all.until("volumes").await, json!({"owner": "ann"}));
    world.delete("/api/v1/snapshots/first", &ann).await;
    assert_eq!(own.until("vm-snapshots").await, told);
    // Bob has heard of nothing of that.
    let body = json!({"name": "his", "size": "1Gi"});
    world.post("/api/v1/volumes", &bob, body).await;
    let (name, data) = others.next().await.unwrap();
    assert_eq!((name.as_str(), data), ("volumes", json!({"owner": "bob"})));
    let refused = world.get("/api/v1/events?disks=all", &ann).await;
    refused.is_problem(403, "forbidden");
}
