//! What the histories of the model hardly come to, one plan at a time.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use kite_disks::{
    Act, Disk, End, Fill, From, Machine, Mark, Power, Request, Seen, Snapshot, Standing,
    may_be_deleted, plan, plan_end,
};

const HOUR: Duration = Duration::from_secs(3600);

fn at(hour: u8) -> Timestamp {
    format!("2026-12-01T{hour:02}:00:00Z").parse().unwrap()
}

fn mark(turn: u32, request: u8) -> Mark {
    Mark {
        turn,
        request: Some(at(request)),
        since: at(request),
    }
}

fn disk(name: &str, generation: u32, mark: Option<Mark>) -> Disk<'_> {
    Disk {
        generation,
        mark,
        made_for: Some(at(1)),
        is_proven: true,
        ..Disk::first(name, Fill::Done)
    }
}

fn seen<'a>(disks: &'a [Disk<'a>], machine: Machine<'a>) -> Seen<'a> {
    Seen {
        disks,
        others: 0,
        machine: Some(machine),
        power: Power::Off,
        request: None,
        snapshots: &[],
        keep: HOUR * 10,
        now: at(9),
    }
}

fn machine(disk: &str, generation: u32, mark: Option<Mark>) -> Machine<'_> {
    Machine {
        disk,
        generation,
        mark,
    }
}

/// As where one controller decided by an old view what another one had decided differently.
#[test]
fn of_two_disks_with_one_turn_the_machine_s_gets_the_next_one() {
    let disks = [
        disk("d1", 1, Some(mark(1, 1))),
        disk("d2", 2, Some(mark(1, 2))),
    ];
    let shared = seen(&disks, machine("d2", 2, Some(mark(1, 2))));
    let told = plan(&shared);
    let next = Mark {
        turn: 2,
        ..mark(1, 2)
    };
    let (disk, mark) = ("d2", next);
    assert_eq!(told.acts, [Act::Mark { disk, mark }]);
    // Not before a guest has run on it: until then the other one may be all there is.
    let unproven = disks.map(|it| Disk {
        is_proven: false,
        ..it
    });
    let disks = &unproven;
    assert_eq!(plan(&Seen { disks, ..shared }).acts, []);
}

#[test]
fn a_machine_that_has_lost_its_disk_and_its_mark_is_no_older_one() {
    let former = [disk("d1", 1, Some(Mark::FIRST))];
    let lost = seen(&former, machine("d3", 3, None));
    let told = plan(&lost);
    assert_eq!((told.standing, told.acts), (Standing::Lost, Vec::new()));

    // It is restored like any other.
    let request = Request {
        at: at(9),
        from: From::Former("d1"),
    };
    let told = plan(&Seen {
        request: Some(request),
        ..lost
    });
    let [Act::Mark { disk: "d1", mark }] = told.acts[..] else {
        panic!("{told:?}");
    };
    assert_eq!((mark.turn, mark.request), (1, Some(at(9))));
    let nothing_else = seen(&[], machine("d1", 1, None));
    assert_eq!(plan(&nothing_else).standing, Standing::Lost);
}

#[test]
fn numbers_stay_those_of_one_disk() {
    // Made after others that were given up: its number is above its turn.
    let request = Some(Request {
        at: at(2),
        from: From::Image,
    });
    let fresh = Disk {
        made_for: Some(at(2)),
        ..disk("d7", 7, None)
    };
    let disks = [disk("d1", 1, Some(Mark::FIRST)), fresh];
    let told = plan(&Seen {
        request,
        ..seen(&disks, machine("d1", 1, Some(Mark::FIRST)))
    });
    let Some(Act::Mark { disk: "d7", mark }) = told.acts.first() else {
        panic!("{told:?}");
    };
    // Once it is gone, the number of the next one follows from the turn alone.
    let disks = [disk(
        "d1",
        1,
        Some(Mark {
            turn: mark.turn + 1,
            ..*mark
        }),
    )];
    let later = Request {
        at: at(3),
        from: From::Image,
    };
    let told = plan(&Seen {
        request: Some(later),
        ..seen(&disks, machine("d1", 1, disks[0].mark))
    });
    let Some(Act::Make { generation, .. }) = told.acts.first() else {
        panic!("{told:?}");
    };
    assert!(*generation > 7, "{generation}");

    // Nor is it that of a former machine of the name.
    let told = plan(&Seen {
        request: Some(later),
        others: 40,
        ..seen(&disks, machine("d1", 1, disks[0].mark))
    });
    assert!(matches!(
        told.acts.first(),
        Some(Act::Make { generation: 41, .. })
    ));
}

#[test]
fn a_former_disk_is_looked_at_again_when_its_time_ends() {
    let disks = [
        disk("d1", 1, Some(Mark::FIRST)),
        disk("d2", 2, Some(mark(1, 2))),
    ];
    let kept = seen(&disks, machine("d2", 2, Some(mark(1, 2))));
    let told = plan(&kept);
    assert_eq!((told.look_again, told.acts), (Some(HOUR * 3), Vec::new()));
    let over = plan(&Seen {
        now: at(12),
        ..kept
    });
    assert_eq!(over.acts, [Act::Delete { disk: "d1" }]);
    // A mark of the future, by somebody else's clock, begins now.
    let early = plan(&Seen { now: at(1), ..kept });
    assert_eq!(
        (early.look_again, early.acts),
        (Some(HOUR * 10), Vec::new())
    );
}

#[test]
fn the_end_says_what_stays() {
    let disks = [
        disk("d1", 1, Some(Mark::FIRST)),
        disk("d2", 2, Some(mark(1, 2))),
    ];
    let there = seen(&disks, machine("d2", 2, Some(mark(1, 2))));
    assert_eq!(plan_end(&there), End::Waits);
    let of = |of, outlives| Snapshot { of, outlives };
    let gone = Seen {
        machine: None,
        ..there
    };
    let runs = Power::Runs { on: "d2" };
    assert_eq!(
        plan_end(&Seen {
            power: runs,
            ..gone
        }),
        End::Waits
    );
    let snapshots = [of("d1", false), of("d2", true)];
    let held = Seen {
        snapshots: &snapshots,
        ..gone
    };
    let delete =
        |it: &[&'static str]| End::Delete(it.iter().map(|disk| Act::Delete { disk }).collect());
    assert_eq!(plan_end(&gone), delete(&["d1", "d2"]));
    assert_eq!(plan_end(&held), delete(&["d2"]));
    let left = Seen {
        disks: &disks[..1],
        ..held
    };
    assert_eq!(plan_end(&left), End::Over { held: 1 });
    let nothing = Seen { disks: &[], ..gone };
    assert_eq!(plan_end(&nothing), End::Over { held: 0 });
}

#[test]
fn a_snapshot_stays_while_it_is_copied_or_asked_for() {
    let copy = |is_proven, fill, is_leaving| Disk {
        copy_of: Some("s1"),
        is_proven,
        is_leaving,
        ..Disk::first("d2", fill)
    };
    let asked = |from| Some(Request { at: at(2), from });
    let may = |copies: &[Disk<'_>], request| may_be_deleted("s1", copies, request);
    assert!(may(&[], None));
    assert!(may(&[copy(true, Fill::Done, false)], None));
    assert!(may(&[copy(false, Fill::Failed, false)], None));
    assert!(may(&[copy(false, Fill::Going, true)], None));
    assert!(!may(&[copy(false, Fill::Done, false)], None));
    assert!(!may(&[copy(false, Fill::Going, false)], None));
    assert!(!may(&[], asked(From::Snapshot("s1"))));
    assert!(may(&[], asked(From::Snapshot("s2"))));
    // Its owner deletes it, and who asked for it is told that it cannot be used.
    assert!(may(&[], asked(From::Unusable("s1"))));
}
