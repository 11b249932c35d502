//! What the two sides of one channel share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio_util::sync::CancellationToken;

use crate::audit::Purpose;
use crate::budget::{Account, Share};
use crate::flow::Queue;
use crate::metrics::{Metrics, Way};
use crate::recording::{Recording, Terminal};
use crate::vm::{Mailboxes, Request, Requests};

/// Longest command or destination that is kept for the records.
const MAX_DETAIL: usize = 1024;

/// What a channel is for.
#[derive(Default)]
struct Described {
    purpose: Purpose,
    detail: Option<String>,
    /// The machine said yes to it.
    is_certain: bool,
}

/// What fits into a record of a text that somebody else made up.
pub(crate) fn shortened(text: &str) -> Option<String> {
    let mut end = text.len().min(MAX_DETAIL);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).filter(|text| !text.is_empty());
    kept.map(str::to_owned)
}

/// One channel, between the user's handler and its bridge.
pub(crate) struct Link {
    /// From the user to the machine.
    pub(crate) up: Arc<Queue>,
    /// From the machine to the user.
    pub(crate) down: Arc<Queue>,
    /// Channel requests to the machine; a channel that the machine opened has none.
    requests: Option<Requests>,
    /// The user closed the channel, or the connection is gone.
    pub(crate) gone: CancellationToken,
    /// A terminal was asked for: somebody reads what is printed.
    pub(crate) interactive: AtomicBool,
    /// The terminal that is to be recorded.
    pub(crate) terminal: OnceLock<Terminal>,
    /// Its recording, once something was started in it.
    pub(crate) recording: OnceCell<Recording>,
    /// The user was told of it.
    pub(crate) told: AtomicBool,
    mailboxes: OnceLock<Arc<Mailboxes>>,
    described: Mutex<Described>,
    local: AtomicBool,
    started: Notify,
}

impl Link {
    /// A channel that the user opened.
    pub(crate) fn new(
        requests: Requests,
        gone: CancellationToken,
        metrics: &Metrics,
        share: Option<Arc<Share>>,
        purpose: Purpose,
        detail: Option<&str>,
    ) -> Self {
        Self {
            requests: Some(requests),
            described: Mutex::new(Described {
                purpose,
                detail: detail.and_then(shortened),
                is_certain: false,
            }),
            ..Self::without_requests(gone, metrics, share)
        }
    }

    /// A channel that the machine opened.
    pub(crate) fn without_requests(
        gone: CancellationToken,
        metrics: &Metrics,
        share: Option<Arc<Share>>,
    ) -> Self {
        let queue = |way, share| {
            let account = Account::of(share);
            Arc::new(Queue::watched(metrics.strain(way), account))
        };
        Self {
            up: queue(Way::Up, share.clone()),
            down: queue(Way::Down, share),
            requests: None,
            gone,
            interactive: AtomicBool::new(false),
            terminal: OnceLock::new(),
            recording: OnceCell::new(),
            told: AtomicBool::new(false),
            mailboxes: OnceLock::new(),
            described: Mutex::default(),
            local: AtomicBool::new(false),
            started: Notify::new(),
        }
    }

    /// The machine opened the channel.
    pub(crate) fn is_adopted(&self) -> bool {
        self.requests.is_none()
    }

    /// Sends a request to the machine; `None` where there is nobody to ask.
    pub(crate) fn ask(&self, request: Request) -> Option<oneshot::Receiver<bool>> {
        Some(self.requests.as_ref()?.send(request))
    }

    /// Notes what the machine's side has.
    pub(crate) fn attach(&self, mailboxes: Arc<Mailboxes>) {
        // A link is attached once, when its machine is entered.
        let _ = self.mailboxes.set(mailboxes);
    }

    /// The machine may open agent channels on this session.
    pub(crate) fn allow_agent(&self) {
        if let Some(mailboxes) = self.mailboxes.get() {
            mailboxes.agent.store(true, Ordering::Relaxed);
        }
    }

    /// The machine may open X11 channels on this session.
    pub(crate) fn allow_x11(&self) {
        if let Some(mailboxes) = self.mailboxes.get() {
            mailboxes.x11.store(true, Ordering::Relaxed);
        }
    }

    /// Keeps what is asked of the channel: the first that the machine says yes to,
    /// or else the first of all. What comes behind must not stand in its place.
    pub(crate) fn describe(&self, purpose: Purpose, text: &str, accepted: bool) {
        let mut described = self.described.lock();
        let is_first = described.purpose == Purpose::Nothing;
        if is_first || (accepted && !described.is_certain) {
            *described = Described {
                purpose,
                detail: shortened(text),
                is_certain: accepted,
            };
        }
    }

    /// What the channel is for.
    pub(crate) fn purpose(&self) -> Purpose {
        self.described.lock().purpose
    }

    /// Which command or destination.
    pub(crate) fn detail(&self) -> Option<String> {
        self.described.lock().detail.clone()
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
