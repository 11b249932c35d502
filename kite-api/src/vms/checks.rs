//! What can be said about a VM before the cluster decides.
//!
//! None of this is the wall: quotas are enforced by the namespace's
//! `ResourceQuota`, names by reservations, fields by the CRD. It only answers
//! sooner and in plainer words.

use std::time::Duration;

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    conditions,
    crd::{Charge, KiteReservation, KiteUser, KiteVirtualMachine, UserPhase},
    names,
    quantity::Bytes,
};
use kube::ResourceExt as _;

use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    web::{Form, is_label},
};

/// The image must be in the catalogue and fit on the disk.
pub(crate) fn check_image(
    state: &ApiState,
    form: &mut Form,
    image: Option<String>,
    disk: Option<Bytes>,
) {
    let Some(name) = image else {
        return;
    };
    let images = &state.caches().images;
    let Some(image) = images.get(&ObjectKey::cluster(name)) else {
        let names: Vec<String> = images.list(|_| true).iter().map(|i| i.name_any()).collect();
        form.error(
            "image",
            if names.is_empty() {
                "is not in the catalogue, which is empty: ask an administrator for an image"
                    .to_owned()
            } else {
                format!(
                    "is not in the catalogue: choose one of {}",
                    names.join(", ")
                )
            },
        );
        return;
    };
    if disk.is_some_and(|disk| disk < image.spec.min_disk) {
        form.error(
            "disk",
            format!(
                "is too small for the image {:?}: write at least {}",
                image.name_any(),
                image.spec.min_disk
            ),
        );
    }
}

/// What one VM takes of its owner's quota.
pub(super) struct Demand<'a> {
    pub(super) cpu: u32,
    pub(super) memory: &'a Bytes,
    pub(super) disk: &'a Bytes,
}

/// The owner's VMs together, with `demand` in place of `instead_of`, must stay
/// within the quota. Only what grows is looked at: who is above a quota that was
/// lowered may still shrink.
pub(super) fn check_quota(
    state: &ApiState,
    owner: &KiteUser,
    demand: &Demand<'_>,
    instead_of: Option<&KiteVirtualMachine>,
) -> Result<(), Problem> {
    let namespace = names::user_namespace(&owner.name_any());
    let others = state.caches().vms.list(|vm| {
        vm.metadata.namespace.as_deref() == Some(&namespace)
            && instead_of.is_none_or(|old| old.uid() != vm.uid())
    });
    let quota = owner.spec.effective_quota();
    // Not what others ask for in vain.
    let used = others.iter().map(|vm| vm.expected_charge());
    let used = used.fold(Charge::default(), Charge::plus);
    let (used_cpu, used_memory, used_disk) = (used.cpu, used.memory, used.disk);
    let mut lacking = Vec::new();
    let mut exceeds = |what: &str, grows: bool, wanted: u64, limit: u64, limit_text: String| {
        if grows && wanted > limit {
            lacking.push(format!("{what} (quota {limit_text})"));
        }
    };
    exceeds(
        "VMs",
        instead_of.is_none(),
        others.len() as u64 + 1,
        u64::from(quota.vms),
        quota.vms.to_string(),
    );
    exceeds(
        "CPUs",
        instead_of.is_none_or(|old| demand.cpu > old.spec.cpu),
        used_cpu.saturating_add(demand.cpu.into()),
        u64::from(quota.cpu),
        format!("{}, {used_cpu} used by others of your VMs", quota.cpu),
    );
    exceeds(
        "memory",
        instead_of.is_none_or(|old| *demand.memory > old.spec.memory),
        used_memory.saturating_add(demand.memory.bytes()),
        quota.memory.bytes(),
        quota.memory.to_string(),
    );
    exceeds(
        "disk",
        instead_of.is_none_or(|old| *demand.disk > old.spec.disk),
        used_disk.saturating_add(demand.disk.bytes()),
        quota.disk.bytes(),
        quota.disk.to_string(),
    );
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::QuotaExceeded,
        format!(
            "the quota does not allow so many {}: delete a VM, ask for less, or ask an \
             administrator for more",
            lacking.join(" and ")
        ),
    ))
}

/// Waits a moment for a new account's namespace.
pub(super) async fn wait_for_namespace(state: &ApiState, owner: &KiteUser) -> Result<(), Problem> {
    let key = ObjectKey::cluster(owner.name_any());
    let ready = state
        .caches()
        .users
        .wait_for(state.settings().namespace_wait, |users| {
            let status = users.get(&key)?.status.clone()?;
            match status.phase {
                _ if status.namespace.is_some() => Some(Ok(())),
                Some(UserPhase::Failed) => Some(Err(conditions::find(&status.conditions, "Ready")
                    .map(|ready| ready.message.clone())
                    .unwrap_or_default())),
                _ => None,
            }
        })
        .await;
    match ready {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(Problem::new(
            ProblemKind::Conflict,
            format!("the account cannot have VMs: {why}"),
        )),
        None => Err(namespace_not_ready()),
    }
}

/// The problem of a user whose namespace is not there yet.
pub(super) fn namespace_not_ready() -> Problem {
    Problem::new(
        ProblemKind::NotReady,
        "the account's space for VMs is being prepared: try again in a few seconds",
    )
    .retry_after(Duration::from_secs(2))
}

/// A name of which there can be one in the platform must not be another VM's.
/// `name` must be fit for an object's name; what is not is left to the CRD.
pub(super) async fn check_unique(
    state: &ApiState,
    claim: UniqueName<'_>,
    own_uid: Option<&str>,
) -> Result<(), Problem> {
    let (field, name, reservation) = match claim {
        UniqueName::SshId(name) => ("sshId", name, names::ssh_id_reservation(name)),
        UniqueName::Domain(name) => ("domainPrefix", name, names::domain_reservation(name)),
    };
    if !is_label(name) {
        return Ok(());
    }
    let asked_for = state.caches().vms.find(|vm| {
        let has = match claim {
            UniqueName::SshId(name) => vm.spec.ssh_id == name,
            UniqueName::Domain(name) => vm.spec.domain_prefix.as_deref() == Some(name),
        };
        has && (own_uid.is_none() || vm.uid().as_deref() != own_uid)
    });
    let held = match asked_for {
        Some(_) => true,
        None => state
            .cluster()
            .find::<KiteReservation>(&ObjectKey::cluster(reservation))
            .await?
            .is_some_and(|held| Some(held.spec.holder.uid.as_str()) != own_uid),
    };
    if held {
        let remedy = match claim {
            UniqueName::SshId(_) => "is another VM's: choose another, or leave it out to get one",
            UniqueName::Domain(_) => "is another VM's: choose another",
        };
        return Err(Problem::field(ProblemKind::Taken, field, name, remedy));
    }
    Ok(())
}

/// A name of which there can be one in the platform.
#[derive(Clone, Copy)]
pub(super) enum UniqueName<'a> {
    /// A login name at the gateway.
    SshId(&'a str),
    /// A label below the base domain.
    Domain(&'a str),
}
