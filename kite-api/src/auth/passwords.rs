//! Hashing passwords without letting it eat the server.

use std::sync::Arc;

use kite_core::{names, password::PasswordHash};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    metrics::Hashing,
    problem::{Problem, ProblemKind},
};

/// Requests that run or wait, for each hash that may run: who would wait for longer is
/// told so at once.
const PLACES: usize = 32;

/// A bounded pool that hashes and verifies passwords. argon2id takes tens of
/// milliseconds and 19 MiB for each, so only a few run at once and only so many
/// may wait.
pub(crate) struct Passwords {
    running: Arc<Semaphore>,
    /// Places of those that run and those that wait.
    waiting: Semaphore,
    hashing: Hashing,
    /// Verified in place of the hash of a user that does not exist, so that the
    /// time of the answer does not tell.
    dummy: PasswordHash,
}

impl Passwords {
    /// A pool that runs `concurrency` hashes at once.
    pub(crate) async fn new(concurrency: usize, hashing: Hashing) -> Result<Self, Problem> {
        let dummy = run(|| PasswordHash::create("nobody has this password"))
            .await?
            .map_err(|error| internal(&error))?;
        Ok(Self {
            running: Arc::new(Semaphore::new(concurrency.max(1))),
            waiting: Semaphore::new(concurrency.max(1) * PLACES),
            hashing,
            dummy,
        })
    }

    /// Hashes a new password.
    pub(crate) async fn hash(&self, password: String) -> Result<PasswordHash, Problem> {
        self.bounded(move || PasswordHash::create(&password))
            .await?
            .map_err(|error| internal(&error))
    }

    /// The same where there may be none.
    pub(crate) async fn hash_if_any(
        &self,
        password: Option<String>,
    ) -> Result<Option<PasswordHash>, Problem> {
        match password {
            Some(password) => self.hash(password).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether `password` is the one behind the hash that `known` finds. Without a hash
    /// the answer is no, and takes as long. It is looked for by no more at a time than
    /// may wait.
    pub(crate) async fn verify(
        &self,
        known: impl Future<Output = Result<Option<PasswordHash>, Problem>>,
        password: String,
    ) -> Result<bool, Problem> {
        let _place = self.place()?;
        let known = known.await?;
        let is_known = known.is_some();
        let hash = known.unwrap_or_else(|| self.dummy.clone());
        let fits = self.run(move || hash.verify(&password)).await?;
        Ok(fits && is_known)
    }

    /// A name that a password could have, and none has.
    pub(crate) fn nobodys(&self) -> String {
        names::credential(&self.dummy)
    }

    async fn bounded<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let _place = self.place()?;
        self.run(work).await
    }

    fn busy(&self) -> Problem {
        self.hashing.refused();
        Problem::new(
            ProblemKind::Unavailable,
            "too many people are signing in at once: try again shortly",
        )
        .retry_after(std::time::Duration::from_secs(2))
    }

    /// A place among those that run or wait.
    fn place(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.waiting.try_acquire().map_err(|_| self.busy())
    }

    /// Runs this when its turn comes. Whoever asks has a place.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.running)
            .acquire_owned()
            .await
            .map_err(|_| self.busy())?;
        // The permit goes along: a request that was given up does not make room
        // while its hash still runs.
        let hashing = self.hashing.clone();
        run(move || {
            let _permit = permit;
            // It goes before the permit does: no more are counted than have one.
            let _begun = hashing.begin();
            work()
        })
        .await
    }
}

async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| internal(&error))
}

fn internal(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "a password could not be hashed");
    Problem::new(
        ProblemKind::Internal,
        "the password could not be processed: the operator finds the cause in the log",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        future::{Ready, ready},
        sync::mpsc,
    };

    use axum::response::IntoResponse as _;
    use http::{StatusCode, header};
    use parking_lot::Mutex;
    use prometheus_client::{encoding::text::encode, registry::Registry};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::metrics::Metrics;

    /// A pool, and work for it that goes on until it is let go: hashes that take as long
    /// as the test wants.
    struct Pool {
        passwords: Arc<Passwords>,
        metrics: Metrics,
        hold: Option<mpsc::Sender<()>>,
        held: Arc<Mutex<mpsc::Receiver<()>>>,
    }

    impl Pool {
        async fn new(concurrency: usize) -> Self {
            let metrics = Metrics::default();
            let passwords = Passwords::new(concurrency, metrics.hashing().clone());
            let (hold, let_go) = mpsc::channel();
            Self {
                passwords: Arc::new(passwords.await.unwrap()),
                metrics,
                hold: Some(hold),
                held: Arc::new(Mutex::new(let_go)),
            }
        }

        fn begin(&self) -> JoinHandle<Result<(), Problem>> {
            let (passwords, held) = (Arc::clone(&self.passwords), Arc::clone(&self.held));
            let work = move || while held.lock().recv().is_ok() {};
            tokio::spawn(async move { passwords.bounded(work).await })
        }

        fn let_go(&mut self) {
            self.hold = None;
        }

        fn metric(&self, name: &str) -> usize {
            let mut registry = Registry::default();
            self.metrics.register(&mut registry);
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse().unwrap()
        }

        async fn until(&self, what: &str, check: impl Fn(&Self) -> bool) {
            for _ in 0..1000 {
                if check(self) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("never: {what}");
        }
    }

    type Known = Ready<Result<Option<PasswordHash>, Problem>>;

    fn nobody() -> Known {
        ready(Ok(None))
    }

    fn somebody(hash: &PasswordHash) -> Known {
        ready(Ok(Some(hash.clone())))
    }

    const RUNNING: &str = "kite_api_passwords_hashing ";
    const MOST: &str = "kite_api_passwords_hashing_most ";
    const REFUSED: &str = "kite_api_passwords_refused_total ";

    #[tokio::test]
    async fn only_so_many_run_so_many_wait_and_the_rest_comes_again() {
        let mut pool = Pool::new(2).await;
        let begun: Vec<_> = (0..2 * PLACES).map(|_| pool.begin()).collect();
        pool.until("two run", |pool| pool.metric(RUNNING) == 2)
            .await;
        pool.until("all places are taken", |pool| {
            pool.passwords.waiting.available_permits() == 0
        })
        .await;
        for refused in [
            pool.passwords.hash("horse".to_owned()).await.err(),
            pool.passwords
                .verify(nobody(), "horse".to_owned())
                .await
                .err(),
        ] {
            let refused = refused.unwrap();
            assert_eq!(refused.kind(), ProblemKind::Unavailable);
            let answer = refused.into_response();
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.headers()[header::RETRY_AFTER], "2");
        }
        assert_eq!(pool.metric(REFUSED), 2);
        pool.let_go();
        for work in begun {
            work.await.unwrap().unwrap();
        }
        // Neither more at once, nor fewer than may.
        assert_eq!((pool.metric(MOST), pool.metric(RUNNING)), (2, 0));
        let hash = pool.passwords.hash("correct horse".to_owned()).await;
        let hash = hash.unwrap();
        let fits = pool
            .passwords
            .verify(somebody(&hash), "correct horse".to_owned());
        assert!(fits.await.unwrap());
    }

    #[tokio::test]
    async fn a_request_that_was_given_up_makes_no_room_while_its_hash_runs() {
        let mut pool = Pool::new(1).await;
        let given_up = pool.begin();
        pool.until("it runs", |pool| pool.metric(RUNNING) == 1)
            .await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        let next = pool.begin();
        pool.until("the next one waits for it alone", |pool| {
            pool.passwords.waiting.available_permits() == PLACES - 1
        })
        .await;
        assert_eq!(pool.passwords.running.available_permits(), 0);
        assert_eq!(pool.metric(RUNNING), 1);
        pool.let_go();
        next.await.unwrap().unwrap();
        assert_eq!((pool.metric(MOST), pool.metric(RUNNING)), (1, 0));
    }

    #[tokio::test]
    async fn nobody_has_the_dummy_password() {
        let passwords = Passwords::new(1, Hashing::default()).await.unwrap();
        assert!(
            !passwords
                .verify(nobody(), "nobody has this password".to_owned())
                .await
                .unwrap()
        );
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        let verify = |text: &str| passwords.verify(somebody(&hash), text.to_owned());
        assert!(verify("correct horse").await.unwrap());
        assert!(!verify("wrong horse").await.unwrap());
    }
}
