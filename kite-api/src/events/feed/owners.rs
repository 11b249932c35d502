//! Owners who are suspended or let in again: their VMs are others than was told.

use std::collections::BTreeSet;

use kite_core::{cluster::ObjectKey, crd::KiteUser, names};
use kite_rest::cache::Change;
use kube::ResourceExt as _;
use tokio::sync::broadcast::error::RecvError;

use super::Feed;
use crate::vm_view::VmView;

impl Feed {
    /// Names of the accounts that are suspended.
    pub(super) fn suspended_now(&self) -> BTreeSet<String> {
        let users = &self.state.caches().users;
        let suspended = users.list(|user| user.spec.suspended);
        suspended.iter().map(|user| user.name_any()).collect()
    }

    /// The VMs of who was suspended or let in again are others than it was told.
    pub(super) fn owners_changed(&mut self, change: &Result<Change<KiteUser>, RecvError>) {
        let owners = match change {
            Ok(Change::Seen(key)) => [key.name.clone()].into(),
            Ok(Change::Gone(user)) => [user.name_any()].into(),
            Ok(Change::All) | Err(_) => &self.suspended | &self.suspended_now(),
        };
        for owner in owners {
            self.owner_changed(owner);
        }
    }

    fn owner_changed(&mut self, owner: String) {
        let namespace = names::user_namespace(&owner);
        if self.namespace.as_ref().is_some_and(|own| *own != namespace) {
            return;
        }
        let caches = self.state.caches();
        let user = caches.users.get(&ObjectKey::cluster(&owner));
        let is_news = if user.is_some_and(|user| user.spec.suspended) {
            self.suspended.insert(owner)
        } else {
            self.suspended.remove(&owner)
        };
        if !is_news {
            return;
        }
        let vms = caches.vms.list_shown(Some(&namespace), |_| true);
        let vms: Vec<_> = vms
            .iter()
            .map(|(vm, _)| VmView::among(&caches.users, vm))
            .collect();
        for vm in &vms {
            self.tell("vm", vm);
        }
    }
}
