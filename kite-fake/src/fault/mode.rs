//! What can go wrong.

use std::fmt;

use super::call::Call;

/// One way in which a request, or what follows on it, goes wrong.
///
/// In each of them the client sees only what a real client can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The participant is gone before the request leaves it: the process was
    /// killed, evicted, out of memory, or lost its node.
    CrashBeforeSend,
    /// The request is carried out, and the participant is gone before it hears
    /// of it. The hardest moment for an operator: what it did is in the
    /// cluster, and nobody remembers it.
    CrashAfterCommit,
    /// The connection is reset before the request arrives: a load balancer in
    /// front of the API servers drops it, a server restarts.
    ResetBeforeSend,
    /// The connection is reset after the request was carried out: the answer is
    /// lost, the participant lives on and cannot tell this from
    /// [`ResetBeforeSend`](Self::ResetBeforeSend).
    ResetAfterCommit,
    /// 409 `Conflict`: somebody else wrote the object in between, and the
    /// server gave up repeating the change by itself.
    Conflict,
    /// 429 with `Retry-After`, as API Priority and Fairness refuses requests of
    /// a server that has too much to do. Not carried out.
    TooManyRequests,
    /// 500, as when etcd elects a new leader. Not carried out.
    ServerError,
    /// 504: the server's time for the request ran out, while etcd carried it
    /// out after all.
    Timeout,
    /// All watches of the participant end: a server or proxy closes its
    /// connections. Clients take them up again where they were.
    WatchEnds,
    /// All watches of the participant end with an ERROR event, code 410: the
    /// history was compacted, or the server's watch cache started anew. Clients
    /// have to list again.
    WatchExpires,
    /// Watch events come late: the participant's cache shows the past. Network
    /// or API server are slow, or the participant is.
    WatchLags,
    /// The participant crashes after the request was carried out, and the lists
    /// that it starts with show the time before: lists with `resourceVersion=0`
    /// come from the watch cache of an API server that may be behind. Clients
    /// that list with the default of kube (`MostRecent`) never see this one;
    /// those of client-go, and kube's `any_semantic`, do. Events that follow are
    /// late, too.
    StaleRestart,
    /// Events come late and several changes of an object are seen as one, as by
    /// a client whose watch was down and which lists again.
    Coalesced,
    /// Somebody deletes and creates again the object that the request is about,
    /// and the participant's watches show it as one change: the same name
    /// with another uid. Informers of clients whose watch was down do this
    /// (client-go documents it for update handlers).
    HiddenRecreate,
    /// Before a write, somebody else edits the object: sets an annotation.
    RivalEdits,
    /// Before a write, somebody else deletes the object.
    RivalDeletes,
    /// Before a write, somebody else deletes the object and creates one of the
    /// same name and content, which has another uid. Nothing happens to objects
    /// that a deletion only marks: those with finalizers, Pods that have time to
    /// end, namespaces, CRDs. If the creation is refused it is recorded as
    /// [`RivalDeletes`](Self::RivalDeletes).
    RivalRecreates,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: &'static [Self] = &[
        Self::CrashBeforeSend,
        Self::CrashAfterCommit,
        Self::ResetBeforeSend,
        Self::ResetAfterCommit,
        Self::Conflict,
        Self::TooManyRequests,
        Self::ServerError,
        Self::Timeout,
        Self::WatchEnds,
        Self::WatchExpires,
        Self::WatchLags,
        Self::StaleRestart,
        Self::Coalesced,
        Self::HiddenRecreate,
        Self::RivalEdits,
        Self::RivalDeletes,
        Self::RivalRecreates,
    ];

    /// Whether the fault makes sense at this request. After a read nothing was
    /// committed, so that a crash after it is one before it; a rival races with
    /// writes; a create has no version to be in conflict with.
    pub fn applies_to(self, call: &Call) -> bool {
        match self {
            Self::CrashBeforeSend
            | Self::ResetBeforeSend
            | Self::TooManyRequests
            | Self::ServerError
            | Self::WatchEnds
            | Self::WatchExpires
            | Self::WatchLags
            | Self::Coalesced => true,
            Self::CrashAfterCommit
            | Self::ResetAfterCommit
            | Self::Timeout
            | Self::StaleRestart => call.is_write(),
            Self::Conflict => matches!(call.verb.as_str(), "update" | "patch"),
            Self::RivalEdits | Self::RivalDeletes | Self::RivalRecreates | Self::HiddenRecreate => {
                call.is_write() && !call.name.is_empty()
            }
        }
    }

    /// Whether the participant is gone afterwards.
    pub fn is_crash(self) -> bool {
        matches!(
            self,
            Self::CrashBeforeSend | Self::CrashAfterCommit | Self::StaleRestart
        )
    }

    /// Whether somebody else replaces or removes objects, so that fewer or more
    /// deletions than without are to be expected.
    pub fn disturbs_lives(self) -> bool {
        matches!(
            self,
            Self::RivalDeletes | Self::RivalRecreates | Self::HiddenRecreate
        )
    }

    /// In words, as reports name it.
    pub fn words(self) -> &'static str {
        match self {
            Self::CrashBeforeSend => "crash before it was sent",
            Self::CrashAfterCommit => "crash after commit",
            Self::ResetBeforeSend => "reset before it was sent",
            Self::ResetAfterCommit => "reset after commit",
            Self::Conflict => "409 Conflict, not applied",
            Self::TooManyRequests => "429 Too Many Requests, not applied",
            Self::ServerError => "500, not applied",
            Self::Timeout => "504 Timeout, yet applied",
            Self::WatchEnds => "watches end",
            Self::WatchExpires => "watches expire (410)",
            Self::WatchLags => "watches lag from here on",
            Self::StaleRestart => "crash after commit, then stale lists",
            Self::Coalesced => "changes are seen as one",
            Self::HiddenRecreate => "recreated unseen by a rival",
            Self::RivalEdits => "edited by a rival just before",
            Self::RivalDeletes => "deleted by a rival just before",
            Self::RivalRecreates => "recreated by a rival just before",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
