//! What a controller hears of beside its own kind.

use kite_cluster::Object;
use kube::runtime::{
    reflector::{ObjectRef, Store},
    watcher,
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
}
