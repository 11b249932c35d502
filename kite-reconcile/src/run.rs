//! Wiring into `kube_runtime`: what triggers a reconcile of what.
//!
//! Each kind has its own [`Controller`], which queues, never reconciles the same
//! object twice at once, and waits after errors. What it hears of beside its own
//! kind is in [`triggers`].

use std::{fmt, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kite_core::cluster::{Cluster, ClusterError, Object, ObjectKey};
use kube::{
    Api, Client,
    runtime::{
        Controller,
        controller::{self, Action},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    Context, Error, image, isolate, platform,
    triggers::{self, Listener},
    user, vm,
};

/// How many objects of a kind are reconciled at once.
const CONCURRENCY: u16 = 16;
/// How long to wait for more of the same before a reconcile begins: making one
/// VM causes a dozen events at once.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Runs the reconcilers of all of Kite's kinds until `shutdown`, then finishes
/// what is under way. `client` is where events come from; the cluster in
/// `context` is what they are carried out against.
pub async fn run<C: Cluster>(client: Client, context: Context<C>, shutdown: CancellationToken) {
    let context = Arc::new(context);
    tokio::join!(
        run_users(client.clone(), Arc::clone(&context), shutdown.clone()),
        run_images(client.clone(), Arc::clone(&context), shutdown.clone()),
        run_platform(client.clone(), Arc::clone(&context), shutdown.clone()),
        run_virtual_machines(client, context, shutdown),
    );
}

/// Runs the reconciler of VMs only: for an operator that provisions VMs by
/// itself and has no use for Kite's users.
pub async fn run_virtual_machines<C: Cluster>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let controller = triggers::virtual_machines(listening(&client)).controller;
    drive(controller, shutdown, context, |vm, context| async move {
        vm::reconcile(&vm, &context).await
    })
    .await;
}

/// Runs the reconciler of users only.
pub async fn run_users<C: Cluster>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let controller = triggers::users(listening(&client)).controller;
    drive(controller, shutdown, context, |user, context| async move {
        user::reconcile(&user, &context).await
    })
    .await;
}

/// Runs the reconciler of images only.
pub async fn run_images<C: Cluster>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let controller = triggers::images(listening(&client)).controller;
    drive(controller, shutdown, context, |image, context| async move {
        image::reconcile(&image, &context).await
    })
    .await;
}

/// Runs the reconciler of the platform only.
pub async fn run_platform<C: Cluster>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let controller = triggers::platforms(listening(&client)).controller;
    drive(
        controller,
        shutdown,
        context,
        |platform, context| async move { platform::reconcile(&platform, &context).await },
    )
    .await;
}

/// A controller, while it is told what to listen to.
struct Listening<K: Object> {
    client: Client,
    controller: Controller<K>,
}

fn listening<K: Object>(client: &Client) -> Listening<K> {
    let config = controller::Config::default()
        .concurrency(CONCURRENCY)
        .debounce(DEBOUNCE);
    Listening {
        client: client.clone(),
        controller: Controller::new(api::<K>(client), watcher::Config::default())
            .with_config(config),
    }
}

impl<K: Object> Listener<K> for Listening<K> {
    fn on<W, M>(self, config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        let (mapper, store) = (start(), self.controller.store());
        let api = api::<W>(&self.client);
        let controller = self
            .controller
            .watches(api, config, move |object| mapper(&object, &store));
        Self { controller, ..self }
    }
}

/// Runs a controller to its end, and logs what its reconciles come to.
async fn drive<K, C, F, Fut>(
    controller: Controller<K>,
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
    controller
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(
            isolate::isolated(reconcile),
            error_policy::<K, C>,
            context,
        )
        .for_each(|result| {
            match result {
                Ok((object, action)) => {
                    tracing::debug!(kind = %K::kind(&()), object = %Name(&object), ?action, "reconciled");
                }
                Err(controller::Error::ObjectNotFound(object)) => {
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
                Err(controller::Error::ReconcilerFailed(error, object)) => {
                    tracing::warn!(%object, %error, "reconcile failed");
                }
                Err(controller::Error::QueueError(error)) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "watch failed, will be tried again");
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
    let kind = match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    };
    let wait = context.backoff.after(kind, ObjectKey::of(&*object), error);
    Action::requeue(wait)
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

fn api<K: Object>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}
