//! What ends a console though nobody leaves: the session, the account, its rights
//! or the VM. The caches' watches tell; nothing is polled.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use kite_core::{
    cluster::ObjectKey,
    crd::{EndWish, KiteSession, VmPhase},
    names,
};
use kube::ResourceExt as _;

use super::{
    socket::{End, Wish},
    ticket::Grant,
};
use crate::{
    auth::{Principal, belongs_to, is_open},
    policy::{self, Action, Whose},
    state::ApiState,
};

/// How long after its stream ended a VM may take to be seen not to run.
const VERDICT: Duration = Duration::from_secs(2);

/// What a console rests on.
pub(super) struct Grounds<'a> {
    pub(super) state: &'a ApiState,
    pub(super) principal: &'a Principal,
    pub(super) session: Option<Arc<KiteSession>>,
    pub(super) grant: &'a Grant,
    /// Its number in this process, once it is open.
    pub(super) number: OnceLock<u64>,
}

impl Grounds<'_> {
    /// Waits until one of them is gone.
    pub(super) async fn gone(&self) -> End {
        let caches = self.state.caches();
        // What was just made may not have come by its watch yet.
        if let Some(session) = &self.session {
            caches.sessions.caught_up_with(session).await;
        }
        let mut sessions = caches.sessions.changes();
        let mut users = caches.users.changes();
        let mut vms = caches.vms.changes();
        // Where all sessions are ended at once.
        let mut platforms = caches.platforms.changes();
        let mut connections = caches.connections.changes();
        loop {
            sessions.mark_unchanged();
            users.mark_unchanged();
            vms.mark_unchanged();
            platforms.mark_unchanged();
            connections.mark_unchanged();
            if let Some(end) = self.look() {
                return end;
            }
            let told = tokio::select! {
                told = sessions.changed() => told,
                told = users.changed() => told,
                told = vms.changed() => told,
                told = platforms.changed() => told,
                told = connections.changed() => told,
                () = self.expiry() => Ok(()),
                () = self.state.consoles().places.ending() => return End::going_away(),
            };
            if told.is_err() {
                return End::going_away();
            }
        }
    }

    /// Waits for the end of the session's time.
    async fn expiry(&self) {
        let Some(session) = &self.session else {
            return std::future::pending().await;
        };
        let left = session.spec.expires_at.0.duration_since(Timestamp::now());
        let left = Duration::try_from(left).unwrap_or_default();
        // A moment later, so that it is over then by every clock.
        tokio::time::sleep(left + Duration::from_millis(50)).await;
    }

    /// What is gone, if something is.
    pub(super) fn look(&self) -> Option<End> {
        let caches = self.state.caches();
        let over = || Some(End::session_over("the session has ended: sign in again"));
        let name = self.principal.name();
        let user = caches.users.get(&ObjectKey::cluster(&name));
        let user = user.filter(|user| user.uid() == self.principal.user().uid());
        let Some(user) = user else {
            return Some(End::session_over("the account is gone"));
        };
        if user.spec.suspended || user.metadata.deletion_timestamp.is_some() {
            return Some(End::session_over("the account is suspended"));
        }
        if let Some(session) = &self.session {
            let now = caches.sessions.get(&ObjectKey::of(session.as_ref()));
            let now = now.filter(|now| now.uid() == session.uid());
            // While the watch is broken nobody knows; then its time alone counts.
            let epoch = self.state.platform().session_epoch;
            let is_open = match now {
                Some(now) => is_open(&now) && belongs_to(&now, &user, epoch),
                None => !caches.sessions.is_live() && is_open(session),
            };
            if !is_open {
                return over();
            }
        }
        let owner = caches.users.get(&ObjectKey::cluster(&self.grant.owner));
        let whose = match owner {
            Some(owner) if owner.uid() == user.uid() => Whose::Own,
            Some(owner) => Whose::Other(owner.spec.access_level),
            None => return Some(End::ended("the VM's owner is gone")),
        };
        if !policy::allows(user.spec.access_level, Action::OpenConsole, whose) {
            return Some(End::forbidden());
        }
        self.wished_away().or_else(|| self.vm_gone())
    }

    /// Somebody wants this console to end.
    fn wished_away(&self) -> Option<End> {
        let number = i64::try_from(*self.number.get()?).ok()?;
        let name = names::connection(self.state.instance().id(), number);
        let key = ObjectKey::namespaced(&self.grant.namespace, name);
        let connection = self.state.caches().connections.get(&key)?;
        let EndWish { by, reason, .. } = connection.spec.end.clone()?;
        Some(End::wished(Wish { by, reason }))
    }

    fn vm_gone(&self) -> Option<End> {
        let key = ObjectKey::namespaced(&self.grant.namespace, &self.grant.vm);
        let vm = self.state.caches().vms.get(&key);
        let vm = vm.filter(|vm| vm.uid().as_deref() == Some(&self.grant.uid));
        let Some(vm) = vm.filter(|vm| vm.metadata.deletion_timestamp.is_none()) else {
            return Some(End::ended("the VM is gone"));
        };
        let phase = vm.status.as_ref().and_then(|status| status.phase);
        (phase == Some(VmPhase::Stopped)).then(|| End::ended("the VM was switched off"))
    }

    /// Why the cluster ended the stream of a serial line or a screen, which it does
    /// without a word: the VM ends, or somebody else opened it elsewhere.
    pub(super) async fn verdict(&self) -> End {
        let vms = &self.state.caches().vms;
        let key = ObjectKey::namespaced(&self.grant.namespace, &self.grant.vm);
        let is_ending = |phase| {
            matches!(
                phase,
                VmPhase::Stopping | VmPhase::Stopped | VmPhase::Starting | VmPhase::Failed
            )
        };
        let ended = vms.wait_for(VERDICT, |vms| {
            if let Some(end) = self.vm_gone() {
                return Some(end);
            }
            let phase = vms.get(&key)?.status.as_ref()?.phase?;
            is_ending(phase).then(|| End::ended("the VM does not run any more"))
        });
        ended.await.unwrap_or_else(End::taken)
    }
}
