//! Who reaches whom: through the network policies, and Kite's own pods.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod evaluator;
mod own;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use evaluator::{Network, Place, address, pod};
use k8s_openapi::api::core::v1::Node;
use kite_core::crd::{Exposure, GatewayReference};
use kite_render::{User, isolation};
use proptest::prelude::*;
use serde_json::json;

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
fn where_vms_ask_others_for_names_the_clusters_dns_is_closed() {
    let dns = [("k8s-app", "kube-dns")];
    let the_clusters = pod("kube-system", &dns, "10.42.0.2");
    let private = address("10.9.0.53");
    let named = ["10.9.0.53".to_owned(), "2001:db8::53".to_owned()];
    for (nameservers, ask_cluster, clusters, own) in [
        (&[][..], true, true, false),
        // Without others all ask it.
        (&[][..], false, true, false),
        (&named[..], true, true, true),
        (&named[..], false, false, true),
    ] {
        let isolation =
            isolation::Isolation::default().around(&isolation::addresses(&public_nodes()));
        let network = Network::behind(&isolation.asking(nameservers, ask_cluster));
        for protocol in ["UDP", "TCP"] {
            let may = |there: &Place, port| {
                let from = ann_towards(there);
                network.lets_out(&from, there, protocol, port)
            };
            assert_eq!(may(&the_clusters, 53), clusters, "{nameservers:?}");
            assert_eq!(may(&private, 53), own, "{nameservers:?}");
            assert_eq!(may(&address("2001:db8::53"), 53), own, "{nameservers:?}");
            assert!(!may(&private, 853) && !may(&the_clusters, 9153));
            assert!(may(&address("1.1.1.1"), 443), "the internet stays open");
        }
    }
    // Also where VMs are kept from everything else.
    let everything = ["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let isolation = isolation::Isolation::default().around(&everything);
    let network = Network::behind(&isolation.asking(&named, false));
    let from = ann_towards(&private);
    assert!(network.lets_out(&from, &private, "UDP", 53));
    assert!(!network.lets_out(&from, &address("9.9.9.9"), "UDP", 53));
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
        let isolation = isolation::Isolation::default().exposed_by(&exposure);
        let policies = isolation::policies(&user, &isolation, &common::image_namespaces());
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
    let isolation = isolation::Isolation::default();
    let around = isolation.around(&isolation::addresses(&[inside]));
    assert_eq!(isolation, around);
    let around = isolation.around(&isolation::addresses(&public_nodes()));
    let more = |all: &[String], some: &[String]| -> Vec<String> {
        all.iter()
            .filter(|it| !some.contains(it))
            .cloned()
            .collect()
    };
    assert_eq!(
        more(&around.blocked_ipv4, &isolation.blocked_ipv4),
        ["198.51.100.7/32", "203.0.113.10/32"]
    );
    assert_eq!(
        more(&around.blocked_ipv6, &isolation.blocked_ipv6),
        ["2a01:4f8:c0c:1::1/128", "2a01:4f8:c0c:2::/64"]
    );
    // What is no range of addresses is left out.
    let odd: BTreeSet<String> = ["x", "1.2.3.4/33"].map(str::to_owned).into();
    assert_eq!(isolation.around(&odd), isolation);
}

#[test]
fn what_blocks_everything_closes_the_internet() {
    let object = common::user();
    let user = User::of(&object).unwrap();
    let egress = |blocked: &[&str]| {
        let blocked = blocked
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<String>>();
        let isolation = isolation::Isolation::default().around(&blocked);
        let mut policies = isolation::policies(&user, &isolation, &BTreeSet::new());
        let egress = policies.pop().unwrap();
        assert_eq!(
            egress.metadata.name.as_deref(),
            Some(isolation::EGRESS_POLICY)
        );
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
        let blocked = &isolation::Isolation::default().blocked_ipv4[range];
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
