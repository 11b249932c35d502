//! Wiring into `kube_runtime`: what triggers a reconcile of what.
//!
//! Each kind has its own controller ([`kube::runtime::applier`]), which queues,
//! never reconciles the same object twice at once, and waits after errors. What it hears of beside its own
//! kind is in [`triggers`].

use std::{collections::HashSet, convert::Infallible, fmt, sync::Arc};

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster, ClusterError, Object, ObjectKey},
    crd::{KiteImage, KitePlatform, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer},
};
use kube::{
    Client,
    runtime::{
        controller::{self, Action},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    Context, Error, Settings,
    cache::{CachedCluster, watches::Watches},
    image, isolate, kept,
    metrics::Waiting,
    offer, platform,
    queue::{Stage, Triggers},
    triggers::{self, Listener},
    user, vm,
};

/// How many objects of a kind are reconciled at once.
const CONCURRENCY: u16 = 16;

/// Runs the reconcilers of all of Kite's kinds until `shutdown`, then finishes
/// what is under way. `client` is where events come from, one watch for each
/// kind; the cluster in `context` is what they are carried out against, and is
/// read only where caches of what was watched may not answer.
pub async fn run<C: Cluster + Clone>(
    client: Client,
    context: Context<C>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let users = queue_of_users(&mut watches, &context.settings);
    let images = queue(&mut watches, triggers::images);
    let offers = queue(&mut watches, triggers::offers);
    let platforms = queue(&mut watches, triggers::platforms);
    let vms = queue_by(&mut watches, Stage::of_vm, triggers::virtual_machines);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| async move {
        tokio::join!(
            drive_users(users, Arc::clone(&context), stop.clone()),
            drive_images(images, Arc::clone(&context), stop.clone()),
            drive_offers(offers, Arc::clone(&context), stop.clone()),
            drive_platforms(platforms, Arc::clone(&context), stop.clone()),
            kept::run(&context, stop.clone()),
            drive_virtual_machines(vms, Arc::clone(&context), stop),
        );
    })
    .await;
}

/// Runs the reconciler of VMs only: for an operator that provisions VMs by
/// itself and has no use for Kite's users.
pub async fn run_virtual_machines<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let vms = queue_by(&mut watches, Stage::of_vm, triggers::virtual_machines);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| async move {
        tokio::join!(
            kept::run(&context, stop.clone()),
            drive_virtual_machines(vms, Arc::clone(&context), stop),
        );
    })
    .await;
}

/// Runs the reconciler of users only.
pub async fn run_users<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let users = queue_of_users(&mut watches, &context.settings);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_users(users, context, stop)
    })
    .await;
}

/// Runs the reconciler of images only.
pub async fn run_images<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let images = queue(&mut watches, triggers::images);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_images(images, context, stop)
    })
    .await;
}

async fn drive_virtual_machines<C: Cluster>(
    queue: Queue<KiteVirtualMachine>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |vm, context| async move {
        vm::reconcile(&vm, &context).await
    })
    .await;
}

async fn drive_users<C: Cluster>(
    queue: Queue<KiteUser>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |user, context| async move {
        user::reconcile(&user, &context).await
    })
    .await;
}

async fn drive_images<C: Cluster>(
    queue: Queue<KiteImage>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |image, context| async move {
        image::reconcile(&image, &context).await
    })
    .await;
}

/// Runs the reconciler of offers only.
pub async fn run_offers<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let offers = queue(&mut watches, triggers::offers);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_offers(offers, context, stop)
    })
    .await;
}

async fn drive_offers<C: Cluster>(
    queue: Queue<KiteVirtualMachineOffer>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |offer, context| async move {
        offer::reconcile(&offer, &context).await
    })
    .await;
}

/// Runs the reconciler of the platform only.
pub async fn run_platform<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::new(client);
    let platforms = queue(&mut watches, triggers::platforms);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_platforms(platforms, context, stop)
    })
    .await;
}

async fn drive_platforms<C: Cluster>(
    queue: Queue<KitePlatform>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |platform, context| async move {
        platform::reconcile(&platform, &context).await
    })
    .await;
}

/// Runs the watches, and on what they show the controllers, until `shutdown` and
/// the controllers have ended.
async fn watching<C, F, Fut>(
    mut watches: Watches,
    context: &Context<C>,
    shutdown: CancellationToken,
    controllers: F,
) where
    C: Cluster + Clone,
    F: FnOnce(Arc<Context<CachedCluster<C>>>) -> Fut,
    Fut: Future<Output = ()>,
{
    if let Some(role) = &context.settings.own_role {
        watches.confine::<Secret>(role, platform::secrets(&context.settings.namespace));
    }
    let (caches, watches) = watches.build();
    let health = context.health.clone();
    let _counted = context.metrics.count_caches(caches.clone());
    let context = Arc::new(context.cached(caches));
    let tried = watches.tried();
    let controllers = async {
        tokio::select! {
            () = tried => {}
            () = shutdown.cancelled() => {}
        }
        controllers(context).await;
    };
    tokio::join!(watches.run(health, shutdown.clone()), controllers);
}

/// What a controller works on: its objects, and which of them are due.
struct Queue<K: Object> {
    store: Store<K>,
    due: BoxStream<'static, Result<ObjectRef<K>, Infallible>>,
    waiting: Waiting,
    hindered: Hindered,
}

/// Objects whose reconcile met with another that cannot be read.
type Hindered = Arc<Mutex<HashSet<ObjectKey>>>;

/// A controller's queue, while it is told what to listen to.
struct Listening<'a, K: Object> {
    watches: &'a mut Watches,
    store: Store<K>,
    triggers: Triggers<K>,
    stage: fn(&K) -> Stage,
}

/// The queue of a controller whose objects are made in one go, or are few.
fn queue<'a, K: Object>(
    watches: &'a mut Watches,
    listen: impl FnOnce(Listening<'a, K>) -> Listening<'a, K>,
) -> Queue<K> {
    queue_by(watches, |_| Stage::AtRest, listen)
}

/// The queue of users. Only who gives others rights has to be allowed to watch them.
fn queue_of_users(watches: &mut Watches, settings: &Settings) -> Queue<KiteUser> {
    let gives = !settings.grants.is_empty();
    queue(watches, |listening| {
        let listening = triggers::users(listening);
        if gives {
            triggers::grants(listening)
        } else {
            listening
        }
    })
}

/// The queue of a controller whose objects are as far as `stage` says.
fn queue_by<'a, K: Object>(
    watches: &'a mut Watches,
    stage: fn(&K) -> Stage,
    listen: impl FnOnce(Listening<'a, K>) -> Listening<'a, K>,
) -> Queue<K> {
    let (triggers, due) = Triggers::new();
    let waiting = triggers.waiting().clone();
    let store = watches.store::<K>();
    let own = triggers.clone();
    watches.listen::<K>(move |object| own.push(ObjectRef::from_obj(object), stage(object)));
    let hindered = Hindered::default();
    let (again, freed) = (triggers.clone(), Arc::clone(&hindered));
    watches.when_mended(move || {
        let freed = std::mem::take(&mut *freed.lock());
        for ObjectKey { namespace, name } in freed {
            let mut object = ObjectRef::new(&name);
            object.namespace = namespace;
            again.push(object, Stage::AtRest);
        }
    });
    listen(Listening {
        watches,
        store: store.clone(),
        triggers,
        stage,
    });
    Queue {
        store,
        due: due.boxed(),
        waiting,
        hindered,
    }
}

impl<K: Object> Listener<K> for Listening<'_, K> {
    /// Of each kind everything is watched, for the caches' sake: what `_config`
    /// would not select leads back to nothing.
    fn on<W, M>(self, _config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        let (mapper, store, triggers) = (start(), self.store.clone(), self.triggers.clone());
        let stage = self.stage;
        self.watches.listen::<W>(move |object| {
            for due in mapper(object, &store) {
                let known = store.get(&due);
                let stage = known.map_or(Stage::AtRest, |known| stage(&known));
                triggers.push(due, stage);
            }
        });
        self
    }
}

/// Runs a controller to its end, and logs what its reconciles come to.
async fn drive<K, C, F, Fut>(
    queue: Queue<K>,
    shutdown: CancellationToken,
    context: Arc<Context<C>>,
    reconcile: F,
) where
    K: Object,
    C: Cluster,
    F: FnMut(Arc<K>, Arc<Context<C>>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let kind = K::kind(&());
    tracing::info!(%kind, "controller starts");
    let config = controller::Config::default().concurrency(CONCURRENCY);
    context
        .metrics
        .count(queue.store.clone(), queue.waiting.clone());
    let (waiting, hindered) = (queue.waiting.clone(), queue.hindered);
    let remembering = Arc::clone(&context);
    controller::applier(
        isolate::isolated(reconcile, queue.waiting),
        error_policy::<K, C>,
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
            // Somebody was faster, and what they wrote triggers again.
            Err(controller::Error::ReconcilerFailed(
                error @ Error::Cluster(ClusterError::Conflict { .. }),
                object,
            )) => tracing::debug!(%object, %error, "will be tried again"),
            // It is the next leader's turn.
            Err(controller::Error::ReconcilerFailed(
                error @ Error::Cluster(ClusterError::HeldBack { .. }),
                object,
            )) => tracing::debug!(%object, %error, "left to the leader"),
            Err(controller::Error::ReconcilerFailed(
                error @ Error::Cluster(ClusterError::Unreadable { .. }),
                object,
            )) => {
                tracing::warn!(%object, %error, "hindered");
                let ObjectRef { namespace, name, .. } = *object;
                hindered.lock().insert(ObjectKey { namespace, name });
            }
            Err(controller::Error::ReconcilerFailed(error, object)) => {
                tracing::warn!(%object, %error, "reconcile failed");
            }
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
pub fn error_policy<K: Object, C>(
    object: Arc<K>,
    error: &Error,
    context: Arc<Context<C>>,
) -> Action {
    let key = ObjectKey::of(&*object);
    Action::requeue(context.backoff.after(kind_of::<K>(), key, error))
}

/// The kind's name, as reconcilers have it.
fn kind_of<K: Object>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
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

    use kite_core::{
        cluster::{ClusterExt as _, KubeCluster, MockCluster},
        crd::{KitePlatformSpec, KiteUserSpec},
    };
    use kite_fake::FakeCluster;
    use kube::{api::PropagationPolicy, runtime::reflector};
    use tokio::time::sleep;

    use super::*;
    use crate::cache::memo::Holds;

    /// Each event begins kube's debounce anew: a tenant who edits a VM twenty
    /// times a second would keep it, and the user, from being reconciled.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_changes_all_the_time_is_reconciled_all_the_same() {
        let (triggers, due) = Triggers::<KiteUser>::new();
        let (store, mut writer) = reflector::store();
        let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        writer.apply_watcher_event(&watcher::Event::Apply(ann.clone()));
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitApply(ann.clone()));
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let queue = Queue {
            store,
            due: due.boxed(),
            waiting: triggers.waiting().clone(),
            hindered: Hindered::default(),
        };
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let stop = CancellationToken::new();
        let context = Arc::new(Context::new(MockCluster::new()));
        let controller = tokio::spawn(drive(queue, stop.clone(), context, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Action::await_change()) }
        }));
        for _ in 0..100 {
            triggers.push(ObjectRef::from_obj(&ann), Stage::AtRest);
            sleep(Duration::from_millis(10)).await;
        }
        // A second has passed, in which events are gathered for 50 ms each.
        let often = done.load(Ordering::SeqCst);
        assert!((10..=20).contains(&often), "{often} reconciles");
        stop.cancel();
        controller.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_of_what_is_gone() {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .build()
            .unwrap();
        let plain = KubeCluster::new(fake.client());
        let mut watches = Watches::new(fake.client());
        let platforms = queue(&mut watches, triggers::platforms);
        let (caches, running) = watches.build();
        let context = Arc::new(Context::new(plain.clone()).cached(caches));
        let stop = CancellationToken::new();
        tokio::spawn(running.run(context.health.clone(), stop.clone()));
        tokio::spawn(drive_platforms(platforms, Arc::clone(&context), stop));
        let platform = KitePlatform::new("default", KitePlatformSpec::default());
        let platform = plain.create(&platform).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let holds = Holds {
            until: None,
            again: Duration::from_secs(600),
        };
        let memos = &context.memos;
        memos.settled("KitePlatform", &platform, Vec::new(), holds);
        assert_eq!(memos.len(), 1);
        plain
            .remove(&platform, PropagationPolicy::Background)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(memos.len(), 0);
    }
}
