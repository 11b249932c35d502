//! What the plan of a VM depends on.

use std::ops::Deref;

use futures::try_join;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{PersistentVolumeClaim, Secret},
    networking::v1::NetworkPolicy,
};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, Listed, Object, ObjectKey, Unread},
    conditions,
    crd::{
        Claim, KiteImage, KitePlatformSpec, KiteReservation, KiteSnapshot, KiteUser,
        KiteVirtualMachine, vm_condition::RESIZING,
    },
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kite_render::{Vm, disk, exposure, isolation, reservation};
use kube::{ResourceExt, api::ListParams};

use super::{
    data,
    disks::{self, Disks},
    judge::DiskState,
    made::Made,
    moving,
    offer::{self, OfferSeen},
    orders::Moves,
    quota, resize, snapshots,
};
use crate::{
    Error,
    cache::{
        reading::{as_known, final_look, going, read_since, restless},
        uncached,
    },
    claims::Claims,
    configured,
    ending::{goes_with_namespace, is_out_of_reach},
    objects::AnyObject,
    plan::{Outcome, Refusal},
    platform,
    standing::{Standing, standing},
};

/// Names of images that are named to a person at most.
const IMAGES_NAMED: usize = 20;

/// What was seen of a VM and of what it depends on.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on one another"
)]
pub struct Observed {
    /// When it was looked at.
    pub now: jiff::Timestamp,
    /// When the VM was last used, as the gateway reports it; only looked at when
    /// the VM has an idle timeout.
    pub activity: Option<Lease>,
    /// The platform's settings; the defaults if there are none. Of a VM that goes only
    /// looked at for its certificate.
    pub platform: KitePlatformSpec,
    /// The port of the SSH gateway's Service, as the platform's status says.
    pub gateway_port: Option<u16>,
    /// The addresses of the SSH gateway's Service, as the platform's status says.
    pub gateway_addresses: Vec<String>,
    /// The user in whose namespace the VM is, if it is a user's.
    pub owner: Option<KiteUser>,
    /// Whether a network policy of the owner's namespace is missing; only looked at while the
    /// VM has no machine.
    pub lacks_policies: bool,
    /// All VMs in the owner's namespace; only looked at when the VM is to have more
    /// than it was granted, to judge the owner's quota.
    pub siblings: Vec<KiteVirtualMachine>,
    /// Those of which it cannot be read what they have of the quota.
    pub unreadable_siblings: Vec<Unread>,
    /// Whether they were seen as they were when the VM was as it was seen, or
    /// later.
    pub siblings_are_current: bool,
    /// The offer that the spec names; only looked at while the VM has no disk,
    /// when it has got what was offered, and when it goes.
    pub offer: Option<OfferSeen>,
    /// The image that the spec names.
    pub image: ImageSeen,
    /// Who has the VM's login name and domain.
    pub claims: Claims,
    /// What there is under its names.
    pub made: Made,
    /// Whether its Secrets may not be seen since it is in no user's namespace; only looked
    /// at when it goes.
    pub are_secrets_out_of_reach: bool,
    /// What was refused a while ago or just now, and is not tried again yet.
    pub refused: Vec<Refusal>,
    /// How `KubeVirt` is configured; only looked at while the VM is given more.
    pub kubevirt: Option<KubeVirt>,
    /// The orders to move it for that; only looked at while one is to be given, or may
    /// have been left, and when the VM goes; nothing where the controller may not look.
    pub moves: Option<Moves>,
    /// Since when the VM's status says that it waits for more.
    pub resizing_since: Option<jiff::Timestamp>,
    /// Whether a restart was asked for just now.
    pub restart_asked: bool,
    /// Its instance, while it is on.
    pub instance: Option<VirtualMachineInstance>,
    /// The VM's disks beside the one that counts.
    pub disks: Disks,
    /// There is certainly neither, by what the API server itself has said; only looked
    /// at when the disk of a VM that goes is to go next, or its Secrets.
    pub is_surely_off: bool,
    /// The snapshots in its namespace; only looked at when the VM goes, and its machine has.
    pub snapshots: Option<Vec<KiteSnapshot>>,
    /// The Secret with the domain's certificate, which somebody else puts there,
    /// is not there.
    pub certificate_missing: bool,
}

/// The image that a VM names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ImageSeen {
    /// It is in the catalogue.
    Found(Box<KiteImage>),
    /// It is not; these are.
    Unknown {
        /// Some names of images in the catalogue.
        available: Vec<String>,
    },
}

impl Default for ImageSeen {
    fn default() -> Self {
        Self::Unknown {
            available: Vec::new(),
        }
    }
}

impl Observed {
    /// The disk, if it is the VM's own: somebody else's of its name says nothing of
    /// the VM.
    pub(super) fn own_disk(&self, vm: &Vm<'_>) -> Option<&DataVolume> {
        let disk = self.disk.as_ref()?;
        let is_own = standing(&disk.metadata, &disk::metadata(vm)) != Standing::Foreign;
        is_own.then_some(disk)
    }

    /// All disks under names of the VM's, whosever they are: the one that counts first.
    pub(super) fn all_disks(&self) -> impl Iterator<Item = &DataVolume> {
        self.disk.iter().chain(&self.disks.others)
    }

    /// The claim of the disk of this name.
    pub(super) fn claim_of(&self, disk: &str) -> Option<&PersistentVolumeClaim> {
        let mut all = self.claim.iter().chain(&self.disks.claims);
        all.find(|it| it.metadata.name.as_deref() == Some(disk))
    }

    /// Name of the VM's disk and of its claim.
    pub(super) fn disk_name(&self, vm: &Vm<'_>) -> String {
        match &self.disk {
            Some(disk) => disk.name_any(),
            None => disks::current(vm, self),
        }
    }

    /// What there is of the VM where `all` are its disks.
    pub(super) fn of_disks(vm: &Vm<'_>, all: Vec<DataVolume>) -> Self {
        let mut seen = Self::default();
        seen.disks.others = all;
        seen.choose(vm);
        seen
    }

    /// Puts the disk that counts in its place, out of all.
    pub(super) fn choose(&mut self, vm: &Vm<'_>) {
        let disks = self.made.disk.take().into_iter();
        self.disks.others = disks.chain(self.disks.others.drain(..)).collect();
        let claims = self.made.claim.take().into_iter();
        self.disks.claims = claims.chain(self.disks.claims.drain(..)).collect();
        let name = disks::current(vm, self);
        let others = &mut self.disks.others;
        let disk = others.iter().position(|it| it.name_any() == name);
        self.made.disk = disk.map(|at| others.remove(at));
        let claims = &mut self.disks.claims;
        let claim = claims.iter().position(|it| it.name_any() == name);
        self.made.claim = claim.map(|at| claims.remove(at));
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the API server refuses a read, [`Error::Render`] if the object has
    /// no name, namespace or uid.
    pub async fn read<C: Cluster>(object: &KiteVirtualMachine, cluster: &C) -> Result<Self, Error> {
        let vm = Vm::of(object)?;
        let deleting = object.metadata.deletion_timestamp.is_some();
        let own = |name: String| ObjectKey::namespaced(vm.namespace, name);

        let ((owner, claims), image) = try_join!(
            Box::pin(owner_and_claims(cluster, &vm)),
            // A VM goes whatever it is.
            unless(deleting, image(cluster, &object.spec.image)),
        )?;
        let (key_secret, cloud_init, all, (mut machine, mut instance)) = try_join!(
            secret(cluster, own(names::ssh_key_secret(vm.name)), deleting),
            secret(cluster, own(names::cloud_init_secret(vm.name)), deleting),
            disks::find(&vm, None, cluster),
            running(cluster, own(vm.name.to_owned()), object),
        )?;
        let are_secrets_out_of_reach =
            deleting && owner.is_none() && is_refused(cluster, &vm).await;
        let is_next = deleting && is_next(&all, [key_secret.as_ref(), cloud_init.as_ref()]);
        let mut is_surely_off = false;
        if is_next && machine.is_none() && instance.is_none() {
            let running = running(cluster, own(vm.name.to_owned()), object);
            (machine, instance) = final_look(going(object), running).await?;
            is_surely_off = machine.is_none() && instance.is_none();
        }
        let (access_service, web_service, ingress, route) = try_join!(
            find(cluster, own(names::access_service(vm.name))),
            find(cluster, own(names::web_service(vm.name))),
            find(cluster, own(vm.name.to_owned())),
            // None, too, in a cluster without the Gateway API.
            find(cluster, own(vm.name.to_owned())),
        )?;
        let run = (machine.clone(), instance.clone());
        let (disk, claim, disks) = Box::pin(data::look(cluster, &vm, run, all)).await?;
        let data = disks::metadata(disk.as_ref(), claim.as_ref(), &disks);
        let snapshots = snapshots::look(&vm, machine.as_ref(), data, cluster).await?;
        let run = (machine.as_ref(), instance.as_ref());
        let (kubevirt, moves) = look_at_moves(cluster, &vm, run).await?;
        let activity = if object.spec.idle_timeout.is_some() && !deleting {
            activity(cluster, &vm, machine.as_ref()).await?
        } else {
            None
        };
        let offer = look_for_offer(cluster, object, disk.as_ref()).await?;
        let lacks_policies = owner.is_some()
            && machine.is_none()
            && !deleting
            && lacks_policies(cluster, vm.namespace, disk.is_some() || claim.is_some()).await?;
        let certificate = left_certificate(cluster, &vm, deleting).await?;
        // What is switched off does not wait for settings to be mended. Of what goes only
        // its certificate is judged by them.
        let platform = platform::find_as_it_is(cluster);
        let platform = unless(deleting && certificate.is_none(), platform).await?;
        let (platform, reached) = platform
            .map(|platform| (platform.spec, platform.status.unwrap_or_default()))
            .unwrap_or_default();
        let mut claims = claims;
        claims.reserve(|claim| why_reserved(&platform, claim));
        let certificate_missing = !deleting && lacks_certificate(cluster, &vm, &platform).await?;
        // It is held while others are looked at.
        let mut seen = Box::new(Self {
            now: jiff::Timestamp::default(),
            activity,
            offer,
            platform,
            gateway_port: reached.gateway_port,
            gateway_addresses: reached.gateway_addresses,
            certificate_missing,
            owner,
            lacks_policies,
            siblings: Vec::new(),
            unreadable_siblings: Vec::new(),
            siblings_are_current: false,
            image,
            claims,
            are_secrets_out_of_reach,
            made: Made {
                ingress,
                route,
                access_service,
                web_service,
                machine,
                disk,
                claim,
                certificate,
                cloud_init,
                key_secret,
            },
            refused: Vec::new(),
            kubevirt,
            moves,
            resizing_since: resizing_since(object),
            restart_asked: false,
            instance,
            disks,
            is_surely_off,
            snapshots,
        });
        if seen.owner.is_some() && !deleting && quota::asks(&vm, &seen) {
            seen.look_at_those_told(&vm, cluster).await?;
        }
        Ok(*seen)
    }

    /// Looks at the siblings, and whether they are seen as they were when the VM was
    /// as it was seen.
    async fn look_at_those_told<C: Cluster>(
        &mut self,
        vm: &Vm<'_>,
        cluster: &C,
    ) -> Result<(), Error> {
        let told = vm.object.metadata.resource_version.as_deref();
        let since = told.and_then(|version| version.parse().ok());
        let (found, are_current) = read_since(since, siblings(cluster, vm)).await;
        self.take_siblings(found?, are_current);
        Ok(())
    }

    /// Looks at the siblings as the API server knows them.
    pub(super) async fn look_at_siblings<C: Cluster>(
        &mut self,
        vm: &Vm<'_>,
        cluster: &C,
    ) -> Result<(), Error> {
        let siblings = uncached(siblings(cluster, vm)).await?;
        self.take_siblings(siblings, true);
        Ok(())
    }

    /// Whether it cannot be read what the owner's quota is.
    pub(super) fn is_owner_unread(&self) -> bool {
        let owner = self.owner.as_ref();
        owner.is_some_and(|owner| owner.spec.unreadable.is_some())
    }

    fn take_siblings(&mut self, found: Listed<KiteVirtualMachine>, are_current: bool) {
        self.unreadable_siblings = found.unreadable;
        let doubtful = found.items.iter().filter(|it| !it.has_known_charge());
        self.unreadable_siblings.extend(doubtful.map(|it| Unread {
            meta: it.metadata.clone(),
            why: it.unreadable().unwrap_or_default().into_owned(),
        }));
        self.siblings = found.items;
        self.siblings_are_current = are_current;
    }

    /// Takes in what was refused a while ago.
    pub(super) fn recall(&mut self, refusal: Refusal) {
        self.refused.retain(|it| it.of != refusal.of);
        self.refused.push(refusal);
    }

    /// Takes in what came of a change for the VM.
    pub fn absorb(&mut self, object: &KiteVirtualMachine, outcome: Outcome) {
        let (made, is_gone) = match outcome {
            Outcome::Claimed(claim, state) => {
                return match &mut self.offer {
                    Some(offer) if claim.spec.claim == Claim::Offer => offer.absorb(*state),
                    _ => self.claims.absorb(&claim, *state),
                };
            }
            Outcome::RestartAsked => {
                self.restart_asked = true;
                return;
            }
            Outcome::Refused(refusal) => {
                self.recall(refusal);
                return;
            }
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
            Outcome::Froze | Outcome::Thawed => return,
        };
        match made {
            AnyObject::VirtualMachineInstanceMigration(order) => {
                if let Some(moves) = &mut self.moves {
                    moves.absorb(*order, is_gone);
                }
            }
            AnyObject::KiteSnapshot(snapshot) => {
                let uid = snapshot.metadata.uid.clone();
                let all = self.snapshots.get_or_insert_default();
                all.retain(|it| it.metadata.uid != uid);
                if !is_gone {
                    all.push(*snapshot);
                }
            }
            AnyObject::DataVolume(disk) => self.take_disk(object, *disk, is_gone),
            AnyObject::PersistentVolumeClaim(claim) => self.take_claim(object, *claim, is_gone),
            made => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                self.made.take(name, made, is_gone);
                if let Ok(vm) = Vm::of(object) {
                    self.choose(&vm);
                }
            }
        }
    }

    fn take_claim(
        &mut self,
        object: &KiteVirtualMachine,
        claim: PersistentVolumeClaim,
        is_gone: bool,
    ) {
        let Ok(vm) = Vm::of(object) else {
            return;
        };
        let claims = &mut self.disks.claims;
        claims.extend(self.made.claim.take());
        claims.retain(|it| it.name_any() != claim.name_any());
        if !is_gone && disks::is_named(&vm, &claim) {
            claims.push(claim);
        }
        self.choose(&vm);
    }

    fn take_disk(&mut self, object: &KiteVirtualMachine, disk: DataVolume, is_gone: bool) {
        let Ok(vm) = Vm::of(object) else {
            return;
        };
        self.disks.others.extend(self.made.disk.take());
        self.disks
            .others
            .retain(|it| it.name_any() != disk.name_any());
        if !is_gone && disks::is_named(&vm, &disk) {
            self.disks.others.push(disk);
        }
        self.choose(&vm);
    }
}

impl Deref for Observed {
    type Target = Made;

    fn deref(&self) -> &Made {
        &self.made
    }
}

pub(super) async fn find<K: Object, C: Cluster>(
    cluster: &C,
    key: ObjectKey,
) -> Result<Option<K>, ClusterError> {
    cluster.get_opt(&key).await
}

/// Whose the VM is, and how the names stand that it wants and holds.
async fn owner_and_claims<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
) -> Result<(Option<KiteUser>, Claims), ClusterError> {
    let owner = whose(cluster, vm).await?;
    // Of a user who came after the VM it is not: it was an earlier one's.
    let made = vm.object.creation_timestamp();
    let was_there = |it: &&KiteUser| it.creation_timestamp() <= made;
    let user_uid = owner.as_ref().filter(was_there).and_then(ResourceExt::uid);
    let held_by = labels::for_vm(vm.namespace, vm.name);
    let wanted = reservation::of_vm(vm);
    let claims = Claims::observe(cluster, wanted, &held_by, user_uid).await?;
    Ok((owner, claims))
}

/// Whose the VM is. Of one that goes that was settled when it was made: whoever was known
/// then and is since gone is as good.
async fn whose<C: Cluster>(cluster: &C, vm: &Vm<'_>) -> Result<Option<KiteUser>, ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        let known = as_known(owner(cluster, vm.namespace)).await?;
        if known.is_some() {
            return Ok(known);
        }
    }
    owner(cluster, vm.namespace).await
}

/// The running machine. Which one a restart is to end may not be known from an old view.
async fn instance<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    object: &KiteVirtualMachine,
) -> Result<Option<VirtualMachineInstance>, ClusterError> {
    let instance = find(cluster, key);
    if super::restart::is_new(object) {
        uncached(instance).await
    } else {
        instance.await
    }
}

/// Since when the VM's status says that it waits for more CPUs or memory.
fn resizing_since(object: &KiteVirtualMachine) -> Option<jiff::Timestamp> {
    let told = conditions::find(&object.status.as_ref()?.conditions, RESIZING)?;
    Some(told.last_transition_time.0)
}

/// How `KubeVirt` is configured, and which moves are ordered, as far as an instance that
/// is given more is concerned by it, or what is left of them where a machine goes.
async fn look_at_moves<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    (machine, instance): (Option<&VirtualMachine>, Option<&VirtualMachineInstance>),
) -> Result<(Option<KubeVirt>, Option<Moves>), ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        let moves = moving::look_at_rest(vm, machine, cluster).await?;
        return Ok((None, moves));
    }
    let kubevirt = if resize::is_under_way(instance) {
        configured::kubevirt(cluster).await?
    } else {
        None
    };
    let moves = moving::look(vm, instance, kubevirt.as_ref(), cluster).await?;
    Ok((kubevirt, moves))
}

/// The offer that the VM names, where it is to be looked at.
async fn look_for_offer<C: Cluster>(
    cluster: &C,
    object: &KiteVirtualMachine,
    disk: Option<&DataVolume>,
) -> Result<Option<OfferSeen>, Error> {
    let deleting = object.metadata.deletion_timestamp.is_some();
    match &object.spec.offer {
        Some(name) if disk.is_none() || deleting || is_to_be_noted(object, disk) => {
            Ok(Some(uncached(OfferSeen::read(cluster, name)).await?))
        }
        _ => Ok(None),
    }
}

/// What `read` finds; nothing, and without a request, where that does not matter.
async fn unless<T: Default>(
    does_not_matter: bool,
    read: impl Future<Output = Result<T, ClusterError>>,
) -> Result<T, ClusterError> {
    if does_not_matter {
        return Ok(T::default());
    }
    read.await
}

/// Whether the disk of a VM that goes may have to go next, or its Secrets.
fn is_next(disks: &[DataVolume], secrets: [Option<&Secret>; 2]) -> bool {
    if disks.is_empty() {
        return secrets.iter().any(Option::is_some);
    }
    let mut disks = disks.iter();
    disks.any(|it| it.metadata.deletion_timestamp.is_none())
}

/// What may write to a VM's disk. Of a VM that goes the machine first: once it is gone,
/// no instance is made any more, and until then one may come after any that has ended.
async fn running<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    object: &KiteVirtualMachine,
) -> Result<(Option<VirtualMachine>, Option<VirtualMachineInstance>), ClusterError> {
    if object.metadata.deletion_timestamp.is_none() {
        return try_join!(find(cluster, key.clone()), instance(cluster, key, object));
    }
    let machine = find(cluster, key.clone()).await?;
    let instance = find(cluster, key);
    let instance = match machine {
        Some(_) => restless(instance).await?,
        None => instance.await?,
    };
    Ok((machine, instance))
}

/// Why no VM gets what is claimed, if it is a domain that stands for the platform.
fn why_reserved(platform: &KitePlatformSpec, claim: &KiteReservation) -> Option<String> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    match names::vm_claim_of_reservation(name) {
        Some(VmClaim::Domain(prefix)) => platform.reserved_domain(prefix).map(|it| it.to_string()),
        _ => None,
    }
}

/// Whether a network policy is missing around a user's VMs. Where a machine is made again,
/// they may have been taken down with it a moment ago: caches do not do then.
async fn lacks_policies<C: Cluster>(
    cluster: &C,
    namespace: &str,
    again: bool,
) -> Result<bool, ClusterError> {
    let all = ListParams::default();
    let found = cluster.list::<NetworkPolicy>(Some(namespace.to_owned()), &all);
    let found = if again {
        uncached(found).await?
    } else {
        found.await?
    };
    let stands = |name: &&str| {
        let mut found = found.items.iter();
        found.any(|it| it.name_any() == **name && it.metadata.deletion_timestamp.is_none())
    };
    Ok(!isolation::POLICIES.iter().all(stands))
}

/// Whether the VM has got what was offered, and its status does not say yet that
/// the claim tells so.
fn is_to_be_noted(object: &KiteVirtualMachine, disk: Option<&DataVolume>) -> bool {
    DiskState::of(disk) == DiskState::Filled && !offer::is_noted(object)
}

/// When the VM was last used, as the gateway reports it.
async fn activity<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
) -> Result<Option<Lease>, ClusterError> {
    let key = ObjectKey::namespaced(vm.namespace, names::activity_lease(vm.name));
    let lease = find(cluster, key);
    let status = vm.object.status.as_ref();
    if status.is_some_and(|it| it.idle.is_some()) && machine.is_some_and(may_run) {
        // About to be switched off: what was reported up to now counts.
        uncached(lease).await
    } else {
        lease.await
    }
}

/// What cert-manager left of the certificate. Of what is there the cache need not have
/// what tells whose it is.
async fn left_certificate<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    deleting: bool,
) -> Result<Option<Secret>, ClusterError> {
    if !deleting {
        return Ok(None);
    }
    let key = || ObjectKey::namespaced(vm.namespace, names::certificate_secret(vm.name));
    match secret(cluster, key(), true).await? {
        Some(_) => uncached(secret(cluster, key(), true)).await,
        None => Ok(None),
    }
}

/// A Secret of the VM. Of one that goes nothing is there that may not be read any more
/// because the namespace ends, or that may never be because it is no user's: a VM does not
/// stay for ever for what is not to be cleared away.
async fn secret<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    deleting: bool,
) -> Result<Option<Secret>, ClusterError> {
    match cluster.get_opt(&key).await {
        Err(error) if deleting => {
            let namespace = key.namespace.as_deref();
            if goes_with_namespace(cluster, namespace, &error).await
                || is_out_of_reach(cluster, namespace, &error).await
            {
                Ok(None)
            } else {
                Err(error)
            }
        }
        found => found,
    }
}

/// Whether its Secrets may not be seen for want of a right that nobody gives.
async fn is_refused<C: Cluster>(cluster: &C, vm: &Vm<'_>) -> bool {
    let key = ObjectKey::namespaced(vm.namespace, names::ssh_key_secret(vm.name));
    match cluster.get_opt::<Secret>(&key).await {
        Ok(_) => false,
        Err(error) => is_out_of_reach(cluster, key.namespace.as_deref(), &error).await,
    }
}

/// Whether the certificate is not there that the platform says is.
async fn lacks_certificate<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    platform: &KitePlatformSpec,
) -> Result<bool, ClusterError> {
    let Some(name) = exposure::given_certificate(vm, platform) else {
        return Ok(false);
    };
    let found = find::<Secret, C>(cluster, ObjectKey::namespaced(vm.namespace, name));
    Ok(found.await?.is_none())
}

/// All VMs in the namespace of `vm`.
async fn siblings<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
) -> Result<Listed<KiteVirtualMachine>, ClusterError> {
    let all = ListParams::default();
    cluster.list(Some(vm.namespace.to_owned()), &all).await
}

/// Whether `KubeVirt` is not told yet that the machine is to be off.
fn may_run(machine: &VirtualMachine) -> bool {
    machine.spec.run_strategy.as_deref() != Some("Halted")
}

/// The user whose namespace this is.
async fn owner<C: Cluster>(cluster: &C, namespace: &str) -> Result<Option<KiteUser>, ClusterError> {
    match names::user_of_namespace(namespace) {
        Some(user) => cluster.get_opt(&ObjectKey::cluster(user)).await,
        None => Ok(None),
    }
}

async fn image<C: Cluster>(cluster: &C, name: &str) -> Result<ImageSeen, ClusterError> {
    if let Some(image) = cluster
        .get_opt::<KiteImage>(&ObjectKey::cluster(name))
        .await?
    {
        return Ok(ImageSeen::Found(Box::new(image)));
    }
    let all = cluster
        .list::<KiteImage>(None, &ListParams::default().limit(100))
        .await?;
    let mut available = all
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect::<Vec<_>>();
    available.sort();
    available.truncate(IMAGES_NAMED);
    Ok(ImageSeen::Unknown { available })
}
