//! What the API server itself refuses: each bound of a field, with its remedy.

use kite_core::password::PasswordHash;
use kite_core::{
    cluster::{ClusterError, Object},
    crd::{KitePlatform, KiteVirtualMachine, KiteVirtualMachineOffer},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::World;

/// Creates what is refused, and gives the words of the refusal.
async fn refusal<K: Object + DeserializeOwned>(
    world: &World,
    mut object: Value,
    spec: &Value,
) -> String {
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    let object: K = serde_json::from_value(object).unwrap();
    match world.try_create(object).await {
        Err(ClusterError::Invalid { status, .. }) => status.message,
        other => panic!("{spec}: {other:?}"),
    }
}

async fn each_is_refused<K: Object + DeserializeOwned>(world: &World, object: Value, cases: Value) {
    for case in cases.as_array().unwrap() {
        let told = refusal::<K>(world, object.clone(), &case[0]).await;
        assert!(told.contains(case[1].as_str().unwrap()), "{case}: {told}");
    }
}

fn vm() -> Value {
    json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachine",
        "metadata": {"name": "web", "namespace": "kite-user-ann"},
        "spec": {
            "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12", "sshId": "web",
        },
    })
}

#[tokio::test(start_paused = true)]
async fn bounds_of_a_vm() {
    let world = World::with_ann().await;
    let cases = json!([
        [{"cpu": 257}, "spec.cpu"],
        [{"memory": "63Mi"}, "memory must be at least 64Mi"],
        [{"memory": "1025Ti"}, "memory must be at most 1024Ti"],
        [{"disk": "1Mi"}, "disk must be at least 1Gi"],
        [{"disk": "1025Ti"}, "disk must be at most 1024Ti"],
        [{"expiresAt": "9000-01-01T00:00:00Z"}, "before the year 9000: leave it out"],
        [{"expiryGracePeriod": "8785h"}, "at most 8784h (a year)"],
        [{"offer": "gold", "expiryGracePeriod": "73h"}, "must be at most 72h"],
        [{"idleTimeout": "9m"}, "idleTimeout must be from 10m to 8784h"],
        [{"idleTimeout": "8785h"}, "idleTimeout must be from 10m to 8784h"],
        [{"sshId": "root"}, "system account: choose another"],
        [{"domainPrefix": "a.b"}, "domainPrefix must be lower-case letters"],
        [{"sshPasswordHash": "$argon2id$…"}, "make one with \"kite password-hash\""],
        [{"sshPasswordHash": "secret"}, "must be a whole argon2id or bcrypt hash"],
    ]);
    each_is_refused::<KiteVirtualMachine>(&world, vm(), cases).await;
    let mut widest = vm();
    widest["spec"]["offer"] = json!("gold");
    widest["spec"]["expiryGracePeriod"] = json!("72h");
    widest["spec"]["sshPasswordHash"] = json!(PasswordHash::create("secret").unwrap());
    let widest = serde_json::from_value::<KiteVirtualMachine>(widest).unwrap();
    world.create(widest).await;
}

#[tokio::test(start_paused = true)]
async fn bounds_of_an_offer() {
    let world = World::new().await;
    let offer = json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KiteVirtualMachineOffer",
        "metadata": {"name": "gold"},
        "spec": {"cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12"},
    });
    let cases = json!([
        [{"expiresAt": "9000-01-01T00:00:00Z"}, "before the year 9000: leave it out"],
        [{"lifetime": "59m"}, "lifetime must be from 1h to 87840h"],
        [{"lifetime": "87841h"}, "lifetime must be from 1h to 87840h"],
        [{"memory": "1025Ti"}, "memory must be at most 1024Ti"],
        [{"disk": "1025Ti"}, "disk must be at most 1024Ti"],
        [{"cpu": 0}, "spec.cpu"],
    ]);
    each_is_refused::<KiteVirtualMachineOffer>(&world, offer, cases).await;
}

#[tokio::test(start_paused = true)]
async fn networks_that_are_none_are_refused_and_not_passed_over() {
    let world = World::new().await;
    let platform = json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KitePlatform",
        "metadata": {"name": "default"}, "spec": {},
    });
    for wrong in [
        "300.1.2.0/24",
        "10.0.0.0/33",
        "2001:db8::/129",
        "1.2.3.4",
        "::ffff:1.2.3.0/120",
    ] {
        let spec = json!({"blockedNetworks": ["198.51.100.0/24", wrong]});
        let told = refusal::<KitePlatform>(&world, platform.clone(), &spec).await;
        let remedy = "is no range in CIDR notation: write it like 198.51.100.0/24";
        assert!(told.contains(wrong) && told.contains(remedy), "{told}");
    }
}
