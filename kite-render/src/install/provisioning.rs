//! What an operator may do that provisions VMs with Kite as a library.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::ObjectMeta;

use super::{
    Right, Scope,
    access::{cluster_role, role},
    rights::{
        CORE, KITE, NETWORK, READ, clones_images, cluster, deletes_snapshots, of_machines,
        owns_what_is_made, reserves, tells,
    },
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
    let made = of_machines().into_iter().map(|right| Right {
        scope: Scope::Cluster,
        reach: None,
        ..right
    });
    let own = on_kites_kinds().into_iter().chain(made);
    own.chain([clones_images()]).chain(besides()).collect()
}

/// On Kite's own kinds.
fn on_kites_kinds() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            [
                "kitevirtualmachines",
                "kiteimages",
                "kitesnapshots",
                "kitevolumes",
            ],
            READ,
            "what it makes the cluster match, and its finalizers",
        )
        .and(["patch"]),
        cluster(
            KITE,
            [
                "kitevirtualmachines/status",
                "kiteimages/status",
                "kitesnapshots/status",
                "kitevolumes/status",
            ],
            ["patch"],
            "to say what was seen",
        ),
        cluster(
            KITE,
            ["kitevirtualmachines"],
            ["delete"],
            "a VM goes when it has expired",
        ),
        deletes_snapshots(),
        owns_what_is_made(),
        reserves(),
        cluster(
            KITE,
            ["kiteplatforms", "kiteusers", "kitevirtualmachineoffers"],
            READ,
            "settings, owners and offers, where there are any",
        ),
    ]
}

/// What else VMs and images are judged by, and what is told of them.
fn besides() -> [Right; 4] {
    [
        cluster(
            "storage.k8s.io",
            ["storageclasses"],
            ["list", "watch"],
            "which driver disks are of, and so takes snapshots of them",
        ),
        cluster(CORE, ["namespaces"], ["get"], "whether images have a home"),
        cluster(
            NETWORK,
            ["networkpolicies"],
            ["list"],
            "whether the network policies of a Kite user stand, where there are users",
        ),
        tells(),
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
