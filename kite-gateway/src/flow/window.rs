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
//! - Healthy channels must not run dry with it. A full window that is set as the
//!   target goes to whoever sends next, so it is set when a stalled channel's
//!   trickle was just answered, whose next bytes are a round trip away, and when
//!   by the order of the last round a healthy channel in need comes next.
//! - When a stalled channel took it all the same, it has more than half a window
//!   left and cannot take the next one: that is set at once.
//! - A healthy channel that ran dry twice while no stalled channel was heard gets
//!   a full window in any case.
//!
//! The full window shrinks with the number of busy channels, so that what can be
//! in flight together stays below twice the initial window: while keys are
//! exchanged anew, russh ends a connection that has more than that in flight.
//!
//! Pure bookkeeping; the tests drive it with a model of russh and of clients.

use std::collections::HashMap;

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
    /// Received data since it was last looked at.
    busy: bool,
    /// Adjustments that found the window dry since a stalled channel was heard.
    dry: u32,
    /// The stalled channel that was heard last before this one.
    after: Option<u32>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            window: INITIAL,
            counted: false,
            stalled: false,
            busy: false,
            dry: 0,
            after: None,
        }
    }
}

impl Channel {
    fn needs(&self, full: u32) -> bool {
        !self.stalled && self.window < full / 2
    }

    /// Stalled, sending, and ready to take what is meant for another.
    fn takes(&self, full: u32) -> bool {
        self.stalled && self.busy && self.window > TRICKLE && self.window < full / 2
    }
}

/// The windows of one user's connection. A channel is known from its first data
/// on; until then it has the [`INITIAL`] window.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    channels: HashMap<u32, Channel>,
    /// The stalled channel that was heard last.
    heard: Option<u32>,
}

impl Windows {
    /// A channel is gone.
    pub(crate) fn closed(&mut self, id: u32) {
        self.channels.remove(&id);
    }

    /// Data arrived.
    pub(crate) fn received(&mut self, id: u32, length: usize) {
        let channel = self.channels.entry(id).or_default();
        if !std::mem::take(&mut channel.counted) {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            channel.window = channel.window.saturating_sub(length);
        }
        channel.busy = true;
        channel.after = self.heard;
    }

    /// The channel's window was opened to `target`; gives the next target.
    /// `is_over` says whether a channel's queue is above its mark; nothing of a
    /// channel that is no more.
    pub(crate) fn adjusted(
        &mut self,
        id: u32,
        target: u32,
        is_over: impl Fn(u32) -> Option<bool>,
    ) -> u32 {
        self.channels.entry(id).or_default();
        self.channels.retain(|id, channel| match is_over(*id) {
            Some(over) => {
                channel.stalled = over;
                true
            }
            None => false,
        });
        let full = self.full();
        let channel = self.channels.entry(id).or_default();
        channel.window = target;
        channel.counted = true;
        let stalled = channel.stalled;
        if !self.channels.values().any(|c| c.stalled) {
            return full;
        }
        let takers = self.channels.values().any(|c| c.takes(full));
        let give = if stalled {
            self.stalled_heard(id, target, full)
        } else {
            self.healthy_heard(id, target)
        };
        if give && !takers { full } else { TRICKLE }
    }

    fn healthy_heard(&mut self, id: u32, target: u32) -> bool {
        let channel = self.channels.entry(id).or_default();
        channel.dry = if target <= TRICKLE {
            channel.dry + 1
        } else {
            0
        };
        let starving = channel.dry >= 2;
        if starving {
            for channel in self.channels.values_mut().filter(|c| c.stalled) {
                channel.busy = false;
            }
        }
        starving
    }

    fn stalled_heard(&mut self, id: u32, target: u32, full: u32) -> bool {
        self.heard = Some(id);
        let took = target > TRICKLE;
        let mut waiting = false;
        for (other, channel) in &mut self.channels {
            channel.dry = 0;
            if channel.stalled {
                channel.busy = *other == id;
            } else if channel.after == Some(id) {
                waiting |= (channel.busy || took) && channel.needs(full);
                channel.busy = false;
            } else if took {
                waiting |= channel.needs(full);
            }
        }
        waiting
    }

    /// The full window of a healthy channel now.
    fn full(&self) -> u32 {
        let used = |c: &&Channel| !c.stalled && c.window < INITIAL;
        let used = self.channels.values().filter(used).count();
        let share = u32::try_from(used.max(1)).map_or(0, |used| BUDGET / used);
        share.clamp(SMALLEST, INITIAL)
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
