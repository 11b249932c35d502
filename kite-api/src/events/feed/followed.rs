//! What is followed only where that is asked for: sessions in VMs, snapshots and volumes, of
//! which there are many.

use kite_core::{
    cluster::Object,
    crd::{KiteConnection, KiteSnapshot, KiteVolume},
    names,
};
use kite_rest::cache::Change;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{
    super::{Followed, OwnerWithNews, WithNews},
    Feed,
};
use crate::owned::owner_of;

impl Feed {
    /// Only that something changed is told: whoever shows sessions asks for them, in
    /// the order and number that it shows.
    pub(super) fn connection_changed(&mut self, change: Result<Change<KiteConnection>, RecvError>) {
        let connection = match self.news(change) {
            Some(Change::Seen(key)) => self.state.caches().connections.get(&key),
            Some(Change::Gone(connection)) => Some(connection),
            Some(Change::All) | None => None,
        };
        let Some(connection) = connection else {
            return;
        };
        let of = self.connections.as_ref().map(|(of, _)| *of);
        if self.is_followed(of, connection.as_ref()) {
            let vm = WithNews {
                name: connection.spec.vm.name.clone(),
                owner: connection.spec.owner.clone(),
            };
            self.tell("vm-sessions", &vm);
        }
    }

    /// The same of snapshots, of which there may be many for each VM.
    pub(super) fn snapshot_changed(&mut self, change: Result<Change<KiteSnapshot>, RecvError>) {
        let snapshot = match self.news(change) {
            Some(Change::Seen(key)) => self.state.caches().snapshots.get(&key),
            Some(Change::Gone(snapshot)) => Some(snapshot),
            Some(Change::All) | None => None,
        };
        let Some(snapshot) = snapshot else {
            return;
        };
        let of = self.snapshots.as_ref().map(|(of, _)| *of);
        if self.is_followed(of, snapshot.as_ref()) {
            let vm = WithNews {
                name: snapshot.spec.vm.clone(),
                owner: owner_of(snapshot.metadata.namespace.as_deref()),
            };
            self.tell("vm-snapshots", &vm);
        }
    }

    /// The same of volumes.
    pub(super) fn volume_changed(&mut self, change: Result<Change<KiteVolume>, RecvError>) {
        let volume = match self.news(change) {
            Some(Change::Seen(key)) => self.state.caches().volumes.get(&key),
            Some(Change::Gone(volume)) => Some(volume),
            Some(Change::All) | None => None,
        };
        let Some(volume) = volume else {
            return;
        };
        let of = self.volumes.as_ref().map(|(of, _)| *of);
        if self.is_followed(of, volume.as_ref()) {
            let owner = owner_of(volume.metadata.namespace.as_deref());
            self.tell("volumes", &OwnerWithNews { owner });
        }
    }

    fn is_followed<K: Object>(&self, of: Option<Followed>, object: &K) -> bool {
        match of {
            Some(Followed::All) => true,
            Some(Followed::Own) => {
                object.meta().namespace == Some(names::user_namespace(&self.principal.name()))
            }
            None => false,
        }
    }
}

/// The next change of what is followed; never where nothing is.
pub(super) async fn next_of<K>(
    followed: &mut Option<(Followed, Receiver<Change<K>>)>,
) -> Result<Change<K>, RecvError>
where
    Change<K>: Clone,
{
    match followed {
        Some((_, changes)) => changes.recv().await,
        None => std::future::pending().await,
    }
}
