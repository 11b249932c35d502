//! What the owner of an account is told of until they have seen it.

use ::http::{Method, header};
use serde_json::{Value, json};

use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteVirtualMachine},
    names,
    password::PasswordHash,
};
use kube::api::PropagationPolicy;

use crate::{
    gate::Gate,
    lists::new_vm,
    totp,
    world::{Answer, PASSWORD, World, request, send},
};

const NOTICES: &str = "/api/v1/me/notices";
const SEEN: &str = "/api/v1/me/notices/seen";
const TOKENS: &str = "/api/v1/me/tokens";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg ann";
const OTHER_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ops";

async fn kinds(world: &World, token: &str) -> Vec<String> {
    let answer = world.get(NOTICES, token).await;
    let kind = |item: &Value| item["kind"].as_str().unwrap().to_owned();
    let mut kinds: Vec<_> = items(&answer).iter().map(kind).collect();
    kinds.sort();
    kinds
}

fn items(told: &Answer) -> Vec<Value> {
    told.body["items"].as_array().unwrap().clone()
}

fn ids(told: &Answer) -> Vec<Value> {
    items(told).iter().map(|item| item["id"].clone()).collect()
}

/// Puts away all that there is.
async fn see(world: &World, token: &str) -> Answer {
    let told = world.get(NOTICES, token).await;
    let seen = json!({"ids": ids(&told), "more": told.body["more"]});
    world.post(SEEN, token, seen).await
}

/// Changes the account of ann as somebody with `kubectl` does.
async fn kubectl(world: &World, spec: Value) {
    let key = ObjectKey::cluster("ann");
    let (manager, patch) = (FieldManager::new("kubectl"), json!({ "spec": spec }));
    let edited: KiteUser = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
}

async fn make_token(world: &World, token: &str, name: &str) {
    let body = json!({"name": name, "scopes": ["account:read"]});
    let made = world.post(TOKENS, token, body).await;
    assert_eq!(made.status, 201, "{made:?}");
}

async fn end_token(world: &World, token: &str, name: &str) {
    let ended = world.delete(&format!("{TOKENS}/{name}"), token).await;
    assert_eq!(ended.status, 204, "{ended:?}");
}

async fn sign_in_by(world: &World, agent: &str) -> Answer {
    let body = json!({"username": "ann", "password": PASSWORD});
    let mut asked = request(Method::POST, "/api/v1/auth/sign-in", "", Some(body));
    let agent = agent.parse().unwrap();
    asked.headers_mut().insert(header::USER_AGENT, agent);
    send(&world.router, asked).await
}

#[tokio::test]
async fn a_sign_in_from_a_new_place_is_told_once() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    // The first place of all is none.
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    sign_in_by(&world, "Mozilla/5.0 Firefox/140.0").await;
    let told = world.get(NOTICES, &ann).await;
    assert_eq!(told.text("/items/0/kind"), "SignIn");
    assert_eq!(told.text("/items/0/name"), "Mozilla/5.0 Firefox/140.0");
    assert_eq!(told.text("/items/0/network"), "192.0.2.0/24");
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    // A newer version of it is no other place, and neither is the first one.
    sign_in_by(&world, "Mozilla/6.0 Firefox/141.0").await;
    world.sign_in("ann").await;
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn what_opens_the_account_is_told_until_it_is_seen_on_every_replica() {
    let world = World::new().await;
    let other = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (ann, ..) = totp::ann(&world).await;
    let user = "/api/v1/admin/users/ann";
    let token = json!({"name": "ci", "scopes": ["account:read"]});
    let made = world.post("/api/v1/me/tokens", &ann, token).await;
    assert_eq!(made.status, 201, "{made:?}");
    let keys = json!({"sshPublicKeys": [KEY]});
    assert_eq!(world.patch("/api/v1/me", &ann, keys).await.status, 200);
    let quota = json!({"quota": {"vms": 3, "cpu": 4, "memory": "8Gi", "disk": "100Gi"}});
    assert_eq!(world.patch(user, &root, quota).await.status, 200);
    let remove = json!({"removeSecondFactor": true});
    assert_eq!(world.patch(user, &root, remove).await.status, 200);
    // It was set up, too.
    let expected = ["Key", "Quota", "SecondFactor", "SecondFactor", "Token"];
    assert_eq!(kinds(&world, &ann).await, expected);
    // A token tells, and puts nothing away.
    let token = made.text("/token");
    assert_eq!(kinds(&world, token).await, expected);
    let refused = world
        .post(SEEN, token, json!({"until": "2026-01-01T00:00:00Z"}))
        .await;
    refused.is_problem(403, "forbidden");

    assert_eq!(see(&world, &ann).await.status, 204);
    world
        .until("they are seen there", async || {
            let asked = request(Method::GET, NOTICES, &ann, None);
            send(&other, asked).await.body["items"] == json!([])
        })
        .await;
    // What is still to come was seen by nobody, whatever a client says.
    let ahead = json!({"until": "2999-01-01T00:00:00Z"});
    assert_eq!(world.post(SEEN, &ann, ahead).await.status, 204);
    let edit = json!({"sshPublicKeys": []});
    assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    let edit = json!({"sshPublicKeys": [KEY]});
    assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, ["Key"]);
}

#[tokio::test]
async fn a_session_in_other_hands_puts_no_notice_away() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    sign_in_by(&world, "Mozilla/5.0 Firefox/140.0").await;
    world.age_proofs().await;
    see(&world, &ann).await.is_problem(403, "proof-required");
    assert_eq!(kinds(&world, &ann).await, ["SignIn"]);
    let proof = json!({"password": PASSWORD});
    let proved = world.post("/api/v1/auth/prove", &ann, proof).await;
    assert_eq!(proved.status, 200, "{proved:?}");
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn a_vm_that_ends_soon_is_told_of_again_when_its_end_is_another() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let end = |hours: i64| (jiff::Timestamp::now() + jiff::Span::new().hours(hours)).to_string();
    let mut vm = new_vm("web");
    vm["expiresAt"] = end(100).into();
    assert_eq!(world.post("/api/v1/vms", &ann, vm).await.status, 201);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    for hours in [2, 3] {
        let until = end(hours);
        let edit = json!({"expiresAt": until});
        let edited = world.patch("/api/v1/vms/web", &ann, edit).await;
        assert_eq!(edited.status, 200, "{edited:?}");
        let told = world.get(NOTICES, &ann).await;
        assert_eq!(told.text("/items/0/kind"), "VmExpires");
        assert_eq!(told.text("/items/0/name"), "web");
        let told: jiff::Timestamp = told.text("/items/0/until").parse().unwrap();
        assert_eq!(
            told.as_second(),
            until.parse::<jiff::Timestamp>().unwrap().as_second()
        );
        assert_eq!(see(&world, &ann).await.status, 204);
        assert_eq!(kinds(&world, &ann).await, [""; 0]);
    }
    let edit = json!({"expiresAt": end(200)});
    assert_eq!(world.patch("/api/v1/vms/web", &ann, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn what_was_made_and_ended_before_anybody_looked_is_told() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    make_token(&world, &ann, "brief").await;
    // One that is refused is none.
    let again = json!({"name": "brief", "scopes": ["account:read"]});
    let refused = world.post(TOKENS, &ann, again).await;
    refused.is_problem(409, "taken");
    end_token(&world, &ann, "brief").await;
    for keys in [json!([KEY]), json!([])] {
        let edit = json!({ "sshPublicKeys": keys });
        assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    }
    assert_eq!(kinds(&world, &ann).await, ["Key", "Token"]);
    let told = world.get(NOTICES, &ann).await;
    assert!(items(&told).iter().any(|it| it["name"] == "brief"));
    assert!(items(&told).iter().any(|it| it["name"] == KEY));
    assert_eq!(see(&world, &ann).await.status, 204);
    // In the same second, perhaps.
    make_token(&world, &ann, "brief").await;
    assert_eq!(kinds(&world, &ann).await, ["Token"]);
}

#[tokio::test]
async fn many_push_out_nothing_and_those_beyond_are_counted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for letter in 'a'..='t' {
        assert_eq!(
            sign_in_by(&world, &format!("Browser {letter}"))
                .await
                .status,
            200
        );
    }
    for number in 0..55 {
        let name = format!("n-{number}");
        make_token(&world, &ann, &name).await;
        end_token(&world, &ann, &name).await;
    }
    let told = world.get(NOTICES, &ann).await;
    let all = items(&told);
    assert!(all.iter().any(|it| it["name"] == "Browser a"), "{all:?}");
    assert!(all.iter().any(|it| it["name"] == "n-0"), "{all:?}");
    assert_eq!(told.body["more"], 20 + 55 - all.len());

    // Who was shown the newest has not seen the others.
    let newest = json!({"ids": [all[0]["id"]]});
    assert_eq!(world.post(SEEN, &ann, newest).await.status, 204);
    let left = world.get(NOTICES, &ann).await;
    assert_eq!(items(&left).len(), all.len() - 1);
    assert_eq!(left.body["more"], told.body["more"]);
    // What has come since the page was shown stays.
    make_token(&world, &ann, "since").await;
    let seen = json!({"ids": ids(&left), "more": left.body["more"]});
    assert_eq!(world.post(SEEN, &ann, seen).await.status, 204);
    let left = world.get(NOTICES, &ann).await;
    assert_eq!(items(&left).len(), 1, "{left:?}");
    assert_eq!(left.text("/items/0/name"), "since");
    assert_eq!(left.body["more"], 0);
}

#[tokio::test]
async fn what_did_not_come_about_is_not_counted_either() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for number in 0..14 {
        let name = format!("n-{number}");
        make_token(&world, &ann, &name).await;
        end_token(&world, &ann, &name).await;
    }
    let more = async || {
        let told = world.get(NOTICES, &ann).await;
        told.body["more"].as_u64().unwrap()
    };
    let before = more().await;
    assert!(before > 0);
    let (slow, gate) = Gate::replica(
        &world,
        |it| it,
        |request| request.method() == Method::POST && request.uri().path().ends_with("/kitetokens"),
    )
    .await;
    let meanwhile = async {
        gate.holds_one().await;
        // It is told already, and seen here, before another one is.
        while more().await == before {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        make_token(&world, &ann, "same").await;
        assert_eq!(more().await, before + 2);
        gate.let_on(9);
    };
    let body = json!({"name": "same", "scopes": ["account:read"]});
    let asked = request(Method::POST, TOKENS, &ann, Some(body));
    let (refused, ()) = tokio::join!(send(&slow, asked), meanwhile);
    assert_eq!(refused.status, 409, "{refused:?}");
    while more().await != before + 1 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn another_password_is_told_whoever_sets_it() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let (second, third) = ("another good horse", "a third good horse");
    let change = json!({"currentPassword": PASSWORD, "newPassword": second});
    let changed = world.post("/api/v1/me/password", &ann, change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let ann = changed.text("/token").to_owned();
    assert_eq!(kinds(&world, &ann).await, ["Password"]);
    assert_eq!(see(&world, &ann).await.status, 204);

    let sign_in = async |password: &str| {
        let body = json!({"username": "ann", "password": password});
        let answer = world.post("/api/v1/auth/sign-in", "", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text("/token").to_owned()
    };
    let set = json!({ "password": third });
    let set = world.patch("/api/v1/admin/users/ann", &root, set).await;
    assert_eq!(set.status, 200, "{set:?}");
    let ann = sign_in(third).await;
    assert_eq!(kinds(&world, &ann).await, ["Password"]);
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);

    let hash = PasswordHash::create(second).unwrap();
    kubectl(&world, json!({ "passwordHash": hash })).await;
    // It is taken in meanwhile.
    let ann = sign_in(second).await;
    assert_eq!(kinds(&world, &ann).await, ["Password"]);
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn what_is_written_beside_the_api_is_told_once() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    // What there is when nothing was written down yet is no news.
    kubectl(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    assert_eq!(see(&world, &ann).await.status, 204);
    let quota = json!({"vms": 3, "cpu": 4, "memory": "8Gi", "disk": "100Gi"});
    let identity = json!({"issuer": "https://id.test", "subject": "ann"});
    kubectl(
        &world,
        json!({"sshPublicKeys": [KEY, OTHER_KEY], "quota": quota, "identities": [identity]}),
    )
    .await;
    let expected = ["Identity", "Key", "Quota"];
    assert_eq!(kinds(&world, &ann).await, expected);
    // It is the same when it is asked again.
    let told = world.get(NOTICES, &ann).await;
    let again = world.get(NOTICES, &ann).await;
    let sorted = |told: &Answer| {
        let mut ids: Vec<_> = ids(told).iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&told), sorted(&again));
    // Another write of the API tells of it, too, and of nothing twice.
    let edit = json!({"sshPublicKeys": [OTHER_KEY]});
    assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, expected);
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn who_may_log_in_to_a_vm_is_told_when_that_changes() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut vm = new_vm("web");
    vm["sshPublicKeys"] = json!([KEY]);
    assert_eq!(world.post("/api/v1/vms", &ann, vm).await.status, 201);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    let edit = json!({"sshPublicKeys": [KEY, OTHER_KEY]});
    let by_root = "/api/v1/vms/web?owner=ann";
    let edited = world.patch(by_root, &root, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let told = world.get(NOTICES, &ann).await;
    assert_eq!(told.text("/items/0/kind"), "VmAccess");
    assert_eq!(told.text("/items/0/name"), "web");
    assert_eq!(kinds(&world, &root).await, [""; 0]);
    // That one fewer opens it is no news.
    let edit = json!({"sshPublicKeys": [KEY]});
    assert_eq!(world.patch(by_root, &root, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, ["VmAccess"]);
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);

    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    let patch = json!({"spec": {"sshPublicKeys": [KEY, OTHER_KEY]}});
    let manager = FieldManager::new("kubectl");
    let edited: KiteVirtualMachine = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&edited).await;
    assert_eq!(kinds(&world, &ann).await, ["VmAccess"]);
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn a_vm_that_will_be_deleted_is_told_of() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let from_now =
        |hours: i64| (jiff::Timestamp::now() + jiff::Span::new().hours(hours)).to_string();
    let mut vm = new_vm("web");
    vm["expiresAt"] = from_now(1).into();
    assert_eq!(world.post("/api/v1/vms", &ann, vm).await.status, 201);
    assert_eq!(kinds(&world, &ann).await, ["VmExpires"]);
    assert_eq!(see(&world, &ann).await.status, 204);
    let expire = async |until: String| {
        let vm = world.vm("ann", "web").await.unwrap();
        let mut expired = KiteVirtualMachine::new("web", vm.spec.clone());
        expired
            .metadata
            .namespace
            .clone_from(&vm.metadata.namespace);
        let expiry = json!({"expiredAt": from_now(-1), "deleteAt": until});
        expired.status = Some(serde_json::from_value(json!({ "expiry": expiry })).unwrap());
        let controller = kite_core::managers::CONTROLLER;
        let expired = world
            .cluster
            .apply_status(controller, &expired)
            .await
            .unwrap();
        world.state.caches().vms.caught_up_with(&expired).await;
        expired
    };
    expire(from_now(48)).await;
    let told = world.get(NOTICES, &ann).await;
    assert_eq!(told.text("/items/0/kind"), "VmDeleted");
    assert_eq!(told.text("/items/0/name"), "web");
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    // With the VM goes what is told of it.
    let vm = expire(from_now(72)).await;
    assert_eq!(kinds(&world, &ann).await, ["VmDeleted"]);
    let gone = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&vm, gone).await.unwrap();
    world.state.caches().vms.caught_up_with_deletion(&vm).await;
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn who_deletes_a_vm_just_before_its_time_is_told_of_nothing() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let from_now = |seconds: i64| {
        let span = jiff::Span::new().seconds(seconds);
        (jiff::Timestamp::now() + span).to_string()
    };
    let mut vm = new_vm("web");
    vm["expiresAt"] = from_now(3600).into();
    assert_eq!(world.post("/api/v1/vms", &ann, vm).await.status, 201);
    assert_eq!(see(&world, &ann).await.status, 204);
    // What a sweep keeps a moment before it is over.
    let uid = world.vm("ann", "web").await.unwrap().metadata.uid;
    let record = json!({
        "kind": "VmDeleted", "at": from_now(0), "name": "web", "until": from_now(40), "vm": uid,
    });
    let notice = json!({"hy3ons.github.io/notice-end": record.to_string()});
    let patch = json!({"metadata": {"annotations": notice}});
    let (key, manager) = (ObjectKey::cluster("ann"), kite_core::managers::API);
    let edited: KiteUser = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    let deleted = world.delete("/api/v1/vms/web", &ann).await;
    assert_eq!(deleted.status, 202, "{deleted:?}");
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}
