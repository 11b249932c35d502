//! Virtual machines over HTTP.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{
        AccessLevel, Claim, Holder, HolderKind, KiteReservation, KiteReservationSpec,
        KiteVirtualMachine, KiteVirtualMachineStatus, PowerState,
    },
    names,
};
use serde_json::{Value, json};

use crate::world::{PASSWORD, World};

const GIB: u64 = 1 << 30;
const VMS: &str = "/api/v1/vms";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ann@laptop";

fn web() -> Value {
    json!({"name": "web", "cpu": 2, "memory": "2Gi", "disk": "10Gi", "image": "debian-12"})
}

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut body = web();
    body[field] = value.into();
    body
}

#[tokio::test]
async fn a_vm_from_creation_to_deletion() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert!(world.get(VMS, &ann).await.names().is_empty());

    let made = world
        .post(VMS, &ann, with("sshPassword", "open sesame"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.headers["location"], "/api/v1/vms/web");
    assert_eq!(made.text("/owner"), "ann");
    assert_eq!(made.body["hasSshPassword"], true);
    let ssh_id = made.text("/sshId");
    assert!(ssh_id.starts_with("web-") && ssh_id.len() == 8, "{ssh_id}");
    let stored = world.vm("ann", "web").await.unwrap();
    assert!(stored.spec.ssh_password_hash.unwrap().verify("open sesame"));
    assert!(!made.body.to_string().contains("argon2"));
    // A writer reads its own writes.
    assert_eq!(world.get(VMS, &ann).await.names(), ["web"]);

    let path = "/api/v1/vms/web";
    let off = world.post("/api/v1/vms/web/stop", &ann, Value::Null).await;
    assert_eq!(off.text("/powerState"), "Off");
    assert_eq!(world.get(path, &ann).await.text("/powerState"), "Off");
    let on = world.post("/api/v1/vms/web/start", &ann, Value::Null).await;
    assert_eq!(on.text("/powerState"), "On");
    let off = world.patch(path, &ann, json!({"powerState": "Off"})).await;
    assert_eq!(off.text("/powerState"), "Off");

    let gone = world.delete(path, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    world.get(path, &ann).await.is_problem(404, "not-found");
    assert!(world.vm("ann", "web").await.is_none());
}

#[tokio::test]
async fn what_was_seen_is_shown() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    world.post(VMS, &ann, web()).await;
    let vm = world.vm("ann", "web").await.unwrap();
    let mut seen = KiteVirtualMachine::new("web", vm.spec.clone());
    seen.metadata.namespace.clone_from(&vm.metadata.namespace);
    seen.status = Some(KiteVirtualMachineStatus {
        observed_generation: vm.metadata.generation,
        phase: Some(kite_core::crd::VmPhase::Running),
        power_state: Some(PowerState::On),
        ip_address: Some("10.0.0.7".to_owned()),
        access: Some(kite_core::crd::AccessStatus {
            service: "vps-access-web".to_owned(),
            key_secret: "web-ssh-key".to_owned(),
            ..serde_json::from_value(json!({
                "service": "", "keySecret": "", "sshCommand": "ssh web@gateway.test",
            }))
            .unwrap()
        }),
        ..KiteVirtualMachineStatus::default()
    });
    let seen = world
        .cluster
        .apply_status(FieldManager::CONTROLLER, &seen)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&seen).await;
    let shown = world.get("/api/v1/vms/web", &ann).await;
    assert_eq!(shown.text("/status/phase"), "Running");
    assert_eq!(shown.text("/status/sshCommand"), "ssh web@gateway.test");
    assert_eq!(shown.body["status"]["upToDate"], true);
}

#[tokio::test]
async fn what_a_vm_takes_of_the_quota_is_what_it_was_granted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post(VMS, &ann, web()).await;
    // Nobody has answered yet: it counts with what it asks for.
    let asked = json!({"cpu": 2, "memory": 2 * GIB, "disk": 10 * GIB});
    assert_eq!(made.body["charge"], asked);
    let vm = world.vm("ann", "web").await.unwrap();
    let mut seen = KiteVirtualMachine::new("web", vm.spec.clone());
    seen.metadata.namespace.clone_from(&vm.metadata.namespace);
    let granted = json!({"cpu": 1, "memory": "1Gi", "disk": "5Gi"});
    seen.status = Some(KiteVirtualMachineStatus {
        observed_generation: vm.metadata.generation,
        granted: Some(serde_json::from_value(granted).unwrap()),
        ..KiteVirtualMachineStatus::default()
    });
    let controller = FieldManager::CONTROLLER;
    let seen = world.cluster.apply_status(controller, &seen).await.unwrap();
    world.state.caches().vms.caught_up_with(&seen).await;
    let shown = world.get("/api/v1/vms/web", &ann).await;
    let charge = json!({"cpu": 1, "memory": GIB, "disk": 5 * GIB});
    assert_eq!(shown.body["charge"], charge);
    assert_eq!(shown.body["cpu"], 2, "what is asked for is shown as it is");
    let listed = world.get(VMS, &ann).await;
    assert_eq!(listed.body["items"][0]["charge"], charge);
}

#[tokio::test]
async fn two_users_cannot_see_each_other() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    world.post(VMS, &ann, web()).await;
    // The same name in another account is another VM.
    assert_eq!(world.post(VMS, &bob, with("cpu", 1)).await.status, 201);
    assert_eq!(world.get("/api/v1/vms/web", &bob).await.body["cpu"], 1);
    world.delete("/api/v1/vms/web", &bob).await;
    world
        .get("/api/v1/vms/web", &bob)
        .await
        .is_problem(404, "not-found");

    for owner in ["ann", "nobody"] {
        let at = |rest: &str| format!("/api/v1/vms{rest}?owner={owner}");
        let answers = [
            world.get(&at(""), &bob).await,
            world.get(&at("/web"), &bob).await,
            world.post(&at(""), &bob, with("name", "x")).await,
            world
                .patch(&at("/web"), &bob, json!({"powerState": "Off"}))
                .await,
            world.post(&at("/web/stop"), &bob, Value::Null).await,
            world.delete(&at("/web"), &bob).await,
        ];
        for answer in answers {
            answer.is_problem(403, "forbidden");
        }
    }
    world
        .get("/api/v1/vms?all=true", &bob)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(world.get(VMS, &ann).await.names(), ["web"]);
    let vm = world.vm("ann", "web").await.unwrap();
    assert_eq!(vm.spec.power_state, PowerState::On);
}

#[tokio::test]
async fn a_manager_runs_the_vms_of_others_and_does_not_get_in() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let boss = world.user("boss", AccessLevel::Manager).await;
    world.post(VMS, &ann, web()).await;
    assert_eq!(
        world.get("/api/v1/vms?all=true", &boss).await.names(),
        ["web"]
    );
    let path = "/api/v1/vms/web?owner=ann";
    assert_eq!(world.get(path, &boss).await.text("/owner"), "ann");
    let off = world
        .patch(path, &boss, json!({"powerState": "Off", "cpu": 1}))
        .await;
    assert_eq!(off.text("/powerState"), "Off");
    for edit in [
        json!({"sshPublicKeys": [KEY]}),
        json!({"sshPassword": "let me in!"}),
    ] {
        world
            .patch(path, &boss, edit)
            .await
            .is_problem(403, "forbidden");
    }
    assert!(
        world
            .vm("ann", "web")
            .await
            .unwrap()
            .spec
            .ssh_public_keys
            .is_empty()
    );
    assert_eq!(world.delete(path, &boss).await.status, 202);
}

#[tokio::test]
async fn who_may_only_look_creates_nothing() {
    let world = World::new().await;
    let reader = world.user("reader", AccessLevel::ReadOnly).await;
    world
        .post(VMS, &reader, web())
        .await
        .is_problem(403, "forbidden");
    assert!(world.get(VMS, &reader).await.names().is_empty());
    let images = world.get("/api/v1/images", &reader).await;
    assert_eq!(images.names(), ["debian-12"]);
    assert_eq!(images.text("/items/0/displayName"), "Debian 12");
}

#[tokio::test]
async fn bad_input_is_named_with_its_remedy() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for (field, value, remedy) in [
        ("cpu", json!(0), "1 to 256"),
        ("cpu", json!("two"), "whole number"),
        ("cpu", json!(-1), "whole number"),
        ("memory", json!("lots"), "512Mi"),
        ("memory", json!("1Mi"), "64Mi"),
        ("disk", json!("1Gi"), "at least 2Gi"),
        ("image", json!("../kite/other"), "debian-12"),
        ("image", json!("a\n---\nkind: Pod"), "debian-12"),
        ("name", json!("Web Server"), "hyphens"),
        ("name", json!("x".repeat(60)), "52"),
        ("sshId", json!("root"), "system account"),
        ("sshId", json!("Ann"), "hyphens"),
        ("sshPassword", json!("short"), "at least 8"),
        ("sshPublicKeys", json!(["nonsense"]), "authorized_keys"),
        ("domainPrefix", json!("a.b"), "hyphens"),
        ("powerState", json!("Paused"), "On or Off"),
        ("colour", json!("red"), "is not a field"),
    ] {
        let refused = world.post(VMS, &ann, with(field, value.clone())).await;
        refused.is_problem(422, "invalid");
        let error = refused.body["errors"]
            .as_array()
            .unwrap_or_else(|| panic!("{field} {value}: {refused:?}"))
            .iter()
            .find(|error| {
                let name = error["field"].as_str().unwrap();
                name.split('[').next() == Some(field) || name.is_empty()
            })
            .unwrap_or_else(|| panic!("{field} {value}: {refused:?}"));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(remedy), "{field} {value}: {message}");
    }
    let refused = world.post(VMS, &ann, with("name", "Web Server")).await;
    assert_eq!(refused.fields(), ["name"], "and not the generated sshId");
    let mut several = with("memory", "lots");
    several["image"] = "nope".into();
    let refused = world.post(VMS, &ann, several).await;
    assert_eq!(refused.fields(), ["memory", "image"]);
    let refused = world.post(VMS, &ann, json!({"cpu": "x"})).await;
    assert_eq!(refused.fields(), ["name", "cpu", "memory", "disk", "image"]);
    assert!(world.get(VMS, &ann).await.names().is_empty());
}

#[tokio::test]
async fn names_that_are_taken() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let mut first = with("sshId", "front");
    first["domainPrefix"] = "shop".into();
    assert_eq!(world.post(VMS, &ann, first).await.status, 201);

    let refused = world.post(VMS, &ann, web()).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["name"]);
    let refused = world.post(VMS, &bob, with("sshId", "front")).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["sshId"]);
    let refused = world.post(VMS, &bob, with("domainPrefix", "shop")).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["domainPrefix"]);

    let reservation = KiteReservation::new(
        &names::ssh_id_reservation("held"),
        KiteReservationSpec::new(
            Claim::SshId,
            Holder {
                kind: HolderKind::KiteVirtualMachine,
                namespace: Some("elsewhere".to_owned()),
                name: "x".to_owned(),
                uid: "u".to_owned(),
            },
        ),
    );
    world.cluster.create(&reservation).await.unwrap();
    let refused = world.post(VMS, &bob, with("sshId", "held")).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["sshId"]);
    // What one holds oneself is not taken.
    let same = json!({"domainPrefix": "shop"});
    assert_eq!(world.patch("/api/v1/vms/web", &ann, same).await.status, 200);
}

#[tokio::test]
async fn an_edit_touches_only_what_it_names() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut body = with("sshPassword", "open sesame");
    body["domainPrefix"] = "shop".into();
    world.post(VMS, &ann, body).await;
    // Somebody with kubectl wants another size.
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    world
        .cluster
        .edit::<KiteVirtualMachine>(
            FieldManager::new("kubectl"),
            &key,
            &json!({"spec": {"cpu": 4}}),
        )
        .await
        .unwrap();
    let path = "/api/v1/vms/web";
    let edit = json!({"sshPassword": null, "domainPrefix": null, "sshPublicKeys": [KEY]});
    let edited = world.patch(path, &ann, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(edited.body["cpu"], 4);
    assert_eq!(edited.body["hasSshPassword"], false);
    assert!(edited.body.get("domainPrefix").is_none());
    assert_eq!(edited.text("/sshPublicKeys/0"), KEY);
    let vm = world.vm("ann", "web").await.unwrap();
    let owner_of = |field: &str| {
        vm.metadata
            .managed_fields
            .iter()
            .flatten()
            .filter(|entry| {
                let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
                fields.is_some_and(|fields| fields["f:spec"].get(field).is_some())
            })
            .filter_map(|entry| entry.manager.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(owner_of("f:cpu"), ["kubectl"]);
    assert_eq!(owner_of("f:image"), ["kite-api"]);

    // Its disk has been made.
    let mut made = KiteVirtualMachine::new("web", vm.spec.clone());
    made.metadata.namespace.clone_from(&vm.metadata.namespace);
    let disk = json!({"name": "web-disk", "size": "10Gi"});
    made.status = Some(serde_json::from_value(json!({"disk": disk})).unwrap());
    let controller = FieldManager::CONTROLLER;
    world.cluster.apply_status(controller, &made).await.unwrap();
    for (edit, field) in [
        (json!({"image": "other"}), "image"),
        (json!({"sshId": "other"}), "sshId"),
        (json!({"disk": "5Gi"}), "disk"),
        (json!({"memory": null}), "memory"),
    ] {
        let refused = world.patch(path, &ann, edit).await;
        assert_eq!(refused.is_problem(422, "invalid").fields(), [field]);
    }
    assert_eq!(world.patch(path, &ann, json!({})).await.status, 200);
}

#[tokio::test]
async fn quotas_are_explained() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let refused = world.post(VMS, &ann, with("cpu", 9)).await;
    refused.is_problem(403, "quota-exceeded");
    assert!(
        refused.text("/detail").contains("CPUs (quota 8"),
        "{refused:?}"
    );
    for n in 0..5 {
        let mut body = with("name", format!("vm{n}"));
        body["cpu"] = 1.into();
        body["memory"] = "1Gi".into();
        assert_eq!(world.post(VMS, &ann, body).await.status, 201);
    }
    world
        .post(VMS, &ann, with("cpu", 1))
        .await
        .is_problem(403, "quota-exceeded");
    let grow = json!({"memory": "64Gi"});
    world
        .patch("/api/v1/vms/vm0", &ann, grow)
        .await
        .is_problem(403, "quota-exceeded");
    let shrink = json!({"memory": "512Mi", "disk": "20Gi"});
    assert_eq!(
        world.patch("/api/v1/vms/vm0", &ann, shrink).await.status,
        200
    );
}

#[tokio::test]
async fn what_the_namespaces_own_quota_refuses_is_the_users_matter() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let quota: k8s_openapi::api::core::v1::ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "kite", "namespace": names::user_namespace("ann")},
        "spec": {"hard": {"count/kitevirtualmachines.hy3ons.github.io": "0"}},
    }))
    .unwrap();
    world.cluster.create(&quota).await.unwrap();
    let refused = world.post(VMS, &ann, web()).await;
    refused.is_problem(403, "quota-exceeded");
    assert!(refused.text("/detail").contains("kite"), "{refused:?}");
}

#[tokio::test]
async fn a_new_accounts_namespace_is_waited_for_and_then_asked_to_wait_for() {
    let world = World::new().await;
    let body = json!({"username": "ann", "password": PASSWORD});
    let ann = world.post("/api/v1/auth/sign-up", "", body).await;
    let ann = ann.text("/token");
    let refused = world.post(VMS, ann, web()).await;
    refused.is_problem(503, "not-ready");
    assert_eq!(refused.headers["retry-after"], "2");

    let (made, ()) = tokio::join!(world.post(VMS, ann, web()), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.prepare_namespace("ann").await;
    });
    assert_eq!(made.status, 201, "{made:?}");
}
