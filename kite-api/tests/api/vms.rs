//! Virtual machines over HTTP.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{
        AccessLevel, Claim, Holder, HolderKind, Kept, KiteReservation, KiteReservationSpec,
        KiteUser, KiteVirtualMachine, KiteVirtualMachineStatus, PowerState,
    },
    names,
};
use serde_json::{Value, json};

use crate::world::{PASSWORD, PATIENCE, World};

const GIB: u64 = 1 << 30;
pub const VMS: &str = "/api/v1/vms";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtYnCyTnNYS2XJtKk4jXv9yq3sTzjS0wTS3b1g2Jm3B ann@laptop";

pub fn web() -> Value {
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
        .apply_status(kite_core::managers::CONTROLLER, &seen)
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
    let controller = kite_core::managers::CONTROLLER;
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
        ("sshPublicKeys", json!(["nonsense"]), "no type of key"),
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

/// The fields that a refusal names, sorted.
fn sorted(answer: &crate::world::Answer) -> Vec<&str> {
    let mut fields = answer.fields();
    fields.sort_unstable();
    fields
}

#[tokio::test]
async fn one_answer_names_all_that_is_wrong_with_a_new_vm() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let all = json!({
        "name": "Web Server", "cpu": 0, "memory": "lots", "disk": "1Gi", "image": "nope",
        "sshId": "Ann", "sshPassword": "short", "sshPublicKeys": ["nonsense"],
        "domainPrefix": "a.b", "expiresAt": "2001-01-01T00:00:00Z", "idleTimeout": "1s",
        "powerState": "Paused", "colour": "red",
    });
    let refused = world.post(VMS, &ann, all.clone()).await;
    refused.is_problem(422, "invalid");
    let mut fields = sorted(&refused);
    let keys = fields.iter().position(|it| it.starts_with("sshPublicKeys"));
    fields[keys.unwrap()] = "sshPublicKeys";
    let mut given: Vec<_> = all
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    // Too small only for an image that is known.
    given.retain(|field| *field != "disk");
    given.sort_unstable();
    assert_eq!(fields, given, "{refused:?}");
    for error in refused.body["errors"].as_array().unwrap() {
        let (field, message) = (&error["field"], error["message"].as_str().unwrap());
        assert!(!message.starts_with(field.as_str().unwrap()), "{error}");
        let is_secret = field == "sshPassword";
        assert_eq!(
            error.get("value").is_none(),
            is_secret || field == "colour",
            "{error}"
        );
    }
    // Nothing came of what was tried.
    assert!(world.get(VMS, &ann).await.names().is_empty());

    // What the API server says of some fields hides what it says of others.
    let mut long = with("sshId", "x".repeat(40));
    long["domainPrefix"] = "a.b".into();
    long["cpu"] = 0.into();
    let refused = world.post(VMS, &ann, long).await;
    refused.is_problem(422, "invalid");
    assert_eq!(sorted(&refused), ["cpu", "domainPrefix", "sshId"]);
}

#[tokio::test]
async fn what_is_taken_and_too_much_is_told_with_what_is_wrong() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut first = with("sshId", "front");
    first["domainPrefix"] = "shop".into();
    assert_eq!(world.post(VMS, &ann, first.clone()).await.status, 201);

    first["cpu"] = 200.into();
    let refused = world.post(VMS, &ann, first.clone()).await;
    refused.is_problem(409, "taken");
    assert_eq!(sorted(&refused), ["cpu", "domainPrefix", "name", "sshId"]);
    let detail = refused.text("/detail");
    assert!(
        detail.contains("another VM's") && detail.contains("CPUs (quota"),
        "{detail}"
    );

    first["idleTimeout"] = "1s".into();
    let refused = world.post(VMS, &ann, first.clone()).await;
    refused.is_problem(422, "invalid");
    let all = ["cpu", "domainPrefix", "idleTimeout", "name", "sshId"];
    assert_eq!(sorted(&refused), all);

    // Somebody who has no room for another VM is told so, too.
    let quota = json!({"spec": {"quota": {"vms": 1, "cpu": 8, "memory": "16Gi", "disk": "100Gi"}}});
    let key = ObjectKey::cluster("ann");
    let user: kite_core::crd::KiteUser = world
        .cluster
        .merge_patch(FieldManager::new("kubectl"), &key, &quota)
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&user).await;
    let mut second = with("name", "second");
    second["sshId"] = "Ann".into();
    let refused = world.post(VMS, &ann, second).await;
    refused.is_problem(422, "invalid");
    assert_eq!(sorted(&refused), ["", "sshId"]);
    assert!(
        refused.text("/detail").contains("so many VMs (1)"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn one_answer_names_all_that_is_wrong_with_an_edit() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, web()).await.status, 201);
    let vm = world.vm("ann", "web").await.unwrap();
    let mut made = KiteVirtualMachine::new("web", vm.spec.clone());
    made.metadata.namespace.clone_from(&vm.metadata.namespace);
    let disk = json!({"name": "web-disk", "size": "10Gi"});
    made.status = Some(serde_json::from_value(json!({ "disk": disk })).unwrap());
    let controller = kite_core::managers::CONTROLLER;
    world.cluster.apply_status(controller, &made).await.unwrap();

    let edit = json!({
        "name": "other", "cpu": 200, "memory": "1Mi", "disk": "5Gi", "idleTimeout": "1s",
        "domainPrefix": "a.b", "expiresAt": "2001-01-01T00:00:00Z", "sshPassword": "short",
        "startOnConnect": "perhaps",
    });
    let path = "/api/v1/vms/web";
    let refused = world.patch(path, &ann, edit.clone()).await;
    refused.is_problem(422, "invalid");
    let mut given: Vec<_> = edit
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    given.sort_unstable();
    assert_eq!(sorted(&refused), given, "{refused:?}");
    // Where only the API server knows, it is asked for all of it, too.
    let refused = world
        .patch(path, &ann, json!({"idleTimeout": "1s", "disk": "5Gi"}))
        .await;
    refused.is_problem(422, "invalid");
    assert_eq!(sorted(&refused), ["disk", "idleTimeout"]);
    let after = world.vm("ann", "web").await.unwrap();
    assert_eq!(after.metadata.generation, vm.metadata.generation);
}

#[tokio::test]
async fn an_end_is_never_set_in_the_past() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let past = "2001-01-01T00:00:00Z";
    let refuses = |answer: &crate::world::Answer| {
        answer.is_problem(422, "invalid");
        assert_eq!(answer.fields(), ["expiresAt"]);
        assert_eq!(answer.text("/errors/0/value"), past);
        let message = answer.text("/errors/0/message");
        assert!(message.contains("write a time in the future"), "{message}");
    };
    refuses(&world.post(VMS, &ann, with("expiresAt", past)).await);
    assert_eq!(world.post(VMS, &ann, web()).await.status, 201);
    let path = "/api/v1/vms/web";
    refuses(&world.patch(path, &ann, json!({ "expiresAt": past })).await);

    // One that has expired is edited like any other, its end being said again or not.
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    let over = json!({"spec": {"expiresAt": past}});
    let vm: KiteVirtualMachine = world
        .cluster
        .merge_patch(FieldManager::new("kubectl"), &key, &over)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&vm).await;
    let edit = json!({"expiresAt": "2001-01-01T01:00:00+01:00", "cpu": 1});
    assert_eq!(world.patch(path, &ann, edit).await.status, 200);
    assert_eq!(world.patch(path, &ann, json!({"cpu": 2})).await.status, 200);
    let other = json!({"expiresAt": "2001-01-02T00:00:00Z"});
    world
        .patch(path, &ann, other)
        .await
        .is_problem(422, "invalid");
    let later = json!({"expiresAt": "2100-01-01T00:00:00Z"});
    assert_eq!(world.patch(path, &ann, later).await.status, 200);
    let never = json!({ "expiresAt": null });
    assert_eq!(world.patch(path, &ann, never).await.status, 200);
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

/// A name of a VM of `user` that was given back.
async fn kept(world: &World, name: &str, claim: Claim, user: &str, uid: Option<String>) {
    let holder = Holder {
        kind: HolderKind::KiteVirtualMachine,
        namespace: Some(names::user_namespace(user)),
        name: "gone".to_owned(),
        uid: "uid-of-gone".to_owned(),
    };
    let mut spec = KiteReservationSpec::new(claim, holder);
    spec.kept = Some(Kept {
        until: Time("2100-01-01T00:00:00Z".parse().unwrap()),
        user_uid: uid,
    });
    let reservation = KiteReservation::new(name, spec);
    world.cluster.create(&reservation).await.unwrap();
}

#[tokio::test]
async fn names_that_are_kept_are_their_former_owners() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let key = ObjectKey::cluster("ann");
    let of_ann = world
        .cluster
        .get::<KiteUser>(&key)
        .await
        .unwrap()
        .metadata
        .uid;
    kept(&world, "ssh-id.front", Claim::SshId, "ann", of_ann.clone()).await;
    kept(&world, "domain.shop", Claim::Domain, "ann", of_ann).await;
    // Of one who had the name that ann has now.
    let former = Some("uid-of-a-former-ann".to_owned());
    kept(&world, "ssh-id.former", Claim::SshId, "ann", former).await;
    for (who, field, name, reservation) in [
        (&bob, "sshId", "front", "ssh-id.front"),
        (&bob, "domainPrefix", "shop", "domain.shop"),
        (&ann, "sshId", "former", "ssh-id.former"),
    ] {
        let refused = world.post(VMS, who, with(field, name)).await;
        assert_eq!(refused.is_problem(409, "taken").fields(), [field]);
        let message = refused.body["errors"][0]["message"].as_str().unwrap();
        let release = format!("kubectl delete kitereservation {reservation}");
        for part in [
            "kept until 2100-01-01T00:00:00Z",
            "choose another",
            &release,
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
    // Somebody else's wish, with kubectl, is nobody's claim.
    let wish = json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachine",
        "metadata": {"name": "wish", "namespace": "kite-user-bob"},
        "spec": {"image": "debian-12", "cpu": 1, "memory": "1Gi", "diskSize": "10Gi",
                 "sshId": "front", "domainPrefix": "shop"},
    });
    let wish: KiteVirtualMachine = serde_json::from_value(wish).unwrap();
    world.cluster.create(&wish).await.unwrap();
    while world.get("/api/v1/vms/wish", &bob).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut again = with("sshId", "front");
    again["domainPrefix"] = "shop".into();
    assert_eq!(world.post(VMS, &ann, again.clone()).await.status, 201);
    // One's own counts.
    again["name"] = "third".into();
    let refused = world.post(VMS, &ann, again).await;
    let fields = refused.is_problem(409, "taken").fields();
    assert_eq!(fields, ["sshId", "domainPrefix"]);
}

#[tokio::test]
async fn no_vm_gets_a_domain_that_stands_for_the_platform() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, web()).await.status, 201);
    world
        .administer(json!({"gateway": {"publicHost": "door.vm.test"}}))
        .await;
    for (prefix, part) in [
        ("www", "reservedDomainPrefixes"),
        ("login", "reservedDomainPrefixes"),
        ("autodiscover", "reservedDomainPrefixes"),
        ("xn--80ak6aa92e", "xn--"),
        ("door", "spec.gateway.publicHost"),
    ] {
        let mut new = with("domainPrefix", prefix);
        new["name"] = "other".into();
        let refused = world.post(VMS, &ann, new).await;
        assert_eq!(refused.is_problem(409, "taken").fields(), ["domainPrefix"]);
        let edit = json!({"domainPrefix": prefix});
        let edited = world.patch("/api/v1/vms/web", &ann, edit).await;
        assert_eq!(edited.is_problem(409, "taken").fields(), ["domainPrefix"]);
        for answer in [refused, edited] {
            let message = answer.body["errors"][0]["message"].as_str().unwrap();
            assert!(
                message.contains(part) && message.contains("choose"),
                "{message}"
            );
        }
    }
    world
        .administer(json!({"reservedDomainPrefixes": ["intranet"]}))
        .await;
    let edit = json!({"domainPrefix": "www"});
    assert_eq!(world.patch("/api/v1/vms/web", &ann, edit).await.status, 200);
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
        .merge_patch::<KiteVirtualMachine>(
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
    let controller = kite_core::managers::CONTROLLER;
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
    assert_eq!(refused.fields(), ["cpu"]);
    let says = refused.text("/errors/0/message");
    assert!(says.ends_with("at most 8 of 8"), "{says}");
    let mut large = with("memory", "64Gi");
    large["disk"] = "4Ti".into();
    let refused = world.post(VMS, &ann, large).await;
    assert_eq!(refused.fields(), ["memory", "disk"]);
    let says = refused.text("/errors/0/message");
    assert!(says.ends_with("at most 16Gi of 16Gi"), "{says}");
    for n in 0..5 {
        let mut body = with("name", format!("vm{n}"));
        body["cpu"] = 1.into();
        body["memory"] = "1Gi".into();
        assert_eq!(world.post(VMS, &ann, body).await.status, 201);
    }
    // Another size would not help.
    let refused = world.post(VMS, &ann, with("cpu", 9)).await;
    refused.is_problem(403, "quota-exceeded");
    assert_eq!(refused.fields(), [""]);
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
    let ann = world.post("/api/v1/auth/sign-up", "", body.clone()).await;
    let refused = world.post(VMS, ann.text("/token"), web()).await;
    refused.is_problem(503, "not-ready");
    assert_eq!(refused.headers["retry-after"], "2");

    // One that waits for as long as it takes, on a busy machine, too.
    let world = World::with(|builder| builder.namespace_wait(PATIENCE)).await;
    let ann = world.post("/api/v1/auth/sign-up", "", body).await;
    let mut making = Box::pin(world.post(VMS, ann.text("/token"), web()));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut making).await;
    assert!(early.is_err(), "{early:?}");
    world.prepare_namespace("ann").await;
    let made = making.await;
    assert_eq!(made.status, 201, "{made:?}");
}
