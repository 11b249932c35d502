//! What an operator may do that provisions VMs with Kite as a library.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::ObjectMeta;

use super::{
    Right, Scope,
    access::{cluster_role, role},
    rights::{CDI, CORE, GATEWAY, KITE, KUBEVIRT, LEASES, NETWORK, READ, cluster},
};

/// The rights of a process that runs `kite_reconcile::run_provisioning` and nothing else of
/// Kite's. One holds where images are, all others in the whole cluster: as the process makes
/// no namespaces, no role is bound in each. Rights over all Secrets are nearly those of the
/// cluster's administrator.
///
/// ```
/// use kite_render::install::{Right, provisioning_rights};
///
/// let is_of_users = |right: &Right| right.resources.contains(&"kiteusers");
/// let rights = provisioning_rights();
/// let of_users = rights.iter().find(|right| is_of_users(right));
/// assert!(of_users.is_some_and(|right| right.verbs == ["get", "list", "watch"]));
/// ```
pub fn provisioning_rights() -> Vec<Right> {
    [on_kites_kinds(), on_what_is_made()].concat()
}

/// On Kite's own kinds.
fn on_kites_kinds() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            ["kitevirtualmachines", "kiteimages"],
            READ,
            "what it makes the cluster match, and its finalizers",
        )
        .and(["patch"]),
        cluster(
            KITE,
            ["kitevirtualmachines/status", "kiteimages/status"],
            ["patch"],
            "to say what was seen",
        ),
        cluster(
            KITE,
            ["kitevirtualmachines"],
            ["delete"],
            "a VM goes when it has expired",
        ),
        cluster(
            KITE,
            ["kitevirtualmachines/finalizers", "kiteimages/finalizers"],
            ["update"],
            "to own what is made for them, where OwnerReferencesPermissionEnforcement is on, as in OpenShift",
        ),
        cluster(
            KITE,
            ["kitereservations"],
            READ,
            "login names and domains, of which there can be one",
        )
        .and(["create", "patch", "delete"]),
        cluster(
            KITE,
            ["kiteplatforms", "kiteusers", "kitevirtualmachineoffers"],
            READ,
            "settings, owners and offers, where there are any",
        ),
    ]
}

/// On what is made for VMs and images.
fn on_what_is_made() -> Vec<Right> {
    vec![
        cluster(
            CORE,
            ["configmaps", "secrets", "services"],
            READ,
            "VMs' keys, cloud-init and ways to them",
        )
        .and(["create", "patch", "delete"]),
        cluster(
            CORE,
            ["persistentvolumeclaims"],
            READ,
            "disks that grow, and that CDI leaves behind",
        )
        .and(["patch", "delete"]),
        cluster(CORE, ["namespaces"], ["get"], "whether images have a home"),
        cluster(
            NETWORK,
            ["networkpolicies"],
            ["list"],
            "whether the walls of a Kite user stand, where there are users",
        ),
        cluster(
            "events.k8s.io",
            ["events"],
            ["create"],
            "the story of an object, where the context writes Events",
        ),
        cluster(NETWORK, ["ingresses"], READ, "domains of VMs").and(["create", "patch", "delete"]),
        cluster(
            GATEWAY,
            ["httproutes"],
            READ,
            "the same with the Gateway API",
        )
        .and(["create", "patch", "delete"]),
        cluster(
            CDI,
            ["datavolumes", "dataimportcrons", "datasources"],
            READ,
            "disks and images",
        )
        .and(["create", "patch", "delete"]),
        Right::of(
            Scope::Images,
            CDI,
            ["datavolumes/source"],
            ["create"],
            "CDI's question whether disks may be cloned from there: granted nowhere else, no other disk can be cloned",
        ),
        cluster(KUBEVIRT, ["virtualmachines"], READ, "VMs").and(["create", "patch", "delete"]),
        cluster(
            KUBEVIRT,
            ["virtualmachineinstances"],
            READ,
            "whether they run, and where",
        ),
        cluster(
            KUBEVIRT,
            ["virtualmachineinstancemigrations"],
            READ,
            "to move VMs that grow while they run, where KubeVirt does not by itself",
        )
        .and(["create", "delete"]),
        cluster(
            KUBEVIRT,
            ["kubevirts"],
            ["list", "watch"],
            "whether KubeVirt moves VMs to grow",
        ),
        cluster(
            "subresources.kubevirt.io",
            ["virtualmachines/restart"],
            ["update"],
            "to restart them",
        ),
        cluster(LEASES, ["leases"], READ, "when a VM was last used"),
    ]
}

/// [`provisioning_rights`] in the whole cluster, as a role to be bound to the operator's
/// `ServiceAccount` beside what the operator asks for itself.
pub fn provisioning_role(name: &str) -> ClusterRole {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    cluster_role(metadata, &of(Scope::Cluster))
}

/// [`provisioning_rights`] in the `namespace` of images, as a role to be bound there.
pub fn provisioning_image_role(name: &str, namespace: &str) -> Role {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    role(metadata, &of(Scope::Images))
}

fn of(scope: Scope) -> Vec<Right> {
    let all = provisioning_rights().into_iter();
    all.filter(|right| right.scope == scope).collect()
}
