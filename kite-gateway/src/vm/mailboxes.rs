//! What a connection to a machine has for each of its channels: the one that
//! the gateway opened, and those that the machine opens (agent, X11, forwarded
//! connections).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use russh::ChannelId;

use crate::budget::{Account, Share};
use crate::flow::{Item, Queue, Room, Wire};
use crate::metrics::Strain;

/// Queues towards the user, by channel.
#[derive(Default)]
pub(crate) struct Mailboxes {
    primary: Arc<Queue>,
    /// The channel that the gateway opened, once the machine confirmed it. Only its
    /// items go to `primary`: of a channel that the machine opened some may still
    /// come when it is over here.
    opened: OnceLock<ChannelId>,
    /// The user asked for a remote forward on this connection.
    pub(crate) forwards: bool,
    strain: Option<Strain>,
    /// Pays for what waits.
    share: Option<Arc<Share>>,
    /// The way out of the connection.
    wire: Wire,
    others: Mutex<HashMap<ChannelId, Arc<Queue>>>,
    count: AtomicUsize,
    /// The user asked for agent forwarding on this session.
    pub(crate) agent: AtomicBool,
    /// The user asked for X11 forwarding on this session.
    pub(crate) x11: AtomicBool,
}

impl Mailboxes {
    /// With a queue for the channel that the gateway opens; `strain` is for those
    /// that the machine opens, and the share pays.
    pub(crate) fn new(primary: Arc<Queue>, strain: Strain, share: Option<Arc<Share>>) -> Self {
        Self {
            primary,
            strain: Some(strain),
            wire: Wire::charged(Account::of(share.clone())),
            share,
            ..Self::default()
        }
    }

    /// For a connection on which the machine listens, and opens channels for what
    /// connects there.
    pub(crate) fn forwarding(strain: Strain, share: Option<Arc<Share>>) -> Self {
        Self {
            forwards: true,
            ..Self::new(Arc::default(), strain, share)
        }
    }

    /// The machine confirmed the channel that the gateway opens.
    pub(super) fn confirmed(&self, id: ChannelId) {
        // A connection has one such channel.
        let _ = self.opened.set(id);
    }

    /// A queue for a channel that the machine opened.
    pub(super) fn add(&self, id: ChannelId) -> Arc<Queue> {
        let watched = |strain| Queue::watched(strain, Account::of(self.share.clone()));
        let queue = Arc::new(self.strain.clone().map(watched).unwrap_or_default());
        let mut others = self.others.lock();
        others.insert(id, Arc::clone(&queue));
        self.count.store(others.len(), Ordering::Relaxed);
        queue
    }

    /// A channel that the machine opened is over, or was refused.
    pub(crate) fn remove(&self, id: ChannelId) {
        let mut others = self.others.lock();
        if let Some(queue) = others.remove(&id) {
            // A stalled channel must not hold up the others from its grave.
            queue.close();
        }
        self.count.store(others.len(), Ordering::Relaxed);
    }

    /// Takes what came on a channel.
    pub(super) fn deliver(&self, id: ChannelId, item: Item) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(queue) = self.others.lock().get(&id)
        {
            queue.push(item);
            return;
        }
        if self.opened.get() == Some(&id) {
            self.primary.push(item);
        }
    }

    /// The connection is gone, and all channels with it.
    pub(super) fn lose_all(&self) {
        // Behind a close of a channel nobody takes this any more.
        self.primary.push(Item::Lost);
        for queue in self.others.lock().values() {
            queue.push(Item::Lost);
        }
    }

    /// How many channels the machine has open.
    pub(super) fn opened(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Room for Mailboxes {
    /// All channels of a connection share its stream, so it waits for each.
    fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        std::task::ready!(self.primary.poll_room(cx));
        if self.count.load(Ordering::Relaxed) > 0 {
            for queue in self.others.lock().values() {
                std::task::ready!(queue.poll_room(cx));
            }
        }
        Poll::Ready(())
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }
}
