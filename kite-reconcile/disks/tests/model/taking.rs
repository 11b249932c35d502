//! Histories of a snapshot that is taken: a guest that starts, stops and is frozen, whose
//! reports come late, storage that takes its time, and two controllers, one of which acts
//! late and forgets, in every order.

use std::time::Duration;

use jiff::Timestamp;
use kite_disks::taking::{
    Before, Consistency, Cut, Failed, Freeze, Guest, Next, Quiesce, Taking, take,
};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const INSTANCES: [&str; 4] = ["i1", "i2", "i3", "i4"];
const VERSIONS: [&str; 8] = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"];
/// A guest goes on by itself after so many ticks.
const TICKS: u8 = 2;
const TICK: Duration = Duration::from_secs(30);
/// A little more than the ticks, for the margin of clocks.
const LIMIT: Duration = Duration::from_secs(61);

/// It does not go on by itself.
const FOR_EVER: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Running {
    instance: u8,
    has_agent: bool,
    /// It is being moved, or does not run yet.
    changes: bool,
    /// When it goes on by itself.
    frozen_until: Option<u8>,
    reported: bool,
}

/// What the API server has of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Object {
    /// How often it was written: what is written back is another version.
    version: u8,
    freeze: Option<(u8, u8)>,
    told: Option<Result<Consistency, Failed>>,
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    machine: u8,
    frozen: Option<u8>,
    is_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Storage {
    None,
    Asked(Asked),
    Failed,
    Made(Asked),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct View {
    object: Object,
    storage: Storage,
    machine: u8,
    guest: Option<Running>,
    /// Another snapshot has a note, and how often that has changed.
    is_another_on: bool,
    notes: u8,
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Do {
    Note(u8, u8),
    Freeze(u8),
    Cut(Asked),
    Tell(Result<Consistency, Failed>),
    Thaw(u8),
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Late {
    Idle,
    Reads(u8),
    Acts(Do),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: View,
    clock: u8,
    instances: u8,
    /// What was true when storage cut.
    truth: Option<Consistency>,
    powers: u8,
    ticks: u8,
    late_steps: u8,
    /// How often another snapshot may be taken, and other things happen.
    others: u8,
    view: View,
    late: Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    On {
        has_agent: bool,
    },
    Off,
    Report,
    Tick,
    StorageCuts,
    StorageFails,
    /// Another snapshot notes, and has the guest frozen; or lets it go on.
    AnotherFreezes,
    AnotherThaws,
    /// The guest has moved, or runs now.
    Changes,
    /// It is moved: nobody lets it go on by itself any more.
    Moves,
    /// It has been waited for long enough.
    Late,
    /// Its owner deletes it.
    Delete,
    Prompt,
    Begin,
    Read,
    Act,
    Forget,
}

struct Histories {
    quiesce: Quiesce,
    late_steps: u8,
    others: u8,
}

fn time(clock: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + TICK * u32::from(clock)
}

fn place(all: &[&str], name: &str) -> u8 {
    let place = all.iter().position(|it| *it == name).unwrap();
    place.try_into().unwrap()
}

impl View {
    fn next(&self, quiesce: Quiesce, clock: u8) -> Option<Do> {
        let instance = |it: u8| INSTANCES[usize::from(it)];
        let before = |it: Asked| Before {
            machine: VERSIONS[usize::from(it.machine)],
            frozen: it.frozen.map(instance),
            is_off: it.is_off,
        };
        let next = take(&Taking {
            quiesce,
            guest: match self.guest {
                None => Guest::Off,
                Some(it) if it.changes => Guest::Changes,
                Some(it) => Guest::Runs {
                    instance: instance(it.instance),
                    can_freeze: it.has_agent,
                    is_frozen: it.reported,
                },
            },
            machine: VERSIONS[usize::from(self.machine)],
            freeze: self.object.freeze.map(|(it, since)| Freeze {
                instance: instance(it),
                since: time(since),
            }),
            is_another_on: self.is_another_on,
            limit: LIMIT,
            is_proven: true,
            is_late: self.is_late,
            is_leaving: self.object.is_leaving,
            told: self.object.told,
            cut: match self.storage {
                Storage::None => Cut::None,
                Storage::Asked(_) => Cut::Asked,
                Storage::Failed => Cut::Failed,
                Storage::Made(asked) => Cut::Made(before(asked)),
            },
            now: time(clock),
        });
        let of = |name: &str| place(&INSTANCES, name);
        Some(match next {
            Next::Wait => return None,
            Next::Note(freeze) => Do::Note(of(freeze.instance), clock),
            Next::Freeze(name) => Do::Freeze(of(name)),
            Next::Cut(it) => Do::Cut(Asked {
                machine: place(&VERSIONS, it.machine),
                frozen: it.frozen.map(of),
                is_off: it.is_off,
            }),
            Next::Tell(told) => Do::Tell(told),
            Next::Thaw(name) => Do::Thaw(of(name)),
            Next::Discard => Do::Discard,
        })
    }
}

impl World {
    fn carry_out(&mut self, act: Do, view: &View) -> Option<()> {
        let is_same = self.now.object == view.object;
        let mut guest = self.now.guest;
        let running = |it: u8| guest.filter(|guest| guest.instance == it);
        match act {
            Do::Note(instance, since) if is_same && self.now.notes == view.notes => {
                self.now.object.freeze = Some((instance, since));
                self.now.object.version += 1;
            }
            Do::Tell(told) if is_same => {
                self.now.object.told = Some(told);
                self.now.object.version += 1;
            }
            Do::Note(..) | Do::Tell(_) => return None,
            Do::Freeze(instance) => {
                let mut frozen = running(instance)?;
                // A second request does not restart it.
                frozen.frozen_until.get_or_insert(self.clock + TICKS);
                guest = Some(frozen);
            }
            Do::Thaw(instance) => {
                if let Some(mut thawed) = running(instance) {
                    thawed.frozen_until = None;
                    guest = Some(thawed);
                }
                if is_same {
                    self.now.object.freeze = None;
                    self.now.object.version += 1;
                }
            }
            Do::Cut(asked) => {
                if self.now.storage != Storage::None {
                    return None;
                }
                self.now.storage = Storage::Asked(asked);
            }
            Do::Discard => self.now.storage = Storage::None,
        }
        self.now.guest = guest;
        Some(())
    }

    /// One kind after the other, the guest last.
    fn read(&mut self, kind: u8) {
        match kind {
            0 => self.view.object = self.now.object,
            1 => self.view.storage = self.now.storage,
            2 => {
                self.view.machine = self.now.machine;
                self.view.is_another_on = self.now.is_another_on;
                self.view.notes = self.now.notes;
                self.view.is_late = self.now.is_late;
            }
            _ => self.view.guest = self.now.guest,
        }
    }
}

impl Model for Histories {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let now = View {
            object: Object {
                version: 0,
                freeze: None,
                told: None,
                is_leaving: false,
            },
            storage: Storage::None,
            machine: 0,
            guest: None,
            is_another_on: false,
            notes: 0,
            is_late: false,
        };
        vec![World {
            now,
            clock: 0,
            instances: 0,
            truth: None,
            powers: 2,
            ticks: 3,
            late_steps: self.late_steps,
            others: self.others,
            view: now,
            late: Late::Idle,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let guest = world.now.guest;
        if world.powers > 0 {
            match guest {
                Some(_) => steps.push(Step::Off),
                None => steps.extend([true, false].map(|has_agent| Step::On { has_agent })),
            }
        }
        if guest.is_some_and(|it| it.reported != it.frozen_until.is_some()) {
            steps.push(Step::Report);
        }
        if world.ticks > 0 {
            steps.push(Step::Tick);
        }
        if let Storage::Asked(_) = world.now.storage {
            steps.extend([Step::StorageCuts, Step::StorageFails]);
        }
        if guest.is_some_and(|it| it.changes) {
            steps.push(Step::Changes);
        } else if guest.is_some() && world.others > 0 {
            steps.push(Step::Moves);
        }
        if world.now.is_another_on {
            steps.push(Step::AnotherThaws);
        }
        if !world.now.is_late {
            steps.push(Step::Late);
        }
        if world.others > 0 {
            if world.now.object.freeze.is_none() && guest.is_some() {
                steps.push(Step::AnotherFreezes);
            }
            steps.push(Step::Delete);
        }
        if world.now.next(self.quiesce, world.clock).is_some() {
            steps.push(Step::Prompt);
        }
        match world.late {
            Late::Idle if world.late_steps > 0 => steps.push(Step::Begin),
            Late::Idle => {}
            Late::Reads(_) => steps.extend([Step::Read, Step::Forget]),
            Late::Acts(_) => steps.extend([Step::Act, Step::Forget]),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one step after the other")]
    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::On { has_agent } => {
                world.powers -= 1;
                world.now.machine += 1;
                world.now.guest = Some(Running {
                    instance: world.instances,
                    has_agent,
                    changes: true,
                    frozen_until: None,
                    reported: false,
                });
                world.instances += 1;
            }
            Step::Off => {
                world.powers -= 1;
                world.now.machine += 1;
                world.now.guest = None;
            }
            Step::Report => {
                let guest = world.now.guest.as_mut()?;
                guest.reported = guest.frozen_until.is_some();
            }
            Step::Tick => {
                world.ticks -= 1;
                world.clock += 1;
                if let Some(guest) = &mut world.now.guest {
                    guest.frozen_until = guest.frozen_until.filter(|it| *it > world.clock);
                }
            }
            Step::StorageCuts => {
                let Storage::Asked(asked) = world.now.storage else {
                    return None;
                };
                world.truth = Some(match world.now.guest {
                    None => Consistency::Offline,
                    Some(guest) if guest.frozen_until.is_some() => Consistency::Quiesced,
                    Some(_) => Consistency::CrashConsistent,
                });
                world.now.storage = Storage::Made(asked);
            }
            Step::StorageFails => world.now.storage = Storage::Failed,
            Step::AnotherFreezes => {
                world.others -= 1;
                world.now.is_another_on = true;
                world.now.notes += 1;
                let guest = world.now.guest.as_mut()?;
                guest.frozen_until.get_or_insert(world.clock + TICKS);
            }
            Step::AnotherThaws => {
                world.now.is_another_on = false;
                world.now.notes += 1;
                if let Some(guest) = &mut world.now.guest {
                    guest.frozen_until = None;
                }
            }
            Step::Changes => {
                let guest = world.now.guest.as_mut()?;
                guest.changes = false;
            }
            Step::Moves => {
                world.others -= 1;
                let guest = world.now.guest.as_mut()?;
                guest.changes = true;
                guest.frozen_until = guest.frozen_until.map(|_| FOR_EVER);
            }
            Step::Late => world.now.is_late = true,
            Step::Delete => {
                world.others -= 1;
                world.now.object.is_leaving = true;
                world.now.object.version += 1;
            }
            Step::Prompt => {
                let act = world.now.next(self.quiesce, world.clock)?;
                world.carry_out(act, &last.now)?;
            }
            Step::Begin => {
                world.late_steps -= 1;
                world.late = Late::Reads(0);
            }
            Step::Read => {
                let Late::Reads(kind) = world.late else {
                    return None;
                };
                world.read(kind);
                let next = world.view.next(self.quiesce, world.clock);
                world.late = match (kind, next) {
                    (0..3, _) => Late::Reads(kind + 1),
                    (_, Some(act)) => Late::Acts(act),
                    (_, None) => Late::Idle,
                };
            }
            Step::Act => {
                let Late::Acts(act) = world.late else {
                    return None;
                };
                world.late = Late::Idle;
                let view = world.view;
                // It may be refused.
                let _ = world.carry_out(act, &view);
            }
            Step::Forget => world.late = Late::Idle,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn tells(world: &World, told: Consistency) -> bool {
            world.now.object.told == Some(Ok(told))
        }
        vec![
            Property::always("what is told quiesced was", |_, it: &World| {
                !tells(it, Consistency::Quiesced) || it.truth == Some(Consistency::Quiesced)
            }),
            Property::always("what is told offline was", |_, it: &World| {
                !tells(it, Consistency::Offline) || it.truth == Some(Consistency::Offline)
            }),
            Property::always("what is required is kept", |model: &Self, it: &World| {
                model.quiesce != Quiesce::Required || !tells(it, Consistency::CrashConsistent)
            }),
            Property::always(
                "who wants no freeze has none",
                |model: &Self, it: &World| {
                    let frozen = it
                        .now
                        .guest
                        .is_some_and(|guest| guest.frozen_until.is_some());
                    model.quiesce != Quiesce::No || !frozen || it.others == 0
                },
            ),
            Property::always(
                "when all is done, it is told, and the guest goes on",
                |model: &Self, it: &World| {
                    let is_idle =
                        it.late == Late::Idle && !matches!(it.now.storage, Storage::Asked(_));
                    let is_final = is_idle && it.now.is_late;
                    if !is_final || it.now.next(model.quiesce, it.clock).is_some() {
                        return true;
                    }
                    let frozen = it
                        .now
                        .guest
                        .is_some_and(|guest| guest.frozen_until.is_some());
                    let failed = it.now.object.told.is_some_and(|it| it.is_err());
                    // What acts late may freeze it once more, until it goes on by itself.
                    let goes_on = !frozen || model.late_steps > 0 || it.now.is_another_on;
                    let is_cleared = !failed || it.now.storage == Storage::None;
                    it.now.object.told.is_some() && goes_on && is_cleared
                },
            ),
            Property::always(
                "whose time is over goes on, whatever storage does",
                |model: &Self, it: &World| {
                    let is_over = it.now.object.freeze.is_some_and(|(_, since)| {
                        let since = it.clock.saturating_sub(since);
                        LIMIT <= TICK * u32::from(since)
                    });
                    let waits = it.now.next(model.quiesce, it.clock).is_none();
                    !is_over || !waits
                },
            ),
            Property::sometimes("quiesced", |_, it: &World| tells(it, Consistency::Quiesced)),
            Property::sometimes("offline", |_, it: &World| tells(it, Consistency::Offline)),
            Property::sometimes("crash-consistent", |_, it: &World| {
                tells(it, Consistency::CrashConsistent)
            }),
            Property::sometimes("failed", |_, it: &World| {
                it.now.object.told.is_some_and(|it| it.is_err())
            }),
        ]
    }
}

fn check(quiesce: Quiesce, (late_steps, others): (u8, u8), expected: &[&str]) {
    let histories = Histories {
        quiesce,
        late_steps,
        others,
    };
    let checker = histories
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .threads(2)
        .spawn_bfs()
        .join();
    println!(
        "{quiesce:?}, {late_steps}: {} states",
        checker.unique_state_count()
    );
    let found = checker.discoveries();
    for property in checker.model().properties() {
        let is_harm = property.expectation == Expectation::Always;
        if is_harm && let Some(path) = found.get(property.name) {
            let steps = path.clone().into_actions();
            let name = property.name;
            panic!("not so: {name}, with {quiesce:?}, {late_steps}\n{steps:#?}");
        }
    }
    for name in expected {
        assert!(found.contains_key(name), "no history in which {name}");
    }
}

#[test]
fn what_is_told_of_a_snapshot_is_true() {
    let bounds = if super::is_long() {
        &[(0, 1), (1, 1), (2, 0)][..]
    } else {
        &[(0, 1), (1, 0)]
    };
    for bounds in bounds {
        let all = ["quiesced", "offline", "crash-consistent"];
        check(Quiesce::IfPossible, *bounds, &all);
        let all = ["quiesced", "offline", "failed"];
        check(Quiesce::Required, *bounds, &all);
        check(Quiesce::No, *bounds, &["offline", "crash-consistent"]);
    }
}
