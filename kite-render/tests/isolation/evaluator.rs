//! An evaluator of network policies (Kubernetes `networking.k8s.io/v1`): policies add
//! up, a pod that none selects is open, an empty list of peers or ports means all of
//! them.
//!
//! Where the API leaves a choice, it takes the one that lets more through: an
//! `ipBlock` also means pods whose address lies in it.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::{
        core::v1::Node,
        networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kite_core::{
    crd::{KiteUser, KiteUserSpec},
    labels, names,
};
use kite_render::{
    User,
    install::{Installation, Manifest},
    isolation,
};

use crate::common;

/// A pod, or an address outside of the cluster's pods.
#[derive(Clone, Debug)]
pub struct Place {
    /// The pod's namespace and labels.
    pub pod: Option<(String, BTreeMap<String, String>)>,
    pub address: IpAddr,
}

pub fn pod(namespace: &str, labels: &[(&str, &str)], address: &str) -> Place {
    let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    Place {
        pod: Some((namespace.to_owned(), labels.collect())),
        address: address.parse().unwrap(),
    }
}

pub fn address(address: &str) -> Place {
    Place {
        pod: None,
        address: address.parse().unwrap(),
    }
}

pub fn contains(cidr: &str, address: IpAddr) -> bool {
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
    let mut wanted = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    wanted.all(|(k, v)| labels.get(k) == Some(v))
        && expressions.all(|it| match it.operator.as_str() {
            "Exists" => labels.contains_key(&it.key),
            other => panic!("{other} is not evaluated here"),
        })
}

fn is_in_block(block: &IPBlock, address: IpAddr) -> bool {
    let mut excepted = block.except.iter().flatten();
    contains(&block.cidr, address) && !excepted.any(|cidr| contains(cidr, address))
}

/// The labels of a namespace: its name, and of a user's those of Kite.
fn labels_of(namespace: &str) -> BTreeMap<String, String> {
    let user = names::user_of_namespace(namespace);
    let mut all = user.map(labels::for_user).unwrap_or_default();
    let name = "kubernetes.io/metadata.name".to_owned();
    all.insert(name, namespace.to_owned());
    all
}

fn is_peer(peer: &NetworkPolicyPeer, home: &str, place: &Place) -> bool {
    if let Some(block) = &peer.ip_block {
        return is_in_block(block, place.address);
    }
    let Some((namespace, labels)) = &place.pod else {
        return false;
    };
    let in_namespace = match &peer.namespace_selector {
        Some(selector) => selects(selector, &labels_of(namespace)),
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
pub struct Network(pub Vec<NetworkPolicy>);

impl Network {
    /// The network policies of ann and bob, in a cluster with these nodes.
    pub fn of(nodes: &[Node]) -> Self {
        Self::behind(&isolation::Isolation::default().around(&isolation::addresses(nodes)))
    }

    /// The network policies of ann and bob.
    pub fn behind(isolation: &isolation::Isolation) -> Self {
        let mut all = Vec::new();
        for name in ["ann", "bob"] {
            let mut object = KiteUser::new(name, KiteUserSpec::new(name));
            object.metadata.uid = Some(format!("uid-{name}"));
            let user = User::of(&object).unwrap();
            all.extend(isolation::policies(
                &user,
                isolation,
                &common::image_namespaces(),
            ));
        }
        Self(all)
    }

    /// With the policies of an installation's own pods.
    pub fn with(mut self, installation: &Installation) -> Self {
        let manifests = installation.manifests().into_iter();
        self.0.extend(manifests.filter_map(|it| match it {
            Manifest::NetworkPolicy(policy) => Some(*policy),
            _ => None,
        }));
        self
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

    pub fn lets_out(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
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

    pub fn lets_in(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
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

    pub fn reaches(&self, from: &Place, to: &Place, protocol: &str, port: i32) -> bool {
        self.lets_out(from, to, protocol, port) && self.lets_in(from, to, protocol, port)
    }
}
