//! What the API takes and what it says of what it does not: spans, times, keys, sizes.

use ::http::Method;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteImage, KiteVirtualMachine},
    names,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{World, request, send};

pub const VMS: &str = "/api/v1/vms";
pub const WEB: &str = "/api/v1/vms/web";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ann@laptop";

pub fn vm(name: &str) -> Value {
    json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12"})
}

pub fn vm_with(name: &str, field: &str, value: Value) -> Value {
    let mut vm = vm(name);
    vm[field] = value;
    vm
}

/// Changes a VM as somebody else does, and waits until the API has seen it.
pub async fn merge(world: &World, owner: &str, name: &str, patch: Value) {
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
pub async fn tell(world: &World, name: &str, status: Value) {
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
