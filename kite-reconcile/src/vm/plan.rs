//! What to do about a VM. Pure: the same spec and the same observations give
//! the same plan.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kite_core::{
    cdi::DataVolume,
    cluster::Object,
    conditions::NewCondition,
    crd::{
        ImagePhase, KiteImage, KiteVirtualMachine, KiteVirtualMachineStatus, OsFamily, VmPhase,
        vm_condition::{IMAGE_READY, VIRTUAL_MACHINE_READY},
    },
    labels::VM_FINALIZER,
    names,
    quantity::Bytes,
};
use kite_render::{
    RenderError, Vm, cloud_init, disk, exposure, exposure::Exposure, image, keys, machine, service,
};
use kube::api::PropagationPolicy;

use super::{
    delete,
    expiry::Expiry,
    exposed,
    hold::power,
    idle::Idleness,
    lost::{self, Loss},
    moving,
    observe::{ImageSeen, Observed},
    offer,
    quota::{self, Field, Lack, Share},
    remake, resize, restart, status, unreadable,
};
use crate::{
    Error,
    image::stands_still,
    matches::is_applied,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    standing::{Needed, Standing, guarded, needed, standing},
};

/// When to look at a VM again that waits for nothing: everything that concerns
/// it is watched, this is for what a watch has missed.
const RESYNC: Duration = Duration::from_secs(600);

/// When to look again at what waits for something that may not lead back here,
/// such as a claim of CDI's that has to be bound before it grows.
const SOON: Duration = Duration::from_secs(20);

/// When to try again what the API server refused and nobody watches.
const A_WHILE: Duration = Duration::from_secs(60);

/// Why nothing is made of a VM whose owner's other VMs may ask for the same.
const WAITING_FOR_QUOTA: &str = "WaitingForQuota";

/// When to look again at a VM that has only told what it asks for: a watch leads
/// back here sooner.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What to do about the VM `object`, given what was observed.
pub fn plan(
    object: &KiteVirtualMachine,
    seen: &Observed,
) -> Result<Plan<KiteVirtualMachineStatus>, Error> {
    let vm = Vm::of(object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(delete::plan(&vm, seen));
    }
    if let Some(why) = object.unreadable() {
        return Ok(unreadable::plan(&vm, seen, &why));
    }
    if let Some(why) = &seen.platform.unreadable {
        return Ok(unreadable::plan_beside(&vm, seen, why));
    }
    let mut obstacles = Vec::new();
    let (mut steps, share) = steps(&vm, seen, &mut obstacles)?;
    let told = object.status.as_ref().and_then(|it| it.asking.as_ref());
    if steps.is_empty() && share.asking.is_some() && share.asking.as_ref() != told {
        steps.push(Step::Tell);
        // Mostly it is given at once: what is told with it is true by then.
        obstacles.retain(|obstacle| obstacle.condition.reason != WAITING_FOR_QUOTA);
    }
    let (mut status, conditions) = status::report(&vm, seen, &obstacles, &share);
    // What was changed with it must be in place before it.
    let restart = restart::plan(&vm, seen, steps.is_empty());
    status.restart = restart.status;
    steps.extend(restart.step);
    // A restart gives it its size, too.
    let restarts = seen.restart_asked || restart.again.is_some();
    if steps.is_empty() && !restarts {
        steps.extend(moving::step(&vm, seen));
    }
    Ok(Plan {
        steps,
        status,
        conditions,
        again: match (&seen.claim, obstacles.is_empty()) {
            _ if share.is_unknown() => AT_ONCE,
            // It may have been refused, of which no watch tells.
            _ if seen.restart_asked => SOON,
            (Some(claim), _) if !is_bound(claim) => SOON,
            _ if lost::loss(&vm, seen).is_some() => A_WHILE,
            (_, false) => SOON,
            _ if seen.exposure_refused.is_some() || seen.move_refused.is_some() => A_WHILE,
            _ if share.refusal(&quota::ALL).is_some() => A_WHILE,
            (Some(_) | None, true) => RESYNC,
        }
        .min(until_next_deadline(&vm, seen)),
    })
}

/// When time alone calls for something.
pub(super) fn next_deadline(vm: &Vm<'_>, seen: &Observed) -> Option<jiff::Timestamp> {
    let expiry = Expiry::of(vm.object, seen.now).and_then(|expiry| expiry.next());
    let idle = Idleness::of(vm, seen).and_then(|idle| idle.next(seen.now));
    let restart = restart::next(vm, seen);
    let resize = resize::next(seen);
    let all = expiry.into_iter().chain(idle).chain(restart);
    all.chain(resize).chain(moving::next(seen)).min()
}

/// How long until time alone calls for something.
pub(super) fn until_next_deadline(vm: &Vm<'_>, seen: &Observed) -> Duration {
    next_deadline(vm, seen).map_or(Duration::MAX, |next| {
        Duration::try_from(next.duration_since(seen.now)).unwrap_or_default()
    })
}

/// Why a part of the VM cannot be made now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Obstacle {
    /// The condition that says so.
    pub condition: NewCondition,
    /// The phase that the VM is in by it.
    pub phase: VmPhase,
}

impl Obstacle {
    fn new(type_: &'static str, phase: VmPhase, reason: &str, message: String) -> Self {
        Self {
            condition: NewCondition::new(type_, false, reason, message),
            phase,
        }
    }
}

/// The family of the guest: as the disk remembers it, for a later image of the
/// same name may be of another; else as the image says.
fn family(seen: &Observed) -> Option<OsFamily> {
    let of_disk = seen.disk.as_ref().and_then(disk::family_of);
    of_disk.or(match &seen.image {
        ImageSeen::Found(image) => Some(image.spec.os_family),
        ImageSeen::Unknown { .. } => None,
    })
}

/// The family that the VM's hardware is for; when nothing else says so, as it
/// is.
pub(super) fn hardware(seen: &Observed) -> OsFamily {
    let of_machine = || seen.machine.as_ref().map(machine::family_of);
    family(seen).or_else(of_machine).unwrap_or_default()
}

/// The size that a disk was made with.
pub(super) fn disk_size(disk: &DataVolume) -> Option<Bytes> {
    let resources = disk.spec.storage.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")?.0.parse().ok()
}

/// The size that a claim asks for.
pub(super) fn claim_size(claim: &PersistentVolumeClaim) -> Option<Bytes> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")?.0.parse().ok()
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim
        .status
        .as_ref()
        .is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

fn steps(
    vm: &Vm<'_>,
    seen: &Observed,
    obstacles: &mut Vec<Obstacle>,
) -> Result<(Vec<Step>, Share), Error> {
    let first = |steps| Ok((steps, Share::as_told(vm, seen)));
    if !has_finalizer(&vm.object.metadata) {
        return first(vec![Step::AddFinalizer(VM_FINALIZER)]);
    }
    let expiry = Expiry::of(vm.object, seen.now);
    if expiry.as_ref().is_some_and(Expiry::is_due) {
        return first(vec![Step::DeleteSelf]);
    }
    let claims = seen.claims.wants();
    if !claims.is_empty() {
        return first(claims);
    }
    let entitled = status::has_ssh_id(seen);
    // A VM that was made keeps what it has, whatever became of its claim or of
    // its image; one that was not yet, waits.
    let lost = lost::loss(vm, seen);
    let is_new = seen.disk.is_none() && lost.is_none();
    if is_new {
        obstacles.extend(expiry.filter(Expiry::is_expired).map(|expiry| Obstacle {
            condition: NewCondition {
                type_: VIRTUAL_MACHINE_READY,
                status: false.into(),
                ..expiry.condition()
            },
            phase: VmPhase::Failed,
        }));
        obstacles.extend(walls_obstacle(vm, seen));
        if obstacles.is_empty() {
            obstacles.extend(image_obstacle(vm, &seen.image).filter(|_| entitled));
        }
    }
    let is_unmanaged = lost == Some(Loss::Unmanaged);
    // It is there, though it may be that nobody looks after it.
    let has_disk = lost.is_none() || is_unmanaged;
    let may_ask = match &seen.disk {
        None if is_unmanaged => true,
        None => entitled && obstacles.is_empty() && offer::may_be_had(vm, seen),
        Some(_) => seen.own_disk(vm).is_some(),
    } && has_disk;
    let share = Share::of(vm, seen, may_ask);
    let fitted = share.fitted(vm.object);
    let fitted = Vm {
        object: &fitted,
        ..*vm
    };
    if is_new && obstacles.is_empty() {
        obstacles.extend(quota_obstacle(&share, &quota::ALL, seen));
    }
    // What is left of a VM that has lost its disk is kept as it should be.
    let is_made = seen.disk.is_some() || lost.is_some();
    let may_be_made = obstacles.is_empty() && (entitled || is_made);
    let mut steps = Steps {
        steps: Vec::new(),
        obstacles,
    };
    let is_prepared = may_be_made
        && steps.keys_and_user_data(vm, seen)?
        && (lost.is_some() || steps.disk(&fitted, seen));
    // What runs can always be switched off, whatever else is in the way.
    let unwalled = walls_obstacle(vm, seen).filter(|_| seen.is_unwalled);
    let unfit = unwalled.or_else(|| quota_obstacle(&share, &quota::MACHINE, seen));
    let may_start = is_prepared && has_disk;
    let unfit = unfit.filter(|_| may_start && seen.machine.is_none());
    if let Some(unfit) = unfit {
        // Its spec was edited after its disk was made, or its walls were taken down.
        steps.obstacles.push(unfit);
    } else if may_start || seen.machine.is_some() {
        let mut desired = machine::virtual_machine_for(&fitted, hardware(seen), power(vm, seen));
        machine::ask(&mut desired, &seen.platform.nameservers);
        steps.wanted(&desired, seen.machine.as_ref());
    }
    if is_prepared {
        if entitled {
            steps.wanted(&service::access(vm), seen.access_service.as_ref());
        }
        let is_led = steps.wanted(&service::web(vm), seen.web_service.as_ref());
        steps.exposure(vm, seen, is_led);
        if lost.is_none() {
            steps.growth(&fitted, seen);
        }
    }
    if steps.steps.is_empty() {
        let unled = |claim: &_| !exposed::leads_from(vm, seen, claim);
        steps.steps.extend(seen.claims.give_back(unled));
    }
    let mut steps = steps.steps;
    if seen.own_disk(vm).is_some() || lost.is_some() {
        steps.extend(offer::note(vm, seen));
        return Ok((steps, share));
    }
    // Last of all, when it is known that nothing else is in the way.
    let blocked = !entitled || !obstacles.is_empty();
    let steps = offer::gate(vm, seen, steps, blocked, obstacles);
    Ok((steps, share))
}

/// Nothing is made of a user's VM before the walls of their namespace stand.
fn walls_obstacle(vm: &Vm<'_>, seen: &Observed) -> Option<Obstacle> {
    let user = names::user_of_namespace(vm.namespace)?;
    let Some(owner) = &seen.owner else {
        return Some(Obstacle::new(
            VIRTUAL_MACHINE_READY,
            VmPhase::Pending,
            "UserMissing",
            format!(
                "there is no KiteUser {user}, and so neither walls nor a quota for namespace {}: \
                 an administrator must create the KiteUser, or delete the namespace",
                vm.namespace
            ),
        ));
    };
    let status = owner.status.as_ref();
    let stand = status.is_some_and(|status| status.namespace.is_some()) && !seen.is_unwalled;
    (!stand).then(|| {
        Obstacle::new(
            VIRTUAL_MACHINE_READY,
            VmPhase::Pending,
            "WaitingForNamespace",
            "waiting for the walls of the user's namespace: they stand when status.namespace of \
             the KiteUser is set"
                .to_owned(),
        )
    })
}

/// Why the VM does not fit beside its owner's others.
fn quota_obstacle(share: &Share, needs: &[Field], seen: &Observed) -> Option<Obstacle> {
    let obstacle = |phase, reason, why: &str| {
        Obstacle::new(VIRTUAL_MACHINE_READY, phase, reason, why.to_owned())
    };
    Some(match share.lack(needs)? {
        Lack::Refused(why) if seen.unreadable_siblings.is_empty() && !seen.is_owner_unread() => {
            obstacle(VmPhase::Failed, "QuotaExceeded", why)
        }
        Lack::Refused(why) => obstacle(VmPhase::Failed, "QuotaUnknown", why),
        Lack::Unknown => obstacle(
            VmPhase::Pending,
            WAITING_FOR_QUOTA,
            "waiting until all VMs of the user are seen to have room beside each other",
        ),
    })
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == VM_FINALIZER)
}

/// Why no disk can be made from the image.
fn image_obstacle(vm: &Vm<'_>, image: &ImageSeen) -> Option<Obstacle> {
    let name = &vm.object.spec.image;
    let image = match image {
        ImageSeen::Found(image) => image,
        ImageSeen::Unknown { available } => {
            let remedy = if available.is_empty() {
                "the catalogue is empty: an administrator must create a KiteImage".to_owned()
            } else {
                format!("create another VM with one of: {}", available.join(", "))
            };
            return Some(Obstacle::new(
                IMAGE_READY,
                VmPhase::Failed,
                "UnknownImage",
                format!("spec.image: there is no image {name:?}; {remedy}"),
            ));
        }
    };
    if !is_ready(image) {
        if let Some(why) = stands_still(image) {
            return Some(Obstacle::new(
                IMAGE_READY,
                VmPhase::Pending,
                "ImageFailed",
                format!(
                    "image {name} is not ready, and waiting does not help ({why}): an \
                     administrator must look at it; the VM goes on when it is ready"
                ),
            ));
        }
        let progress = image.status.as_ref().and_then(|s| s.progress.clone());
        return Some(Obstacle::new(
            IMAGE_READY,
            VmPhase::Pending,
            "ImageNotReady",
            format!(
                "waiting for image {name} to be imported{}",
                progress.map(|p| format!(" ({p})")).unwrap_or_default()
            ),
        ));
    }
    let (disk, least) = (&vm.object.spec.disk, image.least_disk());
    (disk < least).then(|| {
        Obstacle::new(
            IMAGE_READY,
            VmPhase::Failed,
            "DiskTooSmall",
            format!(
                "spec.disk {disk} is smaller than the {least} that image {name} needs: \
                 set spec.disk to at least {least}"
            ),
        )
    })
}

fn is_ready(image: &KiteImage) -> bool {
    image.metadata.deletion_timestamp.is_none()
        && image
            .status
            .as_ref()
            .is_some_and(|status| status.phase == Some(ImagePhase::Ready))
}

struct Steps<'a> {
    steps: Vec<Step>,
    obstacles: &'a mut Vec<Obstacle>,
}

impl Steps<'_> {
    /// Whether both Secrets are there or will be by the steps so far.
    fn keys_and_user_data(&mut self, vm: &Vm<'_>, seen: &Observed) -> Result<bool, Error> {
        let Some(stored) = &seen.key_secret else {
            // The user data needs the keys: it is planned when they are there.
            let template = Box::new(keys::secret_metadata(vm));
            self.steps.push(Step::Change(Change::CreateKeys(template)));
            return Ok(false);
        };
        if !self.wanted(&keys::secret_metadata(vm), Some(stored)) {
            return Ok(false);
        }
        let Some(os) = family(seen) else {
            // Nobody knows any more what the guest is. What was rendered stays.
            return Ok(seen.cloud_init.is_some());
        };
        let user_data =
            keys::VmKeys::from_secret(stored).and_then(|keys| cloud_init::secret(vm, &keys, os));
        match user_data {
            Ok(secret) => Ok(self.wanted(&secret, seen.cloud_init.as_ref())),
            Err(error @ (RenderError::KeySecret { .. } | RenderError::LoginName { .. })) => {
                self.obstacle(VmPhase::Failed, "CloudInit", error.to_string());
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the disk is there or will be by the steps so far.
    fn disk(&mut self, vm: &Vm<'_>, seen: &Observed) -> bool {
        let images = match &seen.image {
            ImageSeen::Found(image) => image::namespace(image, &seen.platform),
            ImageSeen::Unknown { .. } => seen.platform.image_namespace(),
        };
        let mut desired = disk::data_volume(vm, &seen.platform, images);
        if let Some(step) = remake::step(vm, seen, &desired) {
            self.steps.push(step);
            return false;
        }
        if let Some(stored) = &seen.disk {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        if let Some(os) = family(seen) {
            disk::remember_family(&mut desired, os);
        }
        self.wanted(&desired, seen.disk.as_ref())
    }

    /// Last of all, because storage may not be able to: see [`Change::Grow`].
    fn growth(&mut self, vm: &Vm<'_>, seen: &Observed) {
        // Only once it is bound it may grow.
        let claim = quota::own_claim(seen).filter(|claim| is_bound(claim));
        let overhead = quota::overhead(vm, seen).unwrap_or_default();
        let wanted = &vm.object.spec.disk;
        let has = claim.and_then(claim_size);
        let is_smaller = has.is_some_and(|has| !overhead.has_room(&has, wanted));
        let size = overhead.claim_for(wanted);
        if is_smaller && seen.growth_refused.is_none() {
            let grown = guarded(&disk::grown_claim(vm, &size), claim);
            self.steps.push(Step::Change(Change::Grow(Box::new(grown))));
        }
    }

    /// What leads from the domain to the VM. The other means goes once this is
    /// there; what leads from a domain that is not wanted any more, at once. Nothing
    /// leads to a Service that is not the VM's own and as it should be (`is_led`): it
    /// may be one of anything that an ingress controller reaches. While its own is on
    /// its way out, to be made anew, what leads to it stays.
    fn exposure(&mut self, vm: &Vm<'_>, seen: &Observed, is_led: bool) {
        let former = exposed::own(vm, seen.web_service.as_ref());
        let may_lead = is_led || former.is_some_and(|it| is_applied(&service::web(vm), it));
        let host = exposure::host(vm, &seen.platform);
        let host = host.filter(|_| may_lead && status::has_domain(seen));
        let desired = host
            .as_deref()
            .map(|host| exposure::exposure(vm, &seen.platform, host));
        let (is_ingress, is_route) = match &desired {
            Some(Exposure::Ingress(desired)) => {
                if is_led {
                    self.exposed(&**desired, seen.ingress.as_ref(), seen);
                }
                (true, false)
            }
            Some(Exposure::Route(desired)) => {
                if is_led {
                    self.exposed(&**desired, seen.route.as_ref(), seen);
                }
                (false, true)
            }
            None => (false, false),
        };
        let host = host.as_deref();
        let is_there = desired.is_none() || exposed::is_made(vm, seen);
        let mut old_ingress = seen.ingress.as_ref().filter(|_| !is_ingress);
        let mut old_route = seen.route.as_ref().filter(|_| !is_route);
        if !is_there {
            old_ingress = old_ingress.filter(|it| exposed::host_of_ingress(it) != host);
            old_route = old_route.filter(|it| exposed::host_of_route(it) != host);
        }
        self.withdraw(vm, old_ingress);
        self.withdraw(vm, old_route);
    }

    /// Plans for what exposes the VM. An object of somebody else's that has its
    /// name is told by the condition, and holds up nothing else.
    fn exposed<K: Object>(&mut self, desired: &K, stored: Option<&K>, seen: &Observed)
    where
        AnyObject: From<K>,
    {
        if needed(desired, stored, "VM") == Needed::Apply && seen.exposure_refused.is_none() {
            self.steps.push(Step::Change(Change::Expose(
                guarded(desired, stored).into(),
            )));
        }
    }

    fn withdraw<K: Object>(&mut self, vm: &Vm<'_>, stored: Option<&K>)
    where
        AnyObject: From<K>,
    {
        let Some(stored) = stored else { return };
        let like = vm.metadata(vm.name.to_owned());
        if standing(stored.meta(), &like) == Standing::Ours {
            self.steps.push(Step::Change(Change::Delete(
                stored.clone().into(),
                PropagationPolicy::Background,
            )));
        }
    }

    /// Plans for `stored` to become like `desired`. Whether it is there or will
    /// be, and is ours.
    fn wanted<K: Object>(&mut self, desired: &K, stored: Option<&K>) -> bool
    where
        AnyObject: From<K>,
    {
        match needed(desired, stored, "VM") {
            Needed::Nothing => true,
            Needed::Apply => {
                self.steps
                    .push(Step::Change(Change::Apply(guarded(desired, stored).into())));
                true
            }
            Needed::Wait(message) => {
                self.obstacle(VmPhase::Pending, "WaitingForDeletion", message);
                false
            }
            Needed::Blocked(message) => {
                self.obstacle(VmPhase::Failed, "NameTaken", message);
                false
            }
        }
    }

    fn obstacle(&mut self, phase: VmPhase, reason: &str, message: String) {
        self.obstacles
            .push(Obstacle::new(VIRTUAL_MACHINE_READY, phase, reason, message));
    }
}
