//! All of an operator, from the kinds that it reconciles.

use std::{fmt, marker::PhantomData, sync::Arc};

use async_trait::async_trait;
use futures::future::{BoxFuture, FutureExt as _, join_all};
use jiff::Timestamp;
use kite_cluster::{Cluster, ClusterError, KubeCluster, Object};
use kube::{Client, Resource as _, runtime::controller::Action};
use tokio_util::sync::CancellationToken;

use crate::{
    CachedCluster, Failure, Kinds, Listener, Metrics, Shared, Watches,
    controller::{drive, watching},
    kinds::Whole,
    leader::ElectionError,
    process::{Process, Term},
    queue::Progress,
};

/// A kind, and how its objects are reconciled.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Object;
    /// Why a reconcile does not come to its end, such as [`Error`](crate::Error).
    type Error: Failure + From<ClusterError>;

    /// Has the controller watch what its objects depend on and what it makes:
    /// `listener.owns::<W>()`, [`Listener::on`].
    fn watches<L: Listener<Self::Object>>(listener: L) -> L {
        listener
    }

    /// How far an object is; where there are many of them, those that are on their way
    /// come before those that are new.
    fn progress(_object: &Self::Object) -> Progress {
        Progress::AtRest
    }

    /// Makes the cluster match `object`. What is read of kinds that the controller hears
    /// of is answered without a request. To write what is there already is a write:
    /// compare first.
    ///
    /// # Errors
    /// Why it did not come to its end. It is tried again, after a pause that grows.
    async fn reconcile<C: Cluster>(
        &self,
        object: Arc<Self::Object>,
        shared: &Shared<C>,
    ) -> Result<Action, Self::Error>;
}

/// An operator, whose kinds are watched and kept as `P` says: each in the whole cluster,
/// and as it is, if that is [`Whole`].
///
/// `examples/own_kinds` is one.
pub struct Operator<P: Kinds = Whole> {
    controllers: Vec<Controller<P>>,
    metrics: Metrics,
    kinds: PhantomData<fn() -> P>,
}

/// Has a controller's kinds watched; gives what runs it.
type Controller<P> = Box<dyn Fn(&mut Watches<P>) -> Work + Send + Sync>;
type Cached = Arc<Shared<CachedCluster<KubeCluster>>>;
type Work = Box<dyn FnOnce(Cached, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// Reconciles the newest that is known of `object`, and counts it.
pub(crate) async fn reconcile<R: Reconciler, C: Cluster>(
    reconciler: &R,
    object: Arc<R::Object>,
    shared: &Shared<CachedCluster<C>>,
) -> Result<Action, R::Error> {
    let given = Arc::clone(&object);
    let done = async {
        match shared.cluster.newest(object).await? {
            Some(newest) => reconciler.reconcile(newest, shared).await,
            None => Ok(Action::await_change()),
        }
    };
    shared.counted(&*given, done).await
}

impl<P: Kinds> fmt::Debug for Operator<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("controllers", &self.controllers.len())
            .finish_non_exhaustive()
    }
}

impl Default for Operator<Whole> {
    fn default() -> Self {
        Self::new()
    }
}

impl Operator<Whole> {
    /// An operator without a controller yet, whose kinds are watched in the whole cluster
    /// and kept as they are.
    pub fn new() -> Self {
        Self::of_kinds()
    }
}

impl<P: Kinds> Operator<P> {
    /// An operator without a controller yet, whose kinds are watched and kept as `P` says.
    pub fn of_kinds() -> Self {
        Self {
            controllers: Vec::new(),
            metrics: Metrics::default(),
            kinds: PhantomData,
        }
    }

    /// With a controller of this kind.
    ///
    /// # Panics
    ///
    /// If `P` has the kind packed: a controller needs whole objects.
    #[must_use]
    pub fn controller<R: Reconciler>(mut self, reconciler: R) -> Self {
        assert!(
            !P::options::<R::Object>().is_packed,
            "{} is packed, and has a controller: have KindOptions::is_packed false for it",
            R::Object::kind(&())
        );
        let reconciler = Arc::new(reconciler);
        self.controllers.push(Box::new(move |watches| {
            let queue = watches.queue(R::progress, |listening| R::watches(listening));
            let reconciler = Arc::clone(&reconciler);
            let reconcile = move |object, shared: Cached| {
                let reconciler = Arc::clone(&reconciler);
                async move { reconcile(&*reconciler, object, &shared).await }
            };
            Box::new(move |shared, stop| drive(queue, stop, shared, reconcile).boxed())
        }));
        self
    }

    /// Counting into `metrics`.
    #[must_use]
    pub fn counted(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Runs the controllers whenever `process` leads, until `shutdown`.
    ///
    /// # Errors
    /// An [`ElectionError`] if the election of `process` has durations that do not fit.
    pub async fn run(
        self,
        client: Client,
        process: Process,
        shutdown: CancellationToken,
    ) -> Result<(), ElectionError> {
        let clock = Arc::new(Timestamp::now);
        let operator = &self;
        process
            .run(client, clock, shutdown, |term| operator.work(term))
            .await
    }

    async fn work(&self, term: Term) {
        let Term {
            client,
            events,
            health,
            stop,
        } = term;
        let cluster = KubeCluster::new(client.clone());
        let mut watches = Watches::<P>::new(client);
        let works: Vec<_> = (self.controllers.iter())
            .map(|controller| controller(&mut watches))
            .collect();
        let metrics = self.metrics.clone();
        watching(watches, health, &self.metrics, stop.clone(), |caches| {
            let shared = Shared::new(cluster)
                .with_metrics(metrics)
                .with_events(events);
            let shared = Arc::new(shared.cached(caches));
            let all = works
                .into_iter()
                .map(move |work| work(Arc::clone(&shared), stop.clone()));
            join_all(all).map(drop)
        })
        .await;
    }
}
