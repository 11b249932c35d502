//! The cluster around the reconcilers.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{ImageSource, KiteImage, KiteImageSpec, KitePlatform, KitePlatformSpec},
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::play;
use kite_reconcile::{Context, Metrics, metrics};
use kube::{Client, api::ObjectMeta};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::brief;

/// The image that all VMs are made from.
pub const IMAGE: &str = "debian-12";
/// Events that the API server remembers of each kind, for watches that fall
/// behind: as etcd does, minutes of history.
const HISTORY: usize = 200_000;

/// A runtime with two threads, as much as the targets grant.
pub fn two_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// A runtime that runs on this thread alone.
pub fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// An API server and all that plays the rest of a cluster.
pub struct World {
    pub fake: FakeCluster,
    pub stop: CancellationToken,
    _actors: Option<Actors>,
}

/// What plays the rest of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Everything that there is to play.
    Whole,
    /// `KubeVirt` and CDI, in as few words as Kite needs.
    Brief,
}

impl World {
    /// Starts it. Needs a runtime.
    pub fn start(cast: Cast) -> Self {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(kite_core::gateway_api::crds())
            .crds(kite_core::cert_manager::crds())
            .history(HISTORY)
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let actors = match cast {
            Cast::Whole => Some(play(&fake, &Arc::new(Rules::instant()), false, &stop)),
            Cast::Brief => {
                brief::play(&fake.client(), &stop);
                None
            }
        };
        Self {
            fake,
            stop,
            _actors: actors,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        self.fake.shut_down();
    }
}

/// What an administrator makes once: Kite's namespaces, the platform, an image.
pub async fn furnish(client: &Client) {
    let cluster = KubeCluster::new(client.clone());
    for name in ["kite", "kite-images"] {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        cluster.create(&namespace).await.unwrap();
    }
    let platform = KitePlatform::new(
        "default",
        KitePlatformSpec {
            base_domain: Some("vm.example.org".to_owned()),
            ..KitePlatformSpec::default()
        },
    );
    cluster.create(&platform).await.unwrap();
    let image = KiteImage::new(
        IMAGE,
        KiteImageSpec::new(
            ImageSource::http("https://images.example.org/debian-12.qcow2"),
            "5Gi".parse().unwrap(),
        ),
    );
    cluster.create(&image).await.unwrap();
}

/// Kite's controllers at work, as a binary runs them.
pub struct Controllers {
    pub metrics: Metrics,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Controllers {
    /// Starts all of them with `client`.
    pub fn start(client: Client) -> Self {
        let metrics = metrics();
        let stop = CancellationToken::new();
        let context = Context::new(KubeCluster::new(client.clone()))
            .with_clock(Timestamp::now)
            .with_metrics(metrics.clone());
        let task = tokio::spawn(kite_reconcile::run(client, context, stop.clone()));
        Self {
            metrics,
            stop,
            task,
        }
    }

    /// Ends them.
    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Lines of `metrics` that begin with one of `names`.
pub fn lines(metrics: &Metrics, names: &[&str]) -> Vec<String> {
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text.lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .map(str::to_owned)
        .collect()
}
