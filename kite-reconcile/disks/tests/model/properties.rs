//! What always holds, and what happens at all.

use kite_disks::{Fill, Standing};
use stateright::Property;

use crate::histories::{Histories, Step};
use crate::state::{Busy, World};
use crate::world::Data;

pub fn all() -> Vec<Property<Histories>> {
    vec![
        Property::always(
            "nothing goes that is used, kept or needed",
            |_, it: &World| !it.harm.deleted,
        ),
        Property::always(
            "a request is carried out once, and stays",
            |_, it: &World| !it.harm.went_back,
        ),
        Property::always("no guest's disk is pulled away", |_, it: &World| {
            !it.harm.pulled_away
        }),
        Property::always("a copy is fresh", |_, it: &World| !it.harm.is_stale),
        Property::always("no copy is broken", |_, it: &World| !it.harm.broke_a_copy),
        Property::always("no number is used again", |_, it: &World| !it.harm.reused),
        Property::always("a good disk is there", a_good_one_is_there),
        Property::always("what is proven is whole", proven_is_whole),
        Property::always(
            "a snapshot that is kept can be restored",
            snapshots_are_whole,
        ),
        Property::always("when nobody has anything to do, all is done", all_is_done),
        Property::sometimes("a snapshot is restored", |_, it: &World| {
            it.happened.restored
        }),
        Property::sometimes("a restore is taken back", |_, it: &World| {
            it.happened.undone
        }),
        Property::sometimes("a former disk goes", |_, it: &World| it.happened.cleared),
        Property::sometimes("a snapshot outlives its machine", |_, it: &World| {
            let outlives = it.api.snapshots.iter().flatten().next().is_some();
            outlives && it.api.is_ended && it.api.machine.is_none()
        }),
        Property::sometimes("an old step is refused", |_, it: &World| {
            it.happened.refused_old
        }),
    ]
}

/// Unless others have deleted a disk, or its owner the machine.
fn a_good_one_is_there(_: &Histories, world: &World) -> bool {
    let is_told = world.robbed != 0 || world.api.is_ended;
    is_told || world.good().next().is_some()
}

fn proven_is_whole(_: &Histories, world: &World) -> bool {
    let disks = world.api.disks.iter().flatten();
    let mut proven = disks.filter(|it| it.is_proven);
    proven.all(|it| world.volumes[usize::from(it.uid)] == Data::Whole)
}

fn snapshots_are_whole(_: &Histories, world: &World) -> bool {
    let snapshots = world.api.snapshots.iter().enumerate();
    let mut kept = snapshots.filter(|(_, it)| it.is_some_and(|it| !it.is_leaving));
    kept.all(|(at, _)| {
        let is_robbed = world.robbed & (1 << world.cut_of[at]) != 0;
        let is_protected = world.api.snapshots[at].is_some_and(|it| it.is_protected);
        let is_told = world.api.is_ended && !is_protected;
        is_robbed || is_told || world.cuts[at] == Data::Whole
    })
}

fn all_is_done(model: &Histories, world: &World) -> bool {
    let mut progress = Vec::new();
    world.progress(model.driver, &mut progress);
    let (acts, standing) = world.planned(&world.api, model.driver);
    if world.busy != Busy::No || !progress.is_empty() || !acts.is_empty() {
        return true;
    }
    let is_needed = |at: u8| {
        let mut snapshots = world.api.snapshots.iter().flatten();
        snapshots.any(|it| it.of == at) && !model.driver.outlives
    };
    let Some(machine) = world.api.machine else {
        let mut disks = (0u8..).zip(&world.api.disks);
        return disks.all(|(at, disk)| disk.is_none() || is_needed(at));
    };
    let asked = world.api.request.map(|it| it.at);
    let answered = machine.mark.and_then(|it| it.request);
    let is_answered = match standing {
        Standing::Settled => asked.is_none() || answered >= asked,
        Standing::Refused(_) => answered < asked,
        Standing::Lost => world.robbed != 0,
        Standing::Copying | Standing::Stopping | Standing::Switching => false,
    };
    let is_proven = world.is_sure();
    let since = machine.mark.and_then(|it| it.since);
    let is_kept = since.is_some_and(|it| it >= world.clock);
    let mut others = (0u8..)
        .zip(&world.api.disks)
        .filter(|(at, _)| *at != machine.disk);
    let is_clear = others.all(|(at, disk)| {
        let Some(disk) = disk else { return true };
        if disk.mark.is_some() || disk.made_for.is_none() {
            is_kept || !is_proven || is_needed(at)
        } else {
            // Told of, until something else is asked for.
            disk.made_for == asked && disk.fill == Fill::Failed && answered < asked
        }
    });
    is_answered && is_clear
}

/// What a history looks like to whoever reads of it.
pub fn told(step: Step) -> String {
    match step {
        Step::Prompt(act) => format!("the controller: {act:?}"),
        Step::Decide(act) => format!("an old view leads to {act:?}"),
        step => format!("{step:?}"),
    }
}
