//! How a VM's domain leads to it: by Ingress or by the Gateway API.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Namespace, Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    conditions::find,
    crd::{KitePlatform, KiteReservation, KiteVirtualMachine, VmPhase},
    gateway_api::{Gateway, HttpRoute},
    kubevirt::VirtualMachine,
};
use kite_fake::actors::kind::GATEWAY_CLASS;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::world::{Fault, FaultMode, World, named, vm_named};

const ANN: &str = "kite-user-ann";

fn shop() -> KiteVirtualMachine {
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    vm
}

async fn expose_by(world: &World, exposure: Value) {
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let patch = json!({"spec": {"exposure": exposure}});
    world.edit(&platform, patch).await;
    world.settle().await;
}

/// Status and reason of the condition `Exposed`, and what it says.
async fn exposed(world: &World) -> (String, String, String) {
    let status = world.vm("web").await.status.unwrap();
    let found = find(&status.conditions, "Exposed").unwrap().clone();
    (found.status, found.reason, found.message)
}

async fn is(world: &World, status: &str, reason: &str) {
    let found = exposed(world).await;
    assert_eq!(
        (found.0.as_str(), found.1.as_str()),
        (status, reason),
        "{}",
        found.2
    );
}

/// A Gateway that lets routes in from namespaces as `from` says.
async fn gateway(world: &World, from: &str) {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "played"}, "spec": {"controllerName": "example.org/played"},
    });
    let class: DynamicObject = serde_json::from_value(class).unwrap();
    let api = GATEWAY_CLASS.api(world.cluster.client(), None);
    api.create(&PostParams::default(), &class).await.unwrap();
    let gateway = json!({
        "metadata": {"name": "public", "namespace": "kite"},
        "spec": {"gatewayClassName": "played", "listeners": []},
    });
    let gateway = world
        .create::<Gateway>(serde_json::from_value(gateway).unwrap())
        .await;
    let listener = json!([{
        "name": "https", "port": 443, "protocol": "HTTPS",
        "allowedRoutes": {"namespaces": {"from": from}},
    }]);
    world
        .edit(&gateway, json!({"spec": {"listeners": listener}}))
        .await;
}

fn by_gateway() -> Value {
    json!({"gateway": {"namespace": "kite", "name": "public"}, "ingressClassName": null})
}

#[tokio::test(start_paused = true)]
async fn a_domain_is_exposed_when_the_ingress_controller_says_so() {
    let world = World::played().await;
    world.create(shop()).await;
    world.settle().await;
    // Nobody is responsible for an Ingress without a class here.
    is(&world, "Unknown", "NoAddress").await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.unwrap().phase, Some(VmPhase::Running));

    expose_by(&world, json!({"ingressClassName": "nginx"})).await;
    is(&world, "True", "Exposed").await;
    assert!(exposed(&world).await.2.contains("shop.vm.example.org"));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_takes_the_place_of_the_ingress_and_gives_it_back() {
    let world = World::played().await;
    gateway(&world, "All").await;
    world.create(shop()).await;
    expose_by(&world, json!({"ingressClassName": "nginx"})).await;

    expose_by(&world, by_gateway()).await;
    is(&world, "True", "Exposed").await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_none());
    let route = world.find::<HttpRoute>(ANN, "web").await.unwrap();
    assert_eq!(route.spec.hostnames, ["shop.vm.example.org"]);
    let access = world.vm("web").await.status.unwrap().access.unwrap();
    assert_eq!(access.domain.as_deref(), Some("shop.vm.example.org"));
    world.pass().await;
    assert_eq!(world.writes(), Vec::<String>::new());

    expose_by(
        &world,
        json!({"gateway": null, "ingressClassName": "nginx"}),
    )
    .await;
    is(&world, "True", "Exposed").await;
    assert!(world.find::<HttpRoute>(ANN, "web").await.is_none());
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());

    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"domainPrefix": null}}))
        .await;
    world.settle().await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_route_that_the_gateway_does_not_take_says_why() {
    let world = World::played().await;
    gateway(&world, "Same").await;
    world.create(shop()).await;
    expose_by(&world, by_gateway()).await;
    is(&world, "False", "NotAllowedByListeners").await;
    assert!(exposed(&world).await.2.contains("Gateway kite/public"));

    let other = json!({"gateway": {"namespace": "kite", "name": "nowhere"}});
    expose_by(&world, other).await;
    is(&world, "Unknown", "NotTakenUp").await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.unwrap().phase, Some(VmPhase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_route_goes_before_the_vm_and_its_services() {
    let world = World::played().await;
    gateway(&world, "All").await;
    world.create(shop()).await;
    expose_by(&world, by_gateway()).await;
    world.delete(&world.vm("web").await).await;
    let written = world.settle().await;
    let at = |what: &str| written.iter().position(|line| line.contains(what)).unwrap();
    assert!(at("delete HTTPRoute") < at("delete VirtualMachine"));
    assert!(world.find::<HttpRoute>(ANN, "web").await.is_none());
    assert!(world.find::<Service>(ANN, "vps-web-web").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refused_route_leaves_the_ingress_and_holds_up_nothing_else() {
    let mut world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    world.only_vms = true;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    world
        .edit(&platform, json!({"spec": {"exposure": by_gateway()}}))
        .await;
    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    // After the VirtualMachine, which is told to stop first.
    world.inject(Fault {
        after: 1,
        mode: FaultMode::Refused,
    });
    assert!(
        world.pass().await.is_empty(),
        "a refusal is told, and no error"
    );
    is(&world, "False", "Refused").await;
    assert!(exposed(&world).await.2.contains("spec.exposure"));
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Halted"));

    // It is tried again by and by.
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    is(&world, "Unknown", "NotTakenUp").await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_none());
}

/// As ingress-nginx does, whose webhook gives the output of a command: the status that tells
/// of that is no reason to ask again.
#[tokio::test(start_paused = true)]
async fn a_way_that_is_refused_in_other_words_each_time_is_tried_once_in_a_while() {
    let world = World::with_ann().await;
    world.refuse("apply Ingress");
    world.create(shop()).await;
    world.settle().await;
    is(&world, "False", "Refused").await;
    for minute in 1..=10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.settle().await;
        assert!(world.times_refused() <= 1 + minute, "in minute {minute}");
    }
    world.refuse("");
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    is(&world, "Unknown", "NoAddress").await;
}

#[tokio::test(start_paused = true)]
async fn an_ingress_of_somebody_else_is_left_alone_and_told() {
    let world = World::with_ann().await;
    let theirs = json!({
        "metadata": {"name": "web", "namespace": ANN},
        "spec": {"defaultBackend": {"service": {"name": "own", "port": {"number": 80}}}},
    });
    let theirs = world
        .create::<Ingress>(serde_json::from_value(theirs).unwrap())
        .await;
    world.create(shop()).await;
    world.settle().await;
    is(&world, "False", "NameTaken").await;
    let after = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!(
        after.metadata.resource_version,
        theirs.metadata.resource_version
    );
    let vm = world.vm("web").await;
    assert_eq!(vm.status.unwrap().phase, Some(VmPhase::Running));
}

/// Whoever holds the domain's reservation, if somebody does.
async fn holder_of(world: &World, prefix: &str) -> Option<String> {
    let name = format!("domain.{prefix}");
    let claim: Option<KiteReservation> = world.find("", &name).await;
    let claim = claim.filter(|claim| claim.spec.kept.is_none());
    claim.map(|claim| claim.spec.holder.name)
}

#[tokio::test(start_paused = true)]
async fn a_former_domain_is_free_once_nothing_leads_from_it() {
    let mut world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    world.only_vms = true;
    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"domainPrefix": "store"}}))
        .await;
    // After the claim of the new one: what leads from the old one stays.
    world.inject(Fault {
        after: 1,
        mode: FaultMode::Refused,
    });
    assert!(world.pass().await.is_empty());
    is(&world, "False", "Refused").await;
    assert_eq!(holder_of(&world, "shop").await.as_deref(), Some("web"));
    let access = world.vm("web").await.status.unwrap().access.unwrap();
    assert_eq!(access.domain, None, "the new one does not lead here yet");

    // The status speaks of the edit already, and still nothing is forgotten.
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    is(&world, "Unknown", "NoAddress").await;
    assert_eq!(holder_of(&world, "shop").await, None);
    assert_eq!(holder_of(&world, "store").await.as_deref(), Some("web"));
    let access = world.vm("web").await.status.unwrap().access.unwrap();
    assert_eq!(access.domain.as_deref(), Some("store.vm.example.org"));
}

#[tokio::test(start_paused = true)]
async fn a_domain_is_kept_while_what_leads_from_it_is_on_its_way_out() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    let held = json!({"metadata": {"finalizers": ["example.org/balancer"]}});
    let ingress = world.edit(&ingress, held).await;
    world.delete(&ingress).await;
    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"domainPrefix": "store"}}))
        .await;
    world.settle().await;
    assert_eq!(holder_of(&world, "shop").await.as_deref(), Some("web"));

    let free = json!({"metadata": {"finalizers": null}});
    world.edit(&ingress, free).await;
    world.settle().await;
    assert_eq!(holder_of(&world, "shop").await, None);
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    let host = ingress.spec.unwrap().rules.unwrap().remove(0).host;
    assert_eq!(host.as_deref(), Some("store.vm.example.org"));
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_ingress_makes_no_domain() {
    let world = World::with_ann().await;
    let theirs = json!({
        "metadata": {"name": "web", "namespace": ANN},
        "spec": {"rules": [{"host": "shop.vm.example.org", "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "own", "port": {"number": 80}}},
        }]}}]},
    });
    world
        .create::<Ingress>(serde_json::from_value(theirs).unwrap())
        .await;
    world.create(shop()).await;
    world.settle().await;
    is(&world, "False", "NameTaken").await;
    let access = world.vm("web").await.status.unwrap().access.unwrap();
    assert_eq!(access.domain, None);
}

async fn tls(world: &World) -> Value {
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    let issuer = ingress.metadata.annotations.unwrap_or_default();
    let tls = ingress.spec.unwrap().tls.unwrap().remove(0);
    json!({
        "hosts": tls.hosts, "secret": tls.secret_name,
        "issuer": issuer.get("cert-manager.io/cluster-issuer"),
    })
}

async fn put_secret(world: &World, name: &str, annotations: Value) {
    let secret = json!({
        "metadata": {"name": name, "namespace": ANN, "annotations": annotations},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "YQ==", "tls.key": "YQ=="},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    world.create(secret).await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_comes_from_the_controller_an_issuer_or_a_secret() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    let hosts = json!(["shop.vm.example.org"]);
    let expected = json!({"hosts": &hosts, "secret": null, "issuer": null});
    assert_eq!(tls(&world).await, expected);

    let issuer = json!({"certificate": {"clusterIssuer": "letsencrypt"}});
    expose_by(&world, issuer).await;
    let expected = json!({"hosts": &hosts, "secret": "web-tls", "issuer": "letsencrypt"});
    assert_eq!(tls(&world).await, expected);

    let given = json!({"certificate": {"clusterIssuer": null, "secretName": "wildcard"}});
    expose_by(&world, given).await;
    let expected = json!({"hosts": hosts, "secret": "wildcard", "issuer": null});
    assert_eq!(tls(&world).await, expected);

    // It is not there, and said so, until somebody puts it there.
    is(&world, "False", "CertificateMissing").await;
    let told = exposed(&world).await.2;
    let secret = "kite-user-ann/wildcard";
    assert!(
        told.contains(secret) && told.contains("secretName"),
        "{told}"
    );
    let vm = world.vm("web").await;
    assert!(kite_core::conditions::is_true(
        &vm.status.unwrap().conditions,
        "Ready"
    ));
    put_secret(&world, "wildcard", json!({})).await;
    world.settle().await;
    is(&world, "Unknown", "NoAddress").await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_was_put_in_is_the_web_pages_alone() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    let given = json!({"certificate": {"secretName": "kite-certificate"}});
    expose_by(&world, given).await;
    let expected = json!({"hosts": ["shop.vm.example.org"], "secret": null, "issuer": null});
    assert_eq!(tls(&world).await, expected);
    is(&world, "Unknown", "NoAddress").await;

    let page: Ingress = world.find("kite", "kite-platform").await.unwrap();
    let secret = page.spec.unwrap().tls.unwrap().remove(0).secret_name;
    assert_eq!(secret.as_deref(), Some("kite-certificate"));
}

#[tokio::test(start_paused = true)]
async fn what_cert_manager_made_goes_with_the_vm_and_nobody_elses_secret_does() {
    for (certificate, is_its) in [("web-tls", true), ("other", false)] {
        let world = World::with_ann().await;
        world.create(shop()).await;
        let issuer = json!({"certificate": {"clusterIssuer": "letsencrypt"}});
        expose_by(&world, issuer).await;
        let name = json!({"cert-manager.io/certificate-name": certificate});
        put_secret(&world, "web-tls", name).await;
        world.delete(&world.vm("web").await).await;
        world.settle().await;
        let vm: Option<KiteVirtualMachine> = world.find(ANN, "web").await;
        assert_eq!(vm, None);
        let left = world.find::<Secret>(ANN, "web-tls").await;
        assert_eq!(left.is_none(), is_its, "of certificate {certificate}");
    }
}

/// In a namespace that is no user's others may have a certificate of that name.
#[tokio::test(start_paused = true)]
async fn a_certificate_for_others_hosts_stays_where_others_may_have_it() {
    const TEAM: &str = "team-a";
    for (hosts, is_its) in [
        ("shop.vm.example.org", true),
        ("www.example.org,shop.vm.example.org", true),
        ("shop.example.org", false),
        ("www.example.org", false),
        ("", false),
    ] {
        let world = World::with_ann().await;
        let team = Namespace {
            metadata: named(TEAM),
            ..Namespace::default()
        };
        world.create(team).await;
        let mut vm = shop();
        vm.metadata.namespace = Some(TEAM.to_owned());
        let vm = world.create(vm).await;
        world.settle().await;
        let secret = json!({
            "metadata": {"name": "web-tls", "namespace": TEAM, "annotations": {
                "cert-manager.io/certificate-name": "web-tls",
                "cert-manager.io/alt-names": hosts,
            }},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": "YQ==", "tls.key": "YQ=="},
        });
        world
            .create::<Secret>(serde_json::from_value(secret).unwrap())
            .await;
        world.delete(&vm).await;
        world.settle().await;
        let left = world.find::<Secret>(TEAM, "web-tls").await;
        assert_eq!(left.is_none(), is_its, "of a certificate for {hosts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_leads_to_a_service_that_is_not_the_vms() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
    let ours = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    let theirs = json!({"metadata": {"ownerReferences": null, "labels": null}});
    world.edit(&ours, theirs).await;
    world.settle().await;
    is(&world, "False", "NameTaken").await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_none());
    assert_eq!(
        world.vm("web").await.status.unwrap().access.unwrap().domain,
        None
    );

    world.delete(&ours).await;
    world.settle().await;
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_to_lead_elsewhere_is_put_right() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    for name in ["vps-web-web", "vps-access-web"] {
        let ours = world.find::<Service>(ANN, name).await.unwrap();
        let elsewhere = json!({"spec": {
            "type": "ExternalName", "externalName": "169.254.169.254",
            "clusterIP": null, "clusterIPs": null,
        }});
        world.edit(&ours, elsewhere).await;
        world.settle().await;
        let spec = world
            .find::<Service>(ANN, name)
            .await
            .unwrap()
            .spec
            .unwrap();
        assert_eq!(spec.type_.as_deref(), Some("ClusterIP"), "{name}");
        assert!(spec.cluster_ip.is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_leads_to_the_vm_stays_while_its_service_is_made_anew() {
    let world = World::with_ann().await;
    world.create(shop()).await;
    world.settle().await;
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    let service = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    let held = json!({"metadata": {"finalizers": ["example.org/balancer"]}});
    world.edit(&service, held).await;
    world.delete(&service).await;
    world.settle().await;
    is(&world, "False", "WaitingForDeletion").await;

    let let_go = json!({"metadata": {"finalizers": null}});
    world.edit(&service, let_go).await;
    world.settle().await;
    let anew = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    assert_ne!(anew.metadata.uid, service.metadata.uid);
    let now = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!(now.metadata.uid, ingress.metadata.uid);
}
