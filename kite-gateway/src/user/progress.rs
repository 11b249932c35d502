//! How far a connection has come, and how long that may take.

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::startups::Startup;

/// How far a connection has come.
pub(crate) struct Progress {
    started: Instant,
    keyed: CancellationToken,
    logged_in: CancellationToken,
    startup: Mutex<Option<Startup>>,
}

impl Progress {
    /// Of a connection that came at `started`, and counts as `startup` until its login.
    pub(super) fn new(started: Instant, startup: Startup) -> Self {
        Self {
            started,
            keyed: CancellationToken::new(),
            logged_in: CancellationToken::new(),
            startup: Mutex::new(Some(startup)),
        }
    }

    /// Keys are exchanged.
    pub(super) fn is_keyed(&self) {
        self.keyed.cancel();
    }

    /// Whether keys are exchanged.
    pub(super) fn has_keys(&self) -> bool {
        self.keyed.is_cancelled()
    }

    /// Somebody has logged in: the place is free for the next one.
    pub(super) fn is_logged_in(&self) {
        self.logged_in.cancel();
        if let Some(startup) = self.startup.lock().take() {
            startup.end();
        }
    }

    /// Waits until something is too late, and says what.
    pub(super) async fn missed(&self, config: &Config) -> &'static str {
        let handshake = config.handshake_deadline.min(config.login_deadline);
        tokio::select! {
            () = self.keyed.cancelled() => {}
            () = tokio::time::sleep_until(self.started + handshake) => {
                return "no key exchange in time";
            }
        }
        tokio::select! {
            () = self.logged_in.cancelled() => std::future::pending().await,
            () = tokio::time::sleep_until(self.started + config.login_deadline) => {
                "no login in time"
            }
        }
    }
}
