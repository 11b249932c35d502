//! Wiring into `kube_runtime`: what triggers a reconcile of what.
//!
//! Each kind has its own [`Controller`], which queues, never reconciles the same
//! object twice at once, and waits after errors. Beside the kind itself it
//! watches what the kind owns, led back by Kite's labels rather than by owner
//! references, because what is cluster-scoped or has lost its owner must lead
//! back too; and what the kind depends on, led back by its spec.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::{Cluster, ClusterError, Object, ObjectKey},
    crd::{KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        Controller,
        controller::{self, Action},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{Context, Error, image, user, vm};

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
    let controller = controller::<KiteVirtualMachine>(&client);
    let vms = controller.store();
    let all = vms.clone();
    let owners = vms.clone();
    let images = vms.clone();
    let edits = Edits::default();
    let controller = controller
        .watches(api::<Secret>(&client), managed(), |o| vm_of(&o))
        .watches(api::<DataVolume>(&client), managed(), |o| vm_of(&o))
        .watches(api::<PersistentVolumeClaim>(&client), managed(), |o| {
            vm_of(&o)
        })
        .watches(api::<VirtualMachine>(&client), managed(), |o| vm_of(&o))
        .watches(api::<VirtualMachineInstance>(&client), managed(), |o| {
            vm_of(&o)
        })
        .watches(api::<Service>(&client), managed(), |o| vm_of(&o))
        .watches(api::<Ingress>(&client), managed(), |o| vm_of(&o))
        .watches(api::<KiteReservation>(&client), managed(), move |claim| {
            claimants(&vms, &claim)
        })
        .watches(api::<KitePlatform>(&client), everything(), move |_| {
            select(&all, |_| true)
        })
        .watches(api::<KiteUser>(&client), everything(), move |user| {
            if !edits.is_one(&user) {
                return Vec::new();
            }
            let namespace = names::user_namespace(&user.name_any());
            select(&owners, |vm| vm.namespace().as_deref() == Some(&namespace))
        })
        .watches(api::<KiteImage>(&client), everything(), move |image| {
            let name = image.name_any();
            select(&images, |vm| vm.spec.image == name && !has_disk(vm))
        });
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
    let controller = controller::<KiteUser>(&client);
    let users = controller.store();
    let all = users.clone();
    let controller = controller
        .watches(api::<Namespace>(&client), managed(), |o| user_of(&o))
        .watches(api::<NetworkPolicy>(&client), managed(), |o| user_of(&o))
        .watches(api::<ResourceQuota>(&client), managed(), |o| user_of(&o))
        .watches(api::<KiteVirtualMachine>(&client), everything(), |vm| {
            let namespace = vm.namespace().unwrap_or_default();
            names::user_of_namespace(&namespace).map(ObjectRef::new)
        })
        .watches(api::<KiteReservation>(&client), managed(), move |claim| {
            let name = claim.name_any();
            select(&users, |user| {
                names::username_reservation(&user.spec.username) == name
                    || user
                        .spec
                        .email
                        .as_deref()
                        .map(names::email_reservation)
                        .as_ref()
                        == Some(&name)
            })
        })
        .watches(api::<KitePlatform>(&client), everything(), move |_| {
            select(&all, |_| true)
        });
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
    let controller = controller::<KiteImage>(&client)
        .watches(api::<DataVolume>(&client), managed(), |o| image_of(&o))
        .watches(api::<DataSource>(&client), managed(), |o| image_of(&o));
    drive(controller, shutdown, context, |image, context| async move {
        image::reconcile(&image, &context).await
    })
    .await;
}

fn controller<K: Object>(client: &Client) -> Controller<K> {
    let config = controller::Config::default()
        .concurrency(CONCURRENCY)
        .debounce(DEBOUNCE);
    Controller::new(api::<K>(client), watcher::Config::default()).with_config(config)
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
            reconcile,
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

/// A watch of objects that Kite made.
fn managed() -> watcher::Config {
    watcher::Config::default().labels(&format!(
        "{}={}",
        labels::MANAGED_BY,
        labels::MANAGED_BY_CONTROLLER
    ))
}

fn everything() -> watcher::Config {
    watcher::Config::default()
}

/// Tells edits of a spec from changes of a status: a user's status changes with
/// each of their VMs, and must not trigger all of them again.
#[derive(Default)]
struct Edits {
    seen: Mutex<HashMap<String, Option<i64>>>,
}

impl Edits {
    fn is_one<K: Object>(&self, object: &K) -> bool {
        let generation = object.meta().generation;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(object.uid().unwrap_or_default(), generation) != Some(generation)
    }
}

/// The VM that an object belongs to, by its labels.
fn vm_of<K: Object>(object: &K) -> Option<ObjectRef<KiteVirtualMachine>> {
    let labels = object.labels();
    let name = labels.get(labels::VM_NAME)?;
    let namespace = labels.get(labels::VM_NAMESPACE)?;
    Some(ObjectRef::new(name).within(namespace))
}

fn user_of<K: Object>(object: &K) -> Option<ObjectRef<KiteUser>> {
    object
        .labels()
        .get(labels::USER_NAME)
        .map(|name| ObjectRef::new(name))
}

fn image_of<K: Object>(object: &K) -> Option<ObjectRef<KiteImage>> {
    object
        .labels()
        .get(labels::IMAGE_NAME)
        .map(|name| ObjectRef::new(name))
}

/// The VMs that want what `claim` stands for: when it goes, one of them may
/// have it.
fn claimants(
    vms: &Store<KiteVirtualMachine>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let name = claim.name_any();
    match names::vm_claim_of_reservation(&name) {
        Some(VmClaim::SshId(ssh_id)) => select(vms, |vm| vm.spec.ssh_id == ssh_id),
        Some(VmClaim::Domain(prefix)) => {
            select(vms, |vm| vm.spec.domain_prefix.as_deref() == Some(prefix))
        }
        None => Vec::new(),
    }
}

/// The known objects that `wanted` picks.
fn select<K: Object>(store: &Store<K>, wanted: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>> {
    store
        .state()
        .iter()
        .filter(|object| wanted(object))
        .map(|object| ObjectRef::from_obj(&**object))
        .collect()
}

fn has_disk(vm: &KiteVirtualMachine) -> bool {
    vm.status
        .as_ref()
        .is_some_and(|status| status.disk.is_some())
}
