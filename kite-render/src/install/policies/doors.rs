//! Ways around the network policies and the quota, for who has rights of Kubernetes' own in a
//! user's namespace, such as `edit`: into the pods of VMs, machines that Kite does not know, and
//! ways in from outside. Administrators of the cluster are not kept from them, who look
//! for faults there.

use kite_core::names;

use super::{CLUSTER, Policy, in_operators, is_administrator, keeps, not_by_controller, of_a_user};

const WRITES: [&str; 2] = ["CREATE", "UPDATE"];

/// Kinds that machines are, and that machines are made from.
const MACHINES: [(&str, &[&str]); 4] = [
    (
        "kubevirt.io/*",
        &[
            "virtualmachines",
            "virtualmachineinstances",
            "virtualmachineinstancereplicasets",
        ],
    ),
    ("pool.kubevirt.io/*", &["virtualmachinepools"]),
    ("clone.kubevirt.io/*", &["virtualmachineclones"]),
    ("snapshot.kubevirt.io/*", &["virtualmachinerestores"]),
];

/// Kinds by which something is reached from outside, or by which what is reached is
/// somewhere else than it seems to be.
const ROUTES: [(&str, &[&str]); 6] = [
    ("", &["services", "endpoints"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("networking.k8s.io", &["ingresses"]),
    ("route.openshift.io/*", &["routes"]),
    (
        "gateway.networking.k8s.io/*",
        &[
            "gateways",
            "grpcroutes",
            "httproutes",
            "listenersets",
            "referencegrants",
            "tcproutes",
            "tlsroutes",
            "udproutes",
        ],
    ),
    ("gateway.networking.x-k8s.io/*", &["xlistenersets"]),
];

/// Who makes routes of Ingresses on `OpenShift`, which are the controller's.
const ROUTES_OF_INGRESSES: &str =
    "system:serviceaccount:openshift-infra:ingress-to-route-controller";

/// Nobody gets into the pods in which VMs run: there is what `KubeVirt` knows of the VM,
/// its disks and its memory, and a port that is forwarded is behind the network policies.
pub(super) fn launchers(operators: &[String]) -> Policy {
    Policy {
        name: "kite-launchers",
        about: vec![(
            "",
            vec![
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
                "services/proxy",
            ],
            vec!["CONNECT"],
        )],
        when: by_others(operators),
        rules: vec![(
            "false".to_owned(),
            "in a user's namespace nobody gets into the pods of VMs, which are KubeVirt's: use \
             the VM's SSH or console"
                .to_owned(),
        )],
    }
}

/// Machines in users' namespaces are those that the controller makes of Kite's VMs, with
/// what `KubeVirt` makes of them: others would have devices, networks and volumes that
/// nobody has looked at. What others write into labels and finalizers is theirs.
pub(super) fn machines(namespace: &str, operators: &[String]) -> Policy {
    let mut when = by_others(operators);
    when.push(not_by_controller(namespace));
    Policy {
        name: "kite-machines",
        about: about(&MACHINES),
        when,
        rules: vec![(
            // Annotations have KubeVirt do things, too.
            format!("{} && {}", keeps_spec(), keeps("annotations")),
            "in a user's namespace the machines of KubeVirt are made and changed by Kite's \
             controller: write a KiteVirtualMachine"
                .to_owned(),
        )],
    }
}

/// What is reached from outside in users' namespaces is what the controller makes: an
/// address of the load balancer, a port of every node and the annotations that an ingress
/// controller obeys are the cluster's. Such controllers note what they have done in
/// annotations of what is there. Endpoints, which have no `spec`, are for Kubernetes alone.
pub(super) fn routes(namespace: &str, operators: &[String]) -> Policy {
    let mut when = by_others(operators);
    when.push(not_by_controller(namespace));
    when.push((
        "not-of-an-ingress",
        format!("request.userInfo.username != '{ROUTES_OF_INGRESSES}'"),
    ));
    let is_controller = format!(
        "(request.userInfo.username.startsWith('system:') && \
         !request.userInfo.username.startsWith('system:serviceaccount:{}'))",
        names::user_namespace("")
    );
    Policy {
        name: "kite-routes",
        about: about(&ROUTES),
        when,
        rules: vec![(
            format!(
                "has(object.spec) && {} && ({is_controller} || {})",
                keeps_spec(),
                keeps("annotations")
            ),
            "in a user's namespace Services, their endpoints, Ingresses and routes are made and \
             changed by Kite's controller: set spec.domainPrefix of the VM"
                .to_owned(),
        )],
    }
}

fn about(
    kinds: &[(&'static str, &'static [&'static str])],
) -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    let kinds = kinds.iter();
    kinds
        .map(|(group, resources)| (*group, resources.to_vec(), WRITES.to_vec()))
        .collect()
}

/// In a user's namespace, and by none of those whose work it may be.
fn by_others(operators: &[String]) -> Vec<(&'static str, String)> {
    vec![
        ("of-a-user", of_a_user()),
        ("not-the-cluster", format!("!{CLUSTER}")),
        (
            "not-kubevirt-or-cdi",
            format!("!{}", in_operators(operators)),
        ),
        (
            "not-an-administrator",
            // All conditions are evaluated, and this one may ask somebody: not for writes
            // that are none of Kite's business.
            format!("!({} && {})", of_a_user(), is_administrator()),
        ),
    ]
}

fn keeps_spec() -> String {
    "request.operation == 'UPDATE' && object.spec == oldObject.spec".to_owned()
}
