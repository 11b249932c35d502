//! [`Desk`]: one server, many who ask it at once.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::server::ApiServer;

type Job = Box<dyn FnOnce(&mut ApiServer) + Send>;

/// The server does one thing at a time, so who asks has to wait for it. A lock
/// would put the threads of all who wait to sleep; here they leave what they
/// want with the one who is being served, go on with other tasks, and are told.
///
/// On one thread nobody ever waits: what is asked is done at once, in the order
/// of the calls.
pub(crate) struct Desk {
    server: Mutex<ApiServer>,
    /// Held by who serves; never waited for by a task.
    serving: Mutex<()>,
    waiting: Mutex<VecDeque<Job>>,
}

/// What was asked was not done to its end: it panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unserved;

impl Desk {
    pub(crate) fn new(server: ApiServer) -> Self {
        Self {
            server: Mutex::new(server),
            serving: Mutex::new(()),
            waiting: Mutex::default(),
        }
    }

    /// The server, between two of the jobs that are waiting.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ApiServer> {
        self.server.lock()
    }

    /// What `job` gives, without a thread that sleeps until it is its turn.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ApiServer) -> R + Send + 'static,
    ) -> Result<R, Unserved> {
        match self.hand_in(job) {
            Ok(answer) => Ok(answer),
            Err(told) => told.await.map_err(|_| Unserved),
        }
    }

    /// Does the job, and what is handed in meanwhile; where somebody else is at
    /// it, leaves the job there.
    fn hand_in<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ApiServer) -> R + Send + 'static,
    ) -> Result<R, oneshot::Receiver<R>> {
        if let Some(serving) = self.serving.try_lock() {
            let done = catch_unwind(AssertUnwindSafe(|| job(&mut self.server.lock())));
            drop(serving);
            // Whatever became of it, others may have come meanwhile.
            self.serve();
            return Ok(done.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        let (tell, told) = oneshot::channel();
        self.waiting.lock().push_back(Box::new(move |server| {
            // Who asked may be gone: what was asked is done all the same, as
            // by a server that does not know of it.
            let _ = tell.send(job(server));
        }));
        self.serve();
        Err(told)
    }

    /// Until nothing waits, or somebody else is at it. That one looks once more
    /// after it has let go, so nothing stays behind.
    fn serve(&self) {
        while !self.waiting.lock().is_empty() {
            let Some(_serving) = self.serving.try_lock() else {
                return;
            };
            while let Some(job) = self.next() {
                // A panic is for who asked: it is told by the end of its channel.
                let _ = catch_unwind(AssertUnwindSafe(|| job(&mut self.server.lock())));
            }
        }
    }

    fn next(&self) -> Option<Job> {
        self.waiting.lock().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{AssertUnwindSafe, Desk, Unserved, catch_unwind};
    use crate::server::ApiServer;

    fn desk() -> Arc<Desk> {
        Arc::new(Desk::new(ApiServer::new(1, 100)))
    }

    #[test]
    fn on_one_thread_what_is_asked_is_done_at_once() {
        let desk = desk();
        let asked = desk.ask(|server| server.store().revision());
        assert!(futures::FutureExt::now_or_never(asked).is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn everything_is_done_once_whoever_is_at_it() {
        const TASKS: usize = 64;
        const EACH: usize = 500;
        let (desk, done) = (desk(), Arc::new(AtomicUsize::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (desk, done) = (desk.clone(), done.clone());
            tasks.spawn(async move {
                for step in 0..EACH {
                    let done = done.clone();
                    let told = desk.ask(move |_| {
                        done.fetch_add(1, Ordering::Relaxed);
                        (task, step)
                    });
                    assert_eq!(told.await, Ok((task, step)));
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(done.load(Ordering::Relaxed), TASKS * EACH);
        assert!(desk.waiting.lock().is_empty());
    }

    #[test]
    fn what_is_handed_in_meanwhile_is_done_by_who_is_at_it() {
        let desk = desk();
        let inner = desk.clone();
        // While the first is served a second comes: it does not wait here.
        let first = desk.hand_in(move |_| inner.hand_in(|_| 2).unwrap_err());
        let second = first.unwrap();
        assert_eq!(second.blocking_recv(), Ok(2));
    }

    #[test]
    fn a_job_that_panics_leaves_the_others_served() {
        let desk = desk();
        let inner = desk.clone();
        let told = Arc::new(parking_lot::Mutex::new(None));
        let kept = told.clone();
        let first = catch_unwind(AssertUnwindSafe(|| {
            desk.hand_in(move |_| -> u8 {
                let panics = inner.hand_in(|_| -> u8 { panic!("one that waited") });
                let last = inner.hand_in(|_| 3);
                *kept.lock() = Some((panics.unwrap_err(), last.unwrap_err()));
                panic!("the one that is served")
            })
        }));
        assert!(first.is_err(), "who asked meets the own panic");
        let (panics, last) = told.lock().take().unwrap();
        assert!(panics.blocking_recv().is_err());
        assert_eq!(last.blocking_recv(), Ok(3));
        let asked = desk.ask(|_| 4);
        assert_eq!(futures::executor::block_on(asked), Ok::<_, Unserved>(4));
    }
}
