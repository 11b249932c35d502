//! Whether anybody can log in to a VM is told, and nothing else depends on it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    conditions::{find, is_true},
    crd::{self, KitePlatform, KiteUser, VmPhase},
    password::PasswordHash,
};
use serde_json::json;

use crate::world::{World, vm_named};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ann@laptop";

/// What is said of who can log in: reason and message; nothing while somebody can.
async fn says(world: &World) -> Option<(String, String)> {
    let status = world.vm("web").await.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Running));
    assert!(is_true(&status.conditions, "Ready"), "it runs nonetheless");
    let found = find(&status.conditions, "Accessible")?;
    assert_eq!(found.status, "False");
    Some((found.reason.clone(), found.message.clone()))
}

async fn edit(world: &World, spec: serde_json::Value) {
    let vm = world.vm("web").await;
    world.edit(&vm, json!({ "spec": spec })).await;
    world.settle().await;
}

async fn edit_owner(world: &World, spec: serde_json::Value) {
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.edit(&ann, json!({ "spec": spec })).await;
    world.settle().await;
}

fn hash() -> serde_json::Value {
    let hash = PasswordHash::create("correct horse battery").unwrap();
    json!(hash)
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_nobody_can_log_in_to_says_so_until_somebody_can() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let (reason, message) = says(&world).await.unwrap();
    assert_eq!(reason, "NoCredentials");
    for remedy in ["spec.sshPublicKeys", "spec.sshPasswordHash"] {
        assert!(message.contains(remedy), "{message}");
    }

    edit(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(says(&world).await, None);
    edit(&world, json!({"sshPublicKeys": null})).await;
    assert!(says(&world).await.is_some());
    edit_owner(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(says(&world).await, None, "the owner's keys are good for it");
    edit_owner(&world, json!({"sshPublicKeys": null})).await;
    assert!(says(&world).await.is_some());
    edit(&world, json!({"sshPasswordHash": hash()})).await;
    assert_eq!(says(&world).await, None);
}

#[tokio::test(start_paused = true)]
async fn whoever_an_authority_vouches_for_can_log_in() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let staff = json!([{"name": "staff", "publicKey": KEY}]);
    let trusts = json!({"spec": {"gateway": {"userAuthorities": staff}}});
    world.edit(&platform, trusts).await;
    world.settle().await;
    assert_eq!(says(&world).await, None);
    let none = json!({"spec": {"gateway": {"userAuthorities": null}}});
    world.edit(&platform, none).await;
    world.settle().await;
    assert!(says(&world).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn half_a_key_lets_nobody_in_and_is_told_so() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    edit(&world, json!({"sshPublicKeys": ["ssh-ed25519 AAAA"]})).await;
    let (reason, message) = says(&world).await.unwrap();
    assert_eq!(reason, "UnusableKeys");
    for part in ["spec.sshPublicKeys[0]", "whole", "ssh-ed25519"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let swapped = KEY.replace("ssh-ed25519", "ssh-rsa");
    edit(&world, json!({"sshPublicKeys": null})).await;
    edit_owner(&world, json!({"sshPublicKeys": [swapped]})).await;
    let (reason, message) = says(&world).await.unwrap();
    assert_eq!(reason, "UnusableKeys");
    assert!(
        message.contains("owner's spec.sshPublicKeys[0]"),
        "{message}"
    );
    // One that is whole beside it is enough.
    edit(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(says(&world).await, None);
}

#[tokio::test(start_paused = true)]
async fn where_a_login_takes_both_one_is_not_enough() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.ssh_login = kite_core::crd::SshLogin::KeyAndPassword;
    vm.spec.ssh_public_keys = vec![KEY.to_owned()];
    world.create(vm).await;
    world.settle().await;
    let (_, message) = says(&world).await.unwrap();
    assert!(message.contains("it has no password"), "{message}");

    let only_password = json!({"sshPublicKeys": null, "sshPasswordHash": hash()});
    edit(&world, only_password).await;
    let (_, message) = says(&world).await.unwrap();
    assert!(message.contains("it has no public key"), "{message}");
    edit(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(says(&world).await, None);
}

/// Has the API server take any text for a password's hash, or again only what this
/// version takes.
async fn take_any_hash(world: &World, any: bool) {
    let own = crd::all()
        .into_iter()
        .find(|it| it.spec.names.kind == "KiteVirtualMachine");
    let mut own = serde_json::to_value(own.unwrap()).unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let hash = own
        .pointer_mut(&format!("{schema}/sshPasswordHash"))
        .unwrap();
    let rules = hash
        .as_object_mut()
        .unwrap()
        .remove("x-kubernetes-validations");
    let rules = rules.expect("hashes are judged");
    if !any {
        hash["x-kubernetes-validations"] = rules;
    }
    let name = own["metadata"]["name"].as_str().unwrap();
    let stored = world
        .find::<CustomResourceDefinition>("", name)
        .await
        .unwrap();
    let versions = json!({"spec": {"versions": own["spec"]["versions"]}});
    world.edit(&stored, versions).await;
}

/// An earlier version took hashes that cost more: such a VM goes on, can be edited, and
/// its owner is told why its password does not let in.
#[tokio::test(start_paused = true)]
async fn a_hash_of_before_that_costs_too_much_holds_up_nothing() {
    let costly = "$argon2id$v=19$m=262144,t=10,p=16$c29tZXNhbHRzb21l$\
                  RdescudvJCsgt3ub+b4dWRWJTmaaJObGRdescudvJCs";
    let world = World::with_ann().await;
    take_any_hash(&world, true).await;
    let mut vm = vm_named("web");
    vm.spec.ssh_password_hash = Some(PasswordHash::from_phc(costly));
    world.create(vm).await;
    take_any_hash(&world, false).await;
    world.settle().await;
    let (_, message) = says(&world).await.unwrap();
    assert!(message.contains("costs more than any may"), "{message}");
    edit(&world, json!({"sshPublicKeys": [KEY]})).await;
    assert_eq!(says(&world).await, None);
    let vm = world.vm("web").await;
    assert_eq!(vm.spec.ssh_password_hash.as_ref().unwrap().as_str(), costly);
    // Another of that kind is refused, and what it was is not given again.
    let other = costly.replace("t=10", "t=9");
    for hash in [
        &*other,
        "$2b$13$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu",
    ] {
        let refused = world
            .try_edit(&vm, json!({"spec": {"sshPasswordHash": hash}}))
            .await;
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("m=65536,t=3,p=4"), "{told}");
    }
    edit(
        &world,
        json!({"sshPasswordHash": hash(), "sshPublicKeys": null}),
    )
    .await;
    assert_eq!(says(&world).await, None);
}
