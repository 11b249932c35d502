//! Isolation: the network policies around a user's namespace.
//!
//! Nothing comes in and nothing goes out but what is named here. Policies add
//! up, so each opens one thing over a default deny:
//!
//! | Policy | For | Opens |
//! |---|---|---|
//! | `deny-from-other-namespaces` | all pods | in: 22 from the gateway, 80 from the ingress controller |
//! | `cdi-workers` | CDI's worker pods | in: CDI's transfer port, from CDI and from the image namespace |
//! | `tenant-isolation-egress` | all pods | out: nameservers, and the internet without private ranges |
//!
//! They stand until nothing runs in the namespace any more, even when the namespace
//! itself is deleted, which deletes everything in it at once: a finalizer holds them.
//!
//! Nodes, pods and the API server may have public addresses; [`Isolation::around`]
//! closes those too.

mod infrastructure;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::networking::v1::{
        IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule,
        NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kite_core::{crd::Exposure, labels::NETWORK_POLICY_FINALIZER, names::PLATFORM_NAMESPACE};

pub use self::infrastructure::{addresses, endpoints};
use crate::User;

/// Name of the policy that guards what comes in.
pub const INGRESS_POLICY: &str = "deny-from-other-namespaces";
/// Name of the policy that lets CDI fill disks.
pub const CDI_POLICY: &str = "cdi-workers";
/// Name of the policy that guards what goes out.
pub const EGRESS_POLICY: &str = "tenant-isolation-egress";
/// All of them.
pub const POLICIES: [&str; 3] = [INGRESS_POLICY, CDI_POLICY, EGRESS_POLICY];

/// Label that Kubernetes puts on every namespace: its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// All IPv4 addresses.
const IPV4: &str = "0.0.0.0/0";
/// All IPv6 addresses of the internet (RFC 4291 §2.4, IANA's global unicast).
const IPV6: &str = "2000::/3";
/// Port on which CDI's workers take data in and report progress.
const CDI_PORT: i32 = 8443;

/// Pods of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// Name of the namespace.
    pub namespace: String,
    /// Labels that the pods have; none means all pods of the namespace.
    pub labels: BTreeMap<String, String>,
}

impl Pods {
    /// All pods of `namespace`.
    pub fn all(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            labels: BTreeMap::new(),
        }
    }

    /// The pods of `namespace` with the label `key=value`.
    pub fn labelled(
        namespace: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            labels: BTreeMap::from([(key.into(), value.into())]),
        }
    }

    pub(crate) fn peer(&self) -> NetworkPolicyPeer {
        NetworkPolicyPeer {
            namespace_selector: Some(selector(&BTreeMap::from([(
                NAMESPACE_NAME.to_owned(),
                self.namespace.clone(),
            )]))),
            pod_selector: (!self.labels.is_empty()).then(|| selector(&self.labels)),
            ip_block: None,
        }
    }
}

/// What the network policies let through. The default suits a cluster with kube-dns,
/// CDI in `cdi` and ingress-nginx or Traefik.
///
/// ```
/// use kite_render::isolation::Isolation;
///
/// let isolation = Isolation::default();
/// assert!(isolation.closes("10.96.0.1".parse()?), "the API server");
/// assert!(!isolation.closes("203.0.113.7".parse()?));
/// // A node with a public address.
/// let closed = isolation.around(["203.0.113.7/32".to_owned()].iter());
/// assert!(closed.closes("203.0.113.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// Who may connect to port 22: the SSH gateway, and nobody else.
    pub gateway: Vec<Pods>,
    /// Who may connect to port 80: the ingress controllers.
    pub ingress_controllers: Vec<Pods>,
    /// CDI's own namespace, whose controller watches its workers.
    pub cdi: Pods,
    /// Who may be asked for names, on port 53.
    pub dns: Vec<Pods>,
    /// Addresses that may be asked for names, such as a node-local cache
    /// (CIDR notation).
    pub dns_addresses: Vec<String>,
    /// IPv4 ranges that VMs cannot reach. All VMs live behind private
    /// addresses, and so do the API server, the nodes and metadata services.
    pub blocked_ipv4: Vec<String>,
    /// IPv6 ranges inside `2000::/3` that VMs cannot reach; outside of it VMs
    /// reach nothing.
    pub blocked_ipv6: Vec<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        let ranges = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Self {
            gateway: vec![Pods::labelled(
                PLATFORM_NAMESPACE,
                "app.kubernetes.io/name",
                "kite-gateway",
            )],
            ingress_controllers: vec![
                Pods::all("ingress-nginx"),
                Pods::all("traefik"),
                // Where k3s runs its Traefik.
                Pods::labelled("kube-system", "app.kubernetes.io/name", "traefik"),
            ],
            cdi: Pods::all("cdi"),
            dns: vec![Pods::labelled("kube-system", "k8s-app", "kube-dns")],
            dns_addresses: Vec::new(),
            // Special-purpose ranges of RFC 6890, and Azure's platform address,
            // which answers like a metadata service though it is public.
            blocked_ipv4: ranges(&[
                "0.0.0.0/8",
                "10.0.0.0/8",
                "100.64.0.0/10",
                "127.0.0.0/8",
                "168.63.129.16/32",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.0.0.0/24",
                "192.168.0.0/16",
                "198.18.0.0/15",
                "224.0.0.0/4",
                "240.0.0.0/4",
            ]),
            // Teredo, documentation and 6to4 (which can carry a private IPv4
            // address); unique-local and link-local lie outside of 2000::/3.
            blocked_ipv6: ranges(&["2001::/32", "2001:db8::/32", "2002::/16"]),
        }
    }
}

impl Isolation {
    /// The same isolation, let through by whoever the platform says exposes VMs.
    #[must_use]
    pub fn exposed_by(&self, exposure: &Exposure) -> Self {
        let mut isolation = self.clone();
        if !exposure.controller_namespaces.is_empty() {
            let named = exposure.controller_namespaces.iter();
            isolation.ingress_controllers = named.map(Pods::all).collect();
        } else if let Some(gateway) = &exposure.gateway {
            let own = Pods::all(&gateway.namespace);
            if !isolation.ingress_controllers.contains(&own) {
                isolation.ingress_controllers.push(own);
            }
        }
        isolation
    }

    /// The same isolation, for VMs that ask `nameservers` for names instead of the cluster's
    /// DNS, which stays open for those that `ask_cluster` still. Without nameservers all
    /// VMs do.
    #[must_use]
    pub fn asking(&self, nameservers: &[String], ask_cluster: bool) -> Self {
        let mut isolation = self.clone();
        let own = nameservers.iter().filter_map(|it| infrastructure::one(it));
        let own: Vec<_> = own.collect();
        if own.is_empty() {
            return isolation;
        }
        if !ask_cluster {
            (isolation.dns, isolation.dns_addresses) = (Vec::new(), Vec::new());
        }
        isolation.dns_addresses.extend(own);
        isolation
    }
}

/// The network policies of a user's namespace. `image_namespaces` are where CDI
/// clones disks from.
pub fn policies(
    user: &User<'_>,
    isolation: &Isolation,
    image_namespaces: &BTreeSet<String>,
) -> Vec<NetworkPolicy> {
    vec![
        ingress(user, isolation),
        cdi_workers(user, isolation, image_namespaces),
        egress(user, isolation),
    ]
}

fn ingress(user: &User<'_>, isolation: &Isolation) -> NetworkPolicy {
    let rule = |from: &[Pods], port| {
        // An empty list of peers would mean everybody.
        (!from.is_empty()).then(|| NetworkPolicyIngressRule {
            from: Some(from.iter().map(Pods::peer).collect()),
            ports: Some(vec![tcp(port)]),
        })
    };
    let rules = [
        rule(&isolation.gateway, 22),
        rule(&isolation.ingress_controllers, 80),
    ];
    policy(
        user,
        INGRESS_POLICY,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: some_list(rules.into_iter().flatten().collect()),
            egress: None,
        },
    )
}

fn cdi_workers(
    user: &User<'_>,
    isolation: &Isolation,
    image_namespaces: &BTreeSet<String>,
) -> NetworkPolicy {
    // Of an image namespace only the pods that send a disk.
    let senders = image_namespaces
        .iter()
        .map(|namespace| Pods::labelled(namespace, "cdi.kubevirt.io", "cdi-clone-source").peer());
    policy(
        user,
        CDI_POLICY,
        NetworkPolicySpec {
            pod_selector: Some(selector(&BTreeMap::from([(
                "app".to_owned(),
                "containerized-data-importer".to_owned(),
            )]))),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some([isolation.cdi.peer()].into_iter().chain(senders).collect()),
                ports: Some(vec![tcp(CDI_PORT)]),
            }]),
            egress: None,
        },
    )
}

fn egress(user: &User<'_>, isolation: &Isolation) -> NetworkPolicy {
    let dns_peers = isolation
        .dns
        .iter()
        .map(Pods::peer)
        .chain(isolation.dns_addresses.iter().map(|cidr| block(cidr, &[])))
        .collect::<Vec<_>>();
    let dns = (!dns_peers.is_empty()).then(|| NetworkPolicyEgressRule {
        to: Some(dns_peers),
        ports: Some(vec![port("UDP", 53), port("TCP", 53)]),
    });
    let open = [
        (IPV4, &isolation.blocked_ipv4),
        (IPV6, &isolation.blocked_ipv6),
    ];
    let open = open
        .into_iter()
        // Exceptions have to leave something.
        .filter(|(all, blocked)| !infrastructure::cover(blocked, all))
        .map(|(all, blocked)| block(all, blocked))
        .collect::<Vec<_>>();
    // An empty list of peers would mean everybody.
    let internet = (!open.is_empty()).then_some(NetworkPolicyEgressRule {
        to: Some(open),
        ports: None,
    });
    policy(
        user,
        EGRESS_POLICY,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Egress".to_owned()]),
            ingress: None,
            egress: some_list(dns.into_iter().chain(internet).collect()),
        },
    )
}

fn policy(user: &User<'_>, name: &str, spec: NetworkPolicySpec) -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            finalizers: Some(vec![NETWORK_POLICY_FINALIZER.to_owned()]),
            ..user.metadata(name.to_owned(), Some(user.namespace()))
        },
        spec: Some(spec),
    }
}

fn selector(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels.clone()),
        match_expressions: None,
    }
}

pub(crate) fn block(cidr: &str, except: &[String]) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: some_list(except.to_vec()),
        }),
        ..NetworkPolicyPeer::default()
    }
}

pub(crate) fn tcp(number: i32) -> NetworkPolicyPort {
    port("TCP", number)
}

pub(crate) fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        end_port: None,
    }
}

/// An empty list as an absent one: that is how the API server stores it.
pub(crate) fn some_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
