//! [`Feed`]: what one stream has still to say.

mod caller;
mod followed;
mod owners;

use std::collections::{BTreeSet, VecDeque};

use axum::response::sse::Event;
use kite_core::{
    cluster::Object,
    crd::{
        KiteConnection, KiteImage, KitePlatform, KiteSession, KiteSnapshot, KiteToken, KiteUser,
        KiteVirtualMachine, KiteVirtualMachineOffer, KiteVolume,
    },
    names,
};
use kite_identity::{Principal, UserView};
use kite_rest::{Problem, ProblemKind, budget::OwnersShare, cache::Change};
use kube::ResourceExt as _;
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use self::followed::next_of;
use super::{Followed, Gone, Scope, Snapshot};
use crate::{
    images::ImageView,
    offers::{self, OfferView},
    state::ApiState,
    vm_view::VmView,
};

/// Bytes of the JSON of a VM, an image, an offer or an account, about, without its keys.
const OF_OBJECT: usize = 2048;

/// An event that waits to be sent, and what it holds.
struct Told {
    event: Event,
    share: OwnersShare,
}

/// The changes that one caller is to be told of.
pub(super) struct Feed {
    state: ApiState,
    principal: Principal,
    /// The namespace whose VMs are followed; none for all.
    namespace: Option<String>,
    vms: Receiver<Change<KiteVirtualMachine>>,
    images: Receiver<Change<KiteImage>>,
    offers: Receiver<Change<KiteVirtualMachineOffer>>,
    users: Receiver<Change<KiteUser>>,
    sessions: Receiver<Change<KiteSession>>,
    tokens: Receiver<Change<KiteToken>>,
    platforms: Receiver<Change<KitePlatform>>,
    /// Of which VMs the sessions are followed, if of any: there are many.
    connections: Option<(Followed, Receiver<Change<KiteConnection>>)>,
    /// Whose snapshots and volumes are followed, if anybody's.
    snapshots: Option<(Followed, Receiver<Change<KiteSnapshot>>)>,
    volumes: Option<(Followed, Receiver<Change<KiteVolume>>)>,
    /// Owners of whose VMs it was told that they are suspended.
    suspended: BTreeSet<String>,
    waiting: VecDeque<Told>,
    /// What is being sent holds.
    sending: Option<OwnersShare>,
    is_over: bool,
}

impl Feed {
    /// Refused where there is no memory for what it says first.
    pub(super) fn new(
        state: ApiState,
        principal: Principal,
        scope: &Scope,
    ) -> Result<Self, Problem> {
        // First listen, then look: nothing is missed in between.
        let caches = state.caches();
        let (vms, images, offers) = (
            caches.vms.subscribe(),
            caches.images.subscribe(),
            caches.offers.subscribe(),
        );
        let (users, sessions) = (caches.users.subscribe(), caches.sessions.subscribe());
        let (tokens, platforms) = (caches.tokens.subscribe(), caches.platforms.subscribe());
        let connections = &caches.connections;
        let connections = scope.sessions.map(|of| (of, connections.subscribe()));
        let snapshots = scope.disks.map(|of| (of, caches.snapshots.subscribe()));
        let volumes = scope.disks.map(|of| (of, caches.volumes.subscribe()));
        let mut feed = Self {
            namespace: (!scope.all).then(|| names::user_namespace(&principal.name())),
            state,
            principal,
            vms,
            images,
            offers,
            users,
            sessions,
            tokens,
            platforms,
            connections,
            snapshots,
            volumes,
            suspended: BTreeSet::new(),
            waiting: VecDeque::new(),
            sending: None,
            is_over: false,
        };
        feed.tell_all()?;
        Ok(feed)
    }

    /// The next event; `None` when the stream is over.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            // Whoever asks for the next one has written the one before.
            self.sending = None;
            if let Some(Told { event, share }) = self.waiting.pop_front() {
                self.sending = Some(share);
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let expires = self.time_left();
            tokio::select! {
                change = self.vms.recv() => self.vm_changed(change),
                change = self.images.recv() => self.image_changed(change),
                change = self.offers.recv() => self.offer_changed(change),
                change = self.users.recv() => self.user_changed(&change),
                change = next_of(&mut self.connections) => self.connection_changed(change),
                change = next_of(&mut self.snapshots) => self.snapshot_changed(change),
                change = next_of(&mut self.volumes) => self.volume_changed(change),
                change = self.sessions.recv() => {
                    let own = self.principal.session().map(kube::ResourceExt::name_any);
                    self.way_in_changed(own.as_deref(), &change);
                }
                change = self.tokens.recv() => {
                    let own = self.principal.token().map(kube::ResourceExt::name_any);
                    self.way_in_changed(own.as_deref(), &change);
                    self.token_changed(&change);
                }
                // Everybody may have been signed out.
                _ = self.platforms.recv() => self.check(),
                () = tokio::time::sleep(expires) => self.check(),
            }
        }
    }

    fn tell<T: Serialize>(&mut self, name: &str, what: &T) {
        let text = match serde_json::to_string(what) {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, name, "an event cannot be written"),
        };
        let owner = self.principal.name();
        match self.state.streams().take(&owner, held_by(text.len())) {
            Ok(share) => self.waiting.push_back(Told {
                event: Event::default().event(name).data(text),
                share,
            }),
            // It connects again, and is told all then.
            Err(_) => self.is_over = true,
        }
    }

    /// Everything as it is now, instead of what was still to be said.
    ///
    /// Its share of the memory is taken before anything is made of it, by what it will
    /// about be: who has no share, and asks again and again, costs little.
    fn tell_all(&mut self) -> Result<(), Problem> {
        self.waiting.clear();
        // First these: what changes until the VMs are looked at is told of once more.
        self.suspended = self.suspended_now();
        let caches = self.state.caches();
        let images = caches.images.list(|_| true);
        let offers = offers::open_to(&self.state, &self.principal);
        let vms = caches.vms.list(|vm| self.follows(vm));
        let me = self.principal.user();
        let keys = vms.iter().map(|vm| &vm.spec.ssh_public_keys);
        let length = (vms.len() + images.len() + offers.len() + 1) * OF_OBJECT
            + keys.map(|keys| length_of(keys)).sum::<usize>()
            // An account tells them twice: as they are, and with when they came.
            + 2 * length_of(&me.spec.ssh_public_keys);
        let owner = self.principal.name();
        let mut share = self.state.streams().take(&owner, held_by(length))?;
        let snapshot = Snapshot {
            vms: vms
                .iter()
                .map(|vm| VmView::among(&caches.users, vm))
                .collect(),
            images: images.iter().map(|image| ImageView::of(image)).collect(),
            offers: offers.iter().map(|offer| OfferView::of(offer)).collect(),
            me: UserView::of(me),
        };
        let text = serde_json::to_string(&snapshot).map_err(|error| {
            tracing::error!(%error, "what a stream says first cannot be written");
            Problem::new(
                ProblemKind::Internal,
                "the news could not be written: the operator finds the cause in the log",
            )
        })?;
        share.resize(held_by(text.len()))?;
        self.waiting.push_back(Told {
            event: Event::default().event("snapshot").data(text),
            share,
        });
        Ok(())
    }

    fn follows(&self, vm: &KiteVirtualMachine) -> bool {
        self.namespace.is_none() || self.namespace == vm.metadata.namespace
    }

    fn vm_changed(&mut self, change: Result<Change<KiteVirtualMachine>, RecvError>) {
        match self.news(change) {
            Some(Change::Seen(key)) => {
                if self.namespace.is_some() && self.namespace != key.namespace {
                    return;
                }
                // What is gone by now is told of as such.
                let caches = self.state.caches();
                if let Some(vm) = caches.vms.get(&key) {
                    let vm = VmView::among(&caches.users, &vm);
                    self.tell("vm", &vm);
                }
            }
            Some(Change::Gone(vm)) if self.follows(&vm) => {
                let namespace = vm.namespace().unwrap_or_default();
                let owner = names::user_of_namespace(&namespace).map(str::to_owned);
                self.tell("vm-deleted", &gone(vm.as_ref(), owner));
            }
            _ => {}
        }
    }

    fn image_changed(&mut self, change: Result<Change<KiteImage>, RecvError>) {
        match self.news(change) {
            Some(Change::Seen(key)) => {
                if let Some(image) = self.state.caches().images.get(&key) {
                    self.tell("image", &ImageView::of(&image));
                }
            }
            Some(Change::Gone(image)) => self.tell("image-deleted", &gone(image.as_ref(), None)),
            _ => {}
        }
    }

    /// An offer that somebody else claimed is as good as gone.
    fn offer_changed(&mut self, change: Result<Change<KiteVirtualMachineOffer>, RecvError>) {
        match self.news(change) {
            Some(Change::Seen(key)) => {
                let Some(offer) = self.state.caches().offers.get(&key) else {
                    return;
                };
                if offers::is_open_to(&offer, &self.principal) {
                    self.tell("offer", &OfferView::of(&offer));
                } else if offers::is_for(&offer, &self.principal) {
                    self.tell("offer-deleted", &gone(offer.as_ref(), None));
                }
            }
            Some(Change::Gone(offer)) if offers::is_for(&offer, &self.principal) => {
                self.tell("offer-deleted", &gone(offer.as_ref(), None));
            }
            _ => {}
        }
    }

    /// What is to be told of a change, unless the whole has to be looked at
    /// again.
    fn news<K>(&mut self, change: Result<Change<K>, RecvError>) -> Option<Change<K>> {
        match change {
            Ok(Change::All) | Err(RecvError::Lagged(_)) => {
                // Without it the stream ends: whoever reads it connects again, and is refused
                // with when to try next.
                self.is_over |= self.tell_all().is_err();
                None
            }
            Ok(change) => Some(change),
            // The process ends.
            Err(RecvError::Closed) => {
                self.is_over = true;
                None
            }
        }
    }
}

/// Bytes that an event of this length holds: as text, and as what is sent.
fn held_by(length: usize) -> usize {
    2 * length
}

fn length_of(keys: &[String]) -> usize {
    keys.iter().map(String::len).sum()
}

fn gone<K: Object>(object: &K, owner: Option<String>) -> Gone {
    Gone {
        name: object.name_any(),
        owner,
        uid: object.uid().unwrap_or_default(),
    }
}
