//! When snapshots are taken by a schedule, and which of them go again.
//!
//! A snapshot is named by the time that it was due ([`name`]), so that two controllers make
//! one. Of those that were missed only the last is made up for. One that is old goes when
//! there are enough newer ones that are good; the newest good one never goes by this.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

/// How many times are looked at for whether they come too often.
const LOOKED_AT: usize = 200;

/// Times that come again and again.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// Why a schedule is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It cannot be read.
    #[error(
        "schedule {schedule:?} cannot be read ({why}): write minute, hour, day of the month, \
         month and day of the week, as in \"30 3 * * *\" for half past three each night"
    )]
    Pattern {
        /// What was given.
        schedule: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such time zone.
    #[error(
        "time zone {0:?} is not known: write a name of the IANA database, as in \
         \"Europe/Rome\", or leave it out for UTC"
    )]
    Zone(String),
    /// There is no such day.
    #[error("schedule {0:?} never comes: no month has such a day")]
    Never(String),
    /// It comes more often than is allowed.
    #[error(
        "schedule {schedule:?} comes {gap} minutes after it came, and snapshots may be taken \
         every {least} minutes at most: write one that comes less often"
    )]
    TooOften {
        /// What was given.
        schedule: String,
        /// Minutes between two times.
        gap: u64,
        /// Minutes that are to be between them.
        least: u64,
    },
}

impl Schedule {
    /// Reads the five fields of a cron pattern, in `zone` by its IANA name or in UTC. Between
    /// two times there are to be `least`. Zones are those of the system's database
    /// (`/usr/share/zoneinfo`), or where there is none those that the program came with.
    ///
    /// # Errors
    /// What is wrong with it, in words for who wrote it.
    pub fn parse(schedule: &str, zone: Option<&str>, least: Duration) -> Result<Self, Invalid> {
        let read = Self::read(schedule, zone)?;
        // By the clock on the wall, where days are of one length.
        let start = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        let times = read.cron.iter_after(start.clone()).take(LOOKED_AT);
        let times: Vec<Zoned> = times.collect();
        let horizon = start.checked_add(100.years()).unwrap_or(start);
        if times.first().is_none_or(|first| *first > horizon) {
            return Err(Invalid::Never(schedule.to_owned()));
        }
        let pairs = times.iter().zip(times.iter().skip(1));
        let gaps = pairs.map(|(one, next)| one.duration_until(next).unsigned_abs());
        match gaps.min() {
            Some(gap) if gap < least => Err(Invalid::TooOften {
                schedule: schedule.to_owned(),
                gap: gap.as_secs() / 60,
                least: least.as_secs() / 60,
            }),
            _ => Ok(read),
        }
    }

    /// Reads one that [`parse`](Self::parse) has taken before: the times are not looked at
    /// again, which takes a hundred times as long.
    ///
    /// # Errors
    /// What is wrong with it, in words for who wrote it.
    pub fn read(schedule: &str, zone: Option<&str>) -> Result<Self, Invalid> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed);
        let parser = parser.year(Year::Disallowed).build();
        let cron = parser.parse(schedule).map_err(|error| Invalid::Pattern {
            schedule: schedule.to_owned(),
            why: error.to_string(),
        })?;
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| Invalid::Zone(name.to_owned()))?,
        };
        Ok(Self { cron, zone })
    }

    /// The last time that has come.
    #[must_use]
    pub fn last(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(self.zone.clone());
        let last = self.cron.find_previous_occurrence(&now, true);
        last.ok().map(|it| it.timestamp())
    }

    /// The next time that comes.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&now, false);
        next.ok().map(|it| it.timestamp())
    }
}

/// Longest name that an object may have.
const NAME_MAX: usize = 63;

/// Name of the snapshot of `machine` that is due at `time`, in UTC; shorter for a long name.
#[must_use]
pub fn name(machine: &str, time: Timestamp) -> String {
    let long = format!("{machine}-{}", time.strftime("%Y%m%d-%H%M"));
    if long.len() <= NAME_MAX {
        long
    } else {
        format!("{machine}-{}", time.strftime("%y%m%d%H%M"))
    }
}

/// How much later than due the snapshots of one are taken, less than `most`: the same each
/// time, and another for most others.
#[must_use]
pub fn offset(uid: &str, most: Duration) -> Duration {
    // FNV-1a: it is to be the same in each version of the program.
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Duration::from_secs(hash % most.as_secs().max(1))
}

/// What became of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is on its way.
    Going,
    /// It was to be there long ago, and may still come: it holds up no other.
    Stuck,
    /// It can be restored.
    Good,
    /// There is none.
    Failed,
    /// It was good, and cannot be restored any more.
    Lost,
}

/// A snapshot that was taken by the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it was due, and never later than when it was begun: a clock may have been ahead.
    pub at: Timestamp,
    /// What became of it.
    pub state: State,
    /// Whether it is kept: by its owner, or for what else needs it.
    pub is_protected: bool,
}

/// What is seen of a machine's schedule.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The times.
    pub schedule: &'a Schedule,
    /// Since when it is as it is: what came before is not made up for, and failures before do
    /// not count.
    pub since: Timestamp,
    /// The last time for which one was begun, also where that is gone since, or that was passed
    /// over ([`Plan::skip`]).
    pub begun: Option<Timestamp>,
    /// How much later than due, so that not all are taken at the full hour.
    pub offset: Duration,
    /// All that was taken by it.
    pub taken: &'a [Taken<'a>],
    /// How many good ones are kept; one at least.
    pub keep: usize,
    /// After how many failures in a row no more are tried.
    pub most_failures: usize,
    /// Whether none is to be begun now.
    pub is_paused: bool,
    /// Whether nothing was written since the last good one.
    pub is_unchanged: bool,
    /// The present time.
    pub now: Timestamp,
}

/// How a schedule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for its time.
    Waits,
    /// One is being taken.
    Takes,
    /// As many as that have failed in a row: it waits for its owner.
    Suspended(usize),
    /// It waits for the platform.
    Paused,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// A snapshot that is to be taken, by the time that it was due.
    pub take: Option<Timestamp>,
    /// The time of one that is not taken since nothing was written: it is not made up for.
    pub skip: Option<Timestamp>,
    /// Names of those that go.
    pub delete: Vec<&'a str>,
    /// How the schedule stands.
    pub standing: Standing,
    /// When time alone calls for something.
    pub look_again: Option<Timestamp>,
}

/// What is to be done for a schedule.
#[must_use]
pub fn plan<'a>(seen: &Seen<'a>) -> Plan<'a> {
    let failures = failures(seen);
    let is_taking = seen.taken.iter().any(|it| it.state == State::Going);
    let standing = if failures >= seen.most_failures.max(1) {
        Standing::Suspended(failures)
    } else if is_taking {
        Standing::Takes
    } else if seen.is_paused {
        Standing::Paused
    } else {
        Standing::Waits
    };
    let due = due(seen).filter(|_| standing == Standing::Waits);
    let before = seen.now.checked_sub(seen.offset).unwrap_or(seen.now);
    let next = seen.schedule.next(before);
    let next = next.and_then(|it| it.checked_add(seen.offset).ok());
    Plan {
        take: due.filter(|_| !seen.is_unchanged),
        skip: due.filter(|_| seen.is_unchanged),
        delete: too_old(seen),
        standing,
        look_again: next.filter(|_| standing == Standing::Waits),
    }
}

/// Those of the present schedule, that is, and not of a clock that went wrong.
fn tried<'s, 'a>(seen: &'s Seen<'a>) -> impl Iterator<Item = &'s Taken<'a>> {
    let times = seen.since..=seen.now;
    seen.taken.iter().filter(move |it| times.contains(&it.at))
}

/// How many have failed since the last one that did not.
fn failures(seen: &Seen<'_>) -> usize {
    let succeeded = tried(seen).filter(|it| matches!(it.state, State::Good | State::Lost));
    let last = succeeded.map(|it| it.at).max();
    let failed = tried(seen).filter(|it| matches!(it.state, State::Failed | State::Stuck));
    failed
        .filter(|it| last.is_none_or(|last| it.at > last))
        .count()
}

/// The last time that has come and for which nothing was tried.
fn due(seen: &Seen<'_>) -> Option<Timestamp> {
    let before = seen.now.checked_sub(seen.offset).ok()?;
    let last = seen.schedule.last(before)?;
    let is_begun = seen
        .begun
        .is_some_and(|begun| begun >= last && begun <= seen.now);
    let is_new = last > seen.since && !is_begun && tried(seen).all(|it| it.at < last);
    is_new.then_some(last)
}

fn too_old<'a>(seen: &Seen<'a>) -> Vec<&'a str> {
    let mut good: Vec<_> = seen
        .taken
        .iter()
        .filter(|it| it.state == State::Good)
        .collect();
    good.sort_by_key(|it| std::cmp::Reverse(it.at));
    let unprotected = good.iter().filter(|it| !it.is_protected);
    let old = unprotected.skip(seen.keep.max(1)).map(|it| it.name);
    // What has failed is told of until there is another.
    let last = seen.taken.iter().map(|it| it.at).max();
    let newest = good.first().map(|it| it.at);
    let is_over = |it: &&Taken<'_>| match it.state {
        State::Failed => true,
        State::Stuck => newest > Some(it.at),
        State::Going | State::Good | State::Lost => false,
    };
    let failed = seen.taken.iter().filter(is_over);
    let failed = failed.filter(|it| last > Some(it.at) && !it.is_protected);
    let told = seen.most_failures.max(1);
    let mut failed: Vec<_> = failed.collect();
    failed.sort_by_key(|it| std::cmp::Reverse(it.at));
    let failed = failed.into_iter().skip(told - 1).map(|it| it.name);
    old.chain(failed).collect()
}
