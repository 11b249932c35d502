//! `ValidatingAdmissionPolicies`: rules about writes that no CRD can have, since they
//! ask who writes, or what the namespace is, or are about kinds that are not Kite's.
//!
//! Nearly all bind administrators, too: what they refuse is a mistake, or an attack with
//! somebody's rights. Who has to do it all the same deletes the policy's binding first,
//! which says so in the audit log. The others say that they do not.

mod connections;
mod controller;
mod doors;
mod platform;
mod tenants;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
        ValidatingAdmissionPolicySpec, Validation,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kite_core::{crd, labels, names};

use super::{Installation, Manifest, Process, metadata};
use crate::isolation;
use kite_core::versions::wrap;

/// A rule about writes.
struct Policy {
    name: &'static str,
    /// API group, resources and operations that it is about. The group is followed by
    /// a version where that is not `v1`, such as `example.org/*`.
    about: Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)>,
    /// It is about writes for which all of these hold (name, expression).
    when: Vec<(&'static str, String)>,
    /// What has to hold of them, and what is said where it does not.
    rules: Vec<(String, String)>,
}

/// The policies, each with its binding.
pub(super) fn manifests(installation: &Installation) -> Vec<Manifest> {
    if !installation.admission_policies {
        return Vec::new();
    }
    let namespace = &installation.namespace;
    [
        finalizers(namespace),
        tenants::isolation(namespace),
        tenants::pods(&installation.operators),
        doors::launchers(&installation.operators),
        doors::machines(namespace, &installation.operators),
        doors::routes(namespace, &installation.operators),
        namespaces(),
        collected(),
        platform::settings(namespace),
        images(namespace),
        controller::reach(namespace),
        gateway(namespace),
        secrets(namespace),
        leases(namespace),
        connections::connections(namespace),
    ]
    .into_iter()
    .flat_map(|policy| {
        let binding = binding(policy.name);
        [rendered(policy).into(), binding.into()]
    })
    .collect()
}

fn written_by(process: Process, namespace: &str) -> String {
    format!(
        "request.userInfo.username == '{}'",
        process.username(namespace)
    )
}

/// Whether a request is about something in a user's namespace, or in none at all.
fn of_a_user() -> String {
    format!(
        "request.namespace.startsWith('{}')",
        names::user_namespace("")
    )
}

/// The object of a request, also of one that deletes it.
const OBJECT: &str = "(request.operation == 'DELETE' ? oldObject : object)";

/// Those who clear away, and make what follows from other objects, in any cluster.
const CLUSTER: &str = "(has(request.userInfo.groups) && \
                       'system:serviceaccounts:kube-system' in request.userInfo.groups || \
                       request.userInfo.username == 'system:kube-controller-manager')";

/// The garbage collector, with an account of its own and without.
const COLLECTORS: [&str; 2] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// Groups of those who may do everything in a cluster, as common ones call them.
const ADMINISTRATORS: [&str; 3] = [
    "system:masters",
    "kubeadm:cluster-admins",
    "system:cluster-admins",
];

/// A right that tells administrators of the cluster who are so by a binding alone, as on
/// most hosted clusters: whoever may take a policy away is not kept by it in any case. It
/// is one of a kind that is there, as authorizers other than RBAC may know no `*`.
const MAY_LIFT: &str = "authorizer.group('admissionregistration.k8s.io')\
                        .resource('validatingadmissionpolicybindings').check('delete').allowed()";

/// Whether somebody is in one of these groups.
fn in_one_of<T: std::fmt::Display>(groups: impl IntoIterator<Item = T>) -> String {
    format!(
        "(has(request.userInfo.groups) && request.userInfo.groups.exists(it, it in {}))",
        list(groups)
    )
}

/// Whether it is an administrator of the cluster. Groups are looked at first, which costs
/// nothing.
fn is_administrator() -> String {
    format!("({} || {MAY_LIFT})", in_one_of(ADMINISTRATORS))
}

/// Whether it is `KubeVirt` or CDI, which are in these namespaces.
fn in_operators(operators: &[String]) -> String {
    let groups = operators.iter();
    in_one_of(groups.map(|it| format!("system:serviceaccounts:{it}")))
}

/// Whether a field of an object's metadata stays as it was.
fn keeps(field: &str) -> String {
    format!(
        "has(object.metadata.{field}) == has(oldObject.metadata.{field}) && \
         (!has(object.metadata.{field}) || object.metadata.{field} == oldObject.metadata.{field})"
    )
}

/// Texts as a list of an expression.
fn list<T: std::fmt::Display>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|it| format!("'{it}'")).collect();
    format!("[{}]", texts.join(", "))
}

fn not_by_controller(namespace: &str) -> (&'static str, String) {
    let by = written_by(Process::Controller, namespace);
    ("not-the-controller", format!("!({by})"))
}

/// Kite's finalizers are taken off by nobody but the controller.
fn finalizers(namespace: &str) -> Policy {
    let name = "kite-finalizers";
    Policy {
        name,
        about: vec![
            (
                crd::GROUP,
                vec![
                    "kiteusers",
                    "kitevirtualmachines",
                    "kiteimages",
                    "kitesnapshots",
                    "kitevolumes",
                ],
                vec!["UPDATE"],
            ),
            ("networking.k8s.io", vec!["networkpolicies"], vec!["UPDATE"]),
        ],
        when: vec![
            not_by_controller(namespace),
            ("held", "has(oldObject.metadata.finalizers)".to_owned()),
        ],
        rules: vec![(
            format!(
                "oldObject.metadata.finalizers.all(it, !it.startsWith('{}/') || \
                 (has(object.metadata.finalizers) && it in object.metadata.finalizers))",
                crd::GROUP
            ),
            format!(
                "metadata.finalizers: Kite's are taken off by Kite's controller, once all that \
                 they stand for is gone; wait for it, or, where there is none any more, delete \
                 the ValidatingAdmissionPolicyBinding {name} first"
            ),
        )],
    }
}

/// VMs are in the namespaces of users: elsewhere there are no network policies and no quota.
fn namespaces() -> Policy {
    let (label, prefix) = (labels::USER_NAME, names::user_namespace(""));
    Policy {
        name: "kite-vm-namespaces",
        about: vec![(
            crd::GROUP,
            vec!["kitevirtualmachines", "kitesnapshots", "kitevolumes"],
            vec!["CREATE"],
        )],
        when: Vec::new(),
        rules: vec![(
            format!(
                "has(namespaceObject.metadata.labels) && \
                 '{label}' in namespaceObject.metadata.labels && \
                 request.namespace == '{prefix}' + namespaceObject.metadata.labels['{label}']"
            ),
            format!(
                "metadata.namespace: VMs, their snapshots and volumes are in their owner's namespace, \
                 which Kite makes for a KiteUser: use {prefix}<user>"
            ),
        )],
    }
}

/// The garbage collector leaves users' namespaces alone. In a deletion in the foreground it begins
/// with all that an account owns, while there are VMs, and volumes that outlive the account.
fn collected() -> Policy {
    let group = crd::GROUP;
    Policy {
        name: "kite-user-namespaces",
        about: vec![("", vec!["namespaces"], vec!["DELETE"])],
        when: vec![
            (
                "of-a-user",
                format!(
                    "has(oldObject.metadata.ownerReferences) && \
                     oldObject.metadata.ownerReferences.exists(it, it.apiVersion.startsWith('{group}/'))"
                ),
            ),
            (
                "by-the-collector",
                format!("request.userInfo.username in {}", list(COLLECTORS)),
            ),
        ],
        rules: vec![(
            "false".to_owned(),
            "metadata.name: Kite's controller deletes a user's namespace, once nothing is in it that \
             is to be kept; where there is no controller any more, delete the namespace yourself"
                .to_owned(),
        )],
    }
}

/// The API adds images that are fetched, and none of what is in the cluster already: a claim or
/// a snapshot may be anybody's.
fn images(namespace: &str) -> Policy {
    Policy {
        name: "kite-images",
        about: vec![(crd::GROUP, vec!["kiteimages"], vec!["CREATE", "UPDATE"])],
        when: vec![("by-the-api", written_by(Process::Api, namespace))],
        rules: vec![(
            "has(object.spec.source.http) || has(object.spec.source.registry) || \
             (request.operation == 'UPDATE' && object.spec.source == oldObject.spec.source)"
                .to_owned(),
            "spec.source: the API adds images from http and registry; make others with kubectl"
                .to_owned(),
        )],
    }
}

/// The gateway switches VMs on, and changes nothing else of them.
fn gateway(namespace: &str) -> Policy {
    let metadata = ["labels", "annotations", "finalizers", "ownerReferences"].map(keeps);
    let message = "the SSH gateway may set spec.powerState to On, and nothing else".to_owned();
    let spec = "dyn(object.spec).all(it, it == 'powerState' || \
                (it in dyn(oldObject.spec) && dyn(object.spec)[it] == dyn(oldObject.spec)[it])) && \
                dyn(oldObject.spec).all(it, it in dyn(object.spec))";
    Policy {
        name: "kite-gateway",
        about: vec![(crd::GROUP, vec!["kitevirtualmachines"], vec!["UPDATE"])],
        when: vec![("by-the-gateway", written_by(Process::Gateway, namespace))],
        rules: vec![
            ("object.spec.powerState == 'On'".to_owned(), message.clone()),
            (spec.to_owned(), message.clone()),
            (metadata.join(" && "), message),
        ],
    }
}

/// Kite's processes make Secrets with keys and certificates, and none that Kubernetes
/// fills in with the token of an account: by one of those each of them could become
/// any other. RBAC cannot say which names a Secret may be created with, and whoever could
/// write the token of the first administrator would be one.
fn secrets(namespace: &str) -> Policy {
    let only = |process: Process, names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
        let names = names.join(", ");
        (
            format!(
                "!({}) || object.metadata.name in [{names}]",
                written_by(process, namespace)
            ),
            format!(
                "metadata.name: {} writes the Secrets {names}, and no others",
                process.name()
            ),
        )
    };
    let types = ["Opaque", names::TLS_SECRET_TYPE].map(|it| format!("'{it}'"));
    Policy {
        name: "kite-secrets",
        about: vec![("", vec!["secrets"], vec!["CREATE", "UPDATE"])],
        when: vec![(
            "by-kite",
            format!(
                "request.userInfo.username in [{}]",
                usernames(&Process::ALL, namespace)
            ),
        )],
        rules: vec![
            (
                format!("!has(object.type) || object.type in [{}]", types.join(", ")),
                "type: Kite's processes make Secrets with keys and certificates, and no tokens \
                 of accounts"
                    .to_owned(),
            ),
            only(Process::Gateway, &[names::GATEWAY_HOST_KEY_SECRET]),
            only(
                Process::Api,
                &[
                    names::BOOTSTRAP_SECRET,
                    names::UPLOADED_CERTIFICATE,
                    names::SEAL_SECRET,
                ],
            ),
        ],
    }
}

/// The gateway and the API write that they are there, and not who leads.
fn leases(namespace: &str) -> Policy {
    let by = usernames(&[Process::Gateway, Process::Api], namespace);
    Policy {
        name: "kite-leases",
        about: vec![(
            "coordination.k8s.io",
            vec!["leases"],
            vec!["CREATE", "UPDATE", "DELETE"],
        )],
        when: vec![(
            "beside-the-controllers",
            format!("request.namespace == '{namespace}' && request.userInfo.username in [{by}]"),
        )],
        rules: vec![(
            format!(
                "(request.operation == 'DELETE' ? oldObject : object).metadata.name\
                 .startsWith('{}')",
                names::heartbeat("")
            ),
            "metadata.name: the gateway and the API write their own heartbeats, and no other \
             Lease here"
                .to_owned(),
        )],
    }
}

/// A list of the users as which processes are known, for an expression.
fn usernames(processes: &[Process], namespace: &str) -> String {
    let names: Vec<_> = processes
        .iter()
        .map(|process| format!("'{}'", process.username(namespace)))
        .collect();
    names.join(", ")
}

fn rendered(policy: Policy) -> ValidatingAdmissionPolicy {
    let all = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let rules = policy
        .about
        .into_iter()
        .map(|(group, resources, operations)| {
            let (group, version) = group.split_once('/').unwrap_or((group, "v1"));
            NamedRuleWithOperations {
                api_groups: Some(vec![group.to_owned()]),
                api_versions: Some(vec![version.to_owned()]),
                operations: Some(all(operations)),
                resources: Some(all(resources)),
                resource_names: None,
                scope: Some("*".to_owned()),
            }
        });
    let conditions: Vec<_> = policy
        .when
        .into_iter()
        .map(|(name, expression)| MatchCondition {
            name: name.to_owned(),
            expression,
        })
        .collect();
    let validations = policy
        .rules
        .into_iter()
        .map(|(expression, message)| Validation {
            expression,
            message: Some(message),
            reason: Some("Forbidden".to_owned()),
            message_expression: None,
        });
    ValidatingAdmissionPolicy {
        metadata: metadata::common(policy.name, None),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(LabelSelector::default()),
                resource_rules: Some(rules.collect()),
                exclude_resource_rules: None,
            }),
            match_conditions: isolation::some_list(conditions),
            validations: Some(validations.collect()),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    }
}

fn binding(name: &str) -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: metadata::common(name, None),
        spec: wrap(ValidatingAdmissionPolicyBindingSpec {
            policy_name: wrap(name.to_owned()),
            validation_actions: wrap(vec!["Deny".to_owned()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}
