//! What nobody does in users' namespaces, also where people have `kubectl` there: open
//! the network policies, or run something beside VMs.

use super::{CLUSTER, OBJECT, Policy, in_operators, list, not_by_controller, of_a_user};
use crate::isolation;

/// Policies for the network of common plugins, which add up with those of Kubernetes.
const PLUGINS: [(&str, &[&str]); 5] = [
    ("cilium.io/*", &["ciliumnetworkpolicies"]),
    ("crd.projectcalico.org/*", &["networkpolicies"]),
    ("projectcalico.org/*", &["networkpolicies"]),
    ("crd.antrea.io/*", &["networkpolicies"]),
    ("k8s.ovn.org/*", &["egressfirewalls"]),
];

/// The network policies around users' namespaces are the controller's, and so is whatever opens
/// others beside them: policies for the network add up. What somebody made before there
/// was this rule may be deleted. Namespaces end all the same: the finalizer of the network policies
/// holds them until nothing runs behind them.
pub(super) fn isolation(namespace: &str) -> Policy {
    let all = vec!["CREATE", "UPDATE", "DELETE"];
    let mut about = vec![("networking.k8s.io", vec!["networkpolicies"], all.clone())];
    about.extend(
        PLUGINS
            .iter()
            .map(|(group, resources)| (*group, resources.to_vec(), all.clone())),
    );
    let policies = list(isolation::POLICIES);
    Policy {
        name: "kite-walls",
        about,
        when: vec![
            ("of-a-user", of_a_user()),
            not_by_controller(namespace),
            (
                "not-the-end-of-the-namespace",
                format!("!(request.operation == 'DELETE' && {CLUSTER})"),
            ),
            (
                "not-the-end-of-another",
                format!(
                    "!(request.operation == 'DELETE' && !({OBJECT}.metadata.name in {policies}))"
                ),
            ),
        ],
        rules: vec![(
            "false".to_owned(),
            "the network policies around a user's namespace are made by Kite's controller, and no \
             other policy for the network is written there, as it would open them: set \
             spec.blockedNetworks or spec.exposure of the KitePlatform"
                .to_owned(),
        )],
    }
}

/// Pods in users' namespaces are those of VMs and disks, which `KubeVirt` and CDI make,
/// and so is all that pods are made from. `operators` are the namespaces of these two.
pub(super) fn pods(operators: &[String]) -> Policy {
    let images = |of: &str, which: &str| {
        let field = format!("{of}.spec.{which}");
        format!("(has({field}) ? {field}.map(it, it.image) : [])")
    };
    // Labels, annotations and conditions are changed by whoever runs a cluster.
    let same: Vec<_> = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .map(|which| {
            format!(
                "{} == {}",
                images("object", which),
                images("oldObject", which)
            )
        })
        .collect();
    Policy {
        name: "kite-pods",
        about: vec![
            (
                "",
                vec!["pods", "replicationcontrollers"],
                vec!["CREATE", "UPDATE"],
            ),
            ("", vec!["pods/ephemeralcontainers"], vec!["UPDATE"]),
            (
                "apps",
                vec!["daemonsets", "deployments", "replicasets", "statefulsets"],
                vec!["CREATE", "UPDATE"],
            ),
            ("batch", vec!["cronjobs", "jobs"], vec!["CREATE", "UPDATE"]),
        ],
        when: vec![
            ("of-a-user", of_a_user()),
            ("not-the-cluster", format!("!{CLUSTER}")),
            (
                "not-kubevirt-or-cdi",
                format!("!{}", in_operators(operators)),
            ),
        ],
        rules: vec![(
            format!(
                "request.operation == 'UPDATE' && request.kind.kind == 'Pod' && {}",
                same.join(" && ")
            ),
            format!(
                "in a user's namespace nothing runs but VMs, whose pods KubeVirt and CDI make (in \
                 the namespaces {}; others are named by --operators of kite install): run this in \
                 another namespace",
                operators.join(", ")
            ),
        )],
    }
}
