//! How the reads of the present task are to be answered, and what they were
//! answered with.

use std::sync::Arc;

use parking_lot::Mutex;

use super::memo::{Read, Reads};

tokio::task_local! {
    static READING: Arc<Reading>;
}

/// The manner in which a part of a task reads.
struct Reading {
    is_live: bool,
    since: Option<u64>,
    noted: Mutex<Noted>,
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
pub(crate) struct Account {
    /// The reads; none if it cannot be checked later whether they would be
    /// answered in the same way.
    pub(crate) reads: Option<Reads>,
    /// An answer was what had been written, and no watch has shown that yet.
    pub(crate) is_ahead: bool,
}

impl Account {
    /// The same, after something was changed.
    pub(crate) fn outdated(self) -> Self {
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
pub async fn live<F: Future>(work: F) -> F::Output {
    let (done, _) = scope(true, None, work).await;
    note_unsure();
    done
}

/// Carries `work` out and notes what its reads were answered with.
pub(crate) async fn noted<F: Future>(work: F) -> (F::Output, Account) {
    let (done, noted) = scope(false, None, work).await;
    let account = Account {
        reads: (!noted.is_unsure && !noted.is_ahead).then_some(noted.reads),
        is_ahead: noted.is_ahead,
    };
    (done, account)
}

/// Carries `work` out and says whether it has read all that happened up to the
/// version `since`, because watches have come so far, or the API server itself has
/// answered. Without a version that is when watches have shown all that it read.
pub(crate) async fn read_since<F: Future>(since: Option<u64>, work: F) -> (F::Output, bool) {
    let (done, noted) = scope(is_live(), since, work).await;
    let is_current = if since.is_some() {
        !noted.is_behind
    } else {
        !noted.is_ahead
    };
    // It is part of what is read all around.
    let _ = READING.try_with(|reading| {
        let mut all = reading.noted.lock();
        all.reads.extend(noted.reads);
        all.is_unsure |= noted.is_unsure;
        all.is_ahead |= noted.is_ahead;
        all.is_behind |= noted.is_behind;
    });
    (done, is_current)
}

async fn scope<F: Future>(is_live: bool, since: Option<u64>, work: F) -> (F::Output, Noted) {
    let reading = Arc::new(Reading {
        is_live,
        since,
        noted: Mutex::default(),
    });
    let done = READING.scope(Arc::clone(&reading), work).await;
    let noted = std::mem::take(&mut *reading.noted.lock());
    (done, noted)
}

/// Whether caches may not answer.
pub(super) fn is_live() -> bool {
    READING.try_with(|reading| reading.is_live).unwrap_or(false)
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
    READING.try_with(|reading| reading.since).ok().flatten()
}

/// A cache answered that may lack something of what is asked for.
pub(super) fn note_behind() {
    let _ = READING.try_with(|reading| reading.noted.lock().is_behind = true);
}
