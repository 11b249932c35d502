//! What the API reads from: one watched copy per kind, so that a request costs
//! the API server nothing.
//!
//! A copy lags behind by the time an event travels. Whoever writes waits until
//! the copy has caught up with the write ([`Cache::caught_up_with`]), and its client
//! brings along how far that was (`Kite-Written`), so it reads its own writes on
//! every replica. While a watch is broken its copy is not [live](Cache::is_live)
//! and what must not be stale is asked of the API server instead.

mod cache;
mod kind;

use std::sync::Arc;

use kite_core::{
    cluster::Unread,
    crd::{
        KiteConnection, KiteImage, KiteInvite, KitePlatform, KitePlatformSpec, KiteSession,
        KiteToken, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer,
    },
};
use kube::Client;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

pub use self::cache::{Cache, Change};
pub(crate) use self::kind::Kind;
use crate::{vms::VmView, web::written::Written};

/// The copies of all kinds that the API reads. Dropping it ends the watches.
pub struct Caches {
    /// Accounts.
    pub users: Cache<KiteUser>,
    /// Virtual machines of all users.
    pub vms: Cache<KiteVirtualMachine>,
    /// The catalogue of images.
    pub images: Cache<KiteImage>,
    /// VMs that are offered.
    pub offers: Cache<KiteVirtualMachineOffer>,
    /// The platform's settings.
    pub platforms: Cache<KitePlatform>,
    /// Login sessions.
    pub sessions: Cache<KiteSession>,
    /// API tokens.
    pub tokens: Cache<KiteToken>,
    /// Who is connected to VMs, and who was.
    pub connections: Cache<KiteConnection>,
    /// Invites.
    pub invites: Cache<KiteInvite>,
    _tasks: JoinSet<()>,
}

impl Caches {
    /// Begins to watch. The copies are empty until [`Caches::synced`].
    pub fn start(client: &Client) -> Self {
        let mut tasks = JoinSet::new();
        Self {
            users: Cache::start(Kind::Users, client.clone(), &mut tasks, |_| None),
            vms: Cache::start(Kind::Vms, client.clone(), &mut tasks, |vm| {
                written_down(&VmView::of(vm))
            }),
            images: Cache::start(Kind::Images, client.clone(), &mut tasks, |_| None),
            offers: Cache::start(Kind::Offers, client.clone(), &mut tasks, |_| None),
            platforms: Cache::start_with(
                Kind::Platforms,
                client.clone(),
                &mut tasks,
                |_| None,
                closed,
            ),
            sessions: Cache::start(Kind::Sessions, client.clone(), &mut tasks, |_| None),
            tokens: Cache::start(Kind::Tokens, client.clone(), &mut tasks, |_| None),
            connections: Cache::start(Kind::Connections, client.clone(), &mut tasks, |_| None),
            invites: Cache::start(Kind::Invites, client.clone(), &mut tasks, |_| None),
            _tasks: tasks,
        }
    }

    /// Waits until every copy was filled once. Never ends while a CRD is
    /// missing: callers bound it or report that they are not ready.
    pub async fn synced(&self) {
        futures::join!(
            self.users.filled(),
            self.vms.filled(),
            self.images.filled(),
            self.offers.filled(),
            self.platforms.filled(),
            self.sessions.filled(),
            self.tokens.filled(),
            self.connections.filled(),
            self.invites.filled(),
        );
    }

    /// Waits, within bounds, until the copies have seen what is `written`. The kinds
    /// whose copies have not.
    pub(crate) async fn reach(&self, written: &Written) -> Vec<Kind> {
        let kinds = written.iter().map(|(kind, version)| async move {
            (!self.reaches(kind, version).await).then_some(kind)
        });
        let behind = futures::future::join_all(kinds).await;
        behind.into_iter().flatten().collect()
    }

    async fn reaches(&self, kind: Kind, version: u64) -> bool {
        match kind {
            Kind::Users => self.users.reaches(version).await,
            Kind::Vms => self.vms.reaches(version).await,
            Kind::Images => self.images.reaches(version).await,
            Kind::Offers => self.offers.reaches(version).await,
            Kind::Platforms => self.platforms.reaches(version).await,
            Kind::Sessions => self.sessions.reaches(version).await,
            Kind::Tokens => self.tokens.reaches(version).await,
            Kind::Connections => self.connections.reaches(version).await,
            Kind::Invites => self.invites.reaches(version).await,
        }
    }

    /// The kinds whose watch is broken at the moment, for readiness probes.
    pub fn broken(&self) -> Vec<&'static str> {
        [
            ("KiteUser", self.users.is_live()),
            ("KiteVirtualMachine", self.vms.is_live()),
            ("KiteImage", self.images.is_live()),
            ("KiteVirtualMachineOffer", self.offers.is_live()),
            ("KitePlatform", self.platforms.is_live()),
            ("KiteSession", self.sessions.is_live()),
            ("KiteToken", self.tokens.is_live()),
            ("KiteConnection", self.connections.is_live()),
            ("KiteInvite", self.invites.is_live()),
        ]
        .into_iter()
        .filter_map(|(kind, live)| (!live).then_some(kind))
        .collect()
    }
}

/// What stands for a platform that cannot be read. As if there was none, its defaults would
/// hold, which let in whom it kept out.
fn closed(unread: &Unread) -> Option<KitePlatform> {
    let name = unread.meta.name.as_deref()?;
    let mut platform = KitePlatform::new(name, KitePlatformSpec::closed(&unread.why));
    platform.metadata.clone_from(&unread.meta);
    Some(platform)
}

/// Writes `view` down once for all requests.
fn written_down<T: Serialize>(view: &T) -> Option<Arc<RawValue>> {
    let text = serde_json::value::to_raw_value(view);
    text.inspect_err(|error| tracing::error!(%error, "an object cannot be shown"))
        .ok()
        .map(Into::into)
}
