//! What each process may do in the cluster: no more than it asks for.
//!
//! The rules are data, so that the roles, the table in `docs/rights.md` and the tests
//! that take one rule after the other away speak of the same.

use std::collections::BTreeSet;

use kite_core::names;

use super::{Installation, Process};
use crate::grant::RBAC;

pub(super) const KITE: &str = kite_core::crd::GROUP;
pub(super) const CORE: &str = "";
const LEASES: &str = "coordination.k8s.io";
const CDI: &str = "cdi.kubevirt.io";
pub(super) const NETWORK: &str = "networking.k8s.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const KUBEVIRT: &str = "kubevirt.io";
const SNAPSHOTS: &str = kite_core::volume_snapshot::GROUP;

/// Reads by name, lists and watches.
pub(super) const READ: [&str; 3] = ["get", "list", "watch"];

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everywhere, and for what lies in no namespace.
    Cluster,
    /// In Kite's own namespace.
    Kite,
    /// In the namespace of golden images.
    Images,
    /// In the namespaces of users: the controller binds the role there.
    Users,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cluster, Self::Kite, Self::Images, Self::Users];
}

/// Where what the controller writes may be, which its rights do not say: it makes
/// namespaces, and watches all of them. The policy `kite-writes` holds it to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reach {
    /// In users' namespaces only.
    Users,
    /// There, and some objects in Kite's own.
    UsersAndKite,
    /// There, and wherever images are.
    UsersAndImages,
}

/// What a process may do, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Right {
    /// Where.
    pub scope: Scope,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resources, with their subresource where one is meant.
    pub resources: Vec<&'static str>,
    /// The only objects that are meant; empty for all.
    pub names: Vec<String>,
    /// The verbs.
    pub verbs: Vec<&'static str>,
    /// What the process needs it for.
    pub why: &'static str,
    /// Where it writes by it, if that is bounded.
    pub reach: Option<Reach>,
}

impl Right {
    fn of<const R: usize, const V: usize>(
        scope: Scope,
        group: &'static str,
        resources: [&'static str; R],
        verbs: [&'static str; V],
        why: &'static str,
    ) -> Self {
        Self {
            scope,
            group,
            resources: resources.to_vec(),
            names: Vec::new(),
            verbs: verbs.to_vec(),
            why,
            reach: None,
        }
    }

    fn named<const N: usize>(self, names: [&'static str; N]) -> Self {
        Self {
            names: names.map(str::to_owned).to_vec(),
            ..self
        }
    }

    /// The same with names of which some are chosen when Kite is installed.
    fn named_by(self, names: Vec<String>) -> Self {
        Self { names, ..self }
    }

    /// For what is written here and nowhere else.
    fn within(self, reach: Reach) -> Self {
        Self {
            reach: Some(reach),
            ..self
        }
    }

    /// With verbs more.
    pub(super) fn and<const V: usize>(mut self, verbs: [&'static str; V]) -> Self {
        self.verbs.extend(verbs);
        self
    }
}

pub(super) fn cluster<const R: usize, const V: usize>(
    group: &'static str,
    resources: [&'static str; R],
    verbs: [&'static str; V],
    why: &'static str,
) -> Right {
    Right::of(Scope::Cluster, group, resources, verbs, why)
}

fn own<const V: usize>(
    group: &'static str,
    resource: &'static str,
    verbs: [&'static str; V],
    why: &'static str,
) -> Right {
    Right::of(Scope::Kite, group, [resource], verbs, why)
}

fn users<const R: usize, const V: usize>(
    group: &'static str,
    resources: [&'static str; R],
    verbs: [&'static str; V],
    why: &'static str,
) -> Right {
    Right::of(Scope::Users, group, resources, verbs, why)
}

impl Installation {
    /// All that `process` may do in this installation.
    pub fn rights(&self, process: Process) -> Vec<Right> {
        match process {
            Process::Controller => controller(self),
            Process::Gateway => [gateway(), enters_vms()].concat(),
            Process::Api if self.terminals => [api(), enters_vms()].concat(),
            Process::Api => api(),
        }
    }

    /// The Secrets in Kite's namespace with a certificate for the web page, as far as it is
    /// known when Kite is installed which one the settings name: those that the settings to
    /// begin with and [`certificate_secrets`](Self::certificate_secrets) name, and that which
    /// the HTTP API puts there. Never one of [`NOT_THE_CONTROLLERS`].
    fn certificates(&self) -> BTreeSet<String> {
        let begun = self.platform.exposure.certificate.secret_name.iter();
        let named = begun.chain(&self.certificate_secrets).cloned();
        let mut all: BTreeSet<_> = named.collect();
        all.insert(names::UPLOADED_CERTIFICATE.to_owned());
        all.retain(|name| !NOT_THE_CONTROLLERS.contains(&name.as_str()));
        all
    }
}

/// Secrets in Kite's namespace that hold no certificate, and that no setting makes the
/// controller read as one: the first administrator's token, the key of passwords, and what
/// Kite shows sign-in providers.
pub const NOT_THE_CONTROLLERS: [&str; 3] = [
    names::BOOTSTRAP_SECRET,
    names::SEAL_SECRET,
    names::OIDC_SECRET,
];

/// What the controller writes here, by group: of groups that KubeVirt and others may serve in
/// another version tomorrow, in all of them.
pub(super) fn written(reach: Reach) -> Vec<(&'static str, Vec<&'static str>)> {
    let rights = of_users().into_iter().chain(of_machines());
    let rights = rights.filter(|right| right.reach == Some(reach));
    let by_group = rights.map(|right| {
        let group = match right.group {
            CDI => "cdi.kubevirt.io/*",
            KUBEVIRT => "kubevirt.io/*",
            GATEWAY => "gateway.networking.k8s.io/*",
            SNAPSHOTS => "snapshot.storage.k8s.io/*",
            served_as_v1 => served_as_v1,
        };
        (group, right.resources)
    });
    by_group.collect()
}

fn controller(installation: &Installation) -> Vec<Right> {
    let host_key = [names::GATEWAY_HOST_KEY_SECRET.to_owned()];
    let by_name = host_key.into_iter().chain(installation.certificates());
    let mut rights = of_kites_kinds();
    rights.extend(of_users());
    rights.extend(of_machines());
    rights.extend(of_settings());
    rights.extend([
        tells(),
        own(
            CORE,
            "secrets",
            ["get"],
            "whether the certificate is there that the settings name (`--certificate-secret`); the gateway's host key",
        )
        .named_by(by_name.collect()),
        own(
            CORE,
            "secrets",
            ["list", "watch"],
            "the gateway's host key, whose public half users are told; whether the secrets of sign-in providers are there",
        )
        .named([names::GATEWAY_HOST_KEY_SECRET, names::OIDC_SECRET]),
        own(LEASES, "leases", ["create"], "the election's Lease"),
        own(
            LEASES,
            "leases",
            ["patch"],
            "to lead, and to let go of that",
        )
        .named(["kite-controller"]),
        clones_images(),
    ]);
    rights
}

/// To own what is made for VMs and images.
pub(super) fn owns_what_is_made() -> Right {
    cluster(
        KITE,
        ["kitevirtualmachines/finalizers", "kiteimages/finalizers"],
        ["update"],
        "to own what is made for them, where OwnerReferencesPermissionEnforcement is on, as in OpenShift",
    )
}

/// To end what nobody wants any more.
pub(super) fn deletes_snapshots() -> Right {
    cluster(
        KITE,
        ["kitesnapshots"],
        ["delete"],
        "a snapshot goes with its VM, or when its time is over",
    )
}

/// On claims of which there can be one.
pub(super) fn reserves() -> Right {
    cluster(
        KITE,
        ["kitereservations"],
        READ,
        "claims of which there can be one",
    )
    .and(["create", "patch", "delete"])
}

/// To tell what befalls objects.
pub(super) fn tells() -> Right {
    cluster(
        "events.k8s.io",
        ["events"],
        ["create"],
        "the story of an object, in `kubectl describe`",
    )
}

/// To clone golden images.
pub(super) fn clones_images() -> Right {
    Right::of(
        Scope::Images,
        CDI,
        ["datavolumes/source"],
        ["create"],
        "CDI's question whether disks may be cloned from there; granted nowhere else, so no other disk can be cloned",
    )
}

/// The controller's rights on Kite's own kinds.
fn of_kites_kinds() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            [
                "kiteusers",
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
            ["kitesnapshots"],
            ["create"],
            "snapshots that are taken by a schedule",
        ),
        cluster(
            KITE,
            ["kiteplatforms", "kitevirtualmachineoffers"],
            READ,
            "the settings, and what is offered",
        ),
        cluster(
            KITE,
            [
                "kiteusers/status",
                "kitevirtualmachines/status",
                "kiteimages/status",
                "kitesnapshots/status",
                "kitevolumes/status",
                "kiteplatforms/status",
                "kitevirtualmachineoffers/status",
            ],
            ["patch"],
            "to say what was seen",
        ),
        cluster(
            KITE,
            ["kitevirtualmachines"],
            ["delete"],
            "a VM goes with its user, or when it has expired",
        ),
        cluster(
            KITE,
            ["kitevolumes"],
            ["delete"],
            "a volume goes with its user, unless it is to be kept",
        ),
        deletes_snapshots(),
        owns_what_is_made(),
        reserves(),
    ]
}

/// The controller's rights on what a user gets.
fn of_users() -> Vec<Right> {
    vec![
        cluster(CORE, ["namespaces"], READ, "users' namespaces").and(["create", "patch", "delete"]),
        cluster(
            NETWORK,
            ["networkpolicies"],
            READ,
            "the network policies around them; they go with their namespace",
        )
        .and(["create", "patch"])
        .within(Reach::Users),
        cluster(CORE, ["resourcequotas"], READ, "their quotas")
            .and(["create", "patch"])
            .within(Reach::Users),
        cluster(
            RBAC,
            ["rolebindings"],
            READ,
            "what Kite's processes may do there, itself among them",
        )
        .and(["create", "patch"])
        .within(Reach::Users),
        cluster(
            RBAC,
            ["clusterroles"],
            ["bind"],
            "the same; these three roles and no others",
        )
        .named([
            "kite-controller-users",
            "kite-gateway-users",
            "kite-api-users",
        ]),
        cluster(
            CORE,
            ["nodes"],
            ["list", "watch"],
            "addresses that network policies close",
        ),
        cluster(
            "discovery.k8s.io",
            ["endpointslices"],
            ["list", "watch"],
            "addresses of the API server, which network policies close",
        ),
    ]
}

/// The controller's rights on what a VM or an image gets.
pub(super) fn of_machines() -> Vec<Right> {
    vec![
        users(
            CORE,
            ["secrets"],
            READ,
            "VMs' keys and cloud-init, whether certificates are there, what cert-manager leaves behind",
        )
        .and(["create", "patch", "delete"])
        .within(Reach::UsersAndKite),
        cluster(CORE, ["services"], READ, "ways to VMs and to the gateway").and([
            "create", "patch", "delete",
        ])
        .within(Reach::UsersAndKite),
        cluster(
            CORE,
            ["persistentvolumeclaims"],
            READ,
            "disks that grow, and that CDI leaves behind",
        )
        .and(["patch", "delete"])
        .within(Reach::Users),
        cluster(
            NETWORK,
            ["ingresses"],
            READ,
            "domains of VMs and of the web page",
        )
        .and(["create", "patch", "delete"])
        .within(Reach::UsersAndKite),
        cluster(
            GATEWAY,
            ["httproutes"],
            READ,
            "the same with the Gateway API",
        )
        .and(["create", "patch", "delete"])
        .within(Reach::UsersAndKite),
        cluster(
            CDI,
            ["datavolumes", "dataimportcrons", "datasources"],
            READ,
            "disks and images",
        )
        .and(["create", "patch", "delete"])
        .within(Reach::UsersAndImages),
        cluster(KUBEVIRT, ["virtualmachines"], READ, "VMs").and([
            "create", "patch", "delete",
        ])
        .within(Reach::Users),
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
            "to move VMs that grow while they run, where KubeVirt does not by itself, a few at a time",
        )
        .and(["create", "delete"])
        .within(Reach::Users),
        cluster(
            KUBEVIRT,
            ["kubevirts"],
            ["list", "watch"],
            "how much KubeVirt asks for VMs, for their users' quotas, and whether it moves them to grow",
        ),
        users(
            "subresources.kubevirt.io",
            ["virtualmachines/restart"],
            ["update"],
            "to restart them",
        ),
        cluster(LEASES, ["leases"], READ, "when a VM was last used"),
    ]
    .into_iter()
    .chain(of_snapshots())
    .collect()
}

/// The controller's rights on what a snapshot gets.
fn of_snapshots() -> Vec<Right> {
    vec![
        cluster(SNAPSHOTS, ["volumesnapshots"], READ, "snapshots of disks")
            .and(["create", "patch", "delete"])
            .within(Reach::Users),
        cluster(
            SNAPSHOTS,
            ["volumesnapshotclasses"],
            ["list", "watch"],
            "by which of them snapshots are taken",
        ),
        cluster(
            CDI,
            ["storageprofiles"],
            ["list", "watch"],
            "by which of them CDI has them taken",
        ),
        users(
            "subresources.kubevirt.io",
            [
                "virtualmachineinstances/freeze",
                "virtualmachineinstances/unfreeze",
            ],
            ["update"],
            "to have a guest's file systems at rest while storage cuts",
        ),
        users(
            LEASES,
            ["leases"],
            ["create", "patch", "delete"],
            "one snapshot at a time has a guest frozen",
        ),
    ]
}

/// The controller's rights to see whether what the settings name is there.
fn of_settings() -> Vec<Right> {
    vec![
        cluster(GATEWAY, ["gateways"], READ, "their listeners and addresses"),
        cluster(
            "storage.k8s.io",
            ["storageclasses"],
            ["list", "watch"],
            "whether what the settings name is there",
        ),
        cluster(NETWORK, ["ingressclasses"], ["list", "watch"], "the same"),
        cluster(
            "cert-manager.io",
            ["clusterissuers"],
            ["list", "watch"],
            "the same",
        ),
    ]
}

fn gateway() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            ["kitevirtualmachines", "kiteusers"],
            ["list", "watch"],
            "login names, who may log in, and by what",
        ),
        cluster(
            KITE,
            ["kiteconnections"],
            ["list", "watch"],
            "which connections are to end",
        ),
        cluster(
            KITE,
            ["kiteplatforms"],
            ["list", "watch"],
            "addresses of nodes, pods and load balancers, which are not banned",
        ),
        users(
            KITE,
            ["kitevirtualmachines"],
            ["patch"],
            "a login starts a VM (`startOnConnect`); a policy lets it change nothing else",
        ),
        users(
            KITE,
            ["kiteconnections"],
            ["create", "patch"],
            "who is connected",
        ),
        users(
            LEASES,
            ["leases"],
            ["create", "patch"],
            "when a VM was last used",
        ),
        own(
            LEASES,
            "leases",
            ["create", "patch"],
            "that the gateway is there",
        ),
        own(
            CORE,
            "secrets",
            ["create"],
            "its host key, when there is none yet",
        ),
        own(CORE, "secrets", ["get"], "its host key").named([names::GATEWAY_HOST_KEY_SECRET]),
    ]
}

/// What it takes to log in to VMs.
fn enters_vms() -> Vec<Right> {
    vec![
        users(CORE, ["secrets"], ["get"], "VMs' keys"),
        cluster(
            "discovery.k8s.io",
            ["endpointslices"],
            ["list", "watch"],
            "VMs' addresses",
        ),
    ]
}

fn api() -> Vec<Right> {
    let mut rights = on_accounts();
    rights.extend(on_vms());
    rights.extend([
        own(
            CORE,
            "secrets",
            ["get", "patch", "delete"],
            "the first administrator's token; the certificate that is put in",
        )
        .named([names::BOOTSTRAP_SECRET, names::UPLOADED_CERTIFICATE]),
        own(
            CORE,
            "secrets",
            ["get"],
            "secrets of sign-in providers, the certificate that was issued",
        )
        .named([names::OIDC_SECRET, names::PLATFORM_CERTIFICATE]),
        own(
            CORE,
            "secrets",
            ["get", "patch"],
            "the key of second factors and passwords, and another in its place",
        )
        .named([names::SEAL_SECRET]),
        own(
            CORE,
            "secrets",
            ["create"],
            "the certificate that is put in; the key of second factors and passwords, when there \
             is none yet",
        ),
        own(
            LEASES,
            "leases",
            ["list", "create", "patch", "delete"],
            "that the API is there, and whether gateways are, whose connections are over otherwise",
        ),
        own(
            CORE,
            "pods",
            ["list"],
            "whether replicas of an earlier version serve, which know passwords by the hash in \
             the account",
        ),
    ]);
    rights
}

/// The API's rights on accounts and on the platform.
fn on_accounts() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            ["kiteusers", "kitesessions"],
            READ,
            "accounts and sign-ins",
        )
        .and(["create", "patch", "delete"]),
        cluster(
            KITE,
            ["kitetokens", "kiteinvites"],
            READ,
            "API tokens and invites",
        )
        .and(["create", "delete"]),
        cluster(
            KITE,
            ["kitetokens/status", "kiteinvites/status"],
            ["patch"],
            "when a token was last used, and whose an invite is",
        ),
        cluster(
            KITE,
            ["kitesecondfactors"],
            ["get", "list", "create", "patch", "delete"],
            "second factors; all of them when their key is replaced",
        ),
        cluster(
            KITE,
            ["kitepasswords"],
            ["get", "list", "create", "patch", "delete"],
            "hashes of passwords; all of them when their key is replaced, and to clear away what \
             is over",
        ),
        cluster(KITE, ["kitereservations"], ["get"], "whose a name is"),
        cluster(KITE, ["kiteplatforms"], READ, "the settings").and(["create", "patch"]),
    ]
}

/// The API's rights on VMs.
fn on_vms() -> Vec<Right> {
    vec![
        cluster(
            KITE,
            [
                "kitevirtualmachines",
                "kitevirtualmachineoffers",
                "kiteimages",
                "kitesnapshots",
                "kitevolumes",
            ],
            ["list", "watch"],
            "VMs, offers, the catalogue, snapshots, volumes",
        ),
        users(
            KITE,
            ["kitevirtualmachines", "kitesnapshots", "kitevolumes"],
            ["get", "create", "patch", "delete"],
            "VMs, snapshots, volumes",
        ),
        cluster(
            KITE,
            ["kiteimages"],
            ["get", "create", "patch", "delete"],
            "images that administrators add to the catalogue",
        ),
        cluster(
            KITE,
            ["kitevirtualmachineoffers"],
            ["get", "create", "delete"],
            "offers",
        ),
        cluster(
            KITE,
            ["kiteconnections"],
            ["list", "watch"],
            "who is connected to VMs",
        ),
        users(
            KITE,
            ["kiteconnections"],
            ["create", "patch", "delete"],
            "to end connections, to say who is at a console, and to clear away what is old",
        ),
        users(
            LEASES,
            ["leases"],
            ["create", "patch"],
            "that a console uses a VM",
        ),
        users(
            "subresources.kubevirt.io",
            [
                "virtualmachineinstances/console",
                "virtualmachineinstances/vnc",
            ],
            ["get"],
            "serial lines and screens",
        ),
        cluster(CORE, ["nodes"], ["list"], "`admin/capacity`"),
    ]
}
