//! What ends a console though nobody leaves: the session, the account, its rights
//! or the VM. The caches' watches tell; nothing is polled.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use kite_core::{
    cluster::ObjectKey,
    crd::{EndWish, KiteSession, KiteVirtualMachine, PowerState, VmPhase},
    names,
};
use kite_identity::{Principal, belongs_to, is_open};
use kube::ResourceExt as _;

use crate::{
    console::{Cause, End, Grant, Wish},
    policy::{Act as _, Action, Whose},
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
    /// When the VM was last told to start anew, before this.
    restarted_at: Option<String>,
}

impl<'a> Grounds<'a> {
    pub(super) fn new(
        state: &'a ApiState,
        principal: &'a Principal,
        session: Option<Arc<KiteSession>>,
        grant: &'a Grant,
    ) -> Self {
        let grounds = Self {
            state,
            principal,
            session,
            grant,
            number: OnceLock::new(),
            restarted_at: None,
        };
        let restarted_at = grounds.vm().and_then(|vm| vm.spec.restarted_at.clone());
        Self {
            restarted_at,
            ..grounds
        }
    }

    /// The VM, as long as it is the same.
    fn vm(&self) -> Option<Arc<KiteVirtualMachine>> {
        let key = ObjectKey::namespaced(&self.grant.namespace, &self.grant.vm);
        let vm = self.state.caches().vms.get(&key);
        vm.filter(|vm| vm.uid().as_deref() == Some(&self.grant.uid))
    }

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
        if !Action::OpenConsole.is_allowed(user.spec.access_level, whose) {
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
        let vm = self.vm();
        let Some(vm) = vm.filter(|vm| vm.metadata.deletion_timestamp.is_none()) else {
            return Some(End::ended("the VM is gone").because(Cause::VmGone));
        };
        let phase = vm.status.as_ref().and_then(|status| status.phase);
        (phase == Some(VmPhase::Stopped)).then(|| self.stopped(&vm))
    }

    /// The end of a console whose VM does not run any more, or for the moment.
    fn stopped(&self, vm: &KiteVirtualMachine) -> End {
        let spec = &vm.spec;
        if spec.power_state == PowerState::Off {
            return End::ended("the VM was switched off").because(Cause::VmStopped);
        }
        if spec.restarted_at != self.restarted_at {
            return End::ended("the VM was restarted").because(Cause::VmRestarted);
        }
        End::ended("the VM does not run any more").because(Cause::VmStopped)
    }

    /// Why the VM's side ended though nothing was said of it, which is how the cluster
    /// ends serial lines and screens, and how a terminal breaks off whose VM goes down: the
    /// VM ends, or somebody else opened the one console that there is.
    pub(super) async fn verdict(&self, end: End) -> End {
        let vms = &self.state.caches().vms;
        let is_ending = |phase| {
            matches!(
                phase,
                VmPhase::Stopping | VmPhase::Stopped | VmPhase::Starting | VmPhase::Failed
            )
        };
        let ended = vms.wait_for(VERDICT, |_| {
            if let Some(end) = self.vm_gone() {
                return Some(end);
            }
            let vm = self.vm()?;
            let phase = vm.status.as_ref()?.phase?;
            is_ending(phase).then(|| self.stopped(&vm))
        });
        match ended.await {
            Some(end) => end,
            None if end == End::unexplained() => End::taken(),
            None => end,
        }
    }
}
