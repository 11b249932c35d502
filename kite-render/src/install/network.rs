//! Who reaches Kite's own pods, and whom they reach.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        networking::v1::{
            NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
            NetworkPolicyPort, NetworkPolicySpec,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use kite_core::labels;

use super::{Installation, Process, metadata};
use crate::isolation::{Isolation, Pods, block, port, some_list, tcp};

/// What Kite's pods are kept to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Who may connect to the web page and the HTTP API: the ingress controllers. None
    /// means everybody, who may then claim any address in `X-Forwarded-For`.
    pub web_from: Vec<Pods>,
    /// Who may be asked for names, on port 53: the cluster's DNS.
    pub dns: Vec<Pods>,
    /// Addresses that may be asked for names, such as those of a cache on each node (CIDR
    /// notation).
    pub dns_addresses: Vec<String>,
    /// Where the API server is (CIDR notation).
    pub api_server: Vec<String>,
    /// The API server's ports: that of its Service, and that on which it listens.
    pub api_server_ports: Vec<u16>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            web_from: Isolation::default().ingress_controllers,
            dns: Isolation::default().dns,
            dns_addresses: vec![NODE_LOCAL_DNS.to_owned()],
            api_server: ANYWHERE.map(str::to_owned).into(),
            api_server_ports: vec![443, 6443],
        }
    }
}

/// Where `NodeLocal DNSCache` is. An address of a link leads nowhere else.
const NODE_LOCAL_DNS: &str = "169.254.20.10/32";

/// All addresses.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The Service to which the platform's Ingress or route leads.
pub(super) fn api_service(installation: &Installation) -> Option<Service> {
    let (name, port) = Process::Api.port()?;
    Some(Service {
        metadata: metadata::of(Process::Api, Some(&installation.namespace)),
        spec: Some(ServiceSpec {
            selector: Some(Process::Api.selector()),
            ports: Some(vec![ServicePort {
                name: Some(name.to_owned()),
                port: i32::from(port),
                target_port: Some(IntOrString::Int(i32::from(port))),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// A policy for each process.
pub(super) fn policies(installation: &Installation) -> Vec<NetworkPolicy> {
    let Some(network) = &installation.network else {
        return Vec::new();
    };
    Process::ALL
        .map(|process| NetworkPolicy {
            metadata: metadata::of(process, Some(&installation.namespace)),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(metadata::selects(process)),
                policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
                ingress: some_list(ingress(installation, network, process)),
                egress: Some(egress(installation, network, process)),
            }),
        })
        .into()
}

fn ingress(
    installation: &Installation,
    network: &Network,
    process: Process,
) -> Vec<NetworkPolicyIngressRule> {
    let rule = |from: &[Pods], number: u16| NetworkPolicyIngressRule {
        from: some_list(from.iter().map(Pods::peer).collect()),
        ports: Some(vec![tcp(number.into())]),
    };
    let people = process.port().map(|(_, number)| match process {
        Process::Api => rule(&network.web_from, number),
        Process::Controller | Process::Gateway => rule(&[], number),
    });
    let metrics = installation
        .monitoring
        .as_ref()
        .map(|monitoring| rule(&[Pods::all(&monitoring.namespace)], process.admin_port()));
    people.into_iter().chain(metrics).collect()
}

fn egress(
    installation: &Installation,
    network: &Network,
    process: Process,
) -> Vec<NetworkPolicyEgressRule> {
    let rule =
        |to: Vec<NetworkPolicyPeer>, ports: Vec<NetworkPolicyPort>| NetworkPolicyEgressRule {
            to: some_list(to),
            ports: Some(ports),
        };
    let dns = network.dns.iter().map(Pods::peer);
    let dns = dns.chain(network.dns_addresses.iter().map(|cidr| block(cidr, &[])));
    let dns: Vec<_> = dns.collect();
    // Without peers it would be for everybody.
    let names = (!dns.is_empty()).then(|| rule(dns, vec![port("UDP", 53), tcp(53)]));
    let api_server = rule(
        network
            .api_server
            .iter()
            .map(|cidr| block(cidr, &[]))
            .collect(),
        network
            .api_server_ports
            .iter()
            .map(|number| tcp((*number).into()))
            .collect(),
    );
    let vms = installation
        .enters_vms(process)
        .then(|| rule(vec![users()], vec![tcp(22)]));
    // Sign-in providers, and the store of recordings.
    let web = (process == Process::Api
        || process == Process::Gateway && installation.store().is_some())
    .then(|| {
        let anywhere = ANYWHERE.iter().map(|cidr| block(cidr, &[]));
        rule(anywhere.collect(), vec![tcp(443)])
    });
    names
        .into_iter()
        .chain([api_server])
        .chain(vms)
        .chain(web)
        .collect()
}

/// All pods in namespaces of users.
fn users() -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_labels: Some(BTreeMap::from([(
                labels::MANAGED_BY.to_owned(),
                labels::MANAGED_BY_CONTROLLER.to_owned(),
            )])),
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: labels::USER_NAME.to_owned(),
                operator: "Exists".to_owned(),
                values: None,
            }]),
        }),
        ..NetworkPolicyPeer::default()
    }
}
