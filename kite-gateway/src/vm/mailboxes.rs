//! What a connection to a machine has for each of its channels: the one that
//! the gateway opened, and those that the machine opens (agent, X11, forwarded
//! connections).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use russh::ChannelId;

use crate::flow::{Item, Queue, Room};

/// Queues towards the user, by channel.
#[derive(Default)]
pub(crate) struct Mailboxes {
    primary: Arc<Queue>,
    others: Mutex<HashMap<ChannelId, Arc<Queue>>>,
    count: AtomicUsize,
    /// The user asked for agent forwarding on this session.
    pub(crate) agent: AtomicBool,
    /// The user asked for X11 forwarding on this session.
    pub(crate) x11: AtomicBool,
}

impl Mailboxes {
    /// With a queue for the channel that the gateway opens.
    pub(crate) fn new(primary: Arc<Queue>) -> Self {
        Self {
            primary,
            ..Self::default()
        }
    }

    /// A queue for a channel that the machine opened.
    pub(super) fn add(&self, id: ChannelId) -> Arc<Queue> {
        let queue = Arc::new(Queue::default());
        self.others.lock().insert(id, Arc::clone(&queue));
        self.count.fetch_add(1, Ordering::Relaxed);
        queue
    }

    /// Takes what came on a channel.
    pub(super) fn deliver(&self, id: ChannelId, item: Item) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut others = self.others.lock();
            if let Some(queue) = others.get(&id) {
                let last = matches!(item, Item::Close);
                queue.push(item);
                if last {
                    others.remove(&id);
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                return;
            }
        }
        self.primary.push(item);
    }

    /// The connection is gone, and all channels with it.
    pub(super) fn lose_all(&self) {
        // Behind a close of a channel nobody takes this any more.
        self.primary.push(Item::Lost);
        for (_, queue) in self.others.lock().drain() {
            queue.push(Item::Lost);
        }
        self.count.store(0, Ordering::Relaxed);
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
}
