//! Worlds around one user: as they may be found, and how they go on.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kite_core::{
    crd::{
        Identity, KiteUser, KiteUserSpec, KiteUserStatus, KiteVirtualMachine,
        KiteVirtualMachineSpec,
    },
    labels::{self, NETWORK_POLICY_FINALIZER},
};
use kite_reconcile::{
    Settings,
    claims::ClaimState,
    objects::AnyObject,
    plan::{Change, Outcome, Plan, Step},
    user::{Observed, plan},
};
use kite_render::{User, isolation, namespace, quota, reservation};
use kube::{ResourceExt as _, api::ObjectMeta};
use proptest::prelude::*;

use crate::found::{Found, claimed, claims, found, now, place};

/// The user's namespace.
pub const ANN: &str = "kite-user-ann";
const MOST_ROUNDS: usize = 24;

/// A user and all that the plan depends on.
#[derive(Clone)]
pub struct World {
    pub object: KiteUser,
    pub seen: Observed,
    /// Whether what is deleted stays for a while.
    pub slow: bool,
    /// Whether the user's own finalizer was taken off.
    pub gone: bool,
}

fn object(deleting: bool, held: bool, email: bool, suspended: bool) -> KiteUser {
    let mut spec = KiteUserSpec::new("ann");
    spec.email = email.then(|| "ann@example.org".to_owned());
    // One property stands for both: they are claimed alike.
    spec.identities = email
        .then(|| Identity {
            issuer: "https://login.example.org".to_owned(),
            subject: "248289761001".to_owned(),
        })
        .into_iter()
        .collect();
    spec.suspended = suspended;
    let mut user = KiteUser::new("ann", spec);
    user.metadata.uid = Some("uid-ann".to_owned());
    user.metadata.generation = Some(3);
    let held = held.then(|| labels::USER_FINALIZER.to_owned());
    let finalizers = held.into_iter().chain(["example.org/backup".to_owned()]);
    user.metadata.finalizers = Some(finalizers.collect());
    user.metadata.deletion_timestamp = deleting.then(now);
    user
}

fn vm(name: &str, leaving: bool) -> KiteVirtualMachine {
    let spec = KiteVirtualMachineSpec::new(
        2,
        "4Gi".parse().unwrap(),
        "20Gi".parse().unwrap(),
        "debian-12",
        name,
    );
    let mut vm = KiteVirtualMachine::new(name, spec);
    vm.metadata.namespace = Some(ANN.to_owned());
    vm.metadata.uid = Some(format!("ours-{name}"));
    vm.metadata.deletion_timestamp = leaving.then(now);
    vm
}

/// A policy of the user's own, which only closes more.
fn policy_of_the_user() -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some("mine".to_owned()),
            namespace: Some(ANN.to_owned()),
            uid: Some("theirs-mine".to_owned()),
            ..ObjectMeta::default()
        },
        ..NetworkPolicy::default()
    }
}

prop_compose! {
    /// A world whose user is `deleting`; with it, how the namespace was found.
    pub fn world_of(deleting: BoxedStrategy<bool>, of_namespace: BoxedStrategy<Found>)(
        (held, held_anyway, email, suspended, slow, stale, extra)
            in any::<(bool, bool, bool, bool, bool, bool, bool)>(),
        deleting in deleting,
        of_namespace in of_namespace,
        of_policies in proptest::collection::vec(found(), 3),
        of_quota in found(),
        how in proptest::collection::vec(claimed(), 3),
        vms in proptest::collection::vec(any::<bool>(), 0..3),
        has_machines in any::<bool>(),
    ) -> (World, Found) {
        let object = object(deleting, held || held_anyway, email, suspended);
        let seen = {
            let user = User::of(&object).unwrap();
            let settings = Settings::default();
            let image_namespaces = BTreeSet::from(["kite-images".to_owned()]);
            let policies = isolation::policies(&user, &settings.isolation, &image_namespaces);
            let there = of_namespace != Found::Not;
            Observed {
                claims: claims(reservation::of_user(&user), &how, stale),
                namespace: place(namespace::namespace(&user, namespace::PodSecurity::default()), of_namespace),
                // Nothing lies in a namespace that is not there.
                policies: policies
                    .into_iter()
                    .zip(of_policies)
                    .filter_map(|(policy, found)| place(policy, found))
                    .chain(extra.then(policy_of_the_user))
                    .filter(|_| there)
                    .collect(),
                quota: place(quota::resource_quota(&user, &quota::Given::default(), &settings.overhead), of_quota).filter(|_| there),
                vms: vms
                    .into_iter()
                    .enumerate()
                    .map(|(index, leaving)| vm(&format!("vm{index}"), leaving))
                    .filter(|_| there)
                    .collect(),
                has_machines,
                image_namespaces,
                ..Observed::default()
            }
        };
        (World { object, seen, slow, gone: false }, of_namespace)
    }
}

/// Any world.
pub fn world() -> impl Strategy<Value = (World, Found)> {
    world_of(any::<bool>().boxed(), found())
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = &self.seen;
        f.debug_struct("World")
            .field("deleting", &self.is_deleting())
            .field("slow", &self.slow)
            .field(
                "claims",
                &seen
                    .claims
                    .wanted
                    .iter()
                    .map(|claim| &claim.state)
                    .collect::<Vec<_>>(),
            )
            .field("namespace", &seen.namespace.as_ref().map(|it| &it.metadata))
            .field("policies", &seen.policies.len())
            .field("quota", &seen.quota.as_ref().map(|it| &it.metadata))
            .field("vms", &seen.vms.len())
            .finish_non_exhaustive()
    }
}

impl World {
    pub fn plan(&self) -> Plan<KiteUserStatus> {
        plan(&self.object, &self.seen, &Settings::default()).unwrap()
    }

    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub fn carry_out(&mut self, step: Step) {
        let finalizers = self.object.metadata.finalizers.get_or_insert_default();
        let seen = &mut self.seen;
        match step {
            Step::AddFinalizer(name) => finalizers.push(name.to_owned()),
            Step::RemoveFinalizer(name) => {
                finalizers.retain(|finalizer| finalizer != name);
                self.gone = true;
            }
            Step::Change(Change::Claim(claim)) => seen.absorb(Outcome::Claimed(
                Box::new(claim.clone()),
                Box::new(ClaimState::Mine(claim)),
            )),
            Step::Change(Change::Unclaim(claim)) => {
                seen.absorb(Outcome::Claimed(
                    Box::new(claim),
                    Box::new(ClaimState::Free),
                ));
            }
            Step::Change(Change::Apply(object)) => seen.absorb(Outcome::Stored(object)),
            Step::Change(Change::Delete(AnyObject::KiteVirtualMachine(mut vm), _)) if self.slow => {
                vm.metadata.deletion_timestamp = Some(now());
                seen.absorb(Outcome::Stored((*vm).into()));
            }
            Step::Change(Change::Delete(AnyObject::Namespace(mut namespace), _)) if self.slow => {
                namespace.metadata.deletion_timestamp = Some(now());
                seen.absorb(Outcome::Stored((*namespace).into()));
            }
            Step::Change(Change::Delete(AnyObject::Namespace(mut namespace), _)) => {
                empty(seen);
                // Whatever is held in it holds it, too.
                namespace.metadata.deletion_timestamp = Some(now());
                seen.absorb(if seen.policies.is_empty() {
                    Outcome::Gone((*namespace).into())
                } else {
                    Outcome::Stored((*namespace).into())
                });
            }
            Step::Change(Change::Delete(object, _) | Change::RemoveFinalizerFrom(object, _)) => {
                seen.absorb(Outcome::Gone(object));
            }
            other => panic!("{} is nothing that is done for a user", other.describe()),
        }
    }

    /// What the rest of the cluster does by itself. Whether anything went.
    fn let_go(&mut self) -> bool {
        let seen = &mut self.seen;
        let is_leaving = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let before = (seen.vms.len(), seen.policies.clone());
        seen.vms.retain(|it| !is_leaving(&it.metadata));
        let had_machines = std::mem::take(&mut seen.has_machines);
        seen.policies
            .retain(|it| !is_leaving(&it.metadata) || is_held(it));
        let mut went = had_machines;
        if seen
            .quota
            .as_ref()
            .is_some_and(|it| is_leaving(&it.metadata))
        {
            seen.quota = None;
            went = true;
        }
        if seen
            .namespace
            .as_ref()
            .is_some_and(|it| is_leaving(&it.metadata))
        {
            empty(seen);
            if seen.policies.is_empty() {
                seen.namespace = None;
                went = true;
            }
        }
        went || before != (seen.vms.len(), seen.policies.clone())
    }

    /// Plans and carries out until nothing moves any more; `judge` is asked of
    /// each step before it is taken. What was done.
    pub fn to_rest(
        &mut self,
        mut judge: impl FnMut(&Self, &Step) -> Result<(), String>,
    ) -> Result<Vec<Step>, TestCaseError> {
        let mut done = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let planned = self.plan();
            if planned.steps.is_empty() && !self.let_go() {
                return Ok(done);
            }
            for step in planned.steps {
                judge(self, &step)
                    .map_err(|why| TestCaseError::fail(format!("{}: {why}", step.describe())))?;
                done.push(step.clone());
                self.carry_out(step);
                if self.gone {
                    return Ok(done);
                }
            }
        }
        let steps = done.iter().map(Step::describe).collect::<Vec<_>>();
        Err(TestCaseError::fail(format!("it never rests: {steps:#?}")))
    }
}

/// What lies in a namespace goes with it, but for what is held.
fn empty(seen: &mut Observed) {
    seen.vms.clear();
    seen.quota = None;
    seen.policies.retain(is_held);
    for policy in &mut seen.policies {
        policy.metadata.deletion_timestamp = Some(now());
    }
}

fn is_held(policy: &NetworkPolicy) -> bool {
    policy
        .finalizers()
        .iter()
        .any(|it| it == NETWORK_POLICY_FINALIZER)
}
