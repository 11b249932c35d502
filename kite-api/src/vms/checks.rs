//! What can be said about a VM before the cluster decides.
//!
//! None of this is the wall: quotas are enforced by the namespace's
//! `ResourceQuota`, names by reservations, fields by the CRD. It only answers
//! sooner and in plainer words.

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{Charge, KiteReservation, KiteUser, KiteVirtualMachine, KiteVirtualMachineOfferSpec},
    names,
    quantity::Bytes,
};
use kite_rest::{FieldError, Form, Problem, ProblemKind, is_label};
use kube::ResourceExt as _;

use crate::{amount::Amount, state::ApiState};

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
    if let Some(why) = image.unreadable() {
        form.error(
            "image",
            format!("cannot be read ({why}): choose another, or tell an administrator"),
        );
    } else if disk.is_some_and(|disk| disk < *image.least_disk()) {
        form.error(
            "disk",
            format!(
                "is too small for the image {:?}: write at least {}",
                image.name_any(),
                image.least_disk()
            ),
        );
    }
}

/// What became of an offer's image, if a VM cannot be made of it any more.
pub(crate) fn obstacle_of_offer(
    state: &ApiState,
    spec: &KiteVirtualMachineOfferSpec,
) -> Option<String> {
    let name = &spec.image;
    match state.caches().images.get(&ObjectKey::cluster(name)) {
        None => Some(format!(
            "its image {name:?} is not in the catalogue any more"
        )),
        Some(image) if image.unreadable().is_some() => {
            Some(format!("its image {name:?} cannot be read"))
        }
        Some(image) if spec.disk < *image.least_disk() => Some(format!(
            "its disk of {} is too small for the image {name:?}, which needs {}",
            spec.disk,
            image.least_disk()
        )),
        Some(_) => None,
    }
}

/// What one VM takes of its owner's quota.
pub(super) struct Demand<'a> {
    /// The sizes are an offer's: no other ones can be asked for.
    pub(super) is_offered: bool,
    pub(super) cpu: u32,
    pub(super) memory: &'a Bytes,
    pub(super) disk: &'a Bytes,
}

/// The owner's VMs together, with `demand` in place of `instead_of`, must stay
/// within the quota. Only what grows is looked at: who is above a quota that was
/// lowered may still shrink. Nor is what is not asked for.
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
    let mut errors = Vec::new();
    let count = others.len() as u64 + 1;
    if instead_of.is_none() && count > u64::from(quota.vms) {
        lacking.push(format!("VMs (quota {})", quota.vms));
        errors.push(FieldError {
            field: String::new(),
            value: None,
            message: format!(
                "the quota does not allow so many VMs ({}): delete one, or ask an administrator \
                 for more",
                quota.vms
            ),
        });
    }
    let amounts = [
        Amount {
            field: "cpu",
            what: "CPUs",
            grows: instead_of.map_or(demand.cpu > 0, |old| demand.cpu > old.spec.cpu),
            asked: demand.cpu.into(),
            value: Some(demand.cpu.into()),
            used: used_cpu,
            limit: quota.cpu.into(),
            limit_text: quota.cpu.to_string(),
            is_bytes: false,
        },
        Amount {
            field: "memory",
            what: "memory",
            grows: instead_of.map_or(demand.memory.bytes() > 0, |old| {
                *demand.memory > old.spec.memory
            }),
            asked: demand.memory.bytes(),
            value: Some(demand.memory.to_string().into()),
            used: used_memory,
            limit: quota.memory.bytes(),
            limit_text: quota.memory.to_string(),
            is_bytes: true,
        },
        Amount {
            field: "disk",
            what: "disk",
            grows: instead_of.map_or(demand.disk.bytes() > 0, |old| *demand.disk > old.spec.disk),
            asked: demand.disk.bytes(),
            value: Some(demand.disk.to_string().into()),
            used: used_disk,
            limit: quota.disk.bytes(),
            limit_text: quota.disk.to_string(),
            is_bytes: true,
        },
    ];
    // Where there is one VM too many, no other size would help.
    let is_full = !lacking.is_empty();
    for amount in amounts.into_iter().filter(Amount::is_exceeded) {
        lacking.push(format!("{} ({})", amount.what, amount.quota()));
        if !is_full && !demand.is_offered {
            errors.push(amount.into_error());
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let smaller = if demand.is_offered {
        "claim a smaller offer"
    } else {
        "ask for less"
    };
    let problem = Problem::new(
        ProblemKind::QuotaExceeded,
        format!(
            "the quota does not allow so many {}: delete a VM, {smaller}, or ask an \
             administrator for more",
            lacking.join(" and ")
        ),
    );
    Err(errors.into_iter().fold(problem, Problem::with_error))
}

/// A name of which there can be one in the platform must not be another VM's, kept for
/// somebody else than `owner`, or reserved. `own_uid` is that of the VM that wants it, if
/// it is there already. `name` must be fit for an object's name; what is not is left to
/// the CRD.
pub(super) async fn check_unique(
    state: &ApiState,
    owner: &KiteUser,
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
    let key = ObjectKey::cluster(reservation);
    let held = state.cluster().get_opt::<KiteReservation>(&key).await?;
    let held = held.map(|held| held.spec);
    let namespace = names::user_namespace(&owner.name_any());
    // What others wish for is kept from them.
    let is_kept = held.as_ref().is_some_and(|it| it.kept.is_some());
    let asked_for = state.caches().vms.find(|vm| {
        let has = match claim {
            UniqueName::SshId(name) => vm.spec.ssh_id == name,
            UniqueName::Domain(name) => vm.spec.domain_prefix.as_deref() == Some(name),
        };
        let counts = !is_kept || vm.namespace().as_ref() == Some(&namespace);
        has && counts && (own_uid.is_none() || vm.uid().as_deref() != own_uid)
    });
    if asked_for.is_some() {
        return Err(Problem::field(
            ProblemKind::Taken,
            field,
            name,
            claim.taken(),
        ));
    }
    if let Some(spec) = &held {
        let why = match spec.kept_from(&namespace, owner.uid().as_deref()) {
            Some(kept) => {
                let (until, name) = (kept.until.0, &key.name);
                Some(format!(
                    "is kept until {until} for whoever had it before: choose another, or ask an \
                     administrator, who can release it by kubectl delete kitereservation {name}"
                ))
            }
            None if spec.kept.is_some() || Some(spec.holder.uid.as_str()) == own_uid => None,
            None => Some(claim.taken().to_owned()),
        };
        if let Some(why) = why {
            return Err(Problem::field(ProblemKind::Taken, field, name, why));
        }
    }
    // Whoever has one that was reserved later keeps it.
    let is_had = held.is_some_and(|it| it.kept.is_none());
    if let UniqueName::Domain(prefix) = claim
        && let Some(why) = state.platform().reserved_domain(prefix).filter(|_| !is_had)
    {
        return Err(Problem::field(
            ProblemKind::Taken,
            field,
            name,
            why.to_string(),
        ));
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

impl UniqueName<'_> {
    /// That it is another VM's, and what else to write.
    fn taken(self) -> &'static str {
        match self {
            Self::SshId(_) => "is another VM's: choose another, or leave it out to get one",
            Self::Domain(_) => "is another VM's: choose another",
        }
    }
}
