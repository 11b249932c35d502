//! The platform: how the gateway, the web page and the API are reached.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Node, Secret, Service},
        networking::v1::Ingress,
    },
};
use kite_core::{
    cluster::ClusterError,
    conditions::find,
    crd::{GatewayServiceType, KitePlatform, KitePlatformStatus, KiteUser, KiteUserSpec, VmPhase},
    gateway_api::{Gateway, GatewaySpec, HttpRoute, Listener},
};
use kite_fake::actors::{Actor, Gateways, LoadBalancers};
use kite_reconcile::keys::{KeySource as _, RandomKeys};
use kite_render::keys::VmKeys;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::json;

use crate::world::{World, image, named, platform, vm_named};

const HERE: &str = "kite";
const ADDRESS: &str = "192.0.2.7";

/// A world with a provider of load balancers and an implementation of the
/// Gateway API.
async fn world() -> World {
    let others: Vec<Arc<dyn Actor>> = vec![
        Arc::new(LoadBalancers::at(ADDRESS)),
        Arc::new(Gateways::default()),
    ];
    World::with_actors(others).await
}

/// The same with a platform of class `nginx`.
async fn with_platform() -> World {
    let world = world().await;
    let mut platform = platform();
    platform.spec.exposure.ingress_class_name = Some("nginx".to_owned());
    world.create(platform).await;
    world.settle().await;
    world
}

async fn edit(world: &World, spec: serde_json::Value) {
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    world.edit(&platform, json!({"spec": spec})).await;
    world.settle().await;
}

async fn status(world: &World) -> KitePlatformStatus {
    let platform = world.find::<KitePlatform>("", "default").await;
    platform.unwrap().status.unwrap()
}

/// Status and reason of a condition.
async fn says(world: &World, type_: &str) -> (String, String, String) {
    let status = status(world).await;
    let found = find(&status.conditions, type_).unwrap().clone();
    (found.status, found.reason, found.message)
}

async fn service(world: &World) -> Option<Service> {
    world.find(HERE, "kite-gateway-external").await
}

#[tokio::test(start_paused = true)]
async fn the_gateways_host_key_is_told_whoever_brings_it() {
    let world = with_platform().await;
    let keys = async || status(&world).await.gateway_host_keys;
    assert!(keys().await.is_empty());
    let conditions = status(&world).await.conditions;
    assert!(find(&conditions, "GatewayHostKeyKept").is_none());
    let pair = RandomKeys.generate("gateway").unwrap();
    let mut metadata = named("kite-gateway-host-key");
    metadata.namespace = Some(HERE.to_owned());
    let data = |pair: &VmKeys| {
        let halves = [
            ("ssh_host_ed25519_key", &pair.host_private),
            ("ssh_host_ed25519_key.pub", &pair.host_public),
        ];
        halves.map(|(name, key)| (name.to_owned(), ByteString(key.clone().into_bytes())))
    };
    // Without a label of Kite's, as somebody makes it by hand.
    let secret = Secret {
        metadata,
        data: Some(data(&pair).into()),
        ..Secret::default()
    };
    let secret = world.create(secret).await;
    world.settle().await;
    let told = keys().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(pair.host_public.starts_with(&told[0].public_key));
    assert!(told[0].fingerprint.starts_with("SHA256:"), "{told:?}");
    assert_eq!(says(&world, "GatewayHostKeyKept").await.1, "Kept");
    let another = RandomKeys.generate("gateway").unwrap();
    let data: BTreeMap<_, _> = data(&another).into();
    world.edit(&secret, json!({"data": data})).await;
    world.settle().await;
    let changed = keys().await;
    assert_ne!(changed, told);
    let (holds, reason, message) = says(&world, "GatewayHostKeyKept").await;
    assert_eq!((&*holds, &*reason), ("False", "Changed"));
    assert!(message.contains(&told[0].fingerprint), "{message}");
    // What users know stays told, and that it is gone.
    world.delete(&secret).await;
    world.settle().await;
    assert_eq!(keys().await, changed);
    let (holds, reason, message) = says(&world, "GatewayHostKeyKept").await;
    assert_eq!((&*holds, &*reason), ("False", "Gone"));
    assert!(message.contains("from a backup"), "{message}");
    assert_eq!(says(&world, "Ready").await.0, "True");
    edit(&world, json!({"gateway": {"enabled": false}})).await;
    let conditions = status(&world).await.conditions;
    assert!(find(&conditions, "GatewayHostKeyKept").is_none());
}

/// A Service that Kite did not make.
async fn make_service(world: &World, name: &str, port: u16) -> Service {
    let mut metadata = named(name);
    metadata.namespace = Some(HERE.to_owned());
    let spec = serde_json::from_value(json!({"ports": [{"port": port}]}));
    let service = Service {
        metadata,
        spec: Some(spec.unwrap()),
        status: None,
    };
    world.create(service).await
}

/// A Gateway with these listeners, of a class that somebody implements.
async fn gateway(world: &World, listeners: &[(&str, &str)]) {
    let class: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "played"},
        "spec": {"controllerName": "example.org/played"},
    }))
    .unwrap();
    let resource = ApiResource {
        group: "gateway.networking.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "gateway.networking.k8s.io/v1".to_owned(),
        kind: "GatewayClass".to_owned(),
        plural: "gatewayclasses".to_owned(),
    };
    let classes = kube::Api::<DynamicObject>::all_with(world.cluster.client().clone(), &resource);
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    let listeners = listeners.iter().map(|(name, protocol)| Listener {
        name: (*name).to_owned(),
        port: if *protocol == "HTTPS" { 443 } else { 80 },
        protocol: (*protocol).to_owned(),
        hostname: None,
    });
    let mut gateway = Gateway::new(
        "edge",
        GatewaySpec {
            gateway_class_name: "played".to_owned(),
            listeners: listeners.collect(),
        },
    );
    gateway.metadata.namespace = Some(HERE.to_owned());
    world.create(gateway).await;
}

#[tokio::test(start_paused = true)]
async fn the_gateway_and_the_web_page_get_addresses() {
    let world = with_platform().await;
    let spec = service(&world).await.unwrap().spec.unwrap();
    assert_eq!(spec.type_.as_deref(), Some("LoadBalancer"));
    assert_eq!(
        spec.selector.unwrap()["app.kubernetes.io/name"],
        "kite-gateway"
    );
    let status = status(&world).await;
    assert_eq!(status.gateway_addresses, [ADDRESS]);
    assert_eq!(status.gateway_port, Some(22));
    assert_eq!(status.addresses, [ADDRESS]);
    assert_eq!(status.url.as_deref(), Some("https://vm.example.org"));
    for type_ in ["Ready", "GatewayExposed", "WebExposed"] {
        assert_eq!(find(&status.conditions, type_).unwrap().status, "True");
    }
    let ingress = world.find::<Ingress>(HERE, "kite-platform").await.unwrap();
    let redirect = "nginx.ingress.kubernetes.io/force-ssl-redirect";
    assert_eq!(ingress.metadata.annotations.unwrap()[redirect], "true");

    // A settled platform writes nothing.
    assert!(world.pass().await.is_empty());
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_load_balancers_is_told_what_to_do() {
    let world = World::new().await;
    world.create(platform()).await;
    world.settle().await;
    let (holds, reason, message) = says(&world, "GatewayExposed").await;
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "Pending"));
    assert!(message.contains("spec.gateway.serviceType"), "{message}");
    assert_eq!(says(&world, "Ready").await.0, "False");

    edit(
        &world,
        json!({"gateway": {"serviceType": "NodePort", "nodePort": 32022, "publicHost": "ssh.example.org"}}),
    )
    .await;
    let status = status(&world).await;
    assert_eq!(status.gateway_port, Some(32022));
    assert_eq!(status.gateway_addresses, ["ssh.example.org"]);
    assert_eq!(says(&world, "GatewayExposed").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn both_ports_and_back_to_what_kubernetes_picks() {
    let world = with_platform().await;
    edit(
        &world,
        json!({"gateway": {"servicePort": 2022, "nodePort": 30022}}),
    )
    .await;
    let ports = async || service(&world).await.unwrap().spec.unwrap().ports.unwrap();
    let seen = ports().await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((seen[0].port, seen[0].node_port), (2022, Some(30022)));
    assert_eq!(status(&world).await.gateway_port, Some(2022));
    edit(
        &world,
        json!({"gateway": {"servicePort": 22, "nodePort": null}}),
    )
    .await;
    let seen = ports().await;
    assert_eq!((seen.len(), seen[0].port), (1, 22));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_exposed_is_removed() {
    let world = with_platform().await;
    edit(
        &world,
        json!({"gateway": {"enabled": false}, "web": {"enabled": false}}),
    )
    .await;
    assert!(service(&world).await.is_none());
    assert!(world.find::<Ingress>(HERE, "kite-platform").await.is_none());
    assert_eq!(says(&world, "GatewayExposed").await.1, "Disabled");
    let (holds, reason, _) = says(&world, "Ready").await;
    assert_eq!((holds.as_str(), reason.as_str()), ("True", "Ready"));
    let status = status(&world).await;
    assert!(status.addresses.is_empty() && status.gateway_addresses.is_empty());

    edit(
        &world,
        json!({"gateway": null, "web": null, "baseDomain": null}),
    )
    .await;
    assert!(service(&world).await.is_some());
    assert!(world.find::<Ingress>(HERE, "kite-platform").await.is_none());
    assert_eq!(says(&world, "WebExposed").await.1, "NoBaseDomain");
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired() {
    let world = with_platform().await;
    let stored = service(&world).await.unwrap();
    world
        .edit(
            &stored,
            json!({
                "metadata": {"labels": null},
                "spec": {"selector": {"app.kubernetes.io/name": "evil"}},
            }),
        )
        .await;
    let stored = world.find::<Ingress>(HERE, "kite-platform").await.unwrap();
    world.edit(&stored, json!({"spec": {"tls": null}})).await;
    world.settle().await;
    let stored = service(&world).await.unwrap();
    assert_eq!(
        stored.spec.unwrap().selector.unwrap()["app.kubernetes.io/name"],
        "kite-gateway"
    );
    assert!(
        stored
            .metadata
            .labels
            .is_some_and(|labels| labels.len() >= 2)
    );
    let stored = world.find::<Ingress>(HERE, "kite-platform").await.unwrap();
    assert!(stored.spec.unwrap().tls.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_taken_back_goes() {
    let world = with_platform().await;
    edit(
        &world,
        json!({"gateway": {"annotations": {"lb.example.org/pool": "ssh"}}}),
    )
    .await;
    let annotations = async || service(&world).await.unwrap().metadata.annotations;
    assert_eq!(annotations().await.unwrap()["lb.example.org/pool"], "ssh");
    edit(&world, json!({"gateway": {"annotations": null}})).await;
    assert!(annotations().await.unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_class_of_load_balancer_takes_a_new_service() {
    let world = with_platform().await;
    let before = service(&world).await.unwrap().metadata.uid;
    edit(
        &world,
        json!({"gateway": {"loadBalancerClass": "example.org/blue"}}),
    )
    .await;
    let after = service(&world).await.unwrap();
    assert_ne!(before, after.metadata.uid);
    assert_eq!(
        after.spec.unwrap().load_balancer_class.as_deref(),
        Some("example.org/blue")
    );
    assert_eq!(says(&world, "Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_of_the_gateway_api_takes_the_place_of_the_ingress() {
    let world = with_platform().await;
    edit(
        &world,
        json!({"exposure": {"ingressClassName": null, "gateway": {"namespace": HERE, "name": "edge"}}}),
    )
    .await;
    assert_eq!(says(&world, "WebExposed").await.1, "GatewayNotFound");
    assert!(
        world.find::<Ingress>(HERE, "kite-platform").await.is_some(),
        "the old way stands until the new one does"
    );

    gateway(&world, &[("web", "HTTP"), ("secure", "HTTPS")]).await;
    world.settle().await;
    let route = world
        .find::<HttpRoute>(HERE, "kite-platform")
        .await
        .unwrap();
    assert_eq!(
        route.spec.parent_refs[0].section_name.as_deref(),
        Some("secure")
    );
    assert_eq!(route.spec.parent_refs.len(), 1);
    let redirect = world
        .find::<HttpRoute>(HERE, "kite-platform-redirect")
        .await;
    let redirect = redirect.unwrap();
    assert_eq!(
        redirect.spec.parent_refs[0].section_name.as_deref(),
        Some("web")
    );
    assert!(redirect.spec.rules[0].backend_refs.is_empty());
    assert!(world.find::<Ingress>(HERE, "kite-platform").await.is_none());

    // The API's Service is not there yet, and the Gateway says so.
    let (_, reason, message) = says(&world, "WebExposed").await;
    assert_eq!(reason, "RouteRefused");
    assert!(message.contains("kite-api"), "{message}");
    make_service(&world, "kite-api", 8080).await;
    world.settle().await;
    assert_eq!(says(&world, "Ready").await.0, "True");
    assert_eq!(
        status(&world).await.url.as_deref(),
        Some("https://vm.example.org")
    );
    assert_eq!(status(&world).await.addresses, ["127.0.0.1"]);

    edit(&world, json!({"web": {"httpsRedirect": false}})).await;
    assert!(
        world
            .find::<HttpRoute>(HERE, "kite-platform-redirect")
            .await
            .is_none()
    );
    let route = world
        .find::<HttpRoute>(HERE, "kite-platform")
        .await
        .unwrap();
    assert_eq!(route.spec.parent_refs.len(), 2);

    edit(
        &world,
        json!({"exposure": {"ingressClassName": "nginx", "gateway": null}}),
    )
    .await;
    assert!(world.find::<Ingress>(HERE, "kite-platform").await.is_some());
    assert!(world.all::<HttpRoute>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_https_is_said_to_be_unencrypted() {
    let world = with_platform().await;
    gateway(&world, &[("web", "HTTP")]).await;
    make_service(&world, "kite-api", 8080).await;
    let gateway = json!({"namespace": HERE, "name": "edge"});
    edit(
        &world,
        json!({"exposure": {"ingressClassName": null, "gateway": gateway}}),
    )
    .await;
    let (holds, _, message) = says(&world, "WebExposed").await;
    assert!(
        holds == "True" && message.contains("unencrypted"),
        "{message}"
    );
    assert_eq!(
        status(&world).await.url.as_deref(),
        Some("http://vm.example.org")
    );
    assert!(
        world
            .find::<HttpRoute>(HERE, "kite-platform-redirect")
            .await
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_platform_takes_along_what_it_made_and_leaves_vms_alone() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    assert!(service(&world).await.is_some());
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let before = world.vm("web").await.metadata.uid;
    world.delete(&platform).await;
    world.settle().await;
    assert!(world.find::<KitePlatform>("", "default").await.is_none());
    assert!(service(&world).await.is_none());
    assert!(world.find::<Ingress>(HERE, "kite-platform").await.is_none());
    let vm = world.vm("web").await;
    assert_eq!(vm.metadata.uid, before);
    assert_eq!(vm.status.unwrap().phase, Some(VmPhase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_service_of_somebody_elses_is_neither_taken_nor_deleted() {
    let world = world().await;
    let foreign = make_service(&world, "kite-gateway-external", 22).await;
    let uid = foreign.metadata.uid;
    world.create(platform()).await;
    world.settle().await;
    let (_, reason, message) = says(&world, "GatewayExposed").await;
    assert_eq!(reason, "NameTaken", "{message}");
    edit(&world, json!({"gateway": {"enabled": false}})).await;
    assert_eq!(service(&world).await.unwrap().metadata.uid, uid);
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_named() {
    let world = world().await;
    let namespace = world.find::<Namespace>("", HERE).await.unwrap();
    world.delete(&namespace).await;
    world.create(platform()).await;
    world.settle().await;
    let (_, reason, message) = says(&world, "Ready").await;
    assert_eq!(reason, "NamespaceMissing");
    assert!(message.contains("--namespace"), "{message}");
    world
        .create(Namespace {
            metadata: named(HERE),
            ..Namespace::default()
        })
        .await;
    world.settle().await;
    assert!(service(&world).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn there_is_one_platform_and_its_fields_agree() {
    let world = world().await;
    let mut other = platform();
    other.metadata.name = Some("other".to_owned());
    let error = world.try_create(other).await.unwrap_err();
    assert!(error.to_string().contains("its name is default"), "{error}");
    let mut both = platform();
    both.spec.gateway.service_type = GatewayServiceType::NodePort;
    both.spec.gateway.load_balancer_class = Some("x".to_owned());
    let error = world.try_create(both).await.unwrap_err();
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("leave it out"), "{error}");
    assert!(world.find::<KitePlatform>("", "default").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_class_of_load_balancer_that_is_taken_back_takes_a_new_service() {
    let world = with_platform().await;
    edit(
        &world,
        json!({"gateway": {"loadBalancerClass": "example.org/blue"}}),
    )
    .await;
    let before = service(&world).await.unwrap();
    edit(&world, json!({"gateway": {"loadBalancerClass": null}})).await;
    let after = service(&world).await.unwrap();
    assert_ne!(before.metadata.uid, after.metadata.uid);
    let spec = after.spec.unwrap();
    assert_ne!(
        spec.load_balancer_class.as_deref(),
        Some("example.org/blue")
    );
    assert_eq!(says(&world, "Ready").await.0, "True");
    assert_eq!(world.settle().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn users_are_told_the_port_of_the_nodes_where_the_gateway_is() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let told = async || {
        let status = world.vm("web").await.status.unwrap();
        status.access.unwrap().ssh_command
    };
    let command = |text: &str| Some(text.to_owned());
    assert_eq!(told().await, command("ssh id-web@vm.example.org"));

    edit(&world, json!({"gateway": {"serviceType": "NodePort"}})).await;
    let picked = status(&world).await.gateway_port.unwrap();
    assert_ne!(picked, 22);
    let at_node = format!("ssh -p {picked} id-web@vm.example.org");
    assert_eq!(told().await, Some(at_node));

    edit(&world, json!({"gateway": {"nodePort": 32022}})).await;
    assert_eq!(told().await, command("ssh -p 32022 id-web@vm.example.org"));
    // Something in front of the nodes has another port.
    edit(&world, json!({"gateway": {"publicPort": 2022}})).await;
    assert_eq!(told().await, command("ssh -p 2022 id-web@vm.example.org"));
}

#[tokio::test(start_paused = true)]
async fn users_are_told_the_gateways_own_address_where_it_has_no_name() {
    let world = world().await;
    world.create(image("debian-12")).await;
    world
        .create(KiteUser::new("ann", KiteUserSpec::new("ann")))
        .await;
    let mut platform = platform();
    platform.spec.base_domain = None;
    platform.spec.gateway.service_type = GatewayServiceType::NodePort;
    world.create(platform).await;
    world.settle().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let told = async || {
        let status = world.vm("web").await.status.unwrap();
        status.access.unwrap().ssh_command
    };
    assert_eq!(told().await, None, "nobody knows where it is");

    edit(&world, json!({"gateway": {"serviceType": "LoadBalancer"}})).await;
    assert_eq!(told().await, Some(format!("ssh id-web@{ADDRESS}")));
    edit(
        &world,
        json!({"gateway": {"publicHost": "ssh.example.org"}}),
    )
    .await;
    assert_eq!(told().await.as_deref(), Some("ssh id-web@ssh.example.org"));
    edit(
        &world,
        json!({"gateway": {"publicHost": null, "enabled": false}}),
    )
    .await;
    assert_eq!(told().await, None);
}

#[tokio::test(start_paused = true)]
async fn whether_the_gateway_sees_clients_is_a_condition_of_its_own() {
    let world = with_platform().await;
    let (holds, reason, _) = says(&world, "ClientAddressesSeen").await;
    assert_eq!((&*holds, &*reason), ("True", "TrafficPolicyLocal"));
    let policy = |service: Service| service.spec.unwrap().external_traffic_policy;
    let service = service(&world).await.unwrap();
    assert_eq!(policy(service).as_deref(), Some("Local"), "by default");
    edit(&world, json!({"gateway": {"trafficPolicy": "Cluster"}})).await;
    let (holds, reason, message) = says(&world, "ClientAddressesSeen").await;
    assert_eq!((&*holds, &*reason), ("False", "TrafficPolicyCluster"));
    for remedy in ["trafficPolicy to Local", "--proxy-protocol-from"] {
        assert!(message.contains(remedy), "{message}");
    }
    assert_eq!(
        says(&world, "Ready").await.0,
        "True",
        "it is no fault of its own"
    );
    edit(&world, json!({"gateway": {"enabled": false}})).await;
    let status = status(&world).await;
    assert!(find(&status.conditions, "ClientAddressesSeen").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_gateway_is_told_the_addresses_of_nodes_pods_and_load_balancers() {
    let world = with_platform().await;
    let told = async || status(&world).await.cluster_addresses;
    assert_eq!(told().await, [format!("{ADDRESS}/32")]);
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "node-1"},
        "spec": {"podCIDR": "10.42.3.0/24", "podCIDRs": ["10.42.3.0/24", "2001:db8:42:3::/64"]},
        "status": {"addresses": [
            {"type": "InternalIP", "address": "192.0.2.11"},
            {"type": "Hostname", "address": "node-1"},
        ]},
    }))
    .unwrap();
    let node = world.create(node).await;
    world.settle().await;
    let all = [
        "10.42.3.0/24",
        "192.0.2.11/32",
        "192.0.2.7/32",
        "2001:db8:42:3::/64",
    ];
    assert_eq!(told().await, all);
    let second = json!({
        "metadata": {"name": "node-2"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.12"}]},
    });
    let second: Node = serde_json::from_value(second).unwrap();
    let second = world.create(second).await;
    world.settle().await;
    assert_eq!(told().await[2], "192.0.2.12/32");
    world.delete(&second).await;
    world.delete(&node).await;
    world.settle().await;
    assert_eq!(told().await, [format!("{ADDRESS}/32")]);
}

/// An object of a kind that this test needs nothing else of.
fn something(value: serde_json::Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// Each setting that names an object is told of with the remedy while there is none, and
/// no more when it comes.
#[tokio::test(start_paused = true)]
async fn settings_that_name_what_is_not_there_are_told_of_until_it_comes() {
    let world = World::new().await;
    let mut platform = platform();
    platform.spec.storage_class = Some("gold".to_owned());
    world.create(platform).await;
    for (setting, spec, object) in [
        (
            "spec.storageClass names StorageClass gold",
            json!({}),
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                   "metadata": {"name": "gold"}, "provisioner": "csi.example.org"}),
        ),
        (
            "spec.imageNamespace names Namespace golden",
            json!({"imageNamespace": "golden"}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "golden"}}),
        ),
        (
            "spec.exposure.ingressClassName names IngressClass inner",
            json!({"exposure": {"ingressClassName": "inner"}}),
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
                   "metadata": {"name": "inner"}, "spec": {"controller": "example.org/inner"}}),
        ),
        (
            "spec.exposure.controllerNamespaces names Namespace edge",
            json!({"exposure": {"controllerNamespaces": ["edge"]}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}),
        ),
        (
            "spec.exposure.certificate.clusterIssuer names ClusterIssuer own",
            json!({"exposure": {"certificate": {"clusterIssuer": "own"}}}),
            json!({"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer",
                   "metadata": {"name": "own"}, "spec": {}}),
        ),
        (
            "spec.exposure.certificate.secretName names Secret kite/wildcard",
            json!({"exposure": {"certificate": {"clusterIssuer": null, "secretName": "wildcard"}}}),
            json!({"apiVersion": "v1", "kind": "Secret",
                   "metadata": {"name": "wildcard", "namespace": HERE}}),
        ),
        (
            "spec.signInProviders[].clientSecretKey names Secret kite/kite-oidc",
            json!({"signInProviders": [{"name": "staff", "issuer": "https://login.example.org",
                                        "clientId": "kite", "clientSecretKey": "staff"}]}),
            json!({"apiVersion": "v1", "kind": "Secret",
                   "metadata": {"name": "kite-oidc", "namespace": HERE},
                   "stringData": {"staff": "s3cret", "staff.issuer": "https://login.example.org"}}),
        ),
        (
            "spec.exposure.gateway names Gateway edge/front",
            json!({"exposure": {"ingressClassName": null, "certificate": null,
                                "gateway": {"namespace": "edge", "name": "front"}}}),
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                   "metadata": {"name": "front", "namespace": "edge"},
                   "spec": {"gatewayClassName": "played",
                            "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]}}),
        ),
    ] {
        edit(&world, spec).await;
        let (holds, reason, message) = says(&world, "ResolvedRefs").await;
        assert_eq!(
            (holds.as_str(), reason.as_str()),
            ("False", "RefNotFound"),
            "{setting}"
        );
        assert!(message.starts_with(setting), "{message}");
        for part in ["create it", "kubectl edit kiteplatform default"] {
            assert!(message.contains(part), "{message}");
        }
        let object = something(object);
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", "v1"));
        let kind = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk(&kind);
        let client = world.cluster.client().clone();
        let api = match &object.metadata.namespace {
            Some(namespace) => kube::Api::namespaced_with(client, namespace, &resource),
            None => kube::Api::<DynamicObject>::all_with(client, &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
        world.settle().await;
        let (holds, _, message) = says(&world, "ResolvedRefs").await;
        assert_eq!(holds, "True", "{setting}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_that_is_not_there_is_told_of_as_one() {
    let world = with_platform().await;
    let (holds, _, message) = says(&world, "ResolvedRefs").await;
    assert_eq!(holds, "False");
    let said = "spec.storageClass is not set and stands for StorageClass kite-vm-storage";
    assert!(message.contains(said), "{message}");
}
