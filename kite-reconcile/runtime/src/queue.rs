//! Which object is reconciled next.
//!
//! What is on its way is finished before more is begun: a thousand objects that are
//! made at once become ready one after the other instead of all at the end, and
//! what was just read and written for one is still at hand for its next step.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, stream};
use kite_cluster::Object;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::metrics::Waiting;

/// How long an object waits for more of the same before it is due: making one
/// may cause a dozen events at once.
const GATHERING: Duration = Duration::from_millis(50);

/// Objects on their way beyond which no more are begun for the moment.
const MAX_IN_PROGRESS: usize = 128;

/// An object of which nothing was heard for so long waits for something slow, and
/// keeps nobody else waiting. Longer than a step takes where the whole cluster is
/// busy: else more would be begun just when there is too much to do.
const STILL: Duration = Duration::from_secs(15);

/// So often another object is begun however many are on their way.
const ANOTHER: Duration = Duration::from_millis(250);

/// How far an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was made for it yet.
    New,
    /// It changes from step to step, without anybody's doing.
    InProgress,
    /// It rests, until somebody wants something else.
    AtRest,
}

/// Objects that are to be reconciled, each once, and each so long after its
/// *first* event. Not kube's debounce, which begins anew with every event: whoever
/// edits an object often enough would keep it from ever being reconciled.
pub struct Triggers<K: Object> {
    lanes: Arc<Shared<K>>,
    waiting: Waiting,
}

impl<K: Object> Clone for Triggers<K> {
    fn clone(&self) -> Self {
        Self {
            lanes: Arc::clone(&self.lanes),
            waiting: self.waiting.clone(),
        }
    }
}

struct Shared<K: Object> {
    lanes: Mutex<Lanes<K>>,
    changed: Notify,
}

impl<K: Object> Triggers<K> {
    /// Triggers, and the stream in which they come out.
    pub fn new() -> (
        Self,
        impl Stream<Item = Result<ObjectRef<K>, Infallible>> + Send + use<K>,
    ) {
        let lanes = Arc::new(Shared {
            lanes: Mutex::new(Lanes::new(Instant::now())),
            changed: Notify::new(),
        });
        let out = stream::unfold(Arc::clone(&lanes), |shared| async {
            loop {
                let next = shared.lanes.lock().next(Instant::now());
                match next {
                    Next::Is(object) => return Some((Ok(object), shared)),
                    Next::At(time) => {
                        // Whatever changes meanwhile may be due sooner.
                        let _ = timeout_at(time, shared.changed.notified()).await;
                    }
                    Next::Unknown => shared.changed.notified().await,
                }
            }
        });
        let waiting = Waiting::default();
        (Self { lanes, waiting }, out)
    }

    /// What was triggered and has not begun to be reconciled.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// This object is to be reconciled, unless it waits for that already.
    pub fn push(&self, object: ObjectRef<K>, progress: Progress) {
        self.waiting.add(object.namespace.as_deref(), &object.name);
        if self
            .lanes
            .lanes
            .lock()
            .push(object, progress, Instant::now())
        {
            self.lanes.changed.notify_one();
        }
    }
}

/// What comes next.
enum Next<K: Object> {
    Is(ObjectRef<K>),
    /// Something may, at this time or when something changes.
    At(Instant),
    /// Nothing, before something changes.
    Unknown,
}

/// Objects and when they came.
type Lane<K> = VecDeque<(ObjectRef<K>, Instant)>;

struct Lanes<K: Object> {
    /// All that waits, and whether it does so among the new.
    due: HashMap<ObjectRef<K>, bool>,
    begun: Lane<K>,
    new: Lane<K>,
    /// Objects that were begun, and when something was heard of each last.
    in_progress: HashMap<ObjectRef<K>, Instant>,
    /// When another new object may be begun in any case.
    another: Instant,
}

impl<K: Object> Lanes<K> {
    fn new(now: Instant) -> Self {
        Self {
            due: HashMap::new(),
            begun: VecDeque::new(),
            new: VecDeque::new(),
            in_progress: HashMap::new(),
            another: now,
        }
    }

    /// Takes an object in. Gives whether something may come sooner by that.
    fn push(&mut self, object: ObjectRef<K>, progress: Progress, now: Instant) -> bool {
        let heard = self.in_progress.get_mut(&object);
        // Nothing may be told of one yet that has just been begun.
        let is_new = progress == Progress::New && heard.is_none();
        let mut is_sooner = false;
        if let Some(heard) = heard {
            *heard = now;
            if progress == Progress::AtRest {
                self.in_progress.remove(&object);
                is_sooner = !self.new.is_empty();
            }
        }
        let waits = self.due.get(&object);
        if waits.is_none_or(|waits_as_new| *waits_as_new && !is_new) {
            self.due.insert(object.clone(), is_new);
            let lane = if is_new {
                &mut self.new
            } else {
                &mut self.begun
            };
            is_sooner |= lane.is_empty();
            lane.push_back((object, now));
        }
        is_sooner
    }

    fn next(&mut self, now: Instant) -> Next<K> {
        self.skip_those_that_went_on();
        // All wait equally long, so that nobody waits for a later one.
        let due = |lane: &Lane<K>| lane.front().map(|(_, came)| *came + GATHERING);
        let (begun, new) = (due(&self.begun), due(&self.new));
        let is_due = |lane: Option<Instant>| lane.is_some_and(|due| due <= now);
        let may_begin = self.another <= now || (!is_due(begun) && self.is_room(now));
        if is_due(new)
            && may_begin
            && let Some((object, _)) = self.new.pop_front()
        {
            self.another = now + ANOTHER;
            self.due.remove(&object);
            self.in_progress.insert(object.clone(), now);
            return Next::Is(object);
        }
        if is_due(begun)
            && let Some((object, _)) = self.begun.pop_front()
        {
            self.due.remove(&object);
            return Next::Is(object);
        }
        let new = new.map(|due| if due <= now { self.another } else { due });
        let next = begun.into_iter().chain(new).min();
        next.map_or(Next::Unknown, Next::At)
    }

    /// Leaves those out of the new that have come among the begun since.
    fn skip_those_that_went_on(&mut self) {
        while let Some((object, _)) = self.new.front() {
            if self.due.get(object) == Some(&true) {
                return;
            }
            self.new.pop_front();
        }
    }

    /// Whether so few are on their way that another may be begun.
    fn is_room(&mut self, now: Instant) -> bool {
        if self.in_progress.len() >= MAX_IN_PROGRESS {
            self.in_progress.retain(|_, heard| now - *heard < STILL);
        }
        self.in_progress.len() < MAX_IN_PROGRESS
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
    use futures::{FutureExt as _, StreamExt as _};
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::sleep;

    use super::*;

    type Out = futures::stream::BoxStream<'static, Result<ObjectRef<ConfigMap>, Infallible>>;

    fn queue() -> (Triggers<ConfigMap>, Out) {
        let (triggers, out) = Triggers::new();
        (triggers, out.boxed())
    }

    fn map(name: impl ToString) -> ObjectRef<ConfigMap> {
        ObjectRef::new(&name.to_string()).within("dev")
    }

    /// What comes out without any waiting.
    fn now(out: &mut Out) -> Vec<String> {
        let next = || Some(out.next().now_or_never()??.unwrap().name);
        std::iter::from_fn(next).collect()
    }

    /// A queue with twice as many new ones as may be on their way; those that may
    /// have come out.
    async fn crowded() -> (Triggers<ConfigMap>, Out) {
        let (triggers, mut out) = queue();
        for number in 0..2 * MAX_IN_PROGRESS {
            triggers.push(map(number), Progress::New);
        }
        sleep(GATHERING).await;
        assert_eq!(now(&mut out).len(), MAX_IN_PROGRESS);
        (triggers, out)
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_comes_once_and_after_a_moment() {
        let (triggers, mut out) = queue();
        triggers.push(map("a"), Progress::AtRest);
        sleep(GATHERING / 2).await;
        triggers.push(map("b"), Progress::AtRest);
        triggers.push(map("a"), Progress::AtRest);
        assert!(now(&mut out).is_empty());
        sleep(GATHERING / 2).await;
        assert_eq!(now(&mut out), ["a"]);
        triggers.push(map("a"), Progress::AtRest);
        sleep(GATHERING).await;
        assert_eq!(now(&mut out), ["b", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_hears_of_what_comes() {
        let (triggers, mut out) = queue();
        let next = tokio::spawn(async move { out.next().await.unwrap().unwrap().name });
        sleep(STILL).await;
        triggers.push(map("a"), Progress::New);
        assert_eq!(next.await.unwrap(), "a");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_begun_goes_before_what_is_new() {
        let (triggers, mut out) = crowded().await;
        // No status tells yet that it was.
        triggers.push(map("0"), Progress::New);
        triggers.push(map("1"), Progress::AtRest);
        triggers.push(map("2"), Progress::InProgress);
        let mut after = Vec::new();
        for _ in 0..2 {
            sleep(ANOTHER).await;
            after.extend(now(&mut out));
        }
        let first_new = MAX_IN_PROGRESS.to_string();
        let place = |name: &str| after.iter().position(|it| it == name);
        for name in ["0", "1", "2", &first_new] {
            assert!(place(name).is_some(), "{name} in {after:?}");
        }
        assert!(after.len() <= 3 + 1 + 2, "one had its rest: {after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_for_something_slow_keep_nobody_waiting() {
        let (_triggers, mut out) = crowded().await;
        sleep(STILL / 2).await;
        assert!(now(&mut out).len() < 3);
        sleep(STILL).await;
        assert!(now(&mut out).len() > MAX_IN_PROGRESS / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn however_much_others_have_to_do_the_new_get_their_turn() {
        let (triggers, mut out) = queue();
        for number in 0..1000 {
            triggers.push(map(format!("new-{number}")), Progress::New);
        }
        let mut begun = 0;
        for round in 0..40 {
            for number in 0..1000 {
                triggers.push(map(format!("old-{number}-{round}")), Progress::InProgress);
            }
            sleep(GATHERING).await;
            // As much as there is time for.
            for _ in 0..500 {
                let name = out.next().await.unwrap().unwrap().name;
                begun += usize::from(name.starts_with("new"));
            }
        }
        assert!((7..=10).contains(&begun), "{begun} in two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_object_that_is_begun_otherwise_waits_no_longer() {
        let (triggers, mut out) = crowded().await;
        let last = (2 * MAX_IN_PROGRESS - 1).to_string();
        triggers.push(map(&last), Progress::AtRest);
        sleep(GATHERING).await;
        assert!(now(&mut out).contains(&last));
        sleep(STILL * 2).await;
        assert!(!now(&mut out).contains(&last), "once is enough");
    }
}
