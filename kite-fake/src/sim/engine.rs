//! The steps of a simulation: what could happen next, and what does.

use std::fmt::Write as _;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use super::cast::Cast;
use super::controller::Name;
use super::due::Why;
use super::observer::{Deeds, Observer};
use super::participant::{Landing, Participant};
use super::run::{Rule, Violation};
use super::world::SCENARIO;
use crate::FakeCluster;
use crate::actors::Key;
use crate::fault::{Call, Fault, Faults};
use crate::state::Snapshot;
use crate::store::Change;

/// What a step takes. It also lets every task do all it can: a paused clock
/// only moves when nobody has anything to do.
const STEP: Duration = Duration::from_millis(1);
/// Between two looks at a reconcile that waits for something else than an
/// answer.
const LOOK: Duration = Duration::from_millis(100);

/// When a world counts as settled, and when it never will.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Timers further off than this are not waited for.
    pub(super) horizon: Duration,
    /// After so long without any change, timers are idle repetition.
    pub(super) calm: Duration,
    /// Longest time until it is settled.
    pub(super) timeout: Duration,
    /// Most steps until it is settled.
    pub(super) steps: u64,
}

/// Something that could happen next.
#[derive(Clone, Debug)]
enum Move {
    /// A participant starts.
    Enter(usize),
    /// One of its requests is carried out and answered.
    Answer(usize, usize),
    /// One of its watches shows the next event.
    Hear(usize, usize),
    /// The actors hear of all that happened.
    Tell,
    /// A participant begins to reconcile an object.
    Reconcile(usize, Name),
    /// An actor reconciles a key.
    Play(usize, Key),
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    Rest,
    Steps(u64),
    Time(Instant),
}

pub(super) struct Engine {
    pub(super) cluster: FakeCluster,
    pub(super) faults: Faults,
    participants: Vec<Participant>,
    cast: Cast,
    /// Chooses; without, everything goes in turn.
    rng: Option<StdRng>,
    pub(super) observer: Observer,
    limits: Limits,
    started: Instant,
    last_change: Instant,
    /// Whose turn it was, where everything goes in turn.
    turn: usize,
    pub(super) trace: String,
    pub(super) requests: Vec<Call>,
    told: usize,
    /// Changes that participants made, in words.
    pub(super) written: Vec<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) states: Vec<Snapshot>,
    pub(super) is_settled: bool,
}

impl Engine {
    pub(super) fn new(
        cluster: FakeCluster,
        faults: Faults,
        participants: Vec<Participant>,
        cast: Cast,
        observer: Observer,
        limits: Limits,
        seed: u64,
    ) -> Self {
        let now = Instant::now();
        // To delete what was there before anybody worked is an order, no accident.
        for (resource, key, _) in cluster.snapshot().objects() {
            let plural = crate::status::qualified(&resource.group, &resource.plural);
            faults.spare(&plural, &key.namespace, &key.name);
        }
        Self {
            cluster,
            faults,
            participants,
            cast,
            rng: (seed != 0).then(|| StdRng::seed_from_u64(seed)),
            observer,
            limits,
            started: now,
            last_change: now,
            turn: 0,
            trace: String::new(),
            requests: Vec::new(),
            told: 0,
            written: Vec::new(),
            violations: Vec::new(),
            states: Vec::new(),
            is_settled: false,
        }
    }

    /// Simulated time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn note(&mut self, line: &str) {
        let elapsed = self.elapsed();
        let (seconds, millis) = (elapsed.as_secs(), elapsed.subsec_millis());
        // Writing to a string cannot fail.
        let _ = writeln!(self.trace, "{seconds:>6}.{millis:03} {line}");
    }

    pub(super) fn violate(&mut self, rule: Rule, text: impl Into<String>) {
        let violation = Violation {
            rule,
            text: text.into(),
        };
        if !self.violations.contains(&violation) {
            self.note(&format!("VIOLATION {violation}"));
            self.violations.push(violation);
        }
    }

    /// Lets every task do what it can, and takes up what came of it.
    pub(super) async fn absorb(&mut self, by: &str) {
        tokio::time::sleep(STEP).await;
        let injected = self.faults.injected();
        let is_scenario = by == SCENARIO;
        let mut deeds = Deeds::default();
        for fault in injected.iter().skip(self.told) {
            self.note(&format!("FAULT {fault}"));
            if fault.mode.disturbs_lives() || fault.mode == Fault::RivalEdits {
                // Where nobody knows, all of the step may be theirs.
                deeds.until = deeds.until.max(fault.until.unwrap_or(u64::MAX));
            }
            if fault.mode.disturbs_lives() {
                deeds.disturbing.push(fault.request.clone());
            }
        }
        self.told = injected.len();
        let events = self.observer.look(&self.cluster, by, &deeds);
        // Leases are renewed as a matter of routine.
        if events.iter().any(|event| event.kind != "Lease") {
            self.last_change = Instant::now();
        }
        for event in events {
            let line = event.to_string();
            self.note(&format!("    {line} at {}", event.revision));
            if is_scenario && event.change == Change::Added {
                let (namespace, name) = (&event.namespace, &event.name);
                self.faults.spare(&event.resource, namespace, name);
            }
            if self.participants.iter().any(|p| *p.name == *event.by) {
                self.written.push(line);
            }
        }
        for text in std::mem::take(&mut self.observer.broken) {
            self.violate(Rule::Invariant, text);
        }
        for text in std::mem::take(&mut self.observer.unseen) {
            self.violate(Rule::Scenario, text);
        }
        self.end_processes();
        for at in 0..self.participants.len() {
            self.look_after(at).await;
        }
    }

    /// Everybody is gone, and starts anew at the next steps.
    pub(super) async fn restart(&mut self) {
        self.note(&format!("{SCENARIO}: restarts everybody"));
        for participant in self.participants.iter().filter(|p| p.is_alive()) {
            participant.layer.kill();
        }
        self.absorb(SCENARIO).await;
    }

    /// Whoever is in a process with one that crashed is gone too.
    fn end_processes(&mut self) {
        let is_gone = |p: &&Participant| p.layer.is_down() && p.is_alive();
        let gone = self.participants.iter().filter(is_gone);
        let gone: Vec<_> = gone.map(|p| (p.process, p.layer.clone())).collect();
        for (process, crashed) in gone {
            let others = self.participants.iter();
            for other in others.filter(|p| p.process == process && p.is_alive()) {
                other.layer.crash_with(&crashed);
            }
        }
    }

    async fn look_after(&mut self, at: usize) {
        let name = self.participants[at].name.clone();
        for answer in self.participants[at].answered() {
            self.note(&format!("    {name}: {} → {}", answer.call, answer.result));
        }
        if self.participants[at].layer.is_down() && self.participants[at].is_alive() {
            self.participants[at].crash();
            self.note(&format!("{name} is gone, with all it had in memory"));
            return;
        }
        for (object, landing) in self.participants[at].land().await {
            match landing {
                Landing::Done(None) => self.note(&format!("{name} is done with {object}")),
                Landing::Done(Some(after)) => {
                    self.note(&format!("{name} is done with {object}, again in {after:?}"));
                }
                Landing::Failed(error) => self.note(&format!("{name} fails on {object}: {error}")),
                Landing::Panicked(text) => {
                    let text = format!("{name} panics while it reconciles {object}: {text}");
                    self.violate(Rule::Panic, text);
                }
            }
        }
    }

    /// All that could happen now, in an order that depends on nothing else.
    fn moves(&mut self) -> Vec<Move> {
        let now = Instant::now();
        let mut moves = Vec::new();
        for (at, participant) in self.participants.iter().enumerate() {
            if !participant.is_alive() {
                moves.push(Move::Enter(at));
                continue;
            }
            let waiting = participant.requests.waiting().len();
            moves.extend((0..waiting).map(|request| Move::Answer(at, request)));
            let watches = participant.waiting().into_iter();
            moves.extend(watches.map(|watch| Move::Hear(at, watch)));
            let ready = participant.ready(now).into_iter();
            moves.extend(ready.map(|name| Move::Reconcile(at, name)));
        }
        if self.cast.is_waiting() {
            moves.push(Move::Tell);
        }
        let due = self.cast.due(now).into_iter();
        moves.extend(due.map(|(player, key)| Move::Play(player, key)));
        moves
    }

    fn choose(&mut self, mut moves: Vec<Move>) -> Option<Move> {
        if moves.is_empty() {
            return None;
        }
        if let Some(rng) = &mut self.rng {
            let at = rng.random_range(0..moves.len());
            return Some(moves.swap_remove(at));
        }
        // What has begun is finished first, and everybody knows everything
        // before somebody acts; then all in turn.
        let everybody = self.participants.len();
        let slot = |step: &Move| match step {
            Move::Reconcile(at, _) => *at,
            Move::Play(player, _) => everybody + player,
            _ => 0,
        };
        let turn = self.turn;
        let rank = |step: &Move| match step {
            Move::Enter(_) => (0, 0),
            Move::Answer(..) => (1, 0),
            Move::Hear(..) => (2, 0),
            Move::Tell => (3, 0),
            Move::Reconcile(..) | Move::Play(..) => {
                let slot = slot(step);
                (if slot > turn { 4 } else { 5 }, slot)
            }
        };
        let at = (0..moves.len()).min_by_key(|at| (rank(&moves[*at]), *at))?;
        let chosen = moves.swap_remove(at);
        if matches!(chosen, Move::Reconcile(..) | Move::Play(..)) {
            self.turn = slot(&chosen);
        }
        Some(chosen)
    }

    async fn make(&mut self, step: Move) {
        let by = match step {
            Move::Enter(at) => {
                let name = self.participants[at].name.clone();
                self.note(&format!("{name} starts"));
                self.participants[at].enter(&self.cluster);
                name.to_string()
            }
            Move::Answer(at, request) => {
                let name = self.participants[at].name.clone();
                if let Some(call) = self.participants[at].requests.release(request) {
                    // Watches are not counted.
                    if call.verb == "watch" {
                        self.note(&format!("{name}: {call}"));
                    } else {
                        self.requests.push(call.clone());
                        let number = self.requests.len();
                        self.note(&format!("{name}: request {number}, {call}"));
                    }
                }
                name.to_string()
            }
            Move::Hear(at, watch) => {
                let name = self.participants[at].name.clone();
                if let Some(words) = self.participants[at].hear(watch) {
                    self.note(&format!("{name} hears: {words}"));
                }
                name.to_string()
            }
            Move::Tell => {
                if let Err(error) = self.cast.hear().await {
                    self.violate(Rule::Scenario, format!("the actors hear nothing: {error}"));
                }
                for text in std::mem::take(&mut self.cast.unheard) {
                    self.violate(Rule::Scenario, text);
                }
                "actors".to_owned()
            }
            Move::Reconcile(at, name) => {
                let who = self.participants[at].name.clone();
                if self.participants[at].start(&name) {
                    self.note(&format!("{who} reconciles {name}"));
                } else {
                    self.note(&format!("{who} does not know {name}"));
                }
                who.to_string()
            }
            Move::Play(player, key) => {
                let name = self.cast.name(player);
                self.note(&format!("{name} plays {key}"));
                if let Err(error) = self.cast.play(player, key).await {
                    self.note(&format!("    {error}"));
                }
                name.to_owned()
            }
        };
        self.absorb(&by).await;
    }

    /// Goes on. Why it came to no rest, if it was to.
    pub(super) async fn drive(&mut self, until: Until) -> Result<(), String> {
        // What the scenario did by its own client, or straight to the cluster, is
        // its own doing, and has to reach the watches.
        self.absorb(SCENARIO).await;
        let begun = Instant::now();
        self.last_change = begun;
        let mut steps = 0;
        loop {
            match until {
                Until::Steps(most) if steps >= most => return Ok(()),
                Until::Time(end) if Instant::now() >= end => return Ok(()),
                _ => {}
            }
            let moves = self.moves();
            if let Some(chosen) = self.choose(moves) {
                steps += 1;
                if matches!(until, Until::Rest) && steps > self.limits.steps {
                    return Err(self.restless(&format!("after {steps} steps")));
                }
                self.make(chosen).await;
                continue;
            }
            // Time that the scenario asked for ends by itself.
            let is_bounded = matches!(until, Until::Time(_));
            if !is_bounded && begun.elapsed() > self.limits.timeout {
                let after = format!("after {:?} of simulated time", self.limits.timeout);
                return Err(self.restless(&after));
            }
            if self.let_late_events_through().await {
                continue;
            }
            let wait = match until {
                Until::Time(end) => Some(self.next_timer().map_or(end, |at| at.min(end))),
                Until::Rest | Until::Steps(_) => self.worth_waiting_for(),
            };
            let Some(wait) = wait else {
                return Ok(());
            };
            tokio::time::sleep_until(wait).await;
            self.absorb("").await;
        }
    }

    /// What was held back arrives, now that everybody acted on what they knew.
    async fn let_late_events_through(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.participants.len() {
            if self.participants[at].layer.is_holding() {
                any = true;
                self.participants[at].layer.release();
                let name = self.participants[at].name.clone();
                self.note(&format!("late events reach {name}"));
            }
        }
        if any {
            self.absorb("").await;
        }
        any
    }

    fn timers(&self) -> Vec<(Instant, Why)> {
        let participants = self.participants.iter();
        let due = participants.flat_map(|p| p.due.iter().map(|(_, entry)| (entry.at, entry.why)));
        due.chain(self.cast.timers()).collect()
    }

    fn next_timer(&self) -> Option<Instant> {
        let next = self.timers().into_iter().map(|(at, _)| at).min();
        if self.participants.iter().any(Participant::is_under_way) {
            let look = Instant::now() + LOOK;
            return Some(next.map_or(look, |at| at.min(look)));
        }
        next
    }

    /// Until when to wait; `None` when the world is settled.
    fn worth_waiting_for(&self) -> Option<Instant> {
        let now = Instant::now();
        let next = self.next_timer()?;
        let timers = self.timers();
        let is_pending = timers
            .iter()
            .any(|(_, why)| matches!(why, Why::Change | Why::Retry));
        if is_pending || self.participants.iter().any(Participant::is_under_way) {
            return Some(next);
        }
        let end = now + self.limits.horizon;
        let is_near = timers
            .iter()
            .any(|(at, why)| *why == Why::Requeue && *at <= end);
        let is_calm = now.duration_since(self.last_change) > self.limits.calm;
        (is_near && !is_calm).then_some(next)
    }

    /// Who is still busy.
    fn restless(&self, after: &str) -> String {
        let mut busy: Vec<String> = Vec::new();
        for participant in &self.participants {
            busy.extend(participant.busy());
        }
        busy.extend(self.cast.busy());
        let what = if busy.is_empty() {
            "watch events go on".to_owned()
        } else {
            busy.join("; ")
        };
        format!("the world does not settle: {after} {what}")
    }

    /// Goes on until the world is settled, and keeps what it looks like then.
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        self.is_settled = false;
        self.drive(Until::Rest).await?;
        self.is_settled = true;
        self.note("the world is settled");
        self.states.push(self.cluster.snapshot());
        Ok(())
    }

    /// Has everybody look at everything once more.
    pub(super) async fn second_pass(&mut self) -> Result<(), String> {
        self.note("everybody looks at everything once more");
        for participant in &mut self.participants {
            participant.again();
        }
        self.drive(Until::Rest).await
    }

    /// Has everybody look at everything who knows nothing of what was before.
    pub(super) async fn fresh_pass(&mut self) -> Result<(), String> {
        self.note("everybody begins anew in the settled world");
        self.restart().await;
        self.drive(Until::Rest).await
    }
}
