//! How the reads of the present task are to be answered, and what they were
//! answered with.

use std::sync::Arc;

use kite_cluster::Object;
use parking_lot::Mutex;

use super::memo::{Read, Reads};

tokio::task_local! {
    static READING: Arc<Reading>;
}

/// A part of a task that reads.
struct Reading {
    manner: Manner,
    noted: Mutex<Noted>,
}

/// How it reads.
#[derive(Clone, Default)]
struct Manner {
    /// Caches may not answer.
    is_live: bool,
    /// The version up to which all that happened is asked for.
    since: Option<u64>,
    /// Uid of the object that goes, for whose sake it is read or deleted.
    whose: Option<Arc<str>>,
    /// What is not there is not made any more.
    is_final: bool,
    /// What is not there may be made again.
    is_restless: bool,
}

impl Manner {
    /// As the present task reads.
    fn present() -> Self {
        let present = READING.try_with(|reading| reading.manner.clone());
        present.unwrap_or_default()
    }
}

#[derive(Default)]
struct Noted {
    reads: Reads,
    /// Something was read that may have changed unseen: the API server's own
    /// answer, or one that the watch has not confirmed.
    is_unsure: bool,
    /// The watch has to confirm something that was read.
    is_ahead: bool,
    /// Something was read that may be older than was asked for.
    is_behind: bool,
}

/// What is known of the reads of some work.
#[non_exhaustive]
pub struct Account {
    /// The reads; none if it cannot be checked later whether they would be
    /// answered in the same way.
    pub reads: Option<Reads>,
    /// An answer was what had been written, and no watch has shown that yet.
    pub is_ahead: bool,
}

impl Account {
    /// The same, after something was changed.
    #[must_use]
    pub fn outdated(self) -> Self {
        Self {
            reads: None,
            ..self
        }
    }
}

/// Carries `work` out with reads that the API server itself answers, whatever
/// caches know: for what destroys, or takes from others.
///
/// It holds for reads through every
/// [`CachedCluster`](super::CachedCluster) below, in this task.
pub fn uncached<F: Future>(work: F) -> impl Future<Output = F::Output> {
    last_look(None, work)
}

/// The uid by which `object` is known as one that goes, if it does: for its sake nothing
/// is made any more.
pub fn going<K: Object>(object: &K) -> Option<Arc<str>> {
    let meta = object.meta();
    meta.deletion_timestamp.as_ref()?;
    meta.uid.as_deref().map(Arc::from)
}

/// As [`uncached`]; but for the sake of `whose` nothing is asked for of which this process
/// has seen the end, after it had it deleted for the same sake.
pub fn last_look<F: Future>(whose: Option<Arc<str>>, work: F) -> impl Future<Output = F::Output> {
    look(whose, false, work)
}

/// As [`last_look`], at what nobody makes any more from now on: what is not there then
/// is not asked for a second time.
pub fn final_look<F: Future>(whose: Option<Arc<str>>, work: F) -> impl Future<Output = F::Output> {
    look(whose, true, work)
}

async fn look<F: Future>(whose: Option<Arc<str>>, is_final: bool, work: F) -> F::Output {
    let manner = Manner {
        is_live: true,
        whose,
        is_final,
        ..Manner::default()
    };
    let (done, _) = scope(manner, work).await;
    note_unsure();
    done
}

/// Carries `work` out, which has objects deleted for the sake of `whose`, and has their
/// ends remembered.
pub async fn seeing_off<F: Future>(whose: Option<Arc<str>>, work: F) -> F::Output {
    let manner = Manner {
        whose,
        ..Manner::default()
    };
    let (done, _) = scope(manner, work).await;
    done
}

/// Reads, as is done all around, what others may make again though it has ended: that
/// it has is not remembered.
pub async fn restless<F: Future>(work: F) -> F::Output {
    let manner = Manner {
        whose: None,
        is_final: false,
        is_restless: true,
        ..Manner::present()
    };
    within(manner, work).await
}

/// Reads what caches know, also where all around only the API server may answer: what
/// cannot be wrong for being old.
pub fn as_known<F: Future>(work: F) -> impl Future<Output = F::Output> {
    within(Manner::default(), work)
}

/// Carries `work` out and notes what its reads were answered with.
pub async fn noted<F: Future>(work: F) -> (F::Output, Account) {
    let (done, noted) = scope(Manner::default(), work).await;
    let account = Account {
        reads: (!noted.is_unsure && !noted.is_ahead).then_some(noted.reads),
        is_ahead: noted.is_ahead,
    };
    (done, account)
}

/// Carries `work` out and says whether it has read all that happened up to the
/// version `since`, because watches have come so far, or the API server itself has
/// answered. Without a version that is when watches have shown all that it read.
pub async fn read_since<F: Future>(since: Option<u64>, work: F) -> (F::Output, bool) {
    let manner = Manner {
        since,
        ..Manner::present()
    };
    let (done, noted) = scope(manner, work).await;
    let is_current = if since.is_some() {
        !noted.is_behind
    } else {
        !noted.is_ahead
    };
    add(noted);
    (done, is_current)
}

/// Carries `work` out in this manner, as a part of what is read all around.
async fn within<F: Future>(manner: Manner, work: F) -> F::Output {
    let (done, noted) = scope(manner, work).await;
    add(noted);
    done
}

/// What was noted is part of what is read all around.
fn add(noted: Noted) {
    let _ = READING.try_with(|reading| {
        let mut all = reading.noted.lock();
        all.reads.extend(noted.reads);
        all.is_unsure |= noted.is_unsure;
        all.is_ahead |= noted.is_ahead;
        all.is_behind |= noted.is_behind;
    });
}

async fn scope<F: Future>(manner: Manner, work: F) -> (F::Output, Noted) {
    let reading = Arc::new(Reading {
        manner,
        noted: Mutex::default(),
    });
    let done = READING.scope(Arc::clone(&reading), work).await;
    let noted = std::mem::take(&mut *reading.noted.lock());
    (done, noted)
}

/// What the manner of the present task says.
fn is<T: Default>(what: impl FnOnce(&Manner) -> T) -> T {
    let said = READING.try_with(|reading| what(&reading.manner));
    said.unwrap_or_default()
}

/// Whether caches may not answer.
pub(super) fn is_live() -> bool {
    is(|manner| manner.is_live)
}

/// Uid of the object that goes, for whose sake the present task reads or deletes.
pub(super) fn whose() -> Option<Arc<str>> {
    is(|manner| manner.whose.clone())
}

/// The same, where what is not there is not made any more.
pub(super) fn finally_whose() -> Option<Arc<str>> {
    is(|manner| manner.whose.clone().filter(|_| manner.is_final))
}

/// Whether what is read may be made again though it has ended.
pub(super) fn is_restless() -> bool {
    is(|manner| manner.is_restless)
}

/// A cache answered with what the watch has confirmed.
pub(super) fn note(read: impl FnOnce() -> Read) {
    // Whoever is not noted needs none of it.
    let _ = READING.try_with(|reading| reading.noted.lock().reads.push(read()));
}

/// A read was answered in a way that cannot be checked later.
pub(super) fn note_unsure() {
    let _ = READING.try_with(|reading| reading.noted.lock().is_unsure = true);
}

/// A read was answered with what was written, ahead of the watch.
pub(super) fn note_ahead() {
    let _ = READING.try_with(|reading| reading.noted.lock().is_ahead = true);
}

/// The version up to which all that happened is asked for.
pub(super) fn since() -> Option<u64> {
    is(|manner| manner.since)
}

/// A cache answered that may lack something of what is asked for.
pub(super) fn note_behind() {
    let _ = READING.try_with(|reading| reading.noted.lock().is_behind = true);
}
