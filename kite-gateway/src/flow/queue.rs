//! What one side sent on a channel, on its way to the other side.
//!
//! An SSH session's loop fills the queue and must never wait; so the queue
//! takes everything, counts bytes, and others look at the count: the window
//! policy of the user's side and the throttled stream of the VM's side both
//! slow the sender down while the queue is above its mark, which is the queue's part
//! of the memory that is left (see [`budget`](crate::budget)).

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use russh::Sig;
use tokio::time::Instant;

use crate::budget::Account;
use crate::metrics::Strain;

/// Data that comes in smaller pieces is put together up to this length. A channel
/// that is stalled trickles on by two bytes at a time, and over hours the places of
/// so many items would fill the memory.
const PIECE: usize = 4096;

/// One thing that happened on a channel, in the order in which it happened.
#[derive(Debug)]
pub(crate) enum Item {
    /// Data.
    Data(Bytes),
    /// Extended data (RFC 4254 §5.2): the type and the data.
    Extended(u32, Bytes),
    /// The sender has no more data.
    Eof,
    /// The remote command ended with this status.
    ExitStatus(u32),
    /// The remote command was ended by a signal.
    ExitSignal {
        /// The signal.
        signal: Sig,
        /// Whether it left a core dump.
        core_dumped: bool,
        /// What the other side says about it.
        message: String,
        /// The language of that.
        language: String,
    },
    /// The channel is closed.
    Close,
    /// The connection is gone, and with it the channel.
    Lost,
}

/// What an item costs beside its bytes: its place in the queue and its
/// allocation. Without it a flood of tiny or empty items would count as nothing.
const ITEM_COST: usize = 128;

impl Item {
    /// Bytes of channel data in it.
    pub(super) fn data(&self) -> usize {
        match self {
            Self::Data(data) | Self::Extended(_, data) => data.len(),
            Self::Eof
            | Self::ExitStatus(_)
            | Self::ExitSignal { .. }
            | Self::Close
            | Self::Lost => 0,
        }
    }

    /// Memory that it takes while it waits.
    fn cost(&self) -> usize {
        let text = match self {
            Self::ExitSignal {
                message, language, ..
            } => message.len() + language.len(),
            _ => 0,
        };
        ITEM_COST + self.data() + text
    }
}

/// What was already said on a channel and must not be said again.
#[derive(Default)]
struct Said {
    eof: bool,
    exit: bool,
    close: bool,
}

impl Said {
    /// Whether `item` may still come (RFC 4254 §5.3, §6.10); notes that it did.
    fn admits(&mut self, item: &Item) -> bool {
        if self.close {
            return false;
        }
        match item {
            Item::Data(_) | Item::Extended(..) => !self.eof,
            Item::Eof => !std::mem::replace(&mut self.eof, true),
            Item::ExitStatus(_) | Item::ExitSignal { .. } => {
                !std::mem::replace(&mut self.exit, true)
            }
            Item::Close | Item::Lost => {
                self.close = true;
                true
            }
        }
    }
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    said: Said,
    cost: usize,
    /// Pays for it.
    account: Account,
    total: u64,
    /// Above its mark, and not yet below half of it again.
    over: bool,
    /// Since when, where that is told.
    since: Option<Instant>,
    closed: bool,
    consumer: Option<Waker>,
    producer: Option<Waker>,
}

impl State {
    fn costs(&mut self, cost: usize) {
        self.cost = cost;
        self.account.set(cost);
    }

    /// Adds data to what waits last, if both are small; gives back what it is not
    /// added to.
    fn merge(&mut self, item: Item) -> Option<Item> {
        let (Item::Data(more), Some(Item::Data(last))) = (&item, self.items.back_mut()) else {
            return Some(item);
        };
        if last.len() + more.len() > PIECE {
            return Some(item);
        }
        // Nobody else has it, unless it was made from something that lives on.
        let mut longer = match std::mem::take(last).try_into_mut() {
            Ok(unshared) => unshared,
            Err(shared) => BytesMut::from(&shared[..]),
        };
        longer.extend_from_slice(more);
        *last = longer.freeze();
        self.costs(self.cost + more.len());
        None
    }
}

/// A queue between two sides of a channel.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    strain: Option<Strain>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    /// One that tells how long its sender is held back, and whose memory this account
    /// pays for.
    pub(crate) fn watched(strain: Strain, account: Account) -> Self {
        Self {
            strain: Some(strain),
            state: Mutex::new(State {
                account,
                ..State::default()
            }),
        }
    }

    fn hold_back(&self, state: &mut State) {
        state.account.hold(true);
        if !std::mem::replace(&mut state.over, true)
            && let Some(strain) = &self.strain
        {
            strain.now.inc();
            state.since = Some(Instant::now());
        }
    }

    fn let_go(&self, state: &mut State) {
        state.over = false;
        state.account.hold(false);
        wake(&mut state.producer);
        if let (Some(since), Some(strain)) = (state.since.take(), &self.strain) {
            strain.now.dec();
            strain.seconds.observe(since.elapsed().as_secs_f64());
        }
    }

    /// Adds an item and tells how much memory waits now. What comes after
    /// [`Queue::close`], and what has no place on a channel any more, is dropped.
    pub(crate) fn push(&self, item: Item) -> usize {
        let mut state = self.state.lock();
        if state.closed || !state.said.admits(&item) {
            return state.cost;
        }
        state.total += item.data() as u64;
        let Some(item) = state.merge(item) else {
            return state.cost;
        };
        let cost = state.cost + item.cost();
        state.costs(cost);
        if cost > state.account.mark() {
            self.hold_back(&mut state);
        }
        state.items.push_back(item);
        wake(&mut state.consumer);
        cost
    }

    /// The next item; waits for one. `None` once the queue is closed.
    pub(crate) async fn pop(&self) -> Option<Item> {
        std::future::poll_fn(|cx| self.poll_pop(cx)).await
    }

    fn poll_pop(&self, cx: &Context<'_>) -> Poll<Option<Item>> {
        let mut state = self.state.lock();
        if let Some(item) = state.items.pop_front() {
            let cost = state.cost - item.cost();
            state.costs(cost);
            if state.over && cost <= state.account.mark() / 2 {
                self.let_go(&mut state);
            }
            return Poll::Ready(Some(item));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.consumer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready while the producer may add more.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.over {
            return Poll::Ready(());
        }
        state.producer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the producer should be slowed down.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Bytes of channel data that ever went in.
    pub(crate) fn total(&self) -> u64 {
        self.state.lock().total
    }

    /// Drops what is waiting and whatever comes: nobody reads any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        // With the places of items that it had.
        state.items = VecDeque::new();
        state.costs(0);
        wake(&mut state.consumer);
        self.let_go(&mut state);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::budget::{Budget, FLOOR, MOST};
    use crate::metrics::{Metrics, Way};

    fn data(length: usize) -> Item {
        Item::Data(Bytes::from(vec![0; length]))
    }

    #[tokio::test]
    async fn keeps_the_order_and_counts() {
        let queue = Queue::default();
        queue.push(data(3));
        assert_eq!(queue.push(data(2)), 5 + ITEM_COST);
        assert_eq!(queue.push(data(PIECE)), 5 + PIECE + 2 * ITEM_COST);
        queue.push(Item::Eof);
        assert!(matches!(queue.pop().await, Some(Item::Data(d)) if d.len() == 5));
        assert!(matches!(queue.pop().await, Some(Item::Data(d)) if d.len() == PIECE));
        assert!(matches!(queue.pop().await, Some(Item::Eof)));
        assert_eq!(queue.total(), 5 + PIECE as u64);
        queue.close();
        assert!(queue.pop().await.is_none());
        assert_eq!(queue.push(Item::ExitStatus(0)), 0);
    }

    #[tokio::test]
    async fn stays_over_until_the_low_mark() {
        let queue = Queue::default();
        queue.push(data(MOST - ITEM_COST));
        assert!(!queue.is_over());
        queue.push(data(MOST / 2 - 2 * ITEM_COST));
        queue.push(data(0));
        assert!(queue.is_over());
        let blocked = std::future::poll_fn(|cx| Poll::Ready(queue.poll_room(cx).is_pending()));
        assert!(blocked.await);
        queue.pop().await;
        assert!(!queue.is_over());
    }

    #[test]
    fn held_back_senders_are_told_of() {
        let metrics = Metrics::default();
        let strain = metrics.strain(Way::Up);
        let queues = [(); 3].map(|()| Queue::watched(metrics.strain(Way::Up), Account::default()));
        for queue in &queues {
            queue.push(data(MOST));
            queue.push(data(MOST));
        }
        assert_eq!(strain.now.get(), 3);
        let [read, closed, dropped] = queues;
        for _ in 0..2 {
            assert!(read.pop().now_or_never().flatten().is_some());
        }
        assert_eq!(strain.now.get(), 2);
        closed.close();
        closed.close();
        assert_eq!(strain.now.get(), 1);
        drop(dropped);
        assert_eq!(strain.now.get(), 0);
    }

    #[tokio::test]
    async fn where_memory_is_scarce_the_mark_is_lower_and_reading_goes_on() {
        let budget = Budget::new(64 * MOST);
        let share = budget.share("ann");
        let account = || Account::of(Some(share.clone()));
        let queue = Queue::watched(Metrics::default().strain(Way::Down), account());
        let mut others = account();
        others.set(16 * MOST);
        queue.push(data(FLOOR / 2));
        assert!(!queue.is_over());
        queue.push(data(FLOOR));
        assert!(queue.is_over() && share.is_full());
        assert!(queue.pop().await.is_some() && queue.is_over());
        assert!(queue.pop().await.is_some() && !queue.is_over());
        drop(others);
        queue.push(data(MOST / 2));
        assert!(!queue.is_over());
        queue.close();
        assert!(!share.is_full());
    }

    #[test]
    fn a_flood_of_small_things_counts() {
        let queue = Queue::default();
        for _ in 0..MOST / ITEM_COST {
            queue.push(Item::Extended(1, Bytes::from_static(b"x")));
        }
        assert!(queue.is_over());
    }

    #[tokio::test]
    async fn a_trickle_takes_little_more_than_its_bytes() {
        let queue = Queue::default();
        let mut all = Vec::new();
        let mut cost = 0;
        for number in 0..50_000_u16 {
            let two = number.to_be_bytes();
            all.extend(two);
            cost = queue.push(Item::Data(Bytes::copy_from_slice(&two)));
        }
        assert!(cost < 110_000, "{cost}");
        queue.push(Item::Close);
        let mut back = Vec::new();
        while let Some(Item::Data(data)) = queue.pop().await {
            back.extend_from_slice(&data);
        }
        assert!(back == all);
    }

    #[test]
    fn nothing_is_said_twice() {
        let queue = Queue::default();
        let signal = || Item::ExitSignal {
            signal: Sig::KILL,
            core_dumped: false,
            message: "x".repeat(1000),
            language: String::new(),
        };
        let once = queue.push(signal());
        assert!(once > 1000, "its message counts");
        for _ in 0..1000 {
            queue.push(signal());
            queue.push(Item::ExitStatus(1));
        }
        assert_eq!(queue.push(Item::ExitStatus(1)), once);
        let ended = queue.push(Item::Eof);
        assert_eq!(queue.push(Item::Eof), ended);
        assert_eq!(queue.push(data(1)), ended, "no data behind the end");
        let closed = queue.push(Item::Close);
        assert!(closed > ended);
        assert_eq!(queue.push(Item::Lost), closed);
    }
}
