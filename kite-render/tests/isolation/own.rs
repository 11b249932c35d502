//! Kite's own pods.

use kite_render::{
    install::{Installation, Monitoring, Process},
    isolation::{self, Pods},
};

use crate::{
    evaluator::{Network, Place, address, pod},
    public_nodes, vm,
};

/// A pod of one of Kite's processes.
fn kites(process: Process) -> Place {
    let labels = [("app.kubernetes.io/name", process.name())];
    pod("kite", &labels, "10.42.0.20")
}

/// Somebody's pod.
fn other(namespace: &str) -> Place {
    pod(namespace, &[("app", "other")], "10.42.0.9")
}

#[test]
fn kites_own_pods_are_reached_by_those_whom_they_serve() {
    let installation = Installation {
        monitoring: Some(Monitoring {
            namespace: "monitoring".to_owned(),
        }),
        ..Installation::default()
    };
    let network = Network::of(&public_nodes()).with(&installation);
    let (gateway, api) = (kites(Process::Gateway), kites(Process::Api));
    for from in [
        address("192.0.2.1"),
        other("default"),
        other("ingress-nginx"),
    ] {
        assert!(network.lets_in(&from, &gateway, "TCP", 2222), "{from:?}");
    }
    let ingress = [other("ingress-nginx"), other("traefik")];
    for from in &ingress {
        assert!(network.reaches(from, &api, "TCP", 8080), "{from:?}");
    }
    for from in [
        other("default"),
        other("kite-user-ann"),
        address("192.0.2.1"),
    ] {
        assert!(!network.lets_in(&from, &api, "TCP", 8080), "{from:?}");
    }
    for process in Process::ALL {
        let (there, port) = (kites(process), i32::from(process.admin_port()));
        assert!(network.lets_in(&other("monitoring"), &there, "TCP", port));
        for from in [
            other("default"),
            vm("ann", "10.42.0.5"),
            address("192.0.2.1"),
        ] {
            assert!(!network.lets_in(&from, &there, "TCP", port), "{from:?}");
        }
    }
    let quiet = Network::of(&public_nodes()).with(&Installation::default());
    assert!(!quiet.lets_in(&other("monitoring"), &gateway, "TCP", 8082));
}

#[test]
fn kites_own_pods_reach_what_they_need() {
    let terminals = Installation {
        terminals: true,
        ..Installation::default()
    };
    // What `kite-controller --terminals` does.
    let mut isolation = isolation::Isolation::default();
    let api = Pods::labelled("kite", "app.kubernetes.io/name", "kite-api");
    isolation.gateway.push(api);
    let with_terminals = Network::behind(&isolation).with(&terminals);
    let without = Network::of(&public_nodes()).with(&Installation::default());
    let ann = vm("ann", "10.42.0.5");
    let dns = pod("kube-system", &[("k8s-app", "kube-dns")], "10.42.0.2");
    for (process, enters, enters_with_terminals) in [
        (Process::Controller, false, false),
        (Process::Gateway, true, true),
        (Process::Api, false, true),
    ] {
        let from = kites(process);
        assert_eq!(
            without.reaches(&from, &ann, "TCP", 22),
            enters,
            "{process:?}"
        );
        let reached = with_terminals.reaches(&from, &ann, "TCP", 22);
        assert_eq!(reached, enters_with_terminals, "{process:?}");
        for network in [&without, &with_terminals] {
            assert!(network.lets_out(&from, &address("203.0.113.10"), "TCP", 6443));
            assert!(network.lets_out(&from, &dns, "UDP", 53), "{process:?}");
            let others = [other("kube-system"), address("192.0.2.1")];
            for other in &others {
                assert!(!network.lets_out(&from, other, "UDP", 53), "{process:?}");
            }
            assert!(!network.lets_out(&from, &ann, "TCP", 80), "{process:?}");
            assert!(
                !network.lets_out(&from, &other("default"), "TCP", 22),
                "{process:?}"
            );
            assert!(
                !network.lets_out(&from, &address("192.0.2.1"), "TCP", 25),
                "{process:?}"
            );
        }
    }
}
