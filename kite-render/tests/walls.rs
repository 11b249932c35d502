//! Who reaches whom through the walls, asked of an evaluator of network policies
//! (Kubernetes `networking.k8s.io/v1`): policies add up, a pod that none selects
//! is open, an empty list of peers or ports means all of them.
//!
//! Where the API leaves a choice, the evaluator takes the one that lets more
//! through: an `ipBlock` also means pods whose address lies in it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use k8s_openapi::{
    api::{
        core::v1::Node,
        networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kite_core::crd::{Exposure, GatewayReference, KiteUser, KiteUserSpec};
use kite_render::{User, walls};
use proptest::prelude::*;
use serde_json::json;

/// A pod, or an address outside of the cluster's pods.
#[derive(Clone, Debug)]
struct Place {
    /// The pod's namespace and labels.
    pod: Option<(String, BTreeMap<String, String>)>,
    address: IpAddr,
}

fn pod(namespace: &str, labels: &[(&str, &str)], address: &str) -> Place {
    let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    Place {
        pod: Some((namespace.to_owned(), labels.collect())),
        address: address.parse().unwrap(),
    }
}

fn address(address: &str) -> Place {
    Place {
        pod: None,
        address: address.parse().unwrap(),
    }
}

fn contains(cidr: &str, address: IpAddr) -> bool {
    let (base, prefix) = cidr.split_once('/').unwrap();
    let prefix: u32 = prefix.parse().unwrap();
    match (base.parse().unwrap(), address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            let differing = u32::from(base) ^ u32::from(address);
            differing.checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            let differing = u128::from(base) ^ u128::from(address);
            differing.checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    assert!(selector.match_expressions.is_none(), "not evaluated here");
    let mut wanted = selector.match_labels.iter().flatten();
    wanted.all(|(k, v)| labels.get(k) == Some(v))
}

fn is_in_block(block: &IPBlock, address: IpAddr) -> bool {
    let mut excepted = block.except.iter().flatten();
    contains(&block.cidr, address) && !excepted.any(|cidr| contains(cidr, address))
}

fn is_peer(peer: &NetworkPolicyPeer, home: &str, place: &Place) -> bool {
    if let Some(block) = &peer.ip_block {
        return is_in_block(block, place.address);
    }
    let Some((namespace, labels)) = &place.pod else {
        return false;
    };
    let name = [("kubernetes.io/metadata.name".to_owned(), namespace.clone())].into();
    let in_namespace = match &peer.namespace_selector {
        Some(selector) => selects(selector, &name),
        None => namespace == home,
    };
    let is_pod = peer.pod_selector.as_ref();
    in_namespace && is_pod.is_none_or(|selector| selects(selector, labels))
}

fn is_port(port: &NetworkPolicyPort, protocol: &str, number: i32) -> bool {
    let same = port.protocol.as_deref().unwrap_or("TCP") == protocol;
    let in_range = match (&port.port, port.end_port) {
        (None, _) => true,
        (Some(IntOrString::Int(first)), Some(last)) => (*first..=last).contains(&number),
        (Some(IntOrString::Int(only)), None) => *only == number,
        (Some(IntOrString::String(name)), _) => panic!("named port {name} is not evaluated"),
    };
    same && in_range
}

fn any_peer(peers: Option<&Vec<NetworkPolicyPeer>>, home: &str, place: &Place) -> bool {
    let peers = peers.map(Vec::as_slice).unwrap_or_default();
    peers.is_empty() || peers.iter().any(|peer| is_peer(peer, home, place))
}

fn any_port(ports: Option<&Vec<NetworkPolicyPort>>, protocol: &str, number: i32) -> bool {
    let ports = ports.map(Vec::as_slice).unwrap_or_default();
    ports.is_empty() || ports.iter().any(|port| is_port(port, protocol, number))
}

/// A cluster's network policies.
struct Network(Vec<NetworkPolicy>);

impl Network {
    /// The walls of ann and bob, in a cluster with these nodes.
    fn of(nodes: &[Node]) -> Self {
        let infrastructure = walls::addresses(nodes);
        let walls = walls::Walls::default().around(&infrastructure);
        let mut all = Vec::new();
        for name in ["ann", "bob"] {
            let mut object = KiteUser::new(name, KiteUserSpec::new(name));
            object.metadata.uid = Some(format!("uid-{name}"));
            let user = User::of(&object).unwrap();
            all.extend(walls::policies(&user, &walls, &common::image_namespaces()));
        }
        Self(all)
    }

    /// The policies that select `place` for this direction.
    fn selecting<'a>(
        &'a self,
        place: &'a Place,
        direction: &'a str,
    ) -> impl Iterator<Item = (&'a NetworkPolicy, &'a str)> {
        self.0.iter().filter_map(move |policy| {
            let (namespace, labels) = place.pod.as_ref()?;
            let spec = policy.spec.as_ref().unwrap();
            let home = policy.metadata.namespace.as_deref().unwrap();
            let types = spec.policy_types.as_ref().unwrap();
            let selector = spec.pod_selector.as_ref().unwrap();
            let is_meant = home == namespace
                && selects(selector, labels)
                && types.iter().any(|it| it == direction);
            is_meant.then_some((policy, home))
        })
    }

    fn lets_out(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
        let mut policies = self.selecting(from, "Egress").peekable();
        policies.peek().is_none()
            || policies.any(|(policy, home)| {
                let mut rules = policy.spec.as_ref().unwrap().egress.iter().flatten();
                rules.any(|rule| {
                    any_peer(rule.to.as_ref(), home, to)
                        && any_port(rule.ports.as_ref(), protocol, port)
                })
            })
    }

    fn lets_in(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
        let mut policies = self.selecting(to, "Ingress").peekable();
        policies.peek().is_none()
            || policies.any(|(policy, home)| {
                let mut rules = policy.spec.as_ref().unwrap().ingress.iter().flatten();
                rules.any(|rule| {
                    any_peer(rule.from.as_ref(), home, from)
                        && any_port(rule.ports.as_ref(), protocol, port)
                })
            })
    }

    fn reaches(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
        self.lets_out(from, to, protocol, port) && self.lets_in(from, to, protocol, port)
    }
}

/// A VM of `user`, at an address of the pods of a node.
fn vm(user: &str, address: &str) -> Place {
    let labels = [
        ("kubevirt.io", "virt-launcher"),
        ("vm.kubevirt.io/name", "web"),
    ];
    pod(&format!("kite-user-{user}"), &labels, address)
}

fn node(addresses: &[(&str, &str)], pods: &[&str]) -> Node {
    let addresses = addresses
        .iter()
        .map(|(type_, address)| json!({"type": type_, "address": address}));
    serde_json::from_value(json!({
        "metadata": {"name": "node-a"},
        "spec": {"podCIDRs": pods},
        "status": {"addresses": addresses.collect::<Vec<_>>()},
    }))
    .unwrap()
}

/// Nodes with public addresses, whose pods have public IPv6 addresses.
fn public_nodes() -> Vec<Node> {
    vec![node(
        &[
            ("InternalIP", "203.0.113.10"),
            ("InternalIP", "2a01:4f8:c0c:1::1"),
            ("ExternalIP", "198.51.100.7"),
            ("Hostname", "node-a"),
        ],
        &["10.42.0.0/24", "2a01:4f8:c0c:2::/64"],
    )]
}

/// ann's VM at the address of the family of `other`.
fn ann_towards(other: &Place) -> Place {
    if other.address.is_ipv4() {
        vm("ann", "10.42.0.5")
    } else {
        vm("ann", "2a01:4f8:c0c:2::5")
    }
}

#[test]
fn a_vm_reaches_names_and_the_internet() {
    let network = Network::of(&public_nodes());
    let dns = [("k8s-app", "kube-dns")];
    for (port, protocol, there) in [
        (53, "UDP", pod("kube-system", &dns, "10.42.0.2")),
        (53, "TCP", pod("kube-system", &dns, "2a01:4f8:c0c:2::2")),
        (443, "TCP", address("1.1.1.1")),
        (25, "TCP", address("203.0.113.11")),
        (443, "UDP", address("2606:4700:4700::1111")),
        (22, "TCP", address("2a01:4f8:c0c:3::1")),
    ] {
        let from = ann_towards(&there);
        assert!(network.reaches(&from, &there, protocol, port), "{there:?}");
    }
}

#[test]
fn a_vm_reaches_nothing_else() {
    let network = Network::of(&public_nodes());
    let api = [("component", "kube-apiserver")];
    let dns = [("k8s-app", "kube-dns")];
    for (what, port, there) in [
        ("the API server's Service", 443, address("10.96.0.1")),
        ("the API server's Service of k3s", 443, address("10.43.0.1")),
        (
            "the API server's Service, IPv6",
            443,
            address("fd00:10:96::1"),
        ),
        ("the API server", 6443, address("203.0.113.10")),
        ("the API server, IPv6", 6443, address("2a01:4f8:c0c:1::1")),
        (
            "the API server in the cluster",
            6443,
            pod("kube-system", &api, "192.168.5.2"),
        ),
        ("a node's kubelet", 10250, address("198.51.100.7")),
        ("a node inside", 10250, address("172.18.0.2")),
        ("metadata", 80, address("169.254.169.254")),
        ("metadata, IPv6", 80, address("fd00:ec2::254")),
        ("metadata of Azure", 80, address("168.63.129.16")),
        ("metadata of Alibaba", 80, address("100.100.100.200")),
        ("link-local", 80, address("fe80::1")),
        ("loopback", 80, address("127.0.0.1")),
        ("loopback, IPv6", 80, address("::1")),
        ("IPv4 in IPv6", 80, address("::ffff:10.0.0.1")),
        (
            "a private address by 6to4",
            80,
            address("2002:0a00:0001::1"),
        ),
        ("a private address by NAT64", 80, address("64:ff9b::0a00:1")),
        ("multicast", 80, address("224.0.0.1")),
        ("multicast, IPv6", 80, address("ff02::1")),
        ("bob's VM", 22, vm("bob", "10.42.0.9")),
        ("bob's VM, IPv6", 22, vm("bob", "2a01:4f8:c0c:2::9")),
        ("a platform pod", 8080, pod("kite", &[], "10.42.0.11")),
        (
            "a platform pod, IPv6",
            8080,
            pod("kite", &[], "2a01:4f8:c0c:2::11"),
        ),
        ("CDI", 8443, pod("cdi", &[], "2a01:4f8:c0c:2::12")),
        (
            "another port of the name server",
            9153,
            pod("kube-system", &dns, "2a01:4f8:c0c:2::2"),
        ),
    ] {
        let from = ann_towards(&there);
        for protocol in ["TCP", "UDP"] {
            assert!(!network.lets_out(&from, &there, protocol, port), "{what}");
        }
    }
}

#[test]
fn only_the_gateway_and_the_ingress_controller_come_in() {
    let network = Network::of(&[]);
    let gateway = pod(
        "kite",
        &[("app.kubernetes.io/name", "kite-gateway")],
        "10.42.0.20",
    );
    let ingress = pod("ingress-nginx", &[], "10.42.0.21");
    let traefik = [("app.kubernetes.io/name", "traefik")];
    let traefik = pod("kube-system", &traefik, "10.42.0.22");
    let web = vm("ann", "10.42.0.5");
    let from = [
        ("the gateway", &gateway, vec![22]),
        ("the ingress controller", &ingress, vec![80]),
        ("Traefik of k3s", &traefik, vec![80]),
        ("bob", &vm("bob", "10.42.0.9"), vec![]),
        ("ann's other VM", &vm("ann", "10.42.0.6"), vec![]),
        (
            "another platform pod",
            &pod("kite", &[], "10.42.0.23"),
            vec![],
        ),
        (
            "a like-named pod",
            &pod(
                "evil",
                &[("app.kubernetes.io/name", "kite-gateway")],
                "10.42.0.24",
            ),
            vec![],
        ),
        (
            "kube-system",
            &pod("kube-system", &[], "10.42.0.25"),
            vec![],
        ),
        ("CDI", &pod("cdi", &[], "10.42.0.26"), vec![]),
        ("the internet", &address("1.1.1.1"), vec![]),
    ];
    for (who, from, ports) in from {
        for port in [22, 80, 443, 8443, 5900] {
            let may = network.lets_in(from, &web, "TCP", port);
            assert_eq!(may, ports.contains(&port), "{who}, port {port}");
            assert!(!network.lets_in(from, &web, "UDP", port), "{who}");
        }
    }
}

#[test]
fn whoever_exposes_vms_comes_in_and_nobody_else_does() {
    let object = common::user();
    let user = User::of(&object).unwrap();
    let edge = GatewayReference {
        namespace: "edge".to_owned(),
        name: "public".to_owned(),
    };
    let by_default = Exposure::default();
    let by_gateway = Exposure {
        gateway: Some(edge.clone()),
        ..Exposure::default()
    };
    let named = Exposure {
        gateway: Some(edge),
        controller_namespaces: vec!["envoy-gateway-system".to_owned()],
        ..Exposure::default()
    };
    let web = vm("ann", "10.42.0.5");
    for (exposure, comes_in) in [
        (by_default, vec!["ingress-nginx", "traefik"]),
        (by_gateway, vec!["ingress-nginx", "traefik", "edge"]),
        (named, vec!["envoy-gateway-system"]),
    ] {
        let walls = walls::Walls::default().exposed_by(&exposure);
        let policies = walls::policies(&user, &walls, &common::image_namespaces());
        let network = Network(policies);
        for namespace in [
            "ingress-nginx",
            "traefik",
            "edge",
            "envoy-gateway-system",
            "kite",
        ] {
            let from = pod(namespace, &[], "10.42.0.21");
            let may = comes_in.contains(&namespace);
            assert_eq!(network.lets_in(&from, &web, "TCP", 80), may, "{namespace}");
            assert!(!network.lets_in(&from, &web, "TCP", 22), "{namespace}");
        }
    }
}

#[test]
fn cdi_fills_disks_and_nobody_else_does() {
    let network = Network::of(&[]);
    let worker = [("app", "containerized-data-importer")];
    let worker = pod("kite-user-ann", &worker, "10.42.0.7");
    let sender = [("cdi.kubevirt.io", "cdi-clone-source")];
    for (who, from, may) in [
        ("CDI", pod("cdi", &[], "10.42.0.26"), true),
        (
            "a golden image",
            pod("kite-images", &sender, "10.42.0.30"),
            true,
        ),
        (
            "bob's sender",
            pod("kite-user-bob", &sender, "10.42.0.31"),
            false,
        ),
        (
            "another pod there",
            pod("kite-images", &[], "10.42.0.32"),
            false,
        ),
        ("ann's VM", vm("ann", "10.42.0.5"), false),
    ] {
        assert_eq!(network.lets_in(&from, &worker, "TCP", 8443), may, "{who}");
    }
}

#[test]
fn what_is_blocked_already_is_not_blocked_again() {
    let inside = node(
        &[("InternalIP", "10.0.0.4"), ("InternalIP", "fd00::4")],
        &["10.42.0.0/24", "fd01::/64"],
    );
    let walls = walls::Walls::default();
    let around = walls.around(&walls::addresses(&[inside]));
    assert_eq!(walls, around);
    let around = walls.around(&walls::addresses(&public_nodes()));
    let more = |all: &[String], some: &[String]| -> Vec<String> {
        all.iter()
            .filter(|it| !some.contains(it))
            .cloned()
            .collect()
    };
    assert_eq!(
        more(&around.blocked_ipv4, &walls.blocked_ipv4),
        ["198.51.100.7/32", "203.0.113.10/32"]
    );
    assert_eq!(
        more(&around.blocked_ipv6, &walls.blocked_ipv6),
        ["2a01:4f8:c0c:1::1/128", "2a01:4f8:c0c:2::/64"]
    );
    // What is no range of addresses is left out.
    let odd: BTreeSet<String> = ["x", "1.2.3.4/33"].map(str::to_owned).into();
    assert_eq!(walls.around(&odd), walls);
}

#[test]
fn what_blocks_everything_closes_the_internet() {
    let object = common::user();
    let user = User::of(&object).unwrap();
    let egress = |blocked: &[&str]| {
        let blocked = blocked.iter().map(ToString::to_string).collect();
        let walls = walls::Walls::default().around(&blocked);
        let mut policies = walls::policies(&user, &walls, &BTreeSet::new());
        let egress = policies.pop().unwrap();
        assert_eq!(egress.metadata.name.as_deref(), Some(walls::EGRESS_POLICY));
        serde_json::to_string(&egress.spec).unwrap()
    };
    // An exception must lie inside of what it is an exception of.
    for (blocked, open) in [
        (&["0.0.0.0/0"][..], &["2000::/3"][..]),
        (&["2000::/3"], &["0.0.0.0/0"]),
        (&["::/0", "10.0.0.0/8"], &["0.0.0.0/0"]),
        (&["0.0.0.0/0", "::/0"], &[]),
    ] {
        let egress = egress(blocked);
        for all in ["0.0.0.0/0", "2000::/3"] {
            let is_open = egress.contains(&format!("\"cidr\":\"{all}\""));
            assert_eq!(is_open, open.contains(&all), "{blocked:?}: {egress}");
            assert!(!egress.contains(&format!("[\"{all}\"")), "{egress}");
        }
        assert!(egress.contains("Egress"), "{egress}");
    }
}

proptest! {
    #[test]
    fn no_address_of_the_cluster_is_ever_reached(
        host in any::<u32>(),
        range in 0_usize..12,
        port in 1..65_536_i32,
        six in any::<u128>(),
    ) {
        let network = Network::of(&public_nodes());
        let blocked = &walls::Walls::default().blocked_ipv4[range];
        let (base, prefix) = blocked.split_once('/').unwrap();
        let base = u32::from(base.parse::<Ipv4Addr>().unwrap());
        let mask = u32::MAX.checked_shr(prefix.parse().unwrap()).unwrap_or(0);
        let there = Place { pod: None, address: Ipv4Addr::from(base | (host & mask)).into() };
        prop_assert!(!network.lets_out(&vm("ann", "10.42.0.5"), &there, "TCP", port));
        // Outside of 2000::/3 there is no internet.
        let outside = Ipv6Addr::from(six);
        if outside.segments()[0] >> 13 != 1 {
            let there = Place { pod: None, address: outside.into() };
            prop_assert!(!network.lets_out(&vm("ann", "2a01:4f8:c0c:2::5"), &there, "TCP", port));
        }
        let pod = (0x2a01_04f8_0c0c_0002_u128 << 64) | (six & u128::from(u64::MAX));
        let there = Place { pod: None, address: Ipv6Addr::from(pod).into() };
        prop_assert!(!network.lets_out(&vm("ann", "2a01:4f8:c0c:2::5"), &there, "TCP", port));
    }
}
