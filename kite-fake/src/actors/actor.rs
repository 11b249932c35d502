//! What an [`Actor`] is: a small level-triggered reconciler.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Client;
use kube::api::DynamicObject;

use super::catalog::Catalog;
use super::kind::{Key, Kind};
use super::mirror::Mirrors;
use super::rules::{Gate, Rules, Stage};
use super::timers::Timers;
use crate::clock::Clock;

/// Which objects an actor hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watches {
    /// Those of these kinds, as far as the server has them.
    Kinds(Vec<Kind>),
    /// Those of every kind that discovery lists with the verbs list and watch.
    Everything,
}

impl Watches {
    /// Whether objects of `kind` are meant.
    pub fn contains(&self, kind: &Kind) -> bool {
        match self {
            Self::Kinds(kinds) => kinds.contains(kind),
            Self::Everything => true,
        }
    }
}

/// Something that was seen on a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// What kind of object.
    pub kind: Kind,
    /// The object as it is, or as it last was; without `managedFields`, which
    /// controllers do not keep either.
    pub object: Arc<DynamicObject>,
    /// Whether it is gone.
    pub gone: bool,
}

impl Change {
    /// The object's key.
    pub fn key(&self) -> Key {
        Key::of(&self.kind, &self.object)
    }
}

/// What follows on a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Nothing, until something that is watched changes.
    Done,
    /// Another reconcile after this time.
    After(Duration),
    /// Another reconcile after this time, as a matter of routine: a cluster that
    /// waits for nothing else is settled.
    Later(Duration),
    /// Another reconcile when the [`Rules`] change.
    Held,
}

/// Why a reconcile failed. It is tried again later.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActorError {
    /// The API server refused, or could not be reached.
    #[error("{doing}: {source}")]
    Api {
        /// What was being done.
        doing: &'static str,
        /// What came back.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object does not look like its kind.
    #[error("{key} cannot be read: {why}")]
    Unreadable {
        /// Which object.
        key: Box<Key>,
        /// What is wrong with it.
        why: String,
    },
}

impl ActorError {
    /// Whether the object changed between being read and being written, so that
    /// the next attempt, with a fresh read, is likely to succeed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. }
            if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 409))
    }

    /// Whether the object was not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Api { source, .. }
            if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 404))
    }

    /// What the API server said, if it was that which refused.
    pub fn refusal(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Unreadable { .. } => None,
        }
    }
}

/// What an actor works with.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Time for timestamps; delays go by tokio's clock.
    pub clock: Arc<dyn Clock>,
    /// Delays and failures.
    pub rules: Arc<Rules>,
    /// Kinds that the server has, as last discovered.
    pub catalog: Catalog,
    pub(super) timers: Arc<Timers>,
    /// What watches have shown.
    pub(super) mirrors: Mirrors,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A context for one actor's private use.
    pub fn new(client: Client, clock: Arc<dyn Clock>, rules: Arc<Rules>, catalog: Catalog) -> Self {
        Self {
            client,
            clock,
            rules,
            catalog,
            timers: Arc::default(),
            mirrors: Arc::default(),
        }
    }

    /// The same, with what these watches show.
    pub(crate) fn mirrored(mut self, mirrors: Mirrors) -> Self {
        self.mirrors = mirrors;
        self
    }

    /// The time, as the status of objects writes it.
    pub fn now(&self) -> String {
        crate::clock::rfc3339(self.clock.now())
    }

    /// Whether `object` may now pass `stage`. The delay that the rules set runs
    /// from the first time that this is asked for the same `round`, a word that
    /// tells several passings of one stage apart.
    pub fn gate(&self, stage: Stage, object: &DynamicObject, round: &str) -> Gate {
        let (delay, then) = self.rules.effect(stage, &object.metadata);
        let Some(then) = then else {
            return Gate::Held;
        };
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        match self.timers.remaining(stage, uid, round, delay) {
            Some(rest) => Gate::Wait(rest),
            None => then,
        }
    }

    /// How much is left of `pause`, which runs from the first time that this is asked
    /// for the same stage and round; `None` when nothing is.
    pub(super) fn pause(
        &self,
        stage: Stage,
        object: &DynamicObject,
        round: &str,
        pause: Duration,
    ) -> Option<Duration> {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        self.timers.remaining(stage, uid, round, pause)
    }
}

/// A part of a cluster that watches objects and writes others: level-triggered,
/// so that what it does depends on what there is, never on how it came about.
///
/// ```
/// use async_trait::async_trait;
/// use kite_fake::actors::{Actor, ActorError, Change, Context, Key, Next, Watches, kind};
///
/// /// Counts the Pods of each namespace on the log.
/// #[derive(Debug)]
/// struct PodCounter;
///
/// #[async_trait]
/// impl Actor for PodCounter {
///     fn name(&self) -> &'static str {
///         "pod-counter"
///     }
///     fn watches(&self) -> Watches {
///         Watches::Kinds(vec![kind::POD])
///     }
///     fn keys(&self, change: &Change) -> Vec<Key> {
///         let namespace = change.object.metadata.namespace.as_deref();
///         namespace.map(|name| Key::new(&kind::NAMESPACE, None, name)).into_iter().collect()
///     }
///     async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
///         let pods = kind::POD.api(&context.client, Some(&key.name));
///         let count = pods.list(&Default::default()).await.map_or(0, |list| list.items.len());
///         tracing::info!(namespace = key.name, count);
///         Ok(Next::Done)
///     }
/// }
/// ```
#[async_trait]
pub trait Actor: Send + Sync + 'static {
    /// Its name: the field manager of what it writes, and a word in logs.
    fn name(&self) -> &'static str;

    /// What it hears of.
    fn watches(&self) -> Watches;

    /// What to reconcile after `change`. An actor may remember here which
    /// objects refer to which others; it must not decide anything else by it.
    fn keys(&self, change: &Change) -> Vec<Key>;

    /// Keys to reconcile once at the start, without any change.
    fn initial_keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Makes what `key` stands for as it should be. It is never called for the
    /// same actor twice at a time. In a settled cluster it writes nothing.
    ///
    /// # Errors
    /// Why it failed: it is called again later.
    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError>;

    /// Lets go of what lives outside the API server when the cluster ends.
    async fn stop(&self) {}
}
