//! Schedules of snapshots: what is read, when they come, and what goes.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use kite_disks::schedule::{Invalid, Plan, Schedule, Seen, Standing, State, Taken, name, plan};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn read(text: &str, zone: Option<&str>) -> Schedule {
    Schedule::parse(text, zone, HOUR).unwrap()
}

#[test]
fn what_cannot_be_read_says_what_to_write() {
    let read = |text: &str, zone| Schedule::parse(text, zone, HOUR).unwrap_err().to_string();
    for odd in [
        "",
        "* * * *",
        "0 0 3 * * *",
        "61 * * * *",
        "@often",
        "0 3 * * nosuchday",
        "ab",
        "0 3 32 * *",
    ] {
        let told = read(odd, None);
        assert!(told.contains(&format!("{odd:?}")), "{told}");
        assert!(told.contains("30 3 * * *"), "{told}");
    }
    let told = read("30 3 * * *", Some("Mars/Olympus"));
    assert!(
        told.contains("Mars/Olympus") && told.contains("Europe/Rome"),
        "{told}"
    );
    assert_eq!(
        Schedule::parse("0 0 30 2 *", None, HOUR).unwrap_err(),
        Invalid::Never("0 0 30 2 *".to_owned())
    );
    for (text, gap) in [
        ("* * * * *", 1),
        ("0,30 3 * * *", 30),
        ("59 23 31 12 *\n", 0),
    ] {
        match Schedule::parse(text, None, HOUR) {
            Err(Invalid::TooOften { gap: told, .. }) => assert_eq!(told, gap, "{text}"),
            other => assert_eq!((gap, other.is_ok()), (0, true), "{text}: {other:?}"),
        }
    }
}

#[test]
fn days_on_which_clocks_change_have_one_night() {
    let nights = read("30 2 * * *", Some("Europe/Rome"));
    let mut times = Vec::new();
    for (from, until) in [
        // Clocks go from two to three.
        ("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"),
        // And from three to two.
        ("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"),
    ] {
        let mut next = nights.next(at(from)).unwrap();
        let mut count = 0;
        while next < at(until) {
            assert_eq!(nights.last(next), Some(next));
            times.push(next.to_string());
            next = nights.next(next).unwrap();
            count += 1;
        }
        assert_eq!(count, 2, "{times:?}");
    }
}

#[test]
fn names_are_those_of_the_time_that_was_due() {
    assert_eq!(name("web", at("2026-11-29T03:30:00Z")), "web-20261129-0330");
}

/// What may happen to a schedule.
#[derive(Clone, Debug)]
enum Event {
    Passes {
        minutes: u16,
    },
    /// A clock is set back for as long as one look.
    LooksBack {
        minutes: u16,
    },
    Ends {
        state: u8,
    },
    /// The owner deletes, or keeps, one of them.
    Deletes(u8),
    Protects(u8),
    Loses(u8),
    Pauses(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..400u16).prop_map(|minutes| Event::Passes { minutes }),
        1 => (1..400u16).prop_map(|minutes| Event::LooksBack { minutes }),
        6 => (0..3u8).prop_map(|state| Event::Ends { state }),
        1 => any::<u8>().prop_map(Event::Deletes),
        1 => any::<u8>().prop_map(Event::Protects),
        1 => any::<u8>().prop_map(Event::Loses),
        1 => any::<bool>().prop_map(Event::Pauses),
    ]
}

#[derive(Clone, Debug)]
struct Owned {
    name: String,
    at: Timestamp,
    state: State,
    is_protected: bool,
}

struct World {
    schedule: Schedule,
    all: Vec<Owned>,
    /// The last time for which one was begun.
    begun: Option<Timestamp>,
    now: Timestamp,
    keep: usize,
    is_paused: bool,
}

impl World {
    /// As whoever sees it whose clock shows `now` and who does not know the last `unseen`.
    fn planned(&self, now: Timestamp, unseen: usize) -> (Option<Timestamp>, Vec<String>, Standing) {
        let known = self.all.len().saturating_sub(unseen);
        let taken = self.all.iter().take(known).map(|it| Taken {
            name: &it.name,
            at: it.at,
            state: it.state,
            is_protected: it.is_protected,
        });
        let taken: Vec<_> = taken.collect();
        let Plan {
            take,
            delete,
            standing,
            ..
        } = plan(&Seen {
            schedule: &self.schedule,
            since: at("2026-01-01T00:00:00Z"),
            begun: self.begun,
            offset: Duration::from_secs(300),
            taken: &taken,
            keep: self.keep,
            most_failures: 3,
            is_paused: self.is_paused,
            is_unchanged: false,
            now,
        });
        (
            take,
            delete.into_iter().map(str::to_owned).collect(),
            standing,
        )
    }

    fn newest_good(&self) -> Option<&Owned> {
        let good = self.all.iter().filter(|it| it.state == State::Good);
        good.max_by_key(|it| it.at)
    }

    fn look(&mut self, now: Timestamp) -> Result<(), TestCaseError> {
        let (take, delete, standing) = self.planned(now, 0);
        for gone in &delete {
            let it = self.all.iter().find(|it| it.name == *gone).unwrap();
            prop_assert!(!it.is_protected);
            prop_assert!(matches!(it.state, State::Good | State::Failed));
            let newest = self.newest_good().map(|it| &it.name);
            prop_assert_ne!(newest, Some(gone));
        }
        if let Some(due) = take {
            prop_assert_eq!(standing, Standing::Waits);
            prop_assert!(due <= now);
            // Nor is one taken anew that its owner has deleted.
            let begun = self.begun.filter(|it| *it <= now);
            prop_assert!(begun.is_none_or(|it| it < due));
            self.begun = self.begun.max(Some(due));
            let name = name("web", due);
            prop_assert!(self.all.iter().all(|it| it.name != name));
            // Who does not know the last ones yet makes the same, or what is there.
            let (other, ..) = self.planned(now, 1);
            prop_assert!(other.is_none_or(|it| it <= due));
            self.all.push(Owned {
                name,
                at: due,
                state: State::Going,
                is_protected: false,
            });
        }
        self.all.retain(|it| !delete.contains(&it.name));
        // One that has failed goes after another was begun.
        let (again, failed, _) = self.planned(now, 0);
        prop_assert_eq!(again, None);
        self.all
            .retain(|it| !failed.contains(&it.name) || it.state != State::Failed);
        let (again, more, _) = self.planned(now, 0);
        prop_assert_eq!((again, more.len()), (None, 0));
        let kept = self
            .all
            .iter()
            .filter(|it| it.state == State::Good && !it.is_protected);
        prop_assert!(kept.count() <= self.keep.max(1) + 1);
        Ok(())
    }

    fn happens(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let count = self.all.len().max(1);
        let chosen = |it: u8| usize::from(it) % count;
        match *event {
            Event::Passes { minutes } => self.now += Duration::from_secs(60) * u32::from(minutes),
            Event::LooksBack { minutes } => {
                let before = self.now - Duration::from_secs(60) * u32::from(minutes);
                return self.look(before);
            }
            Event::Ends { state } => {
                let going = self.all.iter_mut().find(|it| it.state == State::Going);
                if let Some(going) = going {
                    going.state = if state == 0 {
                        State::Failed
                    } else {
                        State::Good
                    };
                }
            }
            Event::Deletes(it) if !self.all.is_empty() => drop(self.all.remove(chosen(it))),
            Event::Protects(it) if !self.all.is_empty() => {
                self.all[chosen(it)].is_protected = true;
            }
            Event::Loses(it) if !self.all.is_empty() => {
                let one = &mut self.all[chosen(it)];
                if one.state == State::Good {
                    one.state = State::Lost;
                }
            }
            Event::Pauses(is_paused) => self.is_paused = is_paused,
            Event::Deletes(_) | Event::Protects(_) | Event::Loses(_) => {}
        }
        self.look(self.now)
    }
}

proptest! {
    #[test]
    fn the_last_good_one_stays(keep in 0..4usize, events in prop::collection::vec(event(), 1..80)) {
        let mut world = World {
            schedule: read("0 * * * *", None),
            all: Vec::new(),
            begun: None,
            now: at("2026-01-01T00:30:00Z"),
            keep,
            is_paused: false,
        };
        for event in &events {
            world.happens(event)?;
        }
    }
}

#[test]
fn three_failures_in_a_row_end_it_until_its_owner_says_more() {
    let schedule = read("0 * * * *", None);
    let mut all = Vec::new();
    let since = at("2026-01-01T00:00:00Z");
    let told = |all: &[(String, Timestamp)], since, now| {
        let taken = all.iter().map(|(name, at)| Taken {
            name,
            at: *at,
            state: State::Failed,
            is_protected: false,
        });
        let taken: Vec<_> = taken.collect();
        let seen = Seen {
            schedule: &schedule,
            since,
            begun: None,
            offset: Duration::ZERO,
            taken: &taken,
            keep: 2,
            most_failures: 3,
            is_paused: false,
            is_unchanged: false,
            now,
        };
        let plan = plan(&seen);
        (plan.take, plan.standing, plan.delete.len())
    };
    for hour in 1..=3 {
        let now = since + HOUR * hour;
        assert_eq!(told(&all, since, now), (Some(now), Standing::Waits, 0));
        all.push((name("web", now), now));
    }
    let now = since + HOUR * 9;
    assert_eq!(told(&all, since, now), (None, Standing::Suspended(3), 0));
    // Edited: what was before does not count.
    let edited = since + HOUR * 8;
    assert_eq!(told(&all, edited, now), (Some(now), Standing::Waits, 0));
}
