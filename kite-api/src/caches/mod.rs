//! What the API reads from: one watched copy per kind, so that a request costs
//! the API server nothing.
//!
//! A copy lags behind by the time an event travels. Whoever writes waits until
//! the copy has caught up with the write ([`Cache::caught_up_with`]), and its client
//! brings along how far that was (`Kite-Written`), so it reads its own writes on
//! every replica. While a watch is broken its copy is not [live](Cache::is_live)
//! and what must not be stale is asked of the API server instead.

mod before;

use std::sync::Arc;

use futures::future::join_all;
use kite_core::crd::{
    KiteConnection, KiteImage, KiteInvite, KitePlatform, KiteSession, KiteSnapshot, KiteToken,
    KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer, KiteVolume,
};
use kite_identity::Copies;
use kite_rest::{cache::Watched, written::Written};
use kube::Client;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

pub use kite_rest::cache::{Cache, Change};

use crate::vm_view::VmView;

/// What clients are told of the copies as (`Kite-Written`).
pub(crate) const NAMES: [&str; 11] = [
    "users",
    "vms",
    "images",
    "offers",
    "snapshots",
    "volumes",
    "platforms",
    "sessions",
    "tokens",
    "connections",
    "invites",
];

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
    /// Snapshots of VMs' disks.
    pub snapshots: Cache<KiteSnapshot>,
    /// Disks apart from VMs.
    pub volumes: Cache<KiteVolume>,
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
    of_accounts: Copies,
    _tasks: JoinSet<()>,
}

impl Caches {
    /// Begins to watch. The copies are empty until [`Caches::synced`].
    pub fn start(client: &Client) -> Self {
        let mut tasks = JoinSet::new();
        let of_accounts = Copies::start(client, &mut tasks);
        Self {
            users: of_accounts.users.clone(),
            vms: Cache::start("vms", client.clone(), &mut tasks, |vm| {
                written_down(&VmView::of(vm))
            }),
            images: Cache::start("images", client.clone(), &mut tasks, |_| None),
            offers: Cache::start("offers", client.clone(), &mut tasks, |_| None),
            snapshots: Cache::start("snapshots", client.clone(), &mut tasks, |_| None),
            volumes: Cache::start("volumes", client.clone(), &mut tasks, |_| None),
            platforms: of_accounts.platforms.clone(),
            sessions: of_accounts.sessions.clone(),
            tokens: of_accounts.tokens.clone(),
            connections: Cache::start("connections", client.clone(), &mut tasks, |_| None),
            invites: of_accounts.invites.clone(),
            of_accounts,
            _tasks: tasks,
        }
    }

    /// Those that signing in rests on.
    pub(crate) const fn of_accounts(&self) -> &Copies {
        &self.of_accounts
    }

    /// All of them.
    fn all(&self) -> [&dyn Watched; NAMES.len()] {
        [
            &self.users,
            &self.vms,
            &self.images,
            &self.offers,
            &self.snapshots,
            &self.volumes,
            &self.platforms,
            &self.sessions,
            &self.tokens,
            &self.connections,
            &self.invites,
        ]
    }

    /// Waits until every copy was filled once. Never ends while a CRD is
    /// missing: callers bound it or report that they are not ready.
    pub async fn synced(&self) {
        join_all(self.all().map(Watched::synced)).await;
    }

    /// Waits, within bounds, until the copies have seen what is `written`. The names of
    /// those that have not.
    pub(crate) async fn reach(&self, written: &Written) -> Vec<&'static str> {
        let all = self.all();
        let waits = written.iter().map(|(name, version)| async move {
            let copy = all.into_iter().find(|it| it.name() == name)?;
            (!copy.reaches(version).await).then_some(name)
        });
        join_all(waits).await.into_iter().flatten().collect()
    }

    /// The kinds whose watch is broken at the moment, for readiness probes.
    pub fn broken(&self) -> Vec<String> {
        let broken = self.all().into_iter().filter(|it| !it.is_live());
        broken.map(Watched::kind).collect()
    }
}

/// Writes `view` down once for all requests.
fn written_down<T: Serialize>(view: &T) -> Option<Arc<RawValue>> {
    let text = serde_json::value::to_raw_value(view);
    text.inspect_err(|error| tracing::error!(%error, "an object cannot be shown"))
        .ok()
        .map(Into::into)
}
