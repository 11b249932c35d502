//! `KiteUser`: the namespace with its walls and its quota, what the user's VMs
//! use, and, when the user goes, VMs first and walls last.

use std::time::Duration;

use async_trait::async_trait;
use futures::try_join;
use k8s_openapi::{
    api::{
        core::v1::{Namespace, ResourceQuota},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    conditions::NewCondition,
    crd::{
        Claim, KitePlatform, KitePlatformSpec, KiteUser, KiteUserStatus, KiteVirtualMachine, Usage,
        UserPhase,
    },
    labels::{self, USER_FINALIZER},
    names,
};
use kite_render::{User, namespace, quota, reservation, walls};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    runtime::controller::Action,
};

use crate::{
    Error,
    claims::{ClaimState, Claims, holder_text},
    context::{Context, Settings},
    drive::{self, Reconciler},
    matches::is_applied,
    objects::AnyObject,
    plan::{Outcome, Plan, Step},
    standing::{Standing, standing},
};

/// When to look at a user again that waits for nothing.
const RESYNC: Duration = Duration::from_secs(600);
/// When to look again at what is on its way out.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Types of the conditions of a user.
const READY: &str = "Ready";
const RESERVED: &str = "Reserved";
const NAMESPACE_READY: &str = "NamespaceReady";

/// Reconciles one user.
pub async fn reconcile<C: Cluster>(user: &KiteUser, context: &Context<C>) -> Result<Action, Error> {
    drive::reconcile::<Users, C>(user, context).await
}

/// What was seen of a user and of what belongs to them.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The platform's settings; the defaults if there are none.
    pub platform: KitePlatformSpec,
    /// Who has the username and the email address.
    pub claims: Claims,
    /// The user's namespace.
    pub namespace: Option<Namespace>,
    /// Its network policies, Kite's and others'.
    pub policies: Vec<NetworkPolicy>,
    /// Its quota.
    pub quota: Option<ResourceQuota>,
    /// The VMs in it.
    pub vms: Vec<KiteVirtualMachine>,
}

/// The reconciler of users.
pub(crate) struct Users;

#[async_trait]
impl Reconciler for Users {
    type Object = KiteUser;
    type Status = KiteUserStatus;
    type Observed = Observed;

    const KIND: &'static str = "KiteUser";

    async fn observe<C: Cluster>(object: &KiteUser, cluster: &C) -> Result<Observed, Error> {
        let user = User::of(object)?;
        let deleting = object.metadata.deletion_timestamp.is_some();
        let edited = object
            .status
            .as_ref()
            .and_then(|status| status.observed_generation)
            != object.metadata.generation;
        let held_by = (edited || deleting).then(|| labels::for_user(user.name));
        let name = user.namespace();
        let platform_key = ObjectKey::cluster(names::PLATFORM);
        let namespace_key = ObjectKey::cluster(&name);
        let quota_key = ObjectKey::namespaced(&name, quota::NAME);
        let (platform, claims, namespace, policies, quota, vms) = try_join!(
            cluster.find::<KitePlatform>(&platform_key),
            Claims::observe(cluster, reservation::of_user(&user), held_by.as_ref()),
            cluster.find(&namespace_key),
            list::<NetworkPolicy, C>(cluster, &name),
            cluster.find(&quota_key),
            list::<KiteVirtualMachine, C>(cluster, &name),
        )?;
        Ok(Observed {
            platform: platform.map(|platform| platform.spec).unwrap_or_default(),
            claims,
            namespace,
            policies,
            quota,
            vms,
        })
    }

    fn plan(
        object: &KiteUser,
        observed: &Observed,
        settings: &Settings,
    ) -> Result<Plan<KiteUserStatus>, Error> {
        plan(object, observed, settings)
    }

    fn absorb(observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }

    fn status(object: &KiteUser) -> Option<&KiteUserStatus> {
        object.status.as_ref()
    }

    fn conditions(status: &KiteUserStatus) -> &[Condition] {
        &status.conditions
    }

    fn complete(
        status: KiteUserStatus,
        conditions: Vec<Condition>,
        generation: i64,
    ) -> KiteUserStatus {
        KiteUserStatus {
            conditions,
            observed_generation: Some(generation),
            ..status
        }
    }

    fn carrier(object: &KiteUser, status: KiteUserStatus) -> KiteUser {
        KiteUser {
            metadata: drive::carrier_metadata(&object.metadata),
            spec: object.spec.clone(),
            status: Some(status),
        }
    }
}

async fn list<K: Object, C: Cluster>(cluster: &C, namespace: &str) -> Result<Vec<K>, ClusterError> {
    let all = cluster
        .list::<K>(Some(namespace.to_owned()), &ListParams::default())
        .await?;
    Ok(all.items)
}

impl Observed {
    /// Takes in what came of a step.
    pub fn absorb(&mut self, outcome: Outcome) {
        let (object, gone) = match outcome {
            Outcome::Claimed(claim, state) => return self.claims.absorb(&claim, *state),
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
        };
        match object {
            AnyObject::Namespace(namespace) => self.namespace = (!gone).then_some(*namespace),
            AnyObject::ResourceQuota(quota) => self.quota = (!gone).then_some(*quota),
            AnyObject::NetworkPolicy(policy) => {
                let name = policy.name_any();
                self.policies.retain(|other| other.name_any() != name);
                self.policies.extend((!gone).then_some(*policy));
            }
            AnyObject::KiteVirtualMachine(vm) => {
                let name = vm.name_any();
                self.vms.retain(|other| other.name_any() != name);
                self.vms.extend((!gone).then_some(*vm));
            }
            AnyObject::DataSource(_)
            | AnyObject::DataVolume(_)
            | AnyObject::Ingress(_)
            | AnyObject::PersistentVolumeClaim(_)
            | AnyObject::Secret(_)
            | AnyObject::Service(_)
            | AnyObject::VirtualMachine(_) => {}
        }
    }

    fn policy(&self, name: Option<&str>) -> Option<&NetworkPolicy> {
        self.policies
            .iter()
            .find(|policy| policy.metadata.name.as_deref() == name)
    }
}

/// What to do about a user. Pure.
pub fn plan(
    object: &KiteUser,
    seen: &Observed,
    settings: &Settings,
) -> Result<Plan<KiteUserStatus>, Error> {
    let user = User::of(object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(plan_deletion(&user, seen));
    }
    let (steps, namespace) = steps(&user, seen, settings);
    let reserved = reserved(&user, seen);
    let suspended = object.spec.suspended;
    let phase = match (&reserved, &namespace.status) {
        (reserved, _) if reserved.status.as_str() != "True" => UserPhase::Failed,
        (_, status) if status.as_str() != "True" => UserPhase::Pending,
        _ if suspended => UserPhase::Suspended,
        _ => UserPhase::Ready,
    };
    let ready = match phase {
        UserPhase::Ready => NewCondition::new(READY, true, "Ready", "the user can have VMs"),
        UserPhase::Suspended => NewCondition::new(
            READY,
            false,
            "Suspended",
            "an administrator has suspended the user: all VMs are kept off",
        ),
        UserPhase::Failed => NewCondition {
            type_: READY,
            ..reserved.clone()
        },
        UserPhase::Pending | UserPhase::Deleting => NewCondition {
            type_: READY,
            ..namespace.clone()
        },
    };
    let is_there = namespace.status.as_str() == "True";
    Ok(Plan {
        steps,
        status: KiteUserStatus {
            observed_generation: None,
            phase: Some(phase),
            namespace: is_there.then(|| user.namespace()),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
        },
        conditions: vec![ready, reserved, namespace],
        again: RESYNC,
    })
}

/// The steps, and the condition of the namespace when there are none.
fn steps(user: &User<'_>, seen: &Observed, settings: &Settings) -> (Vec<Step>, NewCondition) {
    let waiting =
        |reason: &str, message: String| NewCondition::new(NAMESPACE_READY, false, reason, message);
    let not_yet = || waiting("NotMade", "the namespace is not made yet".to_owned());
    if !user.object.finalizers().iter().any(|f| f == USER_FINALIZER) {
        return (vec![Step::AddFinalizer(USER_FINALIZER)], not_yet());
    }
    let claims = seen.claims.steps();
    if !claims.is_empty() {
        return (claims, not_yet());
    }
    let lost = seen.claims.wanted.iter().any(|claim| !claim.is_mine());
    if lost && seen.namespace.is_none() {
        return (Vec::new(), not_yet());
    }
    let desired = namespace::namespace(user);
    let Some(stored) = &seen.namespace else {
        return (vec![Step::Apply(desired.into())], not_yet());
    };
    let name = user.namespace();
    match standing(&stored.metadata, &desired.metadata) {
        Standing::Ours => {}
        Standing::Leaving => {
            let message = format!("waiting for the former namespace {name} to go");
            return (Vec::new(), waiting("WaitingForDeletion", message));
        }
        Standing::Foreign => {
            let message = format!(
                "namespace {name} is there and belongs to something else: it must go, or the \
                 user needs another name"
            );
            return (Vec::new(), waiting("NameTaken", message));
        }
    }
    // The walls stand before anybody is told that the namespace is there.
    let mut steps = Vec::new();
    want(&mut steps, &desired, Some(stored));
    for policy in walls::policies(user, &settings.walls, seen.platform.image_namespace()) {
        let stored = seen.policy(policy.metadata.name.as_deref());
        want(&mut steps, &policy, stored);
    }
    let quota = quota::resource_quota(user, &settings.overhead);
    want(&mut steps, &quota, seen.quota.as_ref());
    (
        steps,
        NewCondition::new(
            NAMESPACE_READY,
            true,
            "Ready",
            format!("namespace {name} stands with its walls and quota"),
        ),
    )
}

/// Walls and quotas are put right whoever's they seem: a policy of ours that
/// somebody has taken the labels off must not open the wall.
fn want<K: Object>(steps: &mut Vec<Step>, desired: &K, stored: Option<&K>)
where
    AnyObject: From<K>,
{
    if !stored.is_some_and(|stored| is_applied(desired, stored)) {
        steps.push(Step::Apply(desired.clone().into()));
    }
}

fn reserved(user: &User<'_>, seen: &Observed) -> NewCondition {
    let spec = &user.object.spec;
    for wanted in &seen.claims.wanted {
        let (field, value) = match wanted.wanted.spec.claim {
            Claim::Email => ("spec.email", spec.email.as_deref().unwrap_or_default()),
            Claim::Username | Claim::SshId | Claim::Domain => {
                ("spec.username", spec.username.as_str())
            }
        };
        let (reason, message) = match &wanted.state {
            ClaimState::Mine(_) => continue,
            ClaimState::Free => ("Reserving", format!("{field} {value:?} is being reserved")),
            ClaimState::Held { reservation, .. } => (
                "Taken",
                format!(
                    "{field} {value:?} is taken by {}: choose another",
                    holder_text(&reservation.spec.holder)
                ),
            ),
        };
        return NewCondition::new(RESERVED, false, reason, message);
    }
    NewCondition::new(
        RESERVED,
        true,
        "Reserved",
        "username and email belong to the user",
    )
}

fn usage(vms: &[KiteVirtualMachine]) -> Usage {
    vms.iter().fold(Usage::default(), |usage, vm| {
        let add =
            |sum: i64, bytes: u64| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        Usage {
            vms: usage.vms.saturating_add(1),
            cpu: usage.cpu.saturating_add(vm.spec.cpu),
            memory: add(usage.memory, vm.spec.memory.bytes()),
            disk: add(usage.disk, vm.spec.disk.bytes()),
        }
    })
}

/// VMs first, each by its own reconciler, while the walls stand; then the
/// namespace; then the names are free.
fn plan_deletion(user: &User<'_>, seen: &Observed) -> Plan<KiteUserStatus> {
    let (steps, waiting_for) = next_of_deletion(user, seen);
    let old = user.object.status.clone().unwrap_or_default();
    Plan {
        steps,
        status: KiteUserStatus {
            phase: Some(UserPhase::Deleting),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
            ..old
        },
        conditions: vec![NewCondition::new(
            READY,
            false,
            "Deleting",
            format!("waiting for {waiting_for} to go"),
        )],
        again: LOOK_AGAIN,
    }
}

fn next_of_deletion(user: &User<'_>, seen: &Observed) -> (Vec<Step>, &'static str) {
    if !user.object.finalizers().iter().any(|f| f == USER_FINALIZER) {
        return (Vec::new(), "the finalizers of others");
    }
    let background = PropagationPolicy::Background;
    let ours = seen
        .namespace
        .as_ref()
        .map(|stored| standing(&stored.metadata, &namespace::namespace(user).metadata));
    // Only what lies in the user's own namespace is the user's.
    if matches!(ours, Some(Standing::Ours | Standing::Leaving)) {
        if !seen.vms.is_empty() {
            let steps = seen
                .vms
                .iter()
                .filter(|vm| vm.metadata.deletion_timestamp.is_none())
                .map(|vm| Step::Delete(vm.clone().into(), background.clone()))
                .collect();
            return (steps, "the user's VMs");
        }
        let steps = match (&seen.namespace, ours) {
            (Some(stored), Some(Standing::Ours)) => {
                vec![Step::Delete(stored.clone().into(), background)]
            }
            _ => Vec::new(),
        };
        return (steps, "the user's namespace");
    }
    let mut steps = seen.claims.release();
    steps.push(Step::RemoveFinalizer(USER_FINALIZER));
    (steps, "nothing")
}
