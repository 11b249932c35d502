//! Hashing passwords without letting it eat the server.

use std::sync::Arc;

use kite_core::{names, password::PasswordHash};
use kite_rest::{Problem, ProblemKind};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::{
    counts::Hashing,
    shares::{Share, Shares},
    throttle::Source,
};

/// Requests that run or wait, for each hash that may run: who would wait for longer is
/// told so at once.
const PLACES: usize = 32;
/// Hashes that are looked for in the cluster at a time.
const LOOKUPS: usize = 32;
/// Those of them for one network: while the API server is slow, strangers keep out nobody
/// who signs in elsewhere. Addresses behind which there may be anybody have no such share.
const LOOKUPS_EACH: usize = LOOKUPS / 4;
/// Further ones for who has a session.
const KNOWN_LOOKUPS: usize = 8;
/// What memory is counted in, so that counts fit a semaphore's.
const UNIT: usize = 1 << 20;

/// A bounded pool that hashes and verifies passwords. argon2id takes tens of
/// milliseconds and 19 MiB for each, and up to 64 where a hash was made elsewhere: so only
/// a few run at once, as many as there is memory for, and only so many may wait.
pub struct Passwords {
    running: Arc<Semaphore>,
    /// Mebibytes that those which run work on.
    memory: Arc<Semaphore>,
    /// All of them.
    most: usize,
    /// What a new hash works on.
    own: usize,
    lookups: Shares,
    known_lookups: Semaphore,
    /// Places of those that run and those that wait.
    waiting: Semaphore,
    hashing: Hashing,
    /// Verified in place of the hash of a user that does not exist, so that the
    /// time of the answer does not tell.
    dummy: PasswordHash,
}

/// Leave to look for a hash: one of strangers', or one of who has a session.
type Lookup<'a> = (Option<Share<'a>>, Option<SemaphorePermit<'a>>);

impl Passwords {
    /// A pool that runs `concurrency` hashes at once, on `memory` bytes: fewer where those
    /// are not enough for as many, and always one.
    pub(crate) async fn new(
        concurrency: usize,
        memory: usize,
        hashing: Hashing,
    ) -> Result<Self, Problem> {
        // Made once in a process: it tells nothing of anybody.
        static DUMMY: OnceCell<PasswordHash> = OnceCell::const_new();
        let make = async || {
            run(|| PasswordHash::create("nobody has this password"))
                .await?
                .map_err(|error| internal(&error))
        };
        let dummy = DUMMY.get_or_try_init(make).await?.clone();
        let own = dummy.memory();
        let concurrency = concurrency.min(memory / own.max(1)).max(1);
        let most = (memory / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self {
            running: Arc::new(Semaphore::new(concurrency)),
            memory: Arc::new(Semaphore::new(most)),
            most,
            own,
            lookups: Shares::new(LOOKUPS, LOOKUPS_EACH),
            known_lookups: Semaphore::new(KNOWN_LOOKUPS),
            waiting: Semaphore::new(concurrency * PLACES),
            hashing,
            dummy,
        })
    }

    /// Hashes a new password.
    ///
    /// # Errors
    /// [`ProblemKind::Unavailable`] while too many others are hashed, [`ProblemKind::Internal`]
    /// for a password that is too long to be hashed.
    pub async fn hash(&self, password: String) -> Result<PasswordHash, Problem> {
        self.bounded(self.own, move || PasswordHash::create(&password))
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
    /// the answer is no, and takes as long. It is looked for before there is a place to
    /// wait in, by so many at a time: an API server that is slow takes no places from
    /// those who need none of it. It is asked `from` there.
    pub(crate) async fn verify(
        &self,
        from: Source<'_>,
        known: impl Future<Output = Result<Option<PasswordHash>, Problem>>,
        password: String,
    ) -> Result<bool, Problem> {
        let known = {
            let _lookup = self.lookup(from)?;
            known.await?
        };
        let _place = self.place()?;
        let is_known = known.is_some();
        let hash = known.unwrap_or_else(|| self.dummy.clone());
        let memory = hash.memory();
        let fits = self.run(memory, move || hash.verify(&password)).await?;
        Ok(fits && is_known)
    }

    /// A name that a password could have, and none has.
    pub(crate) fn nobodys(&self) -> String {
        names::credential(&self.dummy)
    }

    async fn bounded<T: Send + 'static>(
        &self,
        memory: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let _place = self.place()?;
        self.run(memory, work).await
    }

    fn busy(&self) -> Problem {
        self.hashing.refused();
        Problem::new(
            ProblemKind::Unavailable,
            "too many people are signing in at once: try again shortly",
        )
        .retry_after(std::time::Duration::from_secs(2))
    }

    /// Leave to look for a hash. Nobody looks for what there is no place for.
    fn lookup(&self, from: Source<'_>) -> Result<Lookup<'_>, Problem> {
        if self.waiting.available_permits() == 0 {
            return Err(self.busy());
        }
        if from.session.is_some() {
            if let Ok(permit) = self.known_lookups.try_acquire() {
                return Ok((None, Some(permit)));
            }
            // Colleagues at one address who are signed in are no strangers.
            let share = self.lookups.take(None).ok_or_else(|| self.busy())?;
            return Ok((Some(share), None));
        }
        let share = self.lookups.take(from.own_address());
        let share = share.ok_or_else(|| self.busy())?;
        Ok((Some(share), None))
    }

    /// A place among those that run or wait.
    fn place(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.waiting.try_acquire().map_err(|_| self.busy())
    }

    /// Runs this, which works on `memory` bytes, when its turn comes. Whoever asks has a
    /// place.
    async fn run<T: Send + 'static>(
        &self,
        memory: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.running)
            .acquire_owned()
            .await
            .map_err(|_| self.busy())?;
        // What takes more than there is runs alone. Those who wait get theirs in order, so
        // that what is dear is not passed by for ever by what is cheap.
        let weight = memory.div_ceil(UNIT).clamp(1, self.most);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let memory = Arc::clone(&self.memory)
            .acquire_many_owned(weight)
            .await
            .map_err(|_| self.busy())?;
        // The permits go along: a request that was given up does not make room
        // while its hash still runs.
        let hashing = self.hashing.clone();
        run(move || {
            let _permits = (permit, memory);
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
mod tests;
