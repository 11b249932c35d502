//! Which controllers there are, and what triggers each of them: beside its own kind what
//! is in [`triggers`].

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::Cluster,
    crd::{
        KiteImage, KitePlatform, KiteSnapshot, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVolume,
    },
};
use kite_runtime::{Watches, cache::CachedCluster, controller::Queue, drive, queue::Progress};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    Context, Settings, image, kept, kinds::KiteKinds, offer, platform, progress::of_vm, snapshot,
    triggers, user, vm, volume,
};

/// Runs the reconcilers of all of Kite's kinds until `shutdown`, then finishes
/// what is under way. `client` is where events come from, one watch for each
/// kind; the cluster in `context` is what they are carried out against, and is
/// read only where caches of what was watched may not answer.
pub async fn run<C: Cluster + Clone>(
    client: Client,
    context: Context<C>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let users = queue_of_users(&mut watches, &context.settings);
    let images = queue_of_images(&mut watches);
    let offers = queue_of_offers(&mut watches);
    let platforms = queue_of_platforms(&mut watches);
    let snapshots = queue_of_snapshots(&mut watches);
    let volumes = queue_of_volumes(&mut watches);
    let vms = queue_of_virtual_machines(&mut watches);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| async move {
        tokio::join!(
            drive_users(users, Arc::clone(&context), stop.clone()),
            drive_images(images, Arc::clone(&context), stop.clone()),
            drive_offers(offers, Arc::clone(&context), stop.clone()),
            drive_platforms(platforms, Arc::clone(&context), stop.clone()),
            drive_snapshots(snapshots, Arc::clone(&context), stop.clone()),
            drive_volumes(volumes, Arc::clone(&context), stop.clone()),
            kept::run(&context, stop.clone()),
            drive_virtual_machines(vms, Arc::clone(&context), stop),
        );
    })
    .await;
}

/// Runs the reconcilers of VMs, of their snapshots and volumes, and of images, with one watch for
/// each kind: for an operator that provisions VMs and has no use for Kite's users. Its rights are
/// `kite_render::install::provisioning_rights`.
pub async fn run_provisioning<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let images = queue_of_images(&mut watches);
    let snapshots = queue_of_snapshots(&mut watches);
    let volumes = queue_of_volumes(&mut watches);
    let vms = queue_of_virtual_machines(&mut watches);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| async move {
        tokio::join!(
            drive_images(images, Arc::clone(&context), stop.clone()),
            drive_snapshots(snapshots, Arc::clone(&context), stop.clone()),
            drive_volumes(volumes, Arc::clone(&context), stop.clone()),
            kept::run(&context, stop.clone()),
            drive_virtual_machines(vms, Arc::clone(&context), stop),
        );
    })
    .await;
}

/// Runs the reconciler of VMs only, where another process manages images.
pub async fn run_virtual_machines<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let vms = queue_of_virtual_machines(&mut watches);
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
    let mut watches = Watches::<KiteKinds>::new(client);
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
    let mut watches = Watches::<KiteKinds>::new(client);
    let images = queue_of_images(&mut watches);
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
    let mut watches = Watches::<KiteKinds>::new(client);
    let offers = queue_of_offers(&mut watches);
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

/// Runs the reconciler of snapshots only.
pub async fn run_snapshots<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let snapshots = queue_of_snapshots(&mut watches);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_snapshots(snapshots, context, stop)
    })
    .await;
}

async fn drive_snapshots<C: Cluster>(
    queue: Queue<KiteSnapshot>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |snapshot, context| async move {
        snapshot::reconcile(&snapshot, &context).await
    })
    .await;
}

/// Runs the reconciler of volumes only.
pub async fn run_volumes<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let volumes = queue_of_volumes(&mut watches);
    let stop = shutdown.clone();
    watching(watches, &context, shutdown, |context| {
        drive_volumes(volumes, context, stop)
    })
    .await;
}

async fn drive_volumes<C: Cluster>(
    queue: Queue<KiteVolume>,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    drive(queue, shutdown, context, |volume, context| async move {
        volume::reconcile(&volume, &context).await
    })
    .await;
}

/// Runs the reconciler of the platform only.
pub async fn run_platform<C: Cluster + Clone>(
    client: Client,
    context: Arc<Context<C>>,
    shutdown: CancellationToken,
) {
    let mut watches = Watches::<KiteKinds>::new(client);
    let platforms = queue_of_platforms(&mut watches);
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
    mut watches: Watches<KiteKinds>,
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
    let (health, metrics) = (context.health.clone(), &context.shared.metrics);
    kite_runtime::watching(watches, health, metrics, shutdown, |caches| {
        controllers(Arc::new(context.cached(caches)))
    })
    .await;
}

fn queue_of_virtual_machines(watches: &mut Watches<KiteKinds>) -> Queue<KiteVirtualMachine> {
    watches.queue(of_vm, |it| triggers::virtual_machines(it))
}

/// Only who gives others rights has to be allowed to watch them.
fn queue_of_users(watches: &mut Watches<KiteKinds>, settings: &Settings) -> Queue<KiteUser> {
    let gives = !settings.grants.is_empty();
    watches.queue(at_rest, |listening| {
        let listening = triggers::users(listening);
        if gives {
            triggers::grants(listening)
        } else {
            listening
        }
    })
}

fn queue_of_images(watches: &mut Watches<KiteKinds>) -> Queue<KiteImage> {
    watches.queue(at_rest, |it| triggers::images(it))
}

fn queue_of_offers(watches: &mut Watches<KiteKinds>) -> Queue<KiteVirtualMachineOffer> {
    watches.queue(at_rest, |it| triggers::offers(it))
}

fn queue_of_snapshots(watches: &mut Watches<KiteKinds>) -> Queue<KiteSnapshot> {
    watches.queue(at_rest, |it| triggers::snapshots(it))
}

fn queue_of_volumes(watches: &mut Watches<KiteKinds>) -> Queue<KiteVolume> {
    watches.queue(at_rest, |it| triggers::volumes(it))
}

fn queue_of_platforms(watches: &mut Watches<KiteKinds>) -> Queue<KitePlatform> {
    watches.queue(at_rest, |it| triggers::platforms(it))
}

/// How far objects are that are made in one go, or are few.
fn at_rest<K>(_: &K) -> Progress {
    Progress::AtRest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kite_core::{
        cluster::{ClusterExt as _, KubeCluster},
        crd::KitePlatformSpec,
    };
    use kite_fake::FakeCluster;
    use kube::api::PropagationPolicy;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_of_what_is_gone() {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .build()
            .unwrap();
        let plain = KubeCluster::new(fake.client());
        let mut watches = Watches::<KiteKinds>::new(fake.client());
        let platforms = queue_of_platforms(&mut watches);
        let (caches, running) = watches.build();
        let context = Arc::new(Context::new(plain.clone()).cached(caches));
        let stop = CancellationToken::new();
        tokio::spawn(running.run(context.health.clone(), stop.clone()));
        tokio::spawn(drive_platforms(platforms, Arc::clone(&context), stop));
        let platform = KitePlatform::new("default", KitePlatformSpec::default());
        let platform = plain.create(&platform).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(context.shared.at_rest(), 1);
        plain
            .delete_by_uid(&platform, PropagationPolicy::Background)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(context.shared.at_rest(), 0);
    }
}
