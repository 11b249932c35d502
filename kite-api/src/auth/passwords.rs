//! Hashing passwords without letting it eat the server.

use std::sync::Arc;

use kite_core::password::{MAX_PASSWORD_BYTES, PasswordHash};
use tokio::sync::Semaphore;

use crate::{
    problem::{Problem, ProblemKind},
    web::Form,
};

/// Fewest characters of a password (NIST SP 800-63B §3.1.1.2 asks for eight).
const MIN_PASSWORD_CHARS: usize = 8;

/// A bounded pool that hashes and verifies passwords. argon2id takes tens of
/// milliseconds and 19 MiB for each, so only a few run at once and only so many
/// may wait.
pub(crate) struct Passwords {
    running: Arc<Semaphore>,
    waiting: Semaphore,
    /// Verified in place of the hash of a user that does not exist, so that the
    /// time of the answer does not tell.
    dummy: PasswordHash,
}

impl Passwords {
    /// A pool that runs `concurrency` hashes at once.
    pub(crate) async fn new(concurrency: usize) -> Result<Self, Problem> {
        let dummy = run(|| PasswordHash::create("nobody has this password"))
            .await?
            .map_err(|error| internal(&error))?;
        Ok(Self {
            running: Arc::new(Semaphore::new(concurrency.max(1))),
            waiting: Semaphore::new(concurrency.max(1) * 32),
            dummy,
        })
    }

    /// Hashes a new password.
    pub(crate) async fn hash(&self, password: String) -> Result<PasswordHash, Problem> {
        self.bounded(move || PasswordHash::create(&password))
            .await?
            .map_err(|error| internal(&error))
    }

    /// Whether `password` is the one behind `hash`. Without a hash the answer is
    /// no, and takes as long.
    pub(crate) async fn verify(
        &self,
        hash: Option<&PasswordHash>,
        password: String,
    ) -> Result<bool, Problem> {
        let known = hash.is_some();
        let hash = hash.unwrap_or(&self.dummy).clone();
        let fits = self.bounded(move || hash.verify(&password)).await?;
        Ok(fits && known)
    }

    async fn bounded<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(
                ProblemKind::Unavailable,
                "too many people are signing in at once: try again shortly",
            )
            .retry_after(std::time::Duration::from_secs(2))
        };
        let _place = self.waiting.try_acquire().map_err(|_| busy())?;
        let permit = Arc::clone(&self.running)
            .acquire_owned()
            .await
            .map_err(|_| busy())?;
        // The permit goes along: a request that was given up does not make room
        // while its hash still runs.
        run(move || {
            let _permit = permit;
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

/// Notes on `form` what is wrong with a password that somebody wants to have.
/// `not` are words that it must not be.
pub(crate) fn read_password(
    form: &mut Form,
    field: &'static str,
    password: &str,
    not: &[Option<&str>],
) {
    if password.chars().count() < MIN_PASSWORD_CHARS {
        form.error(
            field,
            format!("is too short: use at least {MIN_PASSWORD_CHARS} characters"),
        );
    } else if password.len() > MAX_PASSWORD_BYTES {
        form.error(
            field,
            format!("is too long: use at most {MAX_PASSWORD_BYTES} bytes"),
        );
    } else if not
        .iter()
        .flatten()
        .any(|word| word.eq_ignore_ascii_case(password))
    {
        form.error(
            field,
            "is the same as a name that others know: choose another",
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn nobody_has_the_dummy_password() {
        let passwords = Passwords::new(1).await.unwrap();
        assert!(
            !passwords
                .verify(None, "nobody has this password".to_owned())
                .await
                .unwrap()
        );
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        let verify = |text: &str| passwords.verify(Some(&hash), text.to_owned());
        assert!(verify("correct horse").await.unwrap());
        assert!(!verify("wrong horse").await.unwrap());
    }
}
