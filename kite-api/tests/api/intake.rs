//! What the API takes and what it says of what it does not: spans, keys, actions that
//! would come to nothing, creations that are repeated, and objects that cannot be read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ::http::{Method, Request};
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteImage, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer},
    names,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::data::{SNAPSHOTS, VOLUMES};
use crate::{
    gate::Gate,
    world::{World, request, send},
};

const VMS: &str = "/api/v1/vms";
const WEB: &str = "/api/v1/vms/web";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ann@laptop";

fn vm(name: &str) -> Value {
    json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12"})
}

fn vm_with(name: &str, field: &str, value: Value) -> Value {
    let mut vm = vm(name);
    vm[field] = value;
    vm
}

/// Changes a VM as somebody else does, and waits until the API has seen it.
async fn merge(world: &World, owner: &str, name: &str, patch: Value) {
    let key = ObjectKey::namespaced(names::user_namespace(owner), name);
    let manager = FieldManager::new("kubectl");
    let edited: KiteVirtualMachine = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&edited).await;
}

/// Sets a VM's status as the controller does.
async fn tell(world: &World, name: &str, status: Value) {
    let namespace = names::user_namespace("ann");
    let api = Api::<KiteVirtualMachine>::namespaced(world.fake.client(), &namespace);
    let patch = Patch::Merge(json!({ "status": status }));
    let params = PatchParams::default();
    let told = api.patch_status(name, &params, &patch).await.unwrap();
    world.state.caches().vms.caught_up_with(&told).await;
}

#[tokio::test]
async fn a_span_that_is_none_is_refused_by_its_field_wherever_it_stands() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    assert_eq!(world.post(VMS, &root, vm("web")).await.status, 201);
    let spans = [
        "1h-1m",
        "20m-1m",
        "-1h",
        "+1h",
        "1h+1m",
        "1.h",
        ".5h",
        "0",
        "0.1ns",
        "1d",
        "1H",
        "1 h",
        "9999999999h",
        "999999999h",
        "",
    ];
    for span in spans {
        for (method, path, field) in [
            (Method::PATCH, WEB, "expiryGracePeriod"),
            (Method::PATCH, WEB, "idleTimeout"),
            (Method::POST, VMS, "expiryGracePeriod"),
            (Method::POST, VMS, "idleTimeout"),
            (Method::POST, "/api/v1/admin/offers", "lifetime"),
        ] {
            let body = if method == Method::PATCH {
                json!({ field: span })
            } else {
                vm_with("other", field, span.into())
            };
            let refused = send(&world.router, request(method, path, &root, Some(body))).await;
            refused.is_problem(422, "invalid");
            assert_eq!(refused.fields(), [field], "{span}: {refused:?}");
            let error = &refused.body["errors"][0];
            assert_eq!(error["value"], span);
            assert!(
                error["message"].as_str().unwrap().contains("72h"),
                "{error}"
            );
        }
    }
    let kept = world
        .patch(WEB, &root, json!({"expiryGracePeriod": "1h30m"}))
        .await;
    assert_eq!(kept.status, 200, "{kept:?}");
    assert_eq!(kept.text("/expiryGracePeriod"), "1h30m");
}

#[tokio::test]
async fn a_time_of_many_digits_is_kept_to_what_clocks_can_tell() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let end = json!("2999-01-01T00:00:00.1234567891234Z");
    let made = world
        .post(VMS, &ann, vm_with("web", "expiresAt", end))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/expiresAt"), "2999-01-01T00:00:00Z");
    // By kubectl it stays as it was written, and is read.
    let patch = json!({"spec": {"expiresAt": "2998-01-01T00:00:00.1234567891234Z"}});
    merge(&world, "ann", "web", patch).await;
    let read = world.get(WEB, &ann).await;
    assert_eq!(read.text("/expiresAt"), "2998-01-01T00:00:00Z");
    assert_eq!(read.body.get("unreadable"), None);
}

#[tokio::test]
async fn keys_are_tidied_up_or_told_what_is_wrong_with_them() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let untidy = format!("\t{}\r\n", KEY.replacen(' ', "\t", 1));
    let made = world
        .post(VMS, &ann, vm_with("web", "sshPublicKeys", json!([untidy])))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/sshPublicKeys/0"), KEY);
    let me = world
        .patch("/api/v1/me", &ann, json!({"sshPublicKeys": [untidy]}))
        .await;
    assert_eq!(me.text("/sshPublicKeys/0"), KEY);

    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n";
    for (key, word) in [
        ("ssh-ed25519 AAAA".to_owned(), "whole"),
        ("ssh-rsa AAAAB3NzaC1yc2E".to_owned(), "whole"),
        (KEY.replacen("ssh-ed25519", "ssh-rsa", 1), "ssh-ed25519"),
        (format!("{KEY}\n{KEY}"), "2 lines"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACBAP".to_owned(), "ssh-dss"),
        (private.to_owned(), "secret"),
    ] {
        let bad = json!({"sshPublicKeys": [KEY, key]});
        for answer in [
            world.patch(WEB, &ann, bad.clone()).await,
            world.patch("/api/v1/me", &ann, bad.clone()).await,
            world
                .post(
                    VMS,
                    &ann,
                    vm_with("other", "sshPublicKeys", json!([KEY, key])),
                )
                .await,
        ] {
            answer.is_problem(422, "invalid");
            assert_eq!(answer.fields(), ["sshPublicKeys[1]"], "{answer:?}");
            let message = answer.text("/errors/0/message");
            assert!(message.contains(word), "{message}");
            assert!(!answer.body.to_string().contains("b3BlbnNz"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn what_would_stay_off_is_not_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::Admin).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let over = json!({"spec": {"expiresAt": "2020-01-01T00:00:00Z"}});
    merge(&world, "ann", "web", over).await;
    for action in ["start", "restart"] {
        let refused = world
            .post(&format!("{WEB}/{action}"), &ann, Value::Null)
            .await;
        refused.is_problem(409, "conflict");
        let detail = refused.text("/detail");
        for part in ["2020-01-01T00:00:00Z", "expiresAt", "null"] {
            assert!(detail.contains(part), "{action}: {part}: {detail}");
        }
    }
    // So does the edit that says the same, and only that one.
    let on = json!({"powerState": "On"});
    let refused = world.patch(WEB, &ann, on.clone()).await;
    refused.is_problem(409, "conflict");
    let detail = refused.text("/detail");
    assert!(detail.contains("2020-01-01T00:00:00Z"), "{detail}");
    let other = json!({"powerState": "On", "startOnConnect": false});
    let edited = world.patch(WEB, &ann, other.clone()).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let off = world.patch(WEB, &ann, json!({"powerState": "Off"})).await;
    assert_eq!(off.status, 200, "{off:?}");
    for body in [on.clone(), other] {
        let refused = world.patch(WEB, &ann, body).await;
        refused.is_problem(409, "conflict");
    }
    // It can be kept, and is started then, or at once.
    let kept = json!({"expiresAt": null, "powerState": "On"});
    let kept = world.patch(WEB, &ann, kept).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
    assert_eq!(started.status, 200, "{started:?}");

    let suspended = json!({"suspended": true});
    let done = world
        .patch("/api/v1/admin/users/ann", &root, suspended)
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    for action in ["start", "restart"] {
        let path = format!("{WEB}/{action}?owner=ann");
        let refused = world.post(&path, &root, Value::Null).await;
        refused.is_problem(409, "conflict");
        assert!(refused.text("/detail").contains("suspended"), "{refused:?}");
    }
    let refused = world.patch(&format!("{WEB}?owner=ann"), &root, on).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("suspended"), "{refused:?}");
    // Off it can be switched in any case.
    let stopped = world
        .post(&format!("{WEB}/stop?owner=ann"), &root, Value::Null)
        .await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
}

#[tokio::test]
async fn what_was_refused_takes_nothing_and_says_why_it_does_not_start() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let large = |name| vm_with(name, "cpu", json!(5));
    assert_eq!(world.post(VMS, &ann, large("v0")).await.status, 201);
    let granted = json!({"cpu": 5, "memory": "1Gi", "disk": "4Gi"});
    tell(
        &world,
        "v0",
        json!({"phase": "Running", "observedGeneration": 1, "granted": granted}),
    )
    .await;
    // Made by kubectl, past the API's own count.
    let mut second = world.vm("ann", "v0").await.unwrap();
    second.metadata = kube::api::ObjectMeta {
        name: Some("v1".to_owned()),
        namespace: Some(names::user_namespace("ann")),
        ..kube::api::ObjectMeta::default()
    };
    second.spec.ssh_id = "v1-other".to_owned();
    second.status = None;
    let second = world.cluster.create(&second).await.unwrap();
    world.state.caches().vms.caught_up_with(&second).await;
    let path = "/api/v1/vms/v1";
    assert_eq!(
        world.get(path, &ann).await.body["charge"]["cpu"],
        5,
        "not looked at yet"
    );
    let why = json!([{
        "type": "Ready", "status": "False", "reason": "QuotaExceeded",
        "message": "spec.cpu: too many together",
        "lastTransitionTime": "2026-05-04T08:00:00Z",
    }]);
    tell(
        &world,
        "v1",
        json!({"phase": "Failed", "observedGeneration": 1, "conditions": why}),
    )
    .await;
    assert_eq!(world.get(path, &ann).await.body["charge"]["cpu"], 0);
    let more = world.post(VMS, &ann, vm_with("v2", "cpu", json!(3))).await;
    assert_eq!(more.status, 201, "{more:?}");
    let refused = world
        .post(&format!("{path}/start"), &ann, Value::Null)
        .await;
    refused.is_problem(409, "conflict");
    assert!(
        refused.text("/detail").contains("too many together"),
        "{refused:?}"
    );
    let refused = world.patch(path, &ann, json!({"powerState": "On"})).await;
    refused.is_problem(409, "conflict");
    assert!(
        refused.text("/detail").contains("too many together"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_has_lost_its_disk_is_not_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let condition = |type_| {
        json!({
            "type": type_, "status": "False", "reason": "DiskLost",
            "message": "the disk is gone with all that was on it",
            "lastTransitionTime": "2026-05-04T08:00:00Z",
        })
    };
    // It keeps what it knew of the disk.
    let lost = json!({
        "phase": "Failed", "observedGeneration": 1,
        "disk": {"name": "web-disk", "uid": "u-1", "phase": "Succeeded"},
        "conditions": [condition("Ready"), condition("DiskReady")],
    });
    tell(&world, "web", lost).await;
    for action in ["start", "restart"] {
        let path = format!("{WEB}/{action}");
        let refused = world.post(&path, &ann, Value::Null).await;
        refused.is_problem(409, "conflict");
        let detail = refused.text("/detail");
        assert!(detail.contains("the disk is gone"), "{action}: {detail}");
    }
    let refused = world.patch(WEB, &ann, json!({"powerState": "On"})).await;
    refused.is_problem(409, "conflict");
    let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
}

#[tokio::test]
async fn what_has_all_data_in_its_claim_is_started() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    for status in ["True", "False"] {
        let left = json!({
            "phase": "Stopped", "observedGeneration": 1,
            "disk": {"name": "web-disk", "uid": "u-1", "size": "4Gi", "phase": "Succeeded"},
            "conditions": [{
                "type": "DiskReady", "status": status, "reason": "DiskUnmanaged",
                "message": "nothing is lost, and the VM starts",
                "lastTransitionTime": "2026-05-04T08:00:00Z",
            }],
        });
        tell(&world, "web", left).await;
        let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
        assert_eq!(stopped.text("/powerState"), "Off", "{stopped:?}");
        let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
        assert_eq!(started.status, 200, "{started:?}");
        assert_eq!(started.text("/powerState"), "On", "{started:?}");
        let again = world
            .post(&format!("{WEB}/restart"), &ann, Value::Null)
            .await;
        assert_eq!(again.status, 200, "{again:?}");
        let edited = world.patch(WEB, &ann, json!({"powerState": "On"})).await;
        assert_eq!(edited.status, 200, "{edited:?}");
    }
}

/// What is answered to eight creations of one name at once, and how many of them the
/// API server hears of.
async fn repeats(world: &World, token: &str, key: Option<&'static str>) -> (Vec<u16>, usize) {
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    let is_creation = move |ask: &Request<kube::client::Body>| {
        // What is only tried counts for no quota.
        let is_tried = ask.uri().query().is_some_and(|it| it.contains("dryRun"));
        let is_of_vms = ask.uri().path().ends_with("/kitevirtualmachines");
        let it = ask.method() == Method::POST && is_of_vms && !is_tried;
        if it {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        it
    };
    let (router, gate) = Gate::replica(world, |builder| builder, is_creation).await;
    let asks = (0..8).map(|_| {
        let mut ask = request(Method::POST, VMS, token, Some(vm("same")));
        if let Some(key) = key {
            ask.headers_mut()
                .insert("idempotency-key", key.parse().unwrap());
        }
        let router = router.clone();
        async move { send(&router, ask).await.status.as_u16() }
    });
    gate.let_on(8);
    let mut answers = join_all(asks).await;
    answers.sort_unstable();
    (answers, heard.load(Ordering::SeqCst))
}

#[tokio::test]
async fn of_creations_of_one_name_one_reaches_the_cluster() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(repeats(&world, &ann, Some("k-1")).await, (vec![201; 8], 1));
    // It is there: nobody has to be asked.
    assert_eq!(repeats(&world, &ann, Some("k-1")).await, (vec![201; 8], 0));
    assert_eq!(repeats(&world, &ann, None).await, (vec![409; 8], 0));
    let bob = world.user("bob", AccessLevel::User).await;
    let mut once = vec![409; 8];
    once[0] = 201;
    assert_eq!(repeats(&world, &bob, None).await, (once, 1));
}

#[tokio::test]
async fn a_quota_that_counts_what_is_not_there_is_no_reason_to_delete_anything() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    // As the namespace's quota stands after attempts that came to nothing.
    let kinds = ["kitevirtualmachines", "kitesnapshots", "kitevolumes"];
    let counts = kinds.map(|kind| (format!("count/{kind}.hy3ons.github.io"), json!("0")));
    let counts: serde_json::Map<_, _> = counts.into_iter().collect();
    let quota = json!({
        "metadata": {"name": "kite-quota", "namespace": names::user_namespace("ann")},
        "spec": {"hard": counts},
    });
    let quota: k8s_openapi::api::core::v1::ResourceQuota = serde_json::from_value(quota).unwrap();
    world.cluster.create(&quota).await.unwrap();
    for (path, body) in [
        (VMS, vm("db")),
        (SNAPSHOTS, json!({"name": "first", "vm": "web"})),
        (VOLUMES, json!({"name": "data", "size": "1Gi"})),
    ] {
        let refused = world.post(path, &ann, body).await;
        refused.is_problem(503, "unavailable");
        let detail = refused.text("/detail");
        assert!(
            detail.contains("try again") && !detail.contains("delete a"),
            "{detail}"
        );
        assert!(refused.headers.contains_key("retry-after"));
    }
}

#[tokio::test]
async fn a_manager_does_not_publish_the_vms_of_others() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let manager = world.user("mel", AccessLevel::Manager).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let path = format!("{WEB}?owner=ann");
    for prefix in [json!("leaked"), Value::Null] {
        let refused = world
            .patch(&path, &manager, json!({"domainPrefix": prefix}))
            .await;
        refused.is_problem(403, "forbidden");
    }
    assert_eq!(
        world.vm("ann", "web").await.unwrap().spec.domain_prefix,
        None
    );
    let own = world
        .patch(WEB, &ann, json!({"domainPrefix": "mine"}))
        .await;
    assert_eq!(own.status, 200, "{own:?}");
    // Sizes are a Manager's business.
    let sized = world.patch(&path, &manager, json!({"cpu": 2})).await;
    assert_eq!(sized.status, 200, "{sized:?}");
}

/// Objects of `K` of which the API server admits anything, as a later version's CRD may.
pub async fn lax<K>(world: &World, namespace: Option<&str>) -> Api<DynamicObject>
where
    K: kube::CustomResourceExt + kube::Resource<DynamicType = ()>,
{
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
        version.selectable_fields = None;
    }
    let key = ObjectKey::cluster(crd.metadata.name.clone().unwrap());
    let patch = json!({"spec": {"versions": crd.spec.versions}});
    let manager = FieldManager::new("later");
    let edit = world
        .cluster
        .merge_patch::<CustomResourceDefinition>(manager, &key, &patch);
    edit.await.unwrap();
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(world.fake.client(), namespace, &resource),
        None => Api::all_with(world.fake.client(), &resource),
    }
}

#[tokio::test]
async fn a_vm_that_cannot_be_read_is_listed_stopped_mended_and_deleted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    let resource = ApiResource::erase::<KiteVirtualMachine>(&());
    let spec = json!({"cpu": "a few", "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
                      "sshId": "odd-login"});
    let odd = DynamicObject::new("odd", &resource).data(json!({ "spec": spec }));
    vms.create(&PostParams::default(), &odd).await.unwrap();
    // One of which nothing can be read takes none of the others along, and is there, too.
    let hopeless = DynamicObject::new("hopeless", &resource).data(json!({ "spec": "what" }));
    vms.create(&PostParams::default(), &hopeless).await.unwrap();
    world
        .until("it is listed", async || {
            world.get(VMS, &ann).await.names() == ["hopeless", "odd", "web"]
        })
        .await;
    let hopeless = "/api/v1/vms/hopeless";
    let shown = world.get(hopeless, &ann).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(!shown.text("/unreadable").is_empty(), "{shown:?}");
    let gone = world.delete(hopeless, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("hopeless").await.unwrap().is_none());
    world
        .until("it is gone", async || {
            world.get(VMS, &ann).await.names() == ["odd", "web"]
        })
        .await;
    let path = "/api/v1/vms/odd";
    let shown = world.get(path, &ann).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    for part in ["spec.cpu", "a few"] {
        assert!(shown.text("/unreadable").contains(part), "{shown:?}");
    }
    assert_eq!(shown.text("/sshId"), "odd-login");
    assert_eq!(world.get(WEB, &ann).await.body.get("unreadable"), None);
    let taken = world.post(VMS, &ann, vm("odd")).await;
    assert_eq!(taken.is_problem(409, "taken").fields(), ["name"]);

    let started = world
        .post(&format!("{path}/start"), &ann, Value::Null)
        .await;
    let detail = started.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("spec.cpu"), "{detail}");
    let stopped = world.post(&format!("{path}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let stored = vms.get("odd").await.unwrap();
    assert_eq!(stored.data["spec"]["powerState"], "Off");
    assert_eq!(
        stored.data["spec"]["cpu"], "a few",
        "nothing else is touched"
    );

    let mended = world.patch(path, &ann, json!({"cpu": 2})).await;
    assert_eq!(mended.status, 200, "{mended:?}");
    assert_eq!(mended.body.get("unreadable"), None);
    vms.patch(
        "odd",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"cpu": []}})),
    )
    .await
    .unwrap();
    let gone = world.delete(path, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("odd").await.unwrap().is_none());
}

#[tokio::test]
async fn an_account_that_cannot_be_read_lets_nobody_in_and_is_listed() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let users = lax::<KiteUser>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"quota": {"cpu": "plenty"}}}));
    users
        .patch("ann", &PatchParams::default(), &edit)
        .await
        .unwrap();
    let path = "/api/v1/admin/users/ann";
    world
        .until("it is told", async || {
            world
                .get(path, &root)
                .await
                .body
                .get("unreadable")
                .is_some()
        })
        .await;
    assert!(
        world
            .get("/api/v1/admin/users", &root)
            .await
            .names()
            .contains(&"ann")
    );
    world
        .get("/api/v1/me", &ann)
        .await
        .is_problem(401, "unauthenticated");
    let suspended = world.patch(path, &root, json!({"suspended": true})).await;
    assert_eq!(suspended.status, 200, "{suspended:?}");
    assert_eq!(
        users.get("ann").await.unwrap().data["spec"]["suspended"],
        true
    );
    let gone = world.delete(path, &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
}

/// What the list at `path` says cannot be read of its only item.
async fn unreadable(world: &World, path: &str, token: &str) -> Option<String> {
    let list = world.get(path, token).await;
    let why = list.body["items"][0]["unreadable"].as_str();
    why.map(str::to_owned)
}

#[tokio::test]
async fn an_image_that_cannot_be_read_is_listed_and_says_so() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/images";
    assert_eq!(unreadable(&world, path, &ann).await, None);
    let images = lax::<KiteImage>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"minDisk": ["much"]}}));
    let params = PatchParams::default();
    images.patch("debian-12", &params, &edit).await.unwrap();
    world
        .until("it is told", async || {
            let told = unreadable(&world, path, &ann).await;
            told.is_some_and(|why| why.contains("spec.minDisk"))
        })
        .await;
    assert_eq!(world.get(path, &ann).await.names(), ["debian-12"]);
}

#[tokio::test]
async fn an_offer_that_cannot_be_read_is_listed_and_deleted() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/offers";
    let made = world.post(path, &root, vm("gold")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let offers = lax::<KiteVirtualMachineOffer>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"cpu": "a few"}}));
    let params = PatchParams::default();
    offers.patch("gold", &params, &edit).await.unwrap();
    world
        .until("it is told", async || {
            let told = unreadable(&world, path, &root).await;
            told.is_some_and(|why| why.contains("spec.cpu"))
        })
        .await;
    assert_eq!(world.get(path, &root).await.names(), ["gold"]);
    let gone = world.delete(&format!("{path}/gold"), &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(offers.get_opt("gold").await.unwrap().is_none());
}

#[tokio::test]
async fn what_has_no_spec_any_more_is_listed_and_deleted() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let offers = "/api/v1/admin/offers";
    assert_eq!(world.post(offers, &root, vm("gold")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    let images = lax::<KiteImage>(&world, None).await;
    let golds = lax::<KiteVirtualMachineOffer>(&world, None).await;
    let users = lax::<KiteUser>(&world, None).await;
    let params = PatchParams::default();
    let edit = Patch::Merge(json!({"spec": "what"}));
    for (api, name) in [(&vms, "web"), (&images, "debian-12"), (&golds, "gold")] {
        api.patch(name, &params, &edit).await.unwrap();
    }
    for (path, token) in [(VMS, &ann), ("/api/v1/images", &ann), (offers, &root)] {
        world
            .until("it is told", async || {
                let told = unreadable(&world, path, token).await;
                told.is_some_and(|why| why.contains("spec: ") && why.contains("what"))
            })
            .await;
    }
    let gone = world.delete(WEB, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("web").await.unwrap().is_none());
    let gone = world.delete(&format!("{offers}/gold"), &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");

    users.patch("ann", &params, &edit).await.unwrap();
    let path = "/api/v1/admin/users/ann";
    world
        .until("the account is told of", async || {
            let told = world.get(path, &root).await;
            told.body.get("unreadable").is_some()
        })
        .await;
    world
        .get("/api/v1/me", &ann)
        .await
        .is_problem(401, "unauthenticated");
    let gone = world.delete(path, &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
}

#[tokio::test]
async fn a_vm_whose_status_cannot_be_read_is_listed_stopped_and_deleted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    // Nothing depends on it: the controller writes it anew.
    tell(
        &world,
        "web",
        json!({"phase": "Hibernating", "nodeName": "node-1"}),
    )
    .await;
    let shown = world.get(WEB, &ann).await;
    assert_eq!(shown.text("/status/nodeName"), "node-1", "{shown:?}");
    assert_eq!(shown.body.get("unreadable"), None);

    tell(&world, "web", json!({"disk": "web-disk"})).await;
    assert_eq!(world.get(VMS, &ann).await.names(), ["web"]);
    let shown = world.get(WEB, &ann).await;
    assert!(
        shown.text("/unreadable").contains("status.disk"),
        "{shown:?}"
    );
    let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
    let detail = started.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("status.disk"), "{detail}");
    let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let stored = vms.get("web").await.unwrap();
    assert_eq!(stored.data["spec"]["powerState"], "Off");
    assert_eq!(stored.data["status"]["disk"], "web-disk");
    let gone = world.delete(WEB, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("web").await.unwrap().is_none());
}

#[tokio::test]
async fn a_disk_is_no_smaller_than_what_is_in_the_image() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    // Its minDisk allows two.
    let images = Api::<KiteImage>::all(world.fake.client());
    let patch = Patch::Merge(json!({"status": {"phase": "Ready", "size": "8Gi"}}));
    let params = PatchParams::default();
    let told = images.patch_status("debian-12", &params, &patch).await;
    let told = told.unwrap();
    world.state.caches().images.caught_up_with(&told).await;
    let refused = world.post(VMS, &ann, vm("web")).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["disk"], "{refused:?}");
    let message = refused.text("/errors/0/message");
    assert!(message.contains("8Gi"), "{message}");
    let made = world
        .post(VMS, &ann, vm_with("web", "disk", json!("8Gi")))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
}
