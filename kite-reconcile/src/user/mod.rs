//! `KiteUser`: the namespace with its network policies and its quota, what the user's VMs
//! use, and, when the user goes, VMs first and network policies last.

mod closed;
mod delete;
mod draft;
mod isolation;
mod namespace;
mod plan;
mod quota;
mod reserved;

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Node, ResourceQuota},
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, Listed, Object, ObjectKey},
    crd::{Exposure, KiteImage, KiteUser, KiteUserStatus, KiteVirtualMachine, KiteVolume},
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance},
    labels,
};
use kite_render::{User, image, machine, quota::Overhead, reservation};
use kube::{
    ResourceExt as _,
    api::{ListParams, ObjectMeta},
    runtime::controller::Action,
};

pub use self::plan::plan;
use self::{draft::UserDraft, plan::STAGES};
use crate::{
    Error,
    cache::{reading::as_known, uncached},
    claims::Claims,
    configured,
    context::{Context, Settings, Tools},
    objects::AnyObject,
    plan::{Outcome, Plan},
    platform, stage,
};
use kite_runtime::plan::{Planner, reconcile as reconcile_by_plan};

/// Reconciles one user.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(user: &KiteUser, context: &Context<C>) -> Result<Action, Error> {
    reconcile_by_plan(&Users(context.tools()), user, &context.shared).await
}

/// What was seen of a user and of what belongs to them.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// When it was seen.
    pub now: Timestamp,
    /// Namespaces from which disks are cloned: the platform's, and those where
    /// older images are.
    pub image_namespaces: BTreeSet<String>,
    /// Ranges of addresses that VMs are kept from because the platform names them.
    pub blocked: BTreeSet<String>,
    /// Ranges of addresses of the cluster itself: of nodes, pods and the API server.
    pub cluster: BTreeSet<String>,
    /// What of the platform's settings cannot be read: network policies that stand are left as
    /// they are then, for what they rest on here are stand-ins.
    pub unread: Option<String>,
    /// Nameservers that VMs ask because the platform names them.
    pub nameservers: Vec<String>,
    /// Whether a VM runs in the namespace that was started to ask the cluster's DNS; only
    /// looked at where the platform names nameservers.
    pub asks_cluster: bool,
    /// How VMs are exposed by domain, and so who comes in for that.
    pub exposure: Exposure,
    /// Who has the username and the email address.
    pub claims: Claims,
    /// The user's namespace.
    pub namespace: Option<Namespace>,
    /// Its network policies, Kite's and others'.
    pub policies: Vec<NetworkPolicy>,
    /// Its quota.
    pub quota: Option<ResourceQuota>,
    /// How `KubeVirt` is configured, by which its pods use that quota up.
    pub kubevirt: Option<KubeVirt>,
    /// What others may do in it, as far as the settings say that they may.
    pub grants: Vec<RoleBinding>,
    /// The VMs in it.
    pub vms: Vec<KiteVirtualMachine>,
    /// The volumes in it.
    pub volumes: Vec<KiteVolume>,
    /// Whether there are `VirtualMachine`s or instances in it; only looked at while it,
    /// or something of its network policies, is on its way out.
    pub has_machines: bool,
}

/// The namespace of the API server's own Service.
pub(crate) const API_SERVER_NAMESPACE: &str = "default";

/// The reconciler of users.
pub(crate) struct Users<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Users<'a> {
    type Object = KiteUser;
    type Status = KiteUserStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(&self, object: &KiteUser, cluster: &C) -> Result<Observed, Error> {
        let user = User::of(object)?;
        let held_by = labels::for_user(user.name);
        let name = user.namespace();
        let namespace_key = ObjectKey::cluster(&name);
        let quota_key = ObjectKey::namespaced(&name, kite_render::quota::NAME);
        let all = ListParams::default();
        let api_server = ListParams::default().labels(&labels::of_api_server());
        let goes = object.metadata.deletion_timestamp.is_some();
        let namespace = cluster.get_opt::<Namespace>(&namespace_key).await?;
        // Where it is gone, so is what was in it.
        let is_there = namespace.is_some() || !goes;
        let quota = async {
            if is_there {
                cluster.get_opt(&quota_key).await
            } else {
                Ok(None)
            }
        };
        let (platform, images, nodes, servers, claims, policies, quota, vms, volumes) = try_join!(
            // Network policies that stand, and users who go, do not wait for settings to be mended.
            known_if(goes, platform::find_as_it_is(cluster)),
            known_if(goes, cluster.list::<KiteImage>(None, &all)),
            known_if(goes, cluster.list::<Node>(None, &all)),
            known_if(
                goes,
                cluster.list::<EndpointSlice>(Some(API_SERVER_NAMESPACE.to_owned()), &api_server)
            ),
            Claims::observe(cluster, reservation::of_user(&user), &held_by, None),
            list_if::<NetworkPolicy, C>(is_there, cluster, &name),
            quota,
            list_if::<KiteVirtualMachine, C>(is_there, cluster, &name),
            list_if::<KiteVolume, C>(is_there, cluster, &name),
        )?;
        let platform = platform.map(|platform| platform.spec).unwrap_or_default();
        // Network policies must not leave an address open, nor fall while there is a VM.
        let (nodes, servers) = (nodes.complete()?, servers.complete()?);
        let is_leaving = |it: &ObjectMeta| it.deletion_timestamp.is_some();
        let metadata = policies.items.iter().map(|it| &it.metadata);
        let is_opening = namespace
            .iter()
            .map(|it| &it.metadata)
            .chain(metadata)
            .any(is_leaving);
        let vms = if goes { vms.complete()? } else { vms.items };
        let is_there = namespace
            .as_ref()
            .is_some_and(|it| !is_leaving(&it.metadata));
        let volumes = if goes && is_there {
            // The namespace goes, and all data in it: of none it may be overlooked that it is to
            // be kept.
            uncached(list::<KiteVolume, C>(cluster, &name))
                .await?
                .complete()?
        } else {
            volumes.items
        };
        let has_machines = is_opening
            && (has_any::<VirtualMachineInstance, C>(cluster, &name).await?
                || has_any::<VirtualMachine, C>(cluster, &name).await?);
        let asks_cluster = !platform.nameservers.is_empty() && asks_cluster(cluster, &name).await?;
        Ok(Observed {
            asks_cluster,
            grants: grants(cluster, &name, self.0.settings).await?,
            image_namespaces: images
                .items
                .iter()
                .map(|found| image::namespace(found, &platform))
                .chain([platform.image_namespace()])
                .map(str::to_owned)
                .collect(),
            exposure: platform.exposure,
            now: Timestamp::default(),
            unread: platform.unreadable,
            blocked: platform.blocked_networks.into_iter().collect(),
            nameservers: platform.nameservers,
            cluster: kite_render::isolation::addresses(&nodes)
                .into_iter()
                .chain(kite_render::isolation::endpoints(&servers))
                .collect(),
            claims,
            namespace,
            policies: policies.items,
            quota,
            kubevirt: known_if(goes, configured::kubevirt(cluster)).await?,
            vms,
            volumes,
            has_machines,
        })
    }

    fn at(&self, observed: &mut Observed, now: Timestamp) {
        observed.now = now;
    }

    fn holds_until(
        &self,
        _: &KiteUser,
        observed: &Observed,
        _again: Timestamp,
    ) -> Option<Timestamp> {
        stage::deadline::<UserDraft<'_>>(STAGES, observed)
    }

    fn plan(&self, object: &KiteUser, observed: &Observed) -> Result<Plan<KiteUserStatus>, Error> {
        plan(object, observed, self.0.settings)
    }

    fn absorb(&self, _: &KiteUser, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }
}

/// The bindings in `namespace` by which others have what the settings say.
async fn grants<C: Cluster>(
    cluster: &C,
    namespace: &str,
    settings: &Settings,
) -> Result<Vec<RoleBinding>, ClusterError> {
    let mut found = Vec::new();
    for grant in &settings.grants {
        let key = ObjectKey::namespaced(namespace, &grant.role);
        found.extend(cluster.get_opt::<RoleBinding>(&key).await?);
    }
    Ok(found)
}

async fn list<K: Object, C: Cluster>(
    cluster: &C,
    namespace: &str,
) -> Result<Listed<K>, ClusterError> {
    let all = ListParams::default();
    cluster.list(Some(namespace.to_owned()), &all).await
}

/// As [`list`], where there may be something.
async fn list_if<K: Object, C: Cluster>(
    is_there: bool,
    cluster: &C,
    namespace: &str,
) -> Result<Listed<K>, ClusterError> {
    if is_there {
        list(cluster, namespace).await
    } else {
        Ok(Listed::of(Vec::new()))
    }
}

/// What network policies and quotas are made by. Those of who goes are kept as they are known
/// to have to be: nothing is destroyed by that.
async fn known_if<F: Future>(goes: bool, read: F) -> F::Output {
    if goes {
        as_known(read).await
    } else {
        read.await
    }
}

/// Whether there is an object of the kind. Of a kind that is not served there is none.
async fn has_any<K: Object, C: Cluster>(
    cluster: &C,
    namespace: &str,
) -> Result<bool, ClusterError> {
    match list::<K, C>(cluster, namespace).await {
        Ok(found) => Ok(!found.items.is_empty() || !found.unreadable.is_empty()),
        Err(ClusterError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a VM runs in `namespace` that was started to ask the cluster's DNS. One that
/// cannot be read may.
async fn asks_cluster<C: Cluster>(cluster: &C, namespace: &str) -> Result<bool, ClusterError> {
    match list::<VirtualMachineInstance, C>(cluster, namespace).await {
        Ok(found) => {
            Ok(!found.unreadable.is_empty() || found.items.iter().any(machine::asks_cluster))
        }
        Err(ClusterError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Observed {
    /// Takes in what came of a step.
    pub fn absorb(&mut self, outcome: Outcome) {
        let (object, gone) = match outcome {
            Outcome::Claimed(claim, state) => return self.claims.absorb(&claim, *state),
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
            _ => return,
        };
        match object {
            AnyObject::Namespace(namespace) => self.namespace = (!gone).then_some(*namespace),
            AnyObject::ResourceQuota(quota) => self.quota = (!gone).then_some(*quota),
            AnyObject::NetworkPolicy(policy) => {
                let name = policy.name_any();
                self.policies.retain(|other| other.name_any() != name);
                self.policies.extend((!gone).then_some(*policy));
            }
            AnyObject::RoleBinding(binding) => {
                let name = binding.name_any();
                self.grants.retain(|other| other.name_any() != name);
                self.grants.extend((!gone).then_some(*binding));
            }
            AnyObject::KiteVirtualMachine(vm) => {
                let name = vm.name_any();
                self.vms.retain(|other| other.name_any() != name);
                self.vms.extend((!gone).then_some(*vm));
            }
            AnyObject::KiteVolume(volume) => {
                let name = volume.name_any();
                self.volumes.retain(|other| other.name_any() != name);
                self.volumes.extend((!gone).then_some(*volume));
            }
            _ => {}
        }
    }

    /// What quotas add beyond what VMs have.
    pub(super) fn overhead(&self, settings: &Settings) -> Overhead {
        let overhead = &settings.overhead;
        let kubevirt = self.kubevirt.as_ref();
        kubevirt.map_or_else(|| overhead.clone(), |kubevirt| overhead.beside(kubevirt))
    }

    pub(super) fn grant(&self, name: &str) -> Option<&RoleBinding> {
        let mut grants = self.grants.iter();
        grants.find(|binding| binding.metadata.name.as_deref() == Some(name))
    }

    pub(super) fn policy(&self, name: Option<&str>) -> Option<&NetworkPolicy> {
        self.policies
            .iter()
            .find(|policy| policy.metadata.name.as_deref() == name)
    }
}
