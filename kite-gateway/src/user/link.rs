//! What the two sides of one channel share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::flow::Queue;
use crate::vm::Requests;

/// Longest command or destination that is kept for the records.
const MAX_DETAIL: usize = 1024;

/// One channel, between the user's handler and its bridge.
pub(crate) struct Link {
    /// From the user to the machine.
    pub(crate) up: Arc<Queue>,
    /// From the machine to the user.
    pub(crate) down: Arc<Queue>,
    /// Channel requests to the machine.
    pub(crate) requests: Requests,
    /// The user closed the channel, or the connection is gone.
    pub(crate) gone: CancellationToken,
    /// A terminal was asked for: somebody reads what is printed.
    pub(crate) interactive: AtomicBool,
    detail: Mutex<Option<String>>,
    local: AtomicBool,
    started: Notify,
}

impl Link {
    pub(crate) fn new(requests: Requests, gone: CancellationToken, detail: Option<String>) -> Self {
        Self {
            up: Arc::default(),
            down: Arc::default(),
            requests,
            gone,
            interactive: AtomicBool::new(false),
            detail: Mutex::new(detail),
            local: AtomicBool::new(false),
            started: Notify::new(),
        }
    }

    /// Keeps what the channel is for.
    pub(crate) fn describe(&self, text: &str) {
        let end = text
            .char_indices()
            .map(|(at, c)| at + c.len_utf8())
            .take_while(|end| *end <= MAX_DETAIL)
            .last()
            .unwrap_or(0);
        *self.detail.lock() = text.get(..end).map(str::to_owned);
    }

    /// What the channel is for.
    pub(crate) fn detail(&self) -> Option<String> {
        self.detail.lock().clone()
    }

    /// No machine is behind: the gateway itself answers requests, in order to
    /// say why.
    pub(crate) fn answer_locally(&self) {
        self.local.store(true, Ordering::Release);
        // Nobody reads what the user sends.
        self.up.close();
    }

    /// Whether the gateway itself answers requests.
    pub(crate) fn is_local(&self) -> bool {
        self.local.load(Ordering::Acquire)
    }

    /// A shell, command or subsystem was asked for.
    pub(crate) fn start(&self) {
        self.started.notify_one();
    }

    /// Waits for [`Link::start`].
    pub(crate) async fn started(&self) {
        self.started.notified().await;
    }
}
