//! Controllers, and the watches that all of them share.
//!
//! Each kind has its own controller ([`kube::runtime::applier`]), which queues, never
//! reconciles the same object twice at once, and waits after errors.

use std::{collections::HashSet, convert::Infallible, fmt, sync::Arc};

use futures::{StreamExt as _, stream::BoxStream};
use kite_cluster::{ClusterError, Object, ObjectKey};
use kube::runtime::{
    controller::{self, Action},
    reflector::{ObjectRef, Store},
    watcher,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{Caches, Watches},
    context::{Context, kind_of},
    failure::Failure,
    health::Health,
    isolate,
    kinds::Kinds,
    listener::Listener,
    metrics::{Metrics, Waiting},
    queue::{Progress, Triggers},
};

/// How many objects of a kind are reconciled at once.
const CONCURRENCY: u16 = 16;

/// Runs the watches, and on what they show the controllers, until `shutdown` and
/// the controllers have ended. The controllers begin once the first list of each kind was
/// tried.
pub async fn watching<P, F, Fut>(
    watches: Watches<P>,
    health: Health,
    metrics: &Metrics,
    shutdown: CancellationToken,
    controllers: F,
) where
    P: Kinds,
    F: FnOnce(Caches) -> Fut,
    Fut: Future<Output = ()>,
{
    let (caches, watches) = watches.build();
    let _counted = metrics.count_caches(caches.clone());
    let tried = watches.tried();
    let controllers = async {
        tokio::select! {
            () = tried => {}
            () = shutdown.cancelled() => {}
        }
        controllers(caches).await;
    };
    tokio::join!(watches.run(health, shutdown.clone()), controllers);
}

/// What a controller works on: its objects, and which of them are due.
pub struct Queue<K: Object> {
    store: Store<K>,
    due: BoxStream<'static, Result<ObjectRef<K>, Infallible>>,
    phase: fn(&K) -> String,
    waiting: Waiting,
    hindered: Hindered,
}

impl<K: Object> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("kind", &K::kind(&()))
            .finish_non_exhaustive()
    }
}

/// Objects whose reconcile met with another that cannot be read.
type Hindered = Arc<Mutex<HashSet<ObjectKey>>>;

/// A controller's queue, while it is told what to listen to.
pub struct Listening<'a, P: Kinds, K: Object> {
    watches: &'a mut Watches<P>,
    store: Store<K>,
    triggers: Triggers<K>,
    progress: fn(&K) -> Progress,
}

impl<P: Kinds, K: Object> fmt::Debug for Listening<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("kind", &K::kind(&()))
            .finish_non_exhaustive()
    }
}

impl<P: Kinds> Watches<P> {
    /// The queue of a controller of `K`, which hears of what `listen` has it listen to.
    /// `progress` is how far an object is; of objects that are few or made in one go it may
    /// always be [`Progress::AtRest`].
    ///
    /// # Panics
    ///
    /// If `P` has the kind packed.
    pub fn queue<K: Object>(
        &mut self,
        progress: fn(&K) -> Progress,
        listen: impl for<'a> FnOnce(Listening<'a, P, K>) -> Listening<'a, P, K>,
    ) -> Queue<K> {
        let (triggers, due) = Triggers::new();
        let waiting = triggers.waiting().clone();
        let store = self.store::<K>();
        let own = triggers.clone();
        self.listen::<K>(move |object| own.push(ObjectRef::from_obj(object), progress(object)));
        let hindered = Hindered::default();
        let (again, freed) = (triggers.clone(), Arc::clone(&hindered));
        self.when_mended(move || {
            let freed = std::mem::take(&mut *freed.lock());
            for ObjectKey { namespace, name } in freed {
                let mut object = ObjectRef::new(&name);
                object.namespace = namespace;
                again.push(object, Progress::AtRest);
            }
        });
        listen(Listening {
            watches: self,
            store: store.clone(),
            triggers,
            progress,
        });
        Queue {
            store,
            due: due.boxed(),
            phase: P::options::<K>().phase,
            waiting,
            hindered,
        }
    }
}

impl<P: Kinds, K: Object> Listener<K> for Listening<'_, P, K> {
    /// Of each kind everything is watched, for the caches' sake: what `_config`
    /// would not select leads back to nothing.
    fn on<W, M>(self, _config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        let (mapper, store, triggers) = (start(), self.store.clone(), self.triggers.clone());
        let progress = self.progress;
        self.watches.listen::<W>(move |object| {
            for due in mapper(object, &store) {
                let known = store.get(&due);
                let progress = known.map_or(Progress::AtRest, |known| progress(&known));
                triggers.push(due, progress);
            }
        });
        self
    }
}

/// Runs a controller to its end, and logs what its reconciles come to.
pub async fn drive<K, X, E, F, Fut>(
    queue: Queue<K>,
    shutdown: CancellationToken,
    context: Arc<X>,
    reconcile: F,
) where
    K: Object,
    X: Context,
    E: Failure,
    F: FnMut(Arc<K>, Arc<X>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
{
    let kind = K::kind(&());
    tracing::info!(%kind, "controller starts");
    let config = controller::Config::default().concurrency(CONCURRENCY);
    context
        .metrics()
        .count(queue.store.clone(), queue.phase, queue.waiting.clone());
    let (waiting, hindered) = (queue.waiting.clone(), queue.hindered);
    let remembering = Arc::clone(&context);
    controller::applier(
        isolate::isolated(reconcile, queue.waiting),
        error_policy::<K, X, E>,
        context,
        queue.store,
        queue.due.take_until(shutdown.cancelled_owned()),
        config,
    )
    .for_each(move |result| {
        match result {
            Ok((object, action)) => {
                tracing::debug!(kind = %K::kind(&()), object = %Name(&object), ?action, "reconciled");
            }
            Err(controller::Error::ObjectNotFound(object)) => {
                waiting.remove(object.namespace.as_deref(), &object.name);
                // Nothing that is remembered outlives its object.
                let ObjectRef { namespace, name, .. } = *object.clone();
                remembering.forget(kind_of::<K>(), &ObjectKey { namespace, name });
                tracing::debug!(%object, "gone before it was reconciled");
            }
            Err(controller::Error::ReconcilerFailed(error, object)) => match error.cluster() {
                // Somebody was faster, and what they wrote triggers again.
                Some(ClusterError::Conflict { .. }) => {
                    tracing::debug!(%object, %error, "will be tried again");
                }
                // It is the next leader's turn.
                Some(ClusterError::NotLeader { .. }) => {
                    tracing::debug!(%object, %error, "left to the leader");
                }
                Some(ClusterError::Unreadable { .. }) => {
                    tracing::warn!(%object, %error, "hindered");
                    let ObjectRef { namespace, name, .. } = *object;
                    hindered.lock().insert(ObjectKey { namespace, name });
                }
                _ => tracing::warn!(%object, %error, "reconcile failed"),
            },
            Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "controller"),
        }
        std::future::ready(())
    })
    .await;
    tracing::info!(%kind, "controller ended");
}

/// How long an object waits after `error`: exponential back-off with jitter.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that Controller::run takes"
)]
pub fn error_policy<K: Object, X: Context, E: Failure>(
    object: Arc<K>,
    error: &E,
    context: Arc<X>,
) -> Action {
    let key = ObjectKey::of(&*object);
    Action::requeue(context.backoff().after(kind_of::<K>(), key, error))
}

struct Name<'a, K: Object>(&'a ObjectRef<K>);

impl<K: Object> fmt::Display for Name<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.0.name),
            None => f.write_str(&self.0.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::reflector;
    use tokio::time::sleep;

    use super::*;
    use crate::{Error, context::Shared};

    /// Each event begins kube's debounce anew: whoever edits an object twenty times a
    /// second would keep it, and what it belongs to, from being reconciled.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_changes_all_the_time_is_reconciled_all_the_same() {
        let (triggers, due) = Triggers::<ConfigMap>::new();
        let (store, mut writer) = reflector::store();
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        writer.apply_watcher_event(&watcher::Event::Apply(map.clone()));
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitApply(map.clone()));
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let queue = Queue {
            store,
            due: due.boxed(),
            phase: |_| String::new(),
            waiting: triggers.waiting().clone(),
            hindered: Hindered::default(),
        };
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let stop = CancellationToken::new();
        let context = Arc::new(Shared::new(()));
        let controller = tokio::spawn(drive(queue, stop.clone(), context, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Error>(Action::await_change()) }
        }));
        for _ in 0..100 {
            triggers.push(ObjectRef::from_obj(&map), Progress::AtRest);
            sleep(Duration::from_millis(10)).await;
        }
        // A second has passed, in which events are gathered for 50 ms each.
        let often = done.load(Ordering::SeqCst);
        assert!((10..=20).contains(&often), "{often} reconciles");
        stop.cancel();
        controller.await.unwrap();
    }
}
