//! Which of a VM's disks counts, and what is to become of the others: what was seen, in the
//! words of [`kite_disks`], and what that decides.
//!
//! Each restore makes another disk. All of them carry what says which one counts, and so does
//! the machine for the one that it points at: see [`DiskNotes`].

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::Time};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, Listed, Object, ObjectKey},
    crd::{FormerDisk, KEEP_FORMER_DISK, KiteSnapshot, KiteVirtualMachine, RestoreRequest},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
    span::Span,
    volume_snapshot::VolumeSnapshot,
};
use kite_disks::{
    Act, Disk, Fill, From, Machine, Mark, Power, Request, Seen, Snapshot, Standing, is_needed, plan,
};
use kite_render::{
    Vm, disk,
    restore::{self, DiskMark, DiskNotes},
};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, ObjectMeta},
};

use super::{disk::disk_size, judge::DiskState, observe::Observed, restore::Source};
use crate::standing::{Standing as Whose, standing};

/// The VM's disks beside the one that counts.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Disks {
    /// Those under names of the VM's disks, whosever they are.
    pub others: Vec<DataVolume>,
    /// Their claims, and claims whose disks are gone; only looked at where there are others,
    /// and when the VM goes.
    pub claims: Vec<PersistentVolumeClaim>,
    /// What snapshots need: names of claims, and whether the snapshot outlives it. Only looked
    /// at where there are others.
    pub needs: Option<Vec<(String, bool)>>,
    /// What the disk is to be restored from; only looked at while that is asked for.
    pub source: Option<Source>,
}

/// What is to be done next, as [`Act`] says it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    Make { number: u32, at: Timestamp },
    Stop,
    Mark { disk: String, mark: DiskMark },
    Point { disk: String, mark: DiskMark },
    Prove { disk: String },
    Delete { disk: String },
}

/// What is decided about a VM's disks.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    pub(super) deeds: Vec<Deed>,
    pub(super) standing: Standing,
    pub(super) look_again: Option<Duration>,
}

/// The VM's own disks, its machine and what is asked for.
struct View<'a> {
    disks: Vec<Disk<'a>>,
    others: u32,
    machine: Option<Machine<'a>>,
    power: Power<'a>,
    request: Option<Request<'a>>,
    snapshots: Vec<Snapshot<'a>>,
    keep: Duration,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn of(vm: &Vm<'a>, seen: &'a Observed) -> Self {
        let all = seen.all_disks().filter_map(|it| {
            let name = it.metadata.name.as_deref()?;
            Some((name, names::number_of_disk(vm.name, name)?, it))
        });
        let like = disk::metadata(vm);
        let is_own = |it: &DataVolume| standing(&it.metadata, &like) != Whose::Foreign;
        let (own, foreign): (Vec<_>, Vec<_>) = all.partition(|(_, _, it)| is_own(it));
        let disks: Vec<Disk<'_>> = own
            .into_iter()
            .map(|(name, number, it)| one_of(vm, seen, (name, number), it))
            .collect();
        // Whatever was made for a restore has not become the VM's yet.
        let was_its = |it: &Disk<'_>| it.mark.is_some() || it.made_for.is_none();
        let is_lost = !disks.iter().any(was_its);
        let has_marks = disks.iter().any(|it| it.mark.is_some());
        let is_ours = |it: &&VirtualMachine| {
            standing(&it.metadata, &vm.metadata(vm.name.to_owned())) != Whose::Foreign
        };
        let machine = seen.machine.as_ref().filter(is_ours).and_then(|it| {
            let disk = restore::disk_of(it)?;
            let is_its = if is_lost {
                names::number_of_disk(vm.name, disk).is_some()
            } else {
                disks.iter().any(|own| own.name == disk)
            };
            // Somebody has pointed it at what never was the VM's: that is put right as all else.
            let has_mark = has_marks || restore::mark_of(&it.metadata).is_some();
            let may_be_its = has_mark && names::number_of_disk(vm.name, disk).is_some();
            if !is_its && !may_be_its {
                return None;
            }
            let mark = restore::mark_of(&it.metadata).map(mark);
            Some(Machine {
                disk,
                generation: names::number_of_disk(vm.name, disk).unwrap_or(1),
                // Before the first restore nothing has a mark.
                mark: mark.or((!has_marks).then_some(Mark::FIRST)),
            })
        });
        let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
        let lost = told.filter(|it| it.uid.is_some() && is_lost);
        let machine = machine.or_else(|| {
            // It is gone with the disk that it pointed at.
            let disk = lost?.name.as_str();
            Some(Machine {
                disk,
                generation: names::number_of_disk(vm.name, disk)?,
                mark: Some(Mark::FIRST),
            })
        });
        let snapshots = needs(seen, &disks);
        let restore = vm.object.spec.restore.as_ref();
        Self {
            others: foreign.iter().map(|it| it.1).max().unwrap_or_default(),
            machine,
            power: power(seen.machine.as_ref(), seen.instance.as_ref()),
            request: restore.and_then(|it| request(it, seen)),
            snapshots,
            keep: keep(vm),
            now: seen.now,
            disks,
        }
    }

    fn seen(&'a self) -> Seen<'a> {
        Seen {
            disks: &self.disks,
            others: self.others,
            machine: self.machine,
            power: self.power,
            request: self.request,
            snapshots: &self.snapshots,
            keep: self.keep,
            now: self.now,
        }
    }
}

/// For how long the VM's former disk is kept.
pub(super) fn keep(vm: &Vm<'_>) -> Duration {
    let restore = vm.object.spec.restore.as_ref();
    let keep = restore.and_then(|it| it.keep.as_ref());
    keep.map_or(KEEP_FORMER_DISK, Span::duration)
}

/// What is decided by what was seen.
pub(super) fn decide(vm: &Vm<'_>, seen: &Observed) -> Decided {
    let view = View::of(vm, seen);
    let known = view.seen();
    let plan = plan(&known);
    Decided {
        deeds: plan.acts.iter().map(deed).collect(),
        standing: plan.standing,
        look_again: plan.look_again,
    }
}

/// Whether the VM is to be off for what is decided, whatever its spec says.
pub(super) fn holds_off(vm: &Vm<'_>, seen: &Observed) -> bool {
    // There is nothing else to start from; or what cannot be read stays as it is.
    let is_unread = vm.object.unreadable().is_some() || seen.platform.unreadable.is_some();
    if seen.disks.others.is_empty() || is_unread {
        return false;
    }
    let pointed = seen.machine.as_ref().and_then(restore::disk_of);
    let mut deeds = decide(vm, seen).deeds.into_iter();
    deeds.any(|deed| match deed {
        Deed::Stop => true,
        Deed::Mark { disk, .. } => pointed.is_some_and(|it| it != disk),
        Deed::Make { .. } | Deed::Point { .. } | Deed::Prove { .. } | Deed::Delete { .. } => false,
    })
}

/// Name of the disk that counts; where it is not there, of the one that the machine points at.
pub(super) fn current(vm: &Vm<'_>, seen: &Observed) -> String {
    let view = View::of(vm, seen);
    let known = view.seen();
    if let Some((_, Some(disk))) = known.current() {
        return disk.name.to_owned();
    }
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let told = told.map(|it| it.name.as_str());
    let told = told.filter(|it| names::number_of_disk(vm.name, it).is_some());
    let pointed = view.machine.map(|it| it.disk);
    let pointed = pointed.filter(|it| names::number_of_disk(vm.name, it).is_some());
    pointed
        .or(told)
        .map_or_else(|| names::disk(vm.name), str::to_owned)
}

/// Whether the spec asks for a restore that was not carried out.
pub(super) fn is_asked(vm: &Vm<'_>, seen: &Observed) -> bool {
    let Some(restore) = &vm.object.spec.restore else {
        return false;
    };
    last_request(vm, seen).is_none_or(|last| restore.at.0 > last)
}

/// The disk that the machine points at, as far as that can be one of the VM's.
pub(super) fn pointed(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let view = View::of(vm, seen);
    view.machine.map(|it| it.disk.to_owned())
}

/// The disk that a machine points at which has no mark, where nothing else has one either.
pub(super) fn unmarked(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let machine = seen.machine.as_ref()?;
    let view = View::of(vm, seen);
    let has_marks = view.disks.iter().any(|it| it.mark.is_some());
    let is_unmarked = !has_marks && restore::mark_of(&machine.metadata).is_none();
    view.machine
        .filter(|_| is_unmarked)
        .map(|it| it.disk.to_owned())
}

/// Disks that were the VM's before a restore.
pub(super) fn formers(vm: &Vm<'_>, seen: &Observed) -> Vec<FormerDisk> {
    if seen.disks.others.is_empty() {
        return Vec::new();
    }
    let view = View::of(vm, seen);
    let known = view.seen();
    let Some((mark, Some(present))) = known.current() else {
        return Vec::new();
    };
    let until = present.is_proven.then(|| mark.since.checked_add(view.keep));
    let until = until.and_then(Result::ok);
    // No finer than other times of the API.
    let until = until.and_then(|it| Timestamp::from_second(it.as_second()).ok());
    let was_its = |it: &&Disk<'_>| {
        let is_first = it.made_for.is_none();
        it.name != present.name && !it.is_leaving && (it.mark.is_some() || is_first)
    };
    let former = view.disks.iter().filter(was_its).map(|it| {
        let needed_by_snapshots = is_needed(it, &view.snapshots);
        let size = seen.all_disks().find(|disk| disk.name_any() == it.name);
        FormerDisk {
            name: it.name.to_owned(),
            size: size.and_then(disk_size).map(|it| it.to_string()),
            kept_until: until.filter(|_| !needed_by_snapshots).map(Time),
            needed_by_snapshots,
        }
    });
    former.collect()
}

/// All disks under names of the VM's, whosever they are; none where there is no such kind.
pub(super) async fn find<C: Cluster>(
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
    cluster: &C,
) -> Result<Vec<DataVolume>, ClusterError> {
    let of_vm = format!("{}={}", labels::VM_NAME, vm.name);
    let of_vm = ListParams::default().labels(&of_vm);
    let found = cluster.list::<DataVolume>(Some(vm.namespace.to_owned()), &of_vm);
    let mut all = match found.await {
        Ok(found) => found.complete()?,
        Err(ClusterError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    all.retain(|it| is_named(vm, it));
    // Somebody may have taken the label off.
    let pointed = machine.and_then(restore::disk_of);
    let pointed = pointed.filter(|it| names::number_of_disk(vm.name, it).is_some());
    let first = names::disk(vm.name);
    for name in std::iter::once(first.as_str()).chain(pointed) {
        if !all.iter().any(|it| it.name_any() == name) {
            let key = ObjectKey::namespaced(vm.namespace, name);
            all.extend(cluster.get_opt(&key).await?);
        }
    }
    Ok(all)
}

/// The claims of the VM's disks, also where these are gone.
pub(super) async fn claims<C: Cluster>(
    vm: &Vm<'_>,
    cluster: &C,
) -> Result<Vec<PersistentVolumeClaim>, ClusterError> {
    let all = ListParams::default();
    let found = cluster.list::<PersistentVolumeClaim>(Some(vm.namespace.to_owned()), &all);
    let mut claims = found.await?.complete()?;
    claims.retain(|it| is_named(vm, it));
    Ok(claims)
}

/// What snapshots in the VM's namespace need of claims, whoever has taken them.
pub(super) async fn needed<C: Cluster>(
    vm: &Vm<'_>,
    cluster: &C,
) -> Result<Vec<(String, bool)>, ClusterError> {
    let all = ListParams::default();
    let namespace = Some(vm.namespace.to_owned());
    let own = cluster.list::<KiteSnapshot>(namespace.clone(), &all).await;
    let own = complete(own)?;
    let on_storage = cluster.list::<VolumeSnapshot>(namespace, &all).await;
    let on_storage = complete(on_storage)?;
    let mut needs = Vec::new();
    for snapshot in &own {
        let status = snapshot.status.as_ref();
        if status.is_some_and(|it| it.failure.is_some()) {
            continue;
        }
        match status.and_then(|it| it.source.as_ref()) {
            Some(source) => {
                let is_taken = status.is_some_and(|it| it.consistency.is_some());
                needs.push((source.claim.clone(), source.outlives_disk && is_taken));
            }
            // Of what it will be, or of which it cannot be read.
            None if snapshot.spec.vm == vm.name => needs.push((names::disk(vm.name), false)),
            None => {}
        }
    }
    for taken in on_storage {
        // What is said of it by one that cannot be read, or that failed, does not count.
        let is_told = own.iter().any(|it| {
            let status = it.status.as_ref();
            it.name_any() == taken.name_any()
                && status.is_some_and(|it| it.source.is_some() && it.failure.is_none())
        });
        let claim = taken.spec.source.persistent_volume_claim_name;
        needs.extend(claim.filter(|_| !is_told).map(|claim| (claim, false)));
    }
    Ok(needs)
}

fn complete<K: Object>(found: Result<Listed<K>, ClusterError>) -> Result<Vec<K>, ClusterError> {
    match found {
        Ok(found) => found.complete(),
        Err(ClusterError::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The restore that was carried out last, by its time.
pub(super) fn last_request(vm: &Vm<'_>, seen: &Observed) -> Option<Timestamp> {
    let view = View::of(vm, seen);
    let known = view.seen();
    known.current().and_then(|(mark, _)| mark.request)
}

/// The mark of the VM's disk of this name.
pub(super) fn mark_of(vm: &Vm<'_>, seen: &Observed, name: &str) -> Option<DiskMark> {
    let disk = seen.all_disks().find(|it| it.name_any() == name)?;
    let is_own = standing(&disk.metadata, &disk::metadata(vm)) != Whose::Foreign;
    is_own.then(|| DiskNotes::of(&disk.metadata).mark)?
}

fn deed(act: &Act<'_>) -> Deed {
    match *act {
        Act::Make {
            generation,
            request,
        } => Deed::Make {
            number: generation,
            at: request.at,
        },
        Act::Stop => Deed::Stop,
        Act::Mark { disk, mark } => Deed::Mark {
            disk: disk.to_owned(),
            mark: spelled(mark),
        },
        Act::Point { disk, mark } => Deed::Point {
            disk: disk.to_owned(),
            mark: spelled(mark),
        },
        Act::Prove { disk } => Deed::Prove {
            disk: disk.to_owned(),
        },
        Act::Delete { disk } => Deed::Delete {
            disk: disk.to_owned(),
        },
    }
}

fn spelled(mark: Mark) -> DiskMark {
    DiskMark {
        turn: mark.turn,
        request: mark.request,
        since: mark.since,
    }
}

fn one_of<'a>(
    vm: &Vm<'_>,
    seen: &Observed,
    (name, number): (&'a str, u32),
    disk: &'a DataVolume,
) -> Disk<'a> {
    let notes = DiskNotes::of(&disk.metadata);
    let claim = seen.claim_of(name);
    let uid = claim.and_then(|it| it.metadata.uid.as_deref());
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let told = told.and_then(|it| it.has_run_on.as_deref());
    let proof = notes.has_run_on.as_deref();
    let copy_of = restore::copy_of(disk);
    // Of a copy it is noted beside the data, and that counts alone.
    let is_told = copy_of.is_none() && told == uid;
    let fill = match DiskState::of(Some(disk)) {
        DiskState::Filled => Fill::Done,
        DiskState::Failed => Fill::Failed,
        DiskState::Missing | DiskState::Filling | DiskState::WaitingForStart | DiskState::Lost => {
            Fill::Going
        }
    };
    let leaves = |it: &PersistentVolumeClaim| it.metadata.deletion_timestamp.is_some();
    let is_gone = claim.map_or(fill == Fill::Done, leaves);
    Disk {
        name,
        generation: number,
        mark: notes
            .mark
            .map(mark)
            .or_else(|| lost_mark(seen, name, number, &notes)),
        made_for: notes.made_for,
        copy_of,
        fill,
        is_proven: uid.is_some() && (proof == uid || is_told),
        is_leaving: disk.metadata.deletion_timestamp.is_some() || is_gone,
    }
}

/// The mark of a disk that a guest has run on, where somebody has taken it off: as it was
/// first. Where the machine says which one it has, that is better known.
fn lost_mark(seen: &Observed, name: &str, number: u32, notes: &DiskNotes) -> Option<Mark> {
    notes.has_run_on.as_ref()?;
    let machine = seen.machine.as_ref();
    let told = machine.filter(|it| restore::mark_of(&it.metadata).is_some());
    if told.and_then(restore::disk_of) == Some(name) {
        return None;
    }
    Some(Mark {
        turn: number.saturating_sub(1),
        request: notes.made_for,
        since: Timestamp::MIN,
    })
}

fn mark(of: DiskMark) -> Mark {
    Mark {
        turn: of.turn,
        request: of.request,
        since: of.since,
    }
}

/// Whether the guest runs, and on which disk.
fn power<'a>(
    machine: Option<&VirtualMachine>,
    instance: Option<&'a VirtualMachineInstance>,
) -> Power<'a> {
    let halted = |it: &VirtualMachine| it.spec.run_strategy.as_deref() == Some("Halted");
    let Some(instance) = instance else {
        return if machine.is_none_or(halted) {
            Power::Off
        } else {
            Power::Changes
        };
    };
    let phase = instance.status.as_ref().and_then(|it| it.phase.as_deref());
    let mut volumes = instance.spec.volumes.iter();
    let root = volumes.find_map(|it| it.data_volume.as_ref());
    match root {
        Some(root)
            if phase == Some("Running") && instance.metadata.deletion_timestamp.is_none() =>
        {
            Power::Runs { on: &root.name }
        }
        _ => Power::Changes,
    }
}

/// What is asked for, once its time has come.
fn request<'a>(restore: &'a RestoreRequest, seen: &'a Observed) -> Option<Request<'a>> {
    let at = restore.at.0;
    if at > seen.now.saturating_add(AHEAD).unwrap_or(at) {
        return None;
    }
    let from = match (&restore.snapshot, &restore.disk) {
        (Some(snapshot), _) => {
            let source = seen.disks.source.as_ref();
            let is_usable = source.is_some_and(Source::is_usable);
            if is_usable {
                From::Snapshot(snapshot)
            } else {
                From::Unusable(snapshot)
            }
        }
        (None, Some(disk)) => From::Former(disk),
        (None, None) => return None,
    };
    Some(Request { at, from })
}

/// How far ahead another's clock may be.
pub(super) const AHEAD: Duration = Duration::from_secs(300);

/// What needs the disks. What was not looked at needs all of them.
fn needs<'a>(seen: &'a Observed, disks: &[Disk<'a>]) -> Vec<Snapshot<'a>> {
    let Some(needs) = &seen.disks.needs else {
        let all = disks.iter().map(|it| Snapshot {
            of: it.name,
            outlives: false,
        });
        return all.collect();
    };
    let known = needs.iter().map(|(of, outlives)| Snapshot {
        of,
        outlives: *outlives,
    });
    known.collect()
}

/// Whether an object has a name of one of the VM's disks.
pub(super) fn is_named<K: Object>(vm: &Vm<'_>, object: &K) -> bool {
    names::number_of_disk(vm.name, &object.name_any()).is_some()
}

/// The metadata of all data of a VM.
pub(super) fn metadata<'a>(
    disk: Option<&'a DataVolume>,
    claim: Option<&'a PersistentVolumeClaim>,
    others: &'a Disks,
) -> impl Iterator<Item = &'a ObjectMeta> {
    let disks = disk.into_iter().chain(&others.others).map(Resource::meta);
    let claims = claim.into_iter().chain(&others.claims).map(Resource::meta);
    disks.chain(claims)
}

/// The disk that counts of a VM whose machine is not looked at.
pub(crate) async fn present_disk<C: Cluster>(
    object: &KiteVirtualMachine,
    cluster: &C,
) -> Result<Option<DataVolume>, ClusterError> {
    let Ok(vm) = Vm::of(object) else {
        return Ok(None);
    };
    let all = find(&vm, None, cluster).await?;
    Ok(Observed::of_disks(&vm, all).made.disk)
}
