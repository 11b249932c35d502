//! What an SSH session was given to send and has not written yet.
//!
//! russh takes what is sent into a channel of its own and encrypts as much as there is
//! before it writes, so a peer that does not read its socket would have it hold
//! megabytes beside the queues. Whoever sends waits here instead, once enough was
//! given since the session wrote everything the last time: its data stays in the
//! queue, where it counts.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::budget::{Account, FLOOR, MOST};

/// What may be given between two flushes: enough for a full batch of packets.
const ENOUGH: usize = 256 * 1024;
/// When nothing is being written for so long, what was given was dropped by the
/// session, as the channel is closed.
const STALE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    /// Bytes that were given since the last flush.
    given: usize,
    account: Account,
    /// How often everything was written.
    flushes: u64,
    /// Something is being written.
    is_writing: bool,
}

/// The way out of one SSH session.
#[derive(Default)]
pub(crate) struct Wire {
    state: Mutex<State>,
    flushed: Notify,
}

impl Wire {
    /// One that is charged to an account.
    pub(crate) fn charged(account: Account) -> Self {
        let wire = Self::default();
        wire.charge(account);
        wire
    }

    /// Charges this account from now on.
    pub(crate) fn charge(&self, mut account: Account) {
        let mut state = self.state.lock();
        account.set(state.given);
        state.account = account;
    }

    /// Waits until more may be given. Gives what [`Wire::given`] takes.
    pub(crate) async fn ready(&self) -> u64 {
        loop {
            let flushed = self.flushed.notified();
            tokio::pin!(flushed);
            flushed.as_mut().enable();
            {
                let state = self.state.lock();
                let most = if state.account.mark() < MOST {
                    FLOOR
                } else {
                    ENOUGH
                };
                if state.given < most {
                    return state.flushes;
                }
            }
            if tokio::time::timeout(STALE, flushed).await.is_err() {
                let mut state = self.state.lock();
                if !state.is_writing {
                    state.forget();
                }
            }
        }
    }

    /// Bytes were given after [`Wire::ready`] said so. If everything was written since,
    /// these may have been, too; while a peer does not read, nothing is.
    pub(crate) fn given(&self, ready: u64, bytes: usize) {
        let mut state = self.state.lock();
        if state.flushes == ready {
            state.given += bytes;
            let given = state.given;
            state.account.set(given);
        }
    }

    /// The session writes.
    pub(super) fn writes(&self) {
        self.state.lock().is_writing = true;
    }

    /// The session has written everything.
    pub(super) fn has_written(&self) {
        let mut state = self.state.lock();
        state.flushes += 1;
        state.is_writing = false;
        state.forget();
        drop(state);
        self.flushed.notify_waiters();
    }
}

impl State {
    fn forget(&mut self) {
        self.given = 0;
        self.account.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::budget::Budget;

    #[tokio::test(start_paused = true)]
    async fn waits_while_the_peer_does_not_read() {
        let wire = Wire::default();
        let mut sum = 0;
        while let Some(ready) = wire.ready().now_or_never() {
            wire.writes();
            wire.given(ready, FLOOR);
            sum += FLOOR;
        }
        assert_eq!(sum, ENOUGH);
        let waited = tokio::time::timeout(STALE * 50, wire.ready()).await;
        assert!(waited.is_err(), "nothing was written");
        wire.has_written();
        assert!(wire.ready().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_session_drops_holds_up_nobody_for_long() {
        let wire = Wire::default();
        let ready = wire.ready().await;
        wire.given(ready, ENOUGH);
        assert!(tokio::time::timeout(STALE * 3, wire.ready()).await.is_ok());
    }

    #[tokio::test]
    async fn gives_less_where_memory_is_scarce() {
        let budget = Budget::new(64 * MOST);
        let share = budget.share("ann");
        let wire = Wire::charged(Account::of(Some(share.clone())));
        let mut others = Account::of(Some(share.clone()));
        others.set(4 * MOST);
        let ready = wire.ready().await;
        wire.given(ready, FLOOR);
        assert!(wire.ready().now_or_never().is_none());
        drop(others);
        assert!(wire.ready().now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_was_written_meanwhile_does_not_count() {
        let wire = Wire::default();
        let ready = wire.ready().await;
        wire.writes();
        wire.has_written();
        wire.given(ready, ENOUGH);
        assert!(wire.ready().now_or_never().is_some());
    }
}
