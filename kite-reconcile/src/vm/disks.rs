//! Which of a VM's disks counts, and what is to become of the others: what was seen, in the
//! words of [`kite_disks`].
//!
//! Each restore makes another disk. All of them carry what says which one counts, and so does
//! the machine for the one that it points at: see [`DiskNotes`].

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    crd::{KEEP_FORMER_DISK, RestoreRequest},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    names,
    span::Span,
};
use kite_disks::{Disk, Fill, From, Machine, Mark, Power, Request, Seen, Snapshot};
use kite_render::{
    Vm, disk,
    restore::{self, DiskMark, DiskNotes},
};

use super::{judge::DiskState, lost::remade, observe::Observed, restore::Source};
use crate::standing::{Standing, standing};

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
    /// The snapshot that the VM's first disk is made from, where it is; only looked at while
    /// there is none.
    pub origin: Option<Source>,
}

/// What says which of a VM's disks counts.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// All disks under names of the VM's, whosever they are.
    pub(super) disks: (Option<&'a DataVolume>, &'a [DataVolume]),
    /// Their claims, as far as they were looked at.
    pub(super) claims: (
        Option<&'a PersistentVolumeClaim>,
        &'a [PersistentVolumeClaim],
    ),
    /// See [`Disks::needs`].
    pub(super) needs: Option<&'a [(String, bool)]>,
    /// See [`Disks::source`].
    pub(super) source: Option<&'a Source>,
    pub(super) machine: Option<&'a VirtualMachine>,
    pub(super) instance: Option<&'a VirtualMachineInstance>,
    pub(super) now: Timestamp,
}

impl<'a> Known<'a> {
    /// What was seen of it.
    pub(super) fn of(seen: &'a Observed) -> Self {
        Self {
            disks: (seen.disk.as_ref(), &seen.disks.others),
            claims: (seen.claim.as_ref(), &seen.disks.claims),
            needs: seen.disks.needs.as_deref(),
            source: seen.disks.source.as_ref(),
            machine: seen.machine.as_ref(),
            instance: seen.instance.as_ref(),
            now: seen.now,
        }
    }

    /// The disks of a VM of which nothing else is looked at.
    pub(super) fn disks_alone(disks: &'a [DataVolume]) -> Self {
        Self {
            disks: (None, disks),
            claims: (None, &[]),
            needs: None,
            source: None,
            machine: None,
            instance: None,
            now: Timestamp::default(),
        }
    }

    fn disks(self) -> impl Iterator<Item = &'a DataVolume> {
        self.disks.0.into_iter().chain(self.disks.1)
    }

    fn claim(self, name: &str) -> Option<&'a PersistentVolumeClaim> {
        let mut all = self.claims.0.into_iter().chain(self.claims.1);
        all.find(|it| it.metadata.name.as_deref() == Some(name))
    }
}

/// The VM's own disks, its machine and what is asked for.
pub(super) struct View<'a> {
    pub(super) vm: &'a Vm<'a>,
    known: Known<'a>,
    /// Each beside its object.
    own: Vec<&'a DataVolume>,
    pub(super) disks: Vec<Disk<'a>>,
    others: u32,
    pub(super) machine: Option<Machine<'a>>,
    power: Power<'a>,
    request: Option<Request<'a>>,
    pub(super) snapshots: Vec<Snapshot<'a>>,
    pub(super) keep: Duration,
}

impl<'a> View<'a> {
    pub(super) fn of(vm: &'a Vm<'a>, known: Known<'a>) -> Self {
        let like = disk::metadata(vm);
        let (mut own, mut disks, mut others) = (Vec::new(), Vec::new(), 0);
        for disk in known.disks() {
            let Some(name) = disk.metadata.name.as_deref() else {
                continue;
            };
            let Some(number) = names::number_of_disk(vm.name, name) else {
                continue;
            };
            if standing(&disk.metadata, &like) == Standing::Foreign {
                others = others.max(number);
            } else {
                own.push(disk);
                disks.push(one_of(vm, &known, (name, number), disk));
            }
        }
        let restore = vm.object.spec.restore.as_ref();
        Self {
            machine: machine(vm, &known, &disks),
            power: power(known.machine, known.instance),
            request: restore.and_then(|it| request(it, &known)),
            snapshots: needs(&known, &disks),
            keep: keep(restore.map(AsRef::as_ref)),
            vm,
            known,
            own,
            disks,
            others,
        }
    }

    pub(super) fn seen(&'a self) -> Seen<'a> {
        Seen {
            disks: &self.disks,
            others: self.others,
            machine: self.machine,
            power: self.power,
            request: self.request,
            snapshots: &self.snapshots,
            keep: self.keep,
            now: self.known.now,
        }
    }

    /// The objects of its own disks, with their names.
    pub(super) fn own(&self) -> impl Iterator<Item = (&'a str, &'a DataVolume)> {
        let names = self.disks.iter().map(|it| it.name);
        names.zip(self.own.iter().copied())
    }

    /// Uid of the claim of the disk of this name.
    pub(super) fn claim_uid(&self, disk: &str) -> Option<&'a str> {
        self.known.claim(disk)?.metadata.uid.as_deref()
    }

    /// The mark of the VM's disk of this name.
    pub(super) fn mark_of(&self, name: &str) -> Option<DiskMark> {
        let (_, disk) = self.own().find(|it| it.0 == name)?;
        restore::mark_of(&disk.metadata)
    }

    /// The disk that the machine points at which has no mark, where nothing else has one either.
    pub(super) fn unmarked(&self) -> Option<&'a str> {
        let machine = self.known.machine?;
        let is_marked = has_marks(&self.disks) || restore::mark_of(&machine.metadata).is_some();
        self.machine.filter(|_| !is_marked).map(|it| it.disk)
    }
}

fn has_marks(disks: &[Disk<'_>]) -> bool {
    disks.iter().any(|it| it.mark.is_some())
}

/// The machine, as far as it points at a disk that is the VM's or can be.
fn machine<'a>(vm: &Vm<'a>, known: &Known<'a>, disks: &[Disk<'a>]) -> Option<Machine<'a>> {
    // Whatever was made for a restore has not become the VM's yet.
    let was_its = |it: &Disk<'_>| it.mark.is_some() || it.made_for.is_none();
    let is_lost = !disks.iter().any(was_its);
    let has_marks = has_marks(disks);
    let is_ours = |it: &&VirtualMachine| {
        standing(&it.metadata, &vm.metadata(vm.name.to_owned())) != Standing::Foreign
    };
    let machine = known.machine.filter(is_ours).and_then(|it| {
        let disk = restore::disk_of(it)?;
        let number = names::number_of_disk(vm.name, disk);
        let is_its = if is_lost {
            number.is_some()
        } else {
            disks.iter().any(|own| own.name == disk)
        };
        // Somebody has pointed it at what never was the VM's: that is put right as all else.
        let noted = restore::mark_of(&it.metadata);
        let may_be_its = (has_marks || noted.is_some()) && number.is_some();
        (is_its || may_be_its).then(|| Machine {
            disk,
            generation: number.unwrap_or(1),
            // Before the first restore nothing has a mark.
            mark: noted.map(mark).or((!has_marks).then_some(Mark::FIRST)),
        })
    });
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let lost = told.filter(|it| it.uid.is_some() && is_lost);
    machine.or_else(|| {
        // It is gone with the disk that it pointed at.
        let disk = lost?.name.as_str();
        Some(Machine {
            disk,
            generation: names::number_of_disk(vm.name, disk)?,
            mark: Some(Mark::FIRST),
        })
    })
}

/// For how long the VM's former disk is kept.
fn keep(restore: Option<&RestoreRequest>) -> Duration {
    let keep = restore.and_then(|it| it.keep.as_ref());
    keep.map_or(KEEP_FORMER_DISK, Span::duration)
}

fn one_of<'a>(
    vm: &Vm<'_>,
    known: &Known<'a>,
    (name, number): (&'a str, u32),
    disk: &'a DataVolume,
) -> Disk<'a> {
    let notes = DiskNotes::of(&disk.metadata);
    let claim = known.claim(name);
    let uid = claim.and_then(|it| it.metadata.uid.as_deref());
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let told = told.and_then(|it| it.has_run_on.as_deref());
    let proof = notes.has_run_on.as_deref();
    let copy_of = restore::copy_of(disk);
    // Of a copy it is noted beside the data, and that counts alone.
    let is_told = copy_of.is_none() && told == uid;
    let fill = match DiskState::of(Some(disk)) {
        _ if notes.has_its_data => Fill::Done,
        DiskState::Filled => Fill::Done,
        DiskState::Failed => Fill::Failed,
        DiskState::Missing | DiskState::Filling | DiskState::WaitingForStart | DiskState::Lost => {
            Fill::Going
        }
    };
    let leaves = |it: &PersistentVolumeClaim| it.metadata.deletion_timestamp.is_some();
    let is_gone = claim.map_or(fill == Fill::Done, leaves) || remade(vm, disk, claim).is_some();
    Disk {
        name,
        generation: number,
        mark: notes
            .mark
            .map(mark)
            .or_else(|| lost_mark(known, (name, number), &notes)),
        made_for: notes.made_for,
        copy_of,
        fill,
        is_proven: uid.is_some() && (proof == uid || is_told),
        is_leaving: disk.metadata.deletion_timestamp.is_some() || is_gone,
    }
}

/// The mark of a disk that a guest has run on, where somebody has taken it off: as it was
/// first. Where the machine says which one it has, that is better known.
fn lost_mark(known: &Known<'_>, (name, number): (&str, u32), notes: &DiskNotes) -> Option<Mark> {
    notes.has_run_on.as_ref()?;
    // The first one has its mark by being that.
    notes.made_for?;
    let told = known
        .machine
        .filter(|it| restore::mark_of(&it.metadata).is_some());
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
fn request<'a>(restore: &'a RestoreRequest, known: &Known<'_>) -> Option<Request<'a>> {
    let at = restore.at.0;
    if at > known.now.saturating_add(AHEAD).unwrap_or(at) {
        return None;
    }
    let from = match (&restore.snapshot, &restore.disk) {
        (Some(snapshot), _) => {
            if known.source.is_some_and(Source::is_usable) {
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
fn needs<'a>(known: &Known<'a>, disks: &[Disk<'a>]) -> Vec<Snapshot<'a>> {
    let Some(needs) = known.needs else {
        let all = disks.iter().map(|it| Snapshot {
            of: it.name,
            outlives: false,
        });
        return all.collect();
    };
    let all = needs.iter().map(|(of, outlives)| Snapshot {
        of,
        outlives: *outlives,
    });
    all.collect()
}
