//! How far users' windows are opened.
//!
//! RFC 4254 §5.2 gives each channel a window of bytes that the sender may still
//! send. russh opens a window again on receipt, not on consumption, when less
//! than half of a *target* is left, and the target is one number per connection,
//! which `Handler::adjust_window` sets for the **next** adjustment of any channel.
//! So the policy is:
//!
//! - While no channel is over its mark, the target is the full window.
//! - While one is, the target is a trickle of two bytes: the stalled channel's
//!   window runs dry and opens by a hand's breadth per round trip, so its queue
//!   practically stops growing, though reading never stops.
//! - Healthy channels must not run dry with it. The moment to give them a full
//!   window is right after the trickles of all stalled channels were answered:
//!   their next bytes are a round trip away, while a busy channel's are already
//!   on their way. A healthy channel that ran dry twice in a row gets a window
//!   in any case: then no stalled channel is trickling. When a stalled channel
//!   took what was meant for another, it has more than half a window left and
//!   cannot take the next one, which is set at once.
//!
//! The full window shrinks with the number of busy channels, so that what can be
//! in flight together stays below twice the initial window: while keys are
//! exchanged anew, russh ends a connection that has more than that in flight.
//!
//! Pure bookkeeping; the tests drive it with a model of russh and of clients.

use std::collections::{HashMap, HashSet};

/// The window that every channel starts with, in bytes.
pub(crate) const INITIAL: u32 = 2 * 1024 * 1024;
/// What all busy channels together may have open: below twice [`INITIAL`], with
/// room for channels that still use their initial window.
const BUDGET: u32 = 3 * 1024 * 1024;
/// No channel's window shrinks below this while it is healthy.
const SMALLEST: u32 = 128 * 1024;
/// Two, because a window is opened when less than half of this is left: with
/// one it would never open again.
pub(crate) const TRICKLE: u32 = 2;

#[derive(Debug)]
struct Channel {
    /// What the client may still send, as far as this side knows.
    window: u32,
    /// The last adjustment was for the packet whose data comes next, and took
    /// that packet into account already.
    counted: bool,
    stalled: bool,
    /// Received data since a stalled channel was last looked at.
    busy: bool,
    /// Adjustments in a row that found the window dry.
    dry: u32,
}

/// The windows of one user's connection.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    channels: HashMap<u32, Channel>,
    /// Stalled channels whose trickle was answered in this round of them.
    round: HashSet<u32>,
    /// How many there were in the last round.
    expected: usize,
}

impl Windows {
    /// A channel was opened with the [`INITIAL`] window.
    pub(crate) fn opened(&mut self, id: u32) {
        self.channels.insert(
            id,
            Channel {
                window: INITIAL,
                counted: false,
                stalled: false,
                busy: false,
                dry: 0,
            },
        );
    }

    /// A channel is gone.
    pub(crate) fn closed(&mut self, id: u32) {
        self.channels.remove(&id);
        self.round.remove(&id);
    }

    /// Data arrived.
    pub(crate) fn received(&mut self, id: u32, length: usize) {
        if let Some(channel) = self.channels.get_mut(&id) {
            if !std::mem::take(&mut channel.counted) {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                channel.window = channel.window.saturating_sub(length);
            }
            channel.busy = true;
        }
    }

    /// The channel's window was opened to `target`; gives the next target.
    /// `is_over` says whether a channel's queue is above its mark.
    pub(crate) fn adjusted(&mut self, id: u32, target: u32, is_over: impl Fn(u32) -> bool) -> u32 {
        for (id, channel) in &mut self.channels {
            channel.stalled = is_over(*id);
        }
        let full = self.full();
        let Some(channel) = self.channels.get_mut(&id) else {
            return full;
        };
        channel.window = target;
        channel.counted = true;
        let over = channel.stalled;
        if target <= TRICKLE && !over {
            channel.dry += 1;
        } else {
            channel.dry = 0;
        }
        let starving = channel.dry >= 2;
        if !self.channels.values().any(|c| c.stalled) {
            return full;
        }
        // Who would take a full window that is meant for another. (A stalled
        // channel with more than half of one left takes nothing.)
        let takers = self
            .channels
            .values()
            .any(|c| c.stalled && c.busy && c.window > TRICKLE && c.window < full / 2);
        if !over {
            if !starving {
                return TRICKLE;
            }
            self.look_again();
            return if takers { TRICKLE } else { full };
        }
        let took = target > TRICKLE;
        if took {
            self.round.remove(&id);
        } else {
            if self.round.contains(&id) {
                self.expected = self.round.len();
                self.round.clear();
            }
            self.round.insert(id);
            if self.round.len() < self.expected {
                return TRICKLE;
            }
        }
        let waiting = self
            .channels
            .values()
            .any(|c| !c.stalled && (c.busy || took) && c.window < full / 2);
        self.look_again();
        if waiting && !takers { full } else { TRICKLE }
    }

    /// Forgets who was busy; who still is shows with the next data.
    fn look_again(&mut self) {
        for channel in self.channels.values_mut() {
            channel.busy = false;
        }
    }

    /// The full window of a healthy channel now.
    fn full(&self) -> u32 {
        let busy = self
            .channels
            .values()
            .filter(|c| c.busy && !c.stalled)
            .count();
        let share = u32::try_from(busy.max(1)).map_or(0, |busy| BUDGET / busy);
        share.clamp(SMALLEST, INITIAL)
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
