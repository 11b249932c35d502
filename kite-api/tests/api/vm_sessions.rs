//! Sessions in VMs: who sees and ends them, and what becomes of those whose gateway is
//! gone.

use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use kite_api::ApiState;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    connections::{Instance, object},
    crd::{AccessLevel, KiteConnection, KiteVirtualMachine},
    names,
};
use kite_fake::fault::{Fault, Faults, Plan};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tower::Layer as _;

use crate::{
    events::News,
    world::{World, request, send},
};

pub const ALL: &str = "/api/v1/admin/sessions";
const OF_WEB: &str = "/api/v1/vms/web/sessions";

/// A VM as it is before anybody has looked at it.
pub async fn make_vm(world: &World, owner: &str, name: &str) -> KiteVirtualMachine {
    let vm: KiteVirtualMachine = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KiteVirtualMachine",
        "metadata": {"name": name, "namespace": names::user_namespace(owner)},
        "spec": {
            "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12",
            "sshId": format!("{owner}-{name}"),
        },
    }))
    .unwrap();
    let vm = world.cluster.create(&vm).await.unwrap();
    world.state.caches().vms.caught_up_with(&vm).await;
    vm
}

fn spec(vm: &KiteVirtualMachine, instance: &Instance, number: i64, more: &Value) -> Value {
    let namespace = vm.namespace().unwrap();
    let mut spec = json!({
        "vm": {"name": vm.name_any(), "uid": vm.uid()},
        "owner": names::user_of_namespace(&namespace),
        "login": vm.spec.ssh_id,
        "kind": "Ssh",
        "peer": "192.0.2.7",
        "instance": instance.id(),
        "number": number,
        "openedAt": format!("2026-01-01T00:{number:02}:00Z"),
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

/// A session as a gateway reports it.
pub async fn report(
    world: &World,
    vm: &KiteVirtualMachine,
    instance: &Instance,
    number: i64,
    more: Value,
) -> KiteConnection {
    let spec = serde_json::from_value(spec(vm, instance, number, &more)).unwrap();
    let connection = object(&vm.namespace().unwrap(), spec);
    let manager = kite_core::managers::GATEWAY;
    let connection = world.cluster.apply(manager, &connection).await.unwrap();
    let seen = &world.state.caches().connections;
    seen.caught_up_with(&connection).await;
    connection
}

pub fn gateway() -> Instance {
    Instance::new(7, Some("gateway-0".to_owned()))
}

pub fn over() -> Value {
    json!({"ended": {"at": Timestamp::now().to_string(), "why": "closed by the user"}})
}

#[tokio::test]
async fn owners_see_their_own_and_who_sees_all_vms_sees_all() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    let web = make_vm(&world, "ann", "web").await;
    let db = make_vm(&world, "bob", "db").await;
    report(&world, &web, &gateway(), 1, over()).await;
    report(&world, &web, &gateway(), 2, json!({})).await;
    report(&world, &db, &gateway(), 3, json!({})).await;
    let [one, two, three] = [1, 2, 3].map(|number| format!("c-0000000000000007-{number}"));

    let of_web = world.get(OF_WEB, &ann).await;
    assert_eq!(of_web.names(), [&two, &one], "the newest first");
    let newest = &of_web.body["items"][0];
    assert_eq!(newest["live"], true);
    assert_eq!(
        (&newest["peer"], &newest["owner"]),
        (&json!("192.0.2.7"), &json!("ann"))
    );
    assert_eq!(of_web.body["items"][1]["why"], "closed by the user");
    let live = world.get(&format!("{OF_WEB}?live=true"), &ann).await;
    assert_eq!(live.names(), [&two]);
    let past = world.get(&format!("{OF_WEB}?live=false"), &ann).await;
    assert_eq!(past.names(), [&one]);

    world.get(OF_WEB, &bob).await.is_problem(404, "not-found");
    let of_ann = format!("{OF_WEB}?owner=ann");
    world.get(&of_ann, &bob).await.is_problem(403, "forbidden");
    assert_eq!(world.get(&of_ann, &mia).await.names().len(), 2);
    world.get(ALL, &ann).await.is_problem(403, "forbidden");
    assert_eq!(world.get(ALL, &mia).await.names(), [&three, &two, &one]);
    for (query, expected) in [
        ("live=true", vec![&three, &two]),
        ("vm=web", vec![&two, &one]),
        ("user=bob", vec![&three]),
        ("search=DB", vec![&three]),
        ("search=192.0.2.7&live=false", vec![&one]),
        ("user=bob&vm=web", vec![]),
    ] {
        let answer = world.get(&format!("{ALL}?{query}"), &mia).await;
        assert_eq!(answer.names(), expected, "{query}");
    }
    // In pages, which what comes meanwhile does not disturb.
    let first = world.get(&format!("{ALL}?limit=2"), &mia).await;
    assert_eq!(first.names(), [&three, &two]);
    report(&world, &db, &gateway(), 4, json!({})).await;
    let rest = format!("{ALL}?limit=2&after={}", first.text("/next"));
    let rest = world.get(&rest, &mia).await;
    assert_eq!(rest.names(), [&one]);
    let wrong = world.get(&format!("{ALL}?live=maybe"), &mia).await;
    wrong.is_problem(422, "invalid");
}

#[tokio::test]
async fn a_later_vm_of_the_name_does_not_show_the_sessions_of_the_first() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut web = make_vm(&world, "ann", "web").await;
    web.metadata.uid = Some("another".to_owned());
    report(&world, &web, &gateway(), 1, json!({})).await;
    assert!(world.get(OF_WEB, &ann).await.names().is_empty());
    let one = format!("{OF_WEB}/c-0000000000000007-1");
    world.delete(&one, &ann).await.is_problem(404, "not-found");
}

#[tokio::test]
async fn ending_one_is_a_wish_with_a_reason_and_the_first_counts() {
    let world = World::new().await;
    let other = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let ron = world.user("ron", AccessLevel::ReadOnly).await;
    let web = make_vm(&world, "ann", "web").await;
    let vault = make_vm(&world, "root", "vault").await;
    for number in 1..=4 {
        report(&world, &web, &gateway(), number, json!({})).await;
    }
    report(&world, &vault, &gateway(), 5, json!({})).await;
    let name = |number: i64| names::connection(gateway().id(), number);
    let key = |number| ObjectKey::namespaced(names::user_namespace("ann"), name(number));
    let wish = async |number| {
        let object = world.cluster.get::<KiteConnection>(&key(number)).await;
        object.unwrap().spec.end
    };

    let first = format!("{OF_WEB}/{}?reason=I%20left%20it%20open", name(1));
    let ended = world.delete(&first, &ann).await;
    assert_eq!(ended.status, StatusCode::ACCEPTED);
    assert_eq!(ended.text("/ending/by"), "ann");
    assert_eq!(wish(1).await.unwrap().reason, "I left it open");
    // On whatever replica, the first reason counts.
    let again = format!("{ALL}/{}?reason=too%20late", name(1));
    let again = send(&other, request(Method::DELETE, &again, &root, None)).await;
    assert_eq!(again.status, StatusCode::ACCEPTED);
    assert_eq!(again.text("/ending/reason"), "I left it open");

    let second = format!("{ALL}/{}", name(2));
    world
        .delete(&second, &ann)
        .await
        .is_problem(403, "forbidden");
    world
        .delete(&second, &bob)
        .await
        .is_problem(403, "forbidden");
    let of_ann = format!("{OF_WEB}/{}?owner=ann", name(2));
    world
        .delete(&of_ann, &bob)
        .await
        .is_problem(403, "forbidden");
    world
        .delete(&of_ann, &ron)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(wish(2).await, None);
    assert_eq!(world.delete(&second, &mia).await.status, 202);
    assert_eq!(wish(2).await.unwrap().by, "mia");
    let of_root = format!("{ALL}/{}", name(5));
    world
        .delete(&of_root, &mia)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(world.delete(&of_root, &root).await.status, 202);
    // By the path of a VM only what is of that VM.
    let elsewhere = format!("/api/v1/vms/vault/sessions/{}", name(3));
    let elsewhere = world.delete(&elsewhere, &root).await;
    elsewhere.is_problem(404, "not-found");

    let long = "x".repeat(201);
    for reason in ["a%0Ab", "%1B%5B2J", long.as_str()] {
        let path = format!("{OF_WEB}/{}?reason={reason}", name(3));
        let refused = world.delete(&path, &ann).await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.fields(), ["reason"]);
    }
    assert_eq!(wish(3).await, None);
    report(&world, &web, &gateway(), 3, over()).await;
    let past = world.delete(&format!("{OF_WEB}/{}", name(3)), &ann).await;
    assert_eq!(
        (past.status.as_u16(), past.body["live"].as_bool()),
        (202, Some(false))
    );
    assert_eq!(wish(3).await, None);
    let gone = world.delete(&format!("{ALL}/c-0-0"), &root).await;
    gone.is_problem(404, "not-found");
}

#[tokio::test]
async fn of_two_who_end_one_at_once_one_gives_the_reason() {
    let world = World::new().await;
    let other = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let web = make_vm(&world, "root", "web").await;
    for number in 0..10 {
        report(&world, &web, &gateway(), number, json!({})).await;
        let path = |reason| {
            let name = names::connection(gateway().id(), number);
            format!("{ALL}/{name}?reason={reason}")
        };
        let (a, b) = (path("a"), path("b"));
        let (a, b) = tokio::join!(
            world.delete(&a, &root),
            send(&other, request(Method::DELETE, &b, &root, None)),
        );
        // A replica that has not heard of the session says so.
        assert_eq!(a.status, 202);
        assert!([202, 404].contains(&b.status.as_u16()), "{b:?}");
        if b.status == 202 {
            assert_eq!(a.text("/ending/reason"), b.text("/ending/reason"));
        }
    }
}

/// The API server refuses a second wish, too, with the same status: who asked is not told
/// that a session ends that goes on.
#[tokio::test]
async fn an_end_that_a_policy_refuses_is_no_end() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let web = make_vm(&world, "root", "web").await;
    report(&world, &web, &gateway(), 1, json!({})).await;
    world.refuse(&json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["hy3ons.github.io"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["kiteconnections"],
        }]},
        "validations": [{
            "expression": "!has(object.spec.end)",
            "message": "nobody is thrown out during the exam",
        }],
    }));
    let one = format!("{ALL}/{}", names::connection(gateway().id(), 1));
    let refused = world.delete(&one, &root).await;
    refused.is_problem(422, "invalid");
    assert_eq!(
        refused.text("/detail"),
        "nobody is thrown out during the exam"
    );
    let shown = world.get(OF_WEB, &root).await;
    assert_eq!(shown.body["items"][0]["ending"], json!(null), "{shown:?}");
}

#[tokio::test]
async fn tokens_see_and_end_sessions_by_their_scopes() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    report(&world, &web, &gateway(), 1, json!({})).await;
    let token = async |name: &str, scope: &str| {
        let body = json!({"name": name, "scopes": [scope]});
        let made = world.post("/api/v1/me/tokens", &ann, body).await;
        made.text("/token").to_owned()
    };
    let (reads, powers) = (token("a", "vms:read").await, token("b", "vms:power").await);
    let one = format!("{OF_WEB}/c-0000000000000007-1");
    assert_eq!(world.get(OF_WEB, &reads).await.names().len(), 1);
    world
        .delete(&one, &reads)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(world.delete(&one, &powers).await.status, 202);
}

/// How many sessions last, as the API server has them.
pub async fn lasting(world: &World) -> usize {
    let namespace = Some(names::user_namespace("ann"));
    let listed = world
        .cluster
        .list::<KiteConnection>(namespace, &kube::api::ListParams::default())
        .await
        .unwrap();
    listed.items.iter().filter(|it| it.is_live()).count()
}

pub async fn beat(world: &World, instance: &Instance) {
    let lease = instance.heartbeat(names::PLATFORM_NAMESPACE, Timestamp::now());
    let manager = kite_core::managers::GATEWAY;
    world.cluster.apply(manager, &lease).await.unwrap();
}

#[tokio::test]
async fn the_sessions_of_a_gateway_that_is_gone_end_and_those_of_others_do_not() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let _other = world.replica().await;
    let web = make_vm(&world, "ann", "web").await;
    let (gone, there) = (gateway(), Instance::new(8, None));
    beat(&world, &gone).await;
    beat(&world, &there).await;
    report(&world, &web, &gone, 1, json!({})).await;
    report(&world, &web, &there, 2, json!({})).await;
    tokio::time::pause();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        beat(&world, &there).await;
    }
    let key = |instance: &Instance, number| {
        let name = names::connection(instance.id(), number);
        ObjectKey::namespaced(names::user_namespace("ann"), name)
    };
    let first: KiteConnection = world.cluster.get(&key(&gone, 1)).await.unwrap();
    let ended = first.spec.ended.expect("it has ended");
    assert!(ended.why.contains("went away"), "{}", ended.why);
    let second: KiteConnection = world.cluster.get(&key(&there, 2)).await.unwrap();
    assert!(second.is_live());
    // What showed that it was there is cleared away, too.
    let lease = async |instance: &Instance| {
        let name = names::heartbeat(instance.id());
        let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, name);
        let cluster = &world.cluster;
        let lease = cluster.get_opt::<k8s_openapi::api::coordination::v1::Lease>(&key);
        lease.await.unwrap()
    };
    assert!(lease(&gone).await.is_none() && lease(&there).await.is_some());
}

#[tokio::test]
async fn nobody_is_taken_for_gone_because_the_api_server_was_away() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let web = make_vm(&world, "ann", "web").await;
    let there = gateway();
    beat(&world, &there).await;
    report(&world, &web, &there, 1, json!({})).await;
    let faults = Faults::new(Plan::random(1, 1000, &[Fault::ServerError]));
    let service = faults.layer("api").layer(world.fake.service());
    let state = ApiState::builder(kube::Client::new(service, "default"));
    let state = state.build().await.unwrap();
    // The one that sees everything is gone: only the one that is cut off judges.
    let World {
        fake,
        cluster,
        state: first,
        router,
    } = world;
    drop((first, router));
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(600)).await;
    faults.disarm();
    state.synced().await;
    // The gateway was cut off as well, and takes a moment.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let world = World {
        router: kite_api::router(state.clone()),
        fake,
        cluster,
        state,
    };
    beat(&world, &there).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        beat(&world, &there).await;
        assert_eq!(lasting(&world).await, 1);
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(lasting(&world).await, 0, "now it is gone");
}

#[tokio::test]
async fn news_tell_of_the_sessions_that_were_asked_for() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    let web = make_vm(&world, "ann", "web").await;
    let db = make_vm(&world, "bob", "db").await;
    let follow = async |query: &str, token: &str| {
        let mut news = News::of(&world, &format!("/api/v1/events{query}"), token).await;
        news.until("snapshot").await;
        news
    };
    let mut own = follow("?sessions=own", &ann).await;
    let mut all = follow("?sessions=all", &mia).await;
    let mut none = follow("", &bob).await;
    let all_of_ann = "/api/v1/events?sessions=all";
    let refused = world.get(all_of_ann, &ann).await;
    refused.is_problem(403, "forbidden");
    let wrong = world.get("/api/v1/events?sessions=some", &ann).await;
    wrong.is_problem(422, "invalid");

    // Begun, and then ended.
    report(&world, &db, &gateway(), 1, json!({})).await;
    report(&world, &web, &gateway(), 2, json!({})).await;
    report(&world, &web, &gateway(), 2, over()).await;
    let of = |vm: &str, owner: &str| json!({"name": vm, "owner": owner});
    for _ in 0..2 {
        assert_eq!(own.until("vm-sessions").await, of("web", "ann"));
    }
    for vm in [of("db", "bob"), of("web", "ann"), of("web", "ann")] {
        assert_eq!(all.until("vm-sessions").await, vm);
    }
    // Who did not ask hears the next news, and nothing before.
    world
        .patch("/api/v1/me", &bob, json!({"email": "bob@kite.test"}))
        .await;
    assert_eq!(
        none.next().await.map(|(name, _)| name),
        Some("me".to_owned())
    );
    // Who may not see them any more is told no more of them.
    let root = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/users/mia";
    let lowered = world
        .patch(path, &root, json!({"accessLevel": "User"}))
        .await;
    assert_eq!(lowered.status, 200, "{lowered:?}");
    all.until("signed-out").await;
}
