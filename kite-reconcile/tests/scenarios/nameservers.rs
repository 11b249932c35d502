//! Whom users' VMs ask for names, where the platform says so.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kite_core::{
    crd::KitePlatform,
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_render::isolation;
use serde_json::json;

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";
const OWN: &str = "192.0.2.53";

/// Whether ann's VMs may ask the cluster's DNS, and at which addresses others.
async fn may_ask(world: &World) -> (bool, Vec<String>) {
    let policy = world
        .find::<NetworkPolicy>(ANN, isolation::EGRESS_POLICY)
        .await;
    let rules = policy.unwrap().spec.unwrap().egress.unwrap();
    // The other rule, for the internet, is for all ports.
    let rule = rules.into_iter().find(|rule| rule.ports.is_some());
    let peers = rule.unwrap().to.unwrap();
    let the_clusters = peers.iter().any(|peer| peer.pod_selector.is_some());
    let own = peers.into_iter().filter_map(|peer| peer.ip_block);
    (the_clusters, own.map(|block| block.cidr).collect())
}

/// The DNS policy of ann's VM, and the nameservers that it is to ask.
async fn is_to_ask(world: &World, name: &str) -> (Option<String>, Vec<String>) {
    let machine = world.find::<VirtualMachine>(ANN, name).await.unwrap();
    let spec = machine.spec.template.spec;
    let named = spec.dns_config.and_then(|config| config.nameservers);
    (spec.dns_policy, named.unwrap_or_default())
}

async fn set(world: &World, nameservers: serde_json::Value) {
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let patch = json!({"spec": {"nameservers": nameservers}});
    world.edit(&platform, patch).await;
    world.settle().await;
}

async fn start_anew(world: &World, name: &str) {
    let instance = world.find::<VirtualMachineInstance>(ANN, name).await;
    world.delete(&instance.unwrap()).await;
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn the_clusters_dns_is_closed_when_the_last_vm_that_asked_it_was_started_anew() {
    let world = World::with_ann().await;
    for name in ["web", "db"] {
        world.create(vm_named(name)).await;
    }
    world.settle().await;
    assert_eq!(may_ask(&world).await, (true, vec![]));
    assert_eq!(is_to_ask(&world, "web").await, (None, vec![]));

    set(&world, json!([OWN])).await;
    let own = || vec![format!("{OWN}/32")];
    let named = (Some("None".to_owned()), vec![OWN.to_owned()]);
    assert_eq!(is_to_ask(&world, "web").await, named);
    assert_eq!(may_ask(&world).await, (true, own()), "both run as before");
    start_anew(&world, "web").await;
    assert_eq!(may_ask(&world).await, (true, own()), "one does");
    start_anew(&world, "db").await;
    assert_eq!(may_ask(&world).await, (false, own()));

    set(&world, json!(null)).await;
    assert_eq!(is_to_ask(&world, "web").await, (None, vec![]));
    assert_eq!(may_ask(&world).await, (true, vec![]));
}

#[tokio::test(start_paused = true)]
async fn only_addresses_of_other_machines_are_nameservers() {
    let world = World::with_ann().await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    for (wrong, words) in [
        (json!(["dns.example.org"]), "dns.example.org is no address"),
        (json!(["192.0.2.53/32"]), "192.0.2.53/32 is no address"),
        (json!(["127.0.0.53"]), "127.0.0.53 is no address"),
        (json!(["0.0.0.0"]), "0.0.0.0 is no address"),
        (json!(["2001:db8::53"]), "needs an IPv4 address"),
        (
            json!(["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]),
            "at most 3",
        ),
    ] {
        let patch = json!({"spec": {"nameservers": wrong}});
        let refused = world.try_edit(&platform, patch).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{wrong}: {refused}");
    }
    set(&world, json!(["2001:db8::53", OWN])).await;
}
