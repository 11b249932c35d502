//! Reconcilers in the simulation of `kite-fake` (feature `sim`): with their caches, and
//! triggered as in a process.

use std::{any::TypeId, sync::Arc};

use kite_cluster::{KubeCluster, Object, ObjectKey};
use kite_fake::sim::{Controller, ControllerContext};
use kube::{
    Resource as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use crate::{
    Kinds, Listener, Reconciler, Shared,
    cache::{Builder, Caches},
    context::kind_of,
    operator::reconcile,
};

/// The controller of what `start` makes whenever it starts, whose kinds are watched and kept
/// as `P` says.
///
/// It lists from the API server's watch cache, which may show a restart the past.
pub fn controller<P: Kinds, R: Reconciler>(
    start: impl Fn() -> R + Send + Sync + 'static,
) -> Controller<R::Object> {
    let mut heard = Gathered(Vec::new());
    heard.gather::<P, R::Object>();
    let heard = R::watches(Gathering::<P, _>(heard, std::marker::PhantomData)).0;
    let feeds: Arc<[_]> = heard.0.into_iter().map(|(_, feed)| feed).collect();
    let controller = Controller::with_context(R::Object::plural(&()), move |context| {
        let mut caches = Caches::builder();
        for feed in &*feeds {
            feed(&context, &mut caches);
        }
        let (cluster, clock) = (KubeCluster::new(context.client), context.clock);
        let shared = Shared::new(cluster).with_clock(Arc::new(move || clock.now()));
        let running = Arc::new((start(), shared.cached(caches.build())));
        move |object| {
            let running = Arc::clone(&running);
            async move {
                let (reconciler, shared) = &*running;
                let key = ObjectKey::of(&*object);
                let done = reconcile(reconciler, object, shared).await;
                if let Err(error) = &done {
                    // When it is tried again is the simulation's to say; how often it has
                    // failed is what a person is told by.
                    shared.backoff.after(kind_of::<R::Object>(), key, error);
                }
                done
            }
        }
    });
    let own = P::options::<R::Object>().config.any_semantic();
    R::watches(Heard::<P, _>(
        controller.watching(own),
        std::marker::PhantomData,
    ))
    .0
}

/// Has the caches fed with a kind.
type Feed<K> = fn(&ControllerContext<K>, &mut Builder);

/// The kinds that a controller hears of.
struct Gathered<K: Object>(Vec<(TypeId, Feed<K>)>);

impl<K: Object> Gathered<K> {
    fn gather<P: Kinds, W: Object>(&mut self) {
        let kind = TypeId::of::<W>();
        if self.0.iter().all(|(known, _)| *known != kind) {
            self.0.push((kind, feed::<P, K, W>));
        }
    }
}

fn feed<P: Kinds, K: Object, W: Object>(context: &ControllerContext<K>, caches: &mut Builder) {
    let mut writer = caches.writer_for(&P::options::<W>());
    context.tap::<W>(move |event| writer.apply(event, |_| {}));
}

struct Gathering<P, K: Object>(Gathered<K>, std::marker::PhantomData<fn() -> P>);

impl<P: Kinds, K: Object> Listener<K> for Gathering<P, K> {
    fn on<W, M>(mut self, _config: watcher::Config, _start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        self.0.gather::<P, W>();
        self
    }
}

struct Heard<P, K: Object>(Controller<K>, std::marker::PhantomData<fn() -> P>);

impl<P: Kinds, K: Object> Listener<K> for Heard<P, K> {
    /// Whatever the trigger selects, the watch fills a cache too.
    fn on<W, M>(self, _config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        let config = P::options::<W>().config.any_semantic();
        Self(self.0.watches_anew(config, start), self.1)
    }
}
