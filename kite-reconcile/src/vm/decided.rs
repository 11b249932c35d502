//! What is decided about a VM's disks, and what follows from that.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{crd::FormerDisk, names};
use kite_disks::{Act, Disk, Mark, Standing, is_needed, plan};
use kite_render::{
    Vm,
    restore::{self, DiskMark},
};

use super::{
    disks::{Known, View},
    observe::Observed,
};
use crate::disk_claim::disk_size;

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

/// Whether the VM is to be off for what is decided, whatever its spec says.
pub(super) fn holds_off(vm: &Vm<'_>, seen: &Observed) -> bool {
    // There is nothing else to start from; or what cannot be read stays as it is.
    let is_unread = vm.object.unreadable().is_some() || seen.platform.unreadable.is_some();
    if seen.disks.others.is_empty() || is_unread {
        return false;
    }
    let pointed = seen.machine.as_ref().and_then(restore::disk_of);
    let mut deeds = View::of(vm, Known::of(seen)).decide().deeds.into_iter();
    deeds.any(|deed| match deed {
        Deed::Stop => true,
        Deed::Mark { disk, .. } => pointed.is_some_and(|it| it != disk),
        Deed::Make { .. } | Deed::Point { .. } | Deed::Prove { .. } | Deed::Delete { .. } => false,
    })
}

impl View<'_> {
    /// What is decided by what was seen.
    pub(super) fn decide(&self) -> Decided {
        let plan = plan(&self.seen());
        Decided {
            deeds: plan.acts.iter().map(deed).collect(),
            standing: plan.standing,
            look_again: plan.look_again,
        }
    }

    /// Name of the disk that counts; where it is not there, of the one that the machine points
    /// at.
    pub(super) fn current(&self) -> String {
        if let Some((_, Some(disk))) = self.seen().current() {
            return disk.name.to_owned();
        }
        let is_named = |it: &&str| names::number_of_disk(self.vm.name, it).is_some();
        let told = self
            .vm
            .object
            .status
            .as_ref()
            .and_then(|it| it.disk.as_ref());
        let told = told.map(|it| it.name.as_str()).filter(is_named);
        let pointed = self.machine.map(|it| it.disk).filter(is_named);
        pointed
            .or(told)
            .map_or_else(|| names::disk(self.vm.name), str::to_owned)
    }

    /// The restore that was carried out last, by its time.
    pub(super) fn last_request(&self) -> Option<Timestamp> {
        self.seen().current().and_then(|(mark, _)| mark.request)
    }

    /// Whether the spec asks for a restore that was not carried out.
    pub(super) fn is_asked(&self) -> bool {
        let restore = self.vm.object.spec.restore.as_ref();
        let last = self.last_request();
        restore.is_some_and(|it| last.is_none_or(|last| it.at.0 > last))
    }

    /// Disks that were the VM's before a restore.
    pub(super) fn formers(&self) -> Vec<FormerDisk> {
        let known = self.seen();
        let Some((mark, present)) = known.current() else {
            return Vec::new();
        };
        let is_proven = present.is_some_and(|it| it.is_proven);
        let until = is_proven.then(|| mark.since.checked_add(self.keep));
        let until = until.and_then(Result::ok);
        // No finer than other times of the API.
        let until = until.and_then(|it| Timestamp::from_second(it.as_second()).ok());
        let was_its = |it: &Disk<'_>| {
            let is_first = it.made_for.is_none();
            let counts = present.is_some_and(|present| present.name == it.name);
            !counts && !it.is_leaving && (it.mark.is_some() || is_first)
        };
        let all = self.disks.iter().zip(self.own());
        let former = all
            .filter(|(it, _)| was_its(it))
            .map(|(it, (name, object))| {
                let needed_by_snapshots = is_needed(it, &self.snapshots);
                FormerDisk {
                    name: name.to_owned(),
                    size: disk_size(object).map(|it| it.to_string()),
                    kept_until: until.filter(|_| !needed_by_snapshots).map(Time),
                    needed_by_snapshots,
                }
            });
        former.collect()
    }
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
