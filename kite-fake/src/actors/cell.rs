//! An actor with its queue, and the task that works it off.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::actor::{Actor, ActorError, Context, Next, Watches};
use super::kind::Key;
use super::queue::Queue;

#[derive(Debug, Default)]
struct Work {
    queue: Queue,
    busy: bool,
}

/// An actor with its queue.
pub(super) struct Cell {
    pub(super) actor: Arc<dyn Actor>,
    pub(super) watches: Watches,
    work: Mutex<Work>,
    wake: Notify,
    context: Context,
}

impl Cell {
    pub(super) fn new(actor: Arc<dyn Actor>, context: Context) -> Self {
        Self {
            watches: actor.watches(),
            actor,
            work: Mutex::default(),
            wake: Notify::new(),
            context,
        }
    }

    /// The rules changed: nothing waits any more.
    pub(super) fn wake_all(&self) {
        self.work.lock().queue.wake_all(Instant::now());
        self.wake.notify_one();
    }

    /// These keys are to be reconciled now.
    pub(super) fn push(&self, keys: impl IntoIterator<Item = Key>) {
        let now = Instant::now();
        let mut work = self.work.lock();
        for key in keys {
            work.queue.push(key, now);
        }
        drop(work);
        self.wake.notify_one();
    }

    fn take(&self) -> Result<Key, Option<Instant>> {
        let mut work = self.work.lock();
        match work.queue.pop(Instant::now()) {
            Some(key) => {
                work.busy = true;
                Ok(key)
            }
            None => Err(work.queue.next_due()),
        }
    }

    fn finish(&self, key: Key, result: Result<Next, ActorError>) {
        let mut work = self.work.lock();
        work.busy = false;
        let now = Instant::now();
        match result {
            Ok(next) => {
                work.queue.succeeded(&key);
                match next {
                    Next::Done => {}
                    _ if work.queue.is_woken() => work.queue.push(key, now),
                    Next::After(pause) => work.queue.push(key, now + pause),
                    Next::Later(pause) => work.queue.later(key, now + pause),
                    Next::Held => work.queue.hold(key),
                }
            }
            Err(error) => {
                if error.is_conflict() {
                    tracing::debug!(actor = self.actor.name(), %key, %error, "tries again");
                } else {
                    tracing::warn!(actor = self.actor.name(), %key, %error, "tries again");
                }
                work.queue.failed(key, now);
            }
        }
    }

    /// Whether nothing is being done or waited for.
    pub(super) fn is_idle(&self) -> bool {
        let work = self.work.lock();
        !work.busy && work.queue.len() == 0
    }

    /// Reconciles until `shutdown` fires.
    pub(super) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            match self.take() {
                Ok(key) => {
                    let result = tokio::select! {
                        biased;
                        () = shutdown.cancelled() => break,
                        result = self.actor.reconcile(&self.context, &key) => result,
                    };
                    self.finish(key, result);
                    // A busy actor leaves room for others.
                    tokio::task::yield_now().await;
                }
                Err(due) => {
                    let pause = async {
                        match due {
                            Some(due) => tokio::time::sleep_until(due).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => break,
                        () = self.wake.notified() => {}
                        () = pause => {}
                    }
                }
            }
        }
        self.actor.stop().await;
    }
}
