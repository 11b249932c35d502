//! What is to be written of connections, and when it may be. No clock, no I/O.
//!
//! Only the latest state of a connection is ever written: what happened between two
//! writes is in the second one.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::crd::{ConnectionEnd, KiteConnectionSpec, MOST_RECORDINGS};
use tokio::time::Instant;

use super::turns::{Rank, Turns};

/// How long a connection is there before it is written: one that is over by then is
/// written once, with its end.
pub(super) const HOLD: Duration = Duration::from_secs(2);
/// How long after its end it is written: its channels say what they carried a moment
/// after it.
pub(super) const SETTLE: Duration = Duration::from_millis(300);
/// How long what was refused waits.
const REFUSED: Duration = Duration::from_secs(20);
/// How often something is refused before it is given up.
const MOST_REFUSALS: u8 = 3;
/// How often at most the time doubles after which what was deleted is written again:
/// up to some nine minutes. What goes with its VM goes each time that it is written.
const MOST_DOUBLINGS: u32 = 8;

/// How much is written at most.
#[derive(Clone, Copy, Debug)]
pub struct ReportLimits {
    /// Writes a second, over time.
    pub per_second: u32,
    /// Writes at once, after a quiet time.
    pub burst: u32,
    /// Connections that are known at a time. If there are more, some are not reported:
    /// first those that are over and were not written yet.
    pub known: usize,
}

impl Default for ReportLimits {
    fn default() -> Self {
        Self {
            per_second: 20,
            burst: 100,
            known: 10_000,
        }
    }
}

/// What came of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// It is there.
    Taken,
    /// There is no place for it any more: its VM's namespace is gone.
    NoPlace,
    /// The API server does not take this one.
    Refused,
    /// Nobody knows: the API server is away.
    Lost,
}

/// A write that is due.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) namespace: String,
    pub(super) spec: KiteConnectionSpec,
    /// Somebody took it for over, which it is not.
    pub(super) is_revived: bool,
    state: u64,
}

struct Entry {
    namespace: String,
    spec: KiteConnectionSpec,
    bytes: (u64, u64),
    /// Counts what happened to it, and what of that was written.
    state: u64,
    written: u64,
    /// There may be an object of it that tells of no end.
    is_seen_open: bool,
    not_before: Instant,
    refusals: u8,
    is_revived: bool,
    /// How often its object was deleted.
    deletions: u32,
}

/// The connections of this process that are open, or are not written yet.
pub(super) struct Ledger {
    limits: ReportLimits,
    entries: HashMap<u64, Entry>,
    turns: Turns,
    tokens: f64,
    filled: Instant,
    /// Since when nothing was taken any more as the process ends.
    ending: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(limits: ReportLimits, now: Instant) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            turns: Turns::default(),
            tokens: f64::from(limits.burst),
            filled: now,
            ending: None,
        }
    }

    /// A connection is there; `false` if there are too many to report all of them. The
    /// one that is not reported is one that is over and was never seen, so that
    /// whoever is connected can be ended; this one only if there is none like that.
    pub(super) fn opened(
        &mut self,
        number: u64,
        namespace: &str,
        spec: KiteConnectionSpec,
        now: Instant,
    ) -> bool {
        let is_full = self.entries.len() >= self.limits.known;
        if is_full && !self.make_room() {
            return false;
        }
        let entry = Entry {
            namespace: namespace.to_owned(),
            spec,
            bytes: (0, 0),
            state: 1,
            written: 0,
            is_seen_open: false,
            not_before: now + HOLD,
            refusals: 0,
            is_revived: false,
            deletions: 0,
        };
        self.entries.insert(number, entry);
        !is_full
    }

    /// Gives up the one that waits longest of those that are over and were never seen;
    /// `false` if there is none.
    fn make_room(&mut self) -> bool {
        let over = self
            .entries
            .iter()
            .filter(|(_, it)| it.rank() == Rank::Over);
        let first = over.min_by_key(|(number, it)| (it.not_before, **number));
        let Some(number) = first.map(|(number, _)| *number) else {
            return false;
        };
        self.entries.remove(&number).is_some()
    }

    /// A terminal of it is recorded.
    pub(super) fn recorded(&mut self, number: u64, name: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&number)
            && entry.spec.recordings.len() < MOST_RECORDINGS
        {
            entry.spec.recordings.push(name.to_owned());
            entry.changed(now);
        }
    }

    /// What its client calls itself, to be told with whatever is written next.
    pub(super) fn client_is(&mut self, number: u64, client: &str) {
        if let Some(entry) = self.entries.get_mut(&number) {
            // A client says what it likes, and lists are read in terminals.
            let plain = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
            entry.spec.client = Some(client.chars().take(255).map(plain).collect());
        }
    }

    /// A channel of it has carried so much.
    pub(super) fn carried(&mut self, number: u64, up: u64, down: u64) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        let (all_up, all_down) = entry.bytes;
        entry.bytes = (all_up.saturating_add(up), all_down.saturating_add(down));
        if entry.spec.ended.is_some() {
            entry.state += 1;
        }
    }

    /// It is over.
    pub(super) fn ended(&mut self, number: u64, at: Timestamp, why: &str, now: Instant) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        entry.spec.ended = Some(ConnectionEnd {
            at: Time(at),
            why: {
                let plain = |c: char| if c.is_control() { ' ' } else { c };
                why.chars().take(400).map(plain).collect()
            },
            bytes_up: None,
            bytes_down: None,
        });
        entry.state += 1;
        // What is not written yet need not be held any more; what was refused waits.
        entry.not_before = if entry.refusals == 0 {
            now + SETTLE
        } else {
            entry.not_before.max(now + SETTLE)
        };
    }

    /// Everything is over, and the process ends.
    pub(super) fn all_ended(&mut self, at: Timestamp, why: &str, now: Instant) {
        let live: Vec<_> = self.live().collect();
        for number in live {
            self.ended(number, at, why, now);
        }
        self.ending = Some(now);
    }

    /// Since when nothing was taken any more, if the process ends.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.ending
    }

    /// Somebody took it for over, which it is not.
    pub(super) fn revived(&mut self, number: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&number)
            && entry.spec.ended.is_none()
        {
            entry.is_revived = true;
            entry.changed(now);
        }
    }

    /// Its object is gone. Of one that is open there has to be one: it is written
    /// again, less soon each time. One whose object told its end was forgotten, and
    /// stays so.
    pub(super) fn deleted(&mut self, number: u64, told_its_end: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        if entry.spec.ended.is_none() {
            let wait = HOLD * 2_u32.pow(entry.deletions.min(MOST_DOUBLINGS));
            entry.deletions = entry.deletions.saturating_add(1);
            entry.not_before = entry.not_before.max(now + wait);
            // What somebody said of it went with the object.
            entry.is_revived = false;
            entry.state += 1;
            // A list that does not show it either tells of no other deletion.
            entry.written = 0;
            entry.is_seen_open = false;
        } else if told_its_end {
            self.entries.remove(&number);
        }
    }

    /// Those that are open and have an object, as far as is known.
    pub(super) fn told(&self) -> impl Iterator<Item = u64> {
        let is_told = |it: &Entry| it.spec.ended.is_none() && it.written > 0;
        let all = self.entries.iter();
        all.filter_map(move |(number, it)| is_told(it).then_some(*number))
    }

    /// Those that are open.
    pub(super) fn live(&self) -> impl Iterator<Item = u64> {
        let live = self
            .entries
            .iter()
            .filter(|(_, it)| it.spec.ended.is_none());
        live.map(|(number, _)| *number)
    }

    /// Those that are open and whose client is not known.
    pub(super) fn nameless(&self) -> impl Iterator<Item = u64> {
        let is_nameless = |it: &Entry| it.spec.ended.is_none() && it.spec.client.is_none();
        let all = self.entries.iter();
        all.filter_map(move |(number, it)| is_nameless(it).then_some(*number))
    }

    pub(super) fn is_live(&self, number: u64) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|it| it.spec.ended.is_none())
    }

    /// How many wait to be written.
    pub(super) fn waiting(&self) -> usize {
        let waits = |it: &&Entry| it.written < it.state;
        self.entries.values().filter(waits).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// At most `most` writes that are due, by [turns](Turns). They count against what
    /// may be written.
    pub(super) fn due(&mut self, most: usize, now: Instant) -> Vec<Due> {
        self.refill(now);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a small burst"
        )]
        let may = (self.tokens as usize).min(most);
        let due = self.take(may, |it| it.not_before <= now);
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let spent = due.len() as f64;
        self.tokens -= spent;
        due
    }

    /// At most `most` writes of what was not written yet, as the process ends: what was
    /// refused comes after everything else of its rank.
    pub(super) fn last(&mut self, most: usize) -> Vec<Due> {
        self.take(most, |_| true)
    }

    fn take(&mut self, most: usize, may: impl Fn(&Entry) -> bool) -> Vec<Due> {
        if most == 0 {
            return Vec::new();
        }
        let waits = |(_, it): &(&u64, &Entry)| it.written < it.state && may(it);
        let waiting = self.entries.iter().filter(waits);
        let waiting = waiting.map(|(number, it)| (it.rank(), it.not_before, *number));
        let numbers = self.turns.take(waiting, most).into_iter();
        let due = numbers.filter_map(|number| Some((number, self.entries.get(&number)?)));
        due.map(|(number, it)| Due {
            number,
            namespace: it.namespace.clone(),
            spec: it.as_told(),
            is_revived: it.is_revived,
            state: it.state,
        })
        .collect()
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        let more = passed * f64::from(self.limits.per_second);
        self.tokens = (self.tokens + more).min(f64::from(self.limits.burst));
        self.filled = now;
    }

    /// Takes in what came of a write; `true` if the connection is given up.
    pub(super) fn sent(&mut self, due: &Due, sent: Sent, now: Instant) -> bool {
        if let (Some(since), Sent::Taken | Sent::NoPlace) = (&mut self.ending, sent) {
            *since = now;
        }
        let Some(entry) = self.entries.get_mut(&due.number) else {
            return false;
        };
        match sent {
            Sent::Taken => {
                entry.refusals = 0;
                entry.written = due.state;
                entry.is_seen_open = due.spec.ended.is_none();
                if entry.state > due.state {
                    // Others that wait are first, however often this one changes.
                    entry.not_before = entry.not_before.max(now);
                } else {
                    entry.is_revived = false;
                    if entry.spec.ended.is_some() {
                        self.entries.remove(&due.number);
                    }
                }
                false
            }
            // It went with its VM: that is no loss.
            Sent::NoPlace => {
                entry.written = entry.state;
                entry.is_seen_open = false;
                if entry.spec.ended.is_some() {
                    self.entries.remove(&due.number);
                }
                false
            }
            Sent::Refused => {
                entry.refusals = entry.refusals.saturating_add(1);
                entry.not_before = now + REFUSED;
                // What others see as open has to be ended, however long that takes, and
                // who is connected can be ended only as long as it is known. A process
                // that ends has no such time.
                let has_time = self.ending.is_none() && entry.rank() != Rank::Over;
                let is_given_up = entry.refusals >= MOST_REFUSALS && !has_time;
                if is_given_up {
                    self.entries.remove(&due.number);
                }
                is_given_up
            }
            Sent::Lost => {
                // It may be there all the same.
                entry.is_seen_open |= due.spec.ended.is_none();
                false
            }
        }
    }

    /// When something may be written that may not be now.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let waits = self.entries.values().filter(|it| it.written < it.state);
        let first = waits.map(|it| it.not_before).min()?;
        let one = f64::from(self.limits.per_second).recip();
        let missing = (1.0 - self.tokens).max(0.0) * one;
        Some(first.max(now + Duration::from_secs_f64(missing)))
    }
}

impl Entry {
    fn rank(&self) -> Rank {
        match (&self.spec.ended, self.is_seen_open) {
            (None, _) => Rank::Open,
            (Some(_), true) => Rank::SeenOpen,
            (Some(_), false) => Rank::Over,
        }
    }

    /// Something happened to it. It waits from now on, unless it did already.
    fn changed(&mut self, now: Instant) {
        if self.written == self.state {
            self.not_before = self.not_before.max(now);
        }
        self.state += 1;
    }

    /// As it is to be written.
    fn as_told(&self) -> KiteConnectionSpec {
        let mut spec = self.spec.clone();
        if let Some(ended) = &mut spec.ended {
            let told = |bytes| Some(i64::try_from(bytes).unwrap_or(i64::MAX));
            ended.bytes_up = told(self.bytes.0);
            ended.bytes_down = told(self.bytes.1);
        }
        spec
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
