//! What an operator may do that provisions VMs with Kite as a library.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ObjectMeta;

use super::{
    Right,
    access::cluster_role,
    rights::{CDI, CORE, GATEWAY, KITE, KUBEVIRT, LEASES, NETWORK, READ, cluster},
};

/// The rights of a process that runs `kite_reconcile::run_provisioning` and nothing else of
/// Kite's: no more than it asks for. All hold in the whole cluster.
///
/// ```
/// let rights = kite_render::install::provisioning();
/// let makes_users = |right: &&kite_render::install::Right| {
///     right.resources.contains(&"kiteusers") && right.verbs.contains(&"patch")
/// };
/// assert!(!rights.iter().any(|right| makes_users(&right)));
/// ```
pub fn provisioning() -> Vec<Right> {
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
        cluster(
            CORE,
            ["secrets", "services"],
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
        cluster(
            CDI,
            ["datavolumes/source"],
            ["create"],
            "CDI's question whether disks may be cloned from there: needed where images are only",
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

/// [`provisioning`] as a role, to be bound to the operator's `ServiceAccount`, with what
/// the operator asks for itself.
pub fn provisioning_role(name: &str) -> ClusterRole {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    cluster_role(metadata, &provisioning())
}
