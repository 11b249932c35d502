//! What a controller hears of beside its own kind.

use kite_cluster::Object;
use kube::{
    ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

/// Listens for the controller of `K`.
pub trait Listener<K: Object>: Sized {
    /// A change of an object of kind `W`, if `config` selects it, triggers what
    /// the mapper says; it gets the controller's cache. `start` makes the mapper
    /// when the controller starts: what a mapper remembers is lost in a crash. An
    /// object that is gone should be handed over with a deletionTimestamp, as a
    /// [`Feeder`](crate::cache::Feeder) tells of it: only then is it certain that
    /// whoever waits for a name hears that it is free.
    #[must_use]
    fn on<W, M>(self, config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static;

    /// Objects of kind `W` that one of `K` owns trigger their owner.
    #[must_use]
    fn owns<W: Object>(self) -> Self {
        self.on(watcher::Config::default(), || owners::<W, K>)
    }
}

/// Those of `store` that own `object`.
fn owners<W: Object, K: Object>(object: &W, store: &Store<K>) -> Vec<ObjectRef<K>> {
    let owners = object.owner_references().iter();
    let owners =
        owners.filter(|it| it.kind == K::kind(&()) && it.api_version == K::api_version(&()));
    let found = owners.filter_map(|owner| {
        // Beside the object, or in no namespace.
        let namespace = object.namespace();
        let beside = namespace.map(|it| ObjectRef::new(&owner.name).within(&it));
        let of_all = ObjectRef::new(&owner.name);
        let mut places = beside.into_iter().chain([of_all]);
        places.find(|it| store.get(it).is_some())
    });
    found.collect()
}
