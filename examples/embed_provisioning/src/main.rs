//! Another operator that provisions VMs with Kite as a library.
//!
//! It has a custom resource of its own, `DevBox`, and no use for Kite's users,
//! API or gateway. For each `DevBox` it applies a `KiteVirtualMachine`, and it
//! runs Kite's VM and image reconcilers in its own process:
//!
//! ```console
//! $ cargo run -p embed_provisioning        # with a kubeconfig
//! ```
//!
//! The test below runs the same on the in-memory cluster.

mod devbox;

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use kite_core::{cluster::KubeCluster, crd::KiteVirtualMachine};
use kite_reconcile::Context;
use kube::{
    Api, Client,
    runtime::{Controller, controller::Action, watcher},
};
use tokio_util::sync::CancellationToken;

use crate::devbox::{DevBox, DevBoxError};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let client = Client::try_default().await?;
    let shutdown = CancellationToken::new();
    let ctrl_c = shutdown.clone();
    tokio::spawn(async move {
        // No signal handler means no way to end but a kill: then run on.
        if tokio::signal::ctrl_c().await.is_ok() {
            ctrl_c.cancel();
        }
    });
    run(
        client.clone(),
        Context::new(KubeCluster::new(client)),
        shutdown,
    )
    .await;
    Ok(())
}

/// Runs both operators until `shutdown`.
async fn run(client: Client, kite: Context<KubeCluster>, shutdown: CancellationToken) {
    let cluster = Arc::new(kite.shared.cluster.clone());
    let kite = Arc::new(kite);
    let dev_boxes = Controller::new(
        Api::<DevBox>::all(client.clone()),
        watcher::Config::default(),
    )
    .owns(
        Api::<KiteVirtualMachine>::all(client.clone()),
        watcher::Config::default(),
    )
    .graceful_shutdown_on(shutdown.clone().cancelled_owned())
    .run(devbox::reconcile, retry, cluster)
    .for_each(|result| async move {
        if let Err(error) = result {
            tracing::warn!(%error, "DevBox");
        }
    });
    tokio::join!(
        dev_boxes,
        kite_reconcile::run_provisioning(client, kite, shutdown),
    );
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that Controller::run takes"
)]
fn retry(_: Arc<DevBox>, _: &DevBoxError, _: Arc<KubeCluster>) -> Action {
    Action::requeue(Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use kite_core::{
        cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
        crd::{ImageSource, KiteImage, KiteImageSpec, KiteReservation, VmPhase},
    };
    use kite_fake::FakeCluster;
    use kite_fake::actors::{Actors, Rules};
    use kite_fake_kubevirt::everything;
    use kite_render::install::{provisioning_image_role, provisioning_role};
    use kube::{CustomResourceExt as _, api::PropagationPolicy};

    use super::*;
    use crate::devbox::{DevBoxSpec, Size};

    /// As whom the operator runs.
    const OPERATOR: &str = "system:serviceaccount:default:dev-boxes";

    /// What it may do beside provisioning, and that it has all three roles.
    const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: dev-boxes}
rules:
- {apiGroups: [example.org], resources: [devboxes], verbs: [get, list, watch, patch]}
- {apiGroups: [hy3ons.github.io], resources: [kitevirtualmachines], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dev-boxes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dev-boxes}
subjects: [{kind: ServiceAccount, namespace: default, name: dev-boxes}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: provisioning}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: provisioning}
subjects: [{kind: ServiceAccount, namespace: default, name: dev-boxes}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: clone-images, namespace: kite-images}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: clone-images}
subjects: [{kind: ServiceAccount, namespace: default, name: dev-boxes}]
";

    #[tokio::test(start_paused = true)]
    async fn a_dev_box_becomes_a_running_vm_and_goes_with_it() {
        let fake = FakeCluster::builder()
            // Of Kite's kinds it takes no more.
            .crds([
                KiteVirtualMachine::crd(),
                KiteImage::crd(),
                KiteReservation::crd(),
            ])
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds([DevBox::crd()])
            .rbac(true)
            .object(provisioning_role("provisioning"))
            .objects_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: kite-images}}")
            .object(provisioning_image_role("clone-images", "kite-images"))
            .objects_yaml(ROLES)
            .objects_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
            .build()
            .unwrap();
        let client = fake.client();
        let stop = CancellationToken::new();
        let rules = Arc::new(Rules::instant());
        let _actors = Actors::spawn(&client, fake.clock(), &rules, everything(), &stop);
        let cluster = KubeCluster::new(client);
        // It has the rights of provisioning and its own, and no others.
        let own = fake.client_as(OPERATOR);
        let context = Context::new(KubeCluster::new(own.clone()));
        let operator = tokio::spawn(run(own, context, stop.clone()));

        cluster.create(&image()).await.unwrap();
        let mut dev_box = DevBox::new(
            "ann",
            DevBoxSpec {
                size: Size::Small,
                asleep: false,
            },
        );
        // Another of the name is none of its business.
        dev_box.metadata.namespace = Some("team".to_owned());
        cluster.create(&dev_box).await.unwrap();
        dev_box.metadata.namespace = Some("default".to_owned());
        let dev_box = cluster.create(&dev_box).await.unwrap();
        for namespace in ["team", "default"] {
            let runs = |vm: Option<&_>| phase(vm) == Some(VmPhase::Running);
            until_in(&cluster, namespace, runs).await;
        }

        let key = ObjectKey::of(&dev_box);
        let asleep = serde_json::json!({"spec": {"asleep": true}});
        let person = FieldManager::new("person");
        cluster
            .merge_patch::<DevBox>(person, &key, &asleep)
            .await
            .unwrap();
        until(&cluster, |vm| phase(vm) == Some(VmPhase::Stopped)).await;

        cluster
            .delete_by_uid(&dev_box, PropagationPolicy::Background)
            .await
            .unwrap();
        until(&cluster, |vm| vm.is_none()).await;
        stop.cancel();
        operator.await.unwrap();
    }

    fn phase(vm: Option<&KiteVirtualMachine>) -> Option<VmPhase> {
        vm?.status.as_ref()?.phase
    }

    async fn until(cluster: &KubeCluster, wanted: impl Fn(Option<&KiteVirtualMachine>) -> bool) {
        until_in(cluster, "default", wanted).await;
    }

    async fn until_in(
        cluster: &KubeCluster,
        namespace: &str,
        wanted: impl Fn(Option<&KiteVirtualMachine>) -> bool,
    ) {
        let key = ObjectKey::namespaced(namespace, "ann");
        let mut last = None;
        for _ in 0..600 {
            last = cluster.get_opt::<KiteVirtualMachine>(&key).await.unwrap();
            if wanted(last.as_ref()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the VM does not become as wanted: {last:#?}");
    }

    fn image() -> KiteImage {
        KiteImage::new(
            "debian-12",
            KiteImageSpec::new(
                ImageSource::http("https://images.example.org/debian-12.qcow2"),
                "5Gi".parse().unwrap(),
            ),
        )
    }
}
