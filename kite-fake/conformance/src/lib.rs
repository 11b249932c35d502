//! What an API server owes to those who build on it, as checks that run
//! against any: the in-memory one, and a real one.
//!
//! A [`Behaviour`] says what holds on Kubernetes 1.36, why it matters, and how to
//! find out. [`run`] tries all of them with a `kube::Client` and gives a
//! [`Report`]. This crate's own tests run them against the in-memory server, in
//! process and over HTTP; where the variable `KITE_CONFORMANCE_KUBECONFIG` names
//! a kubeconfig, they run against the cluster behind it as well, so that the
//! fake and the real thing are held to one standard.
//!
//! ```
//! use std::sync::Arc;
//! use kite_fake::actors::{Rules, control_plane};
//! use kite_conformance::Options;
//! use kite_fake::FakeCluster;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread()
//! #     .enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let cluster = FakeCluster::builder().rbac(true).actors(control_plane()).build()?;
//! let options = Options::default().only("optimistic");
//! let report = kite_conformance::run(cluster.client(), options).await;
//! assert!(report.holds(), "{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On a real cluster a run needs no node and no storage. It makes namespaces and
//! roles of its own, whose names begin with `kite-conformance-` and six random
//! characters, and CRDs whose API groups do
//! (`widgets.kite-conformance-….example.com`). It removes them again, also those
//! of a check that failed, and waits until they are gone; the report names what
//! is left over, if anything. What the client has no right to do is skipped, and
//! the report says so.
//!
//! # Feature flags
//!
//! None; which Kubernetes it is, a feature of `k8s-openapi` says.

mod answer;
mod checks;
mod report;
mod site;
mod watching;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rand::RngExt as _;

pub use answer::Failure;
pub use report::{Outcome, Report, Verdict};

use site::Site;

/// What a check finds.
type Checked = Result<(), Failure>;

/// The part of the API that a behaviour belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Area {
    /// Create, read, update; optimistic concurrency; metadata.
    Objects,
    /// Generation and the status subresource.
    Status,
    /// Server-side apply and `managedFields`.
    Apply,
    /// JSON patch, merge patch, strategic merge patch.
    Patches,
    /// Deletion, finalizers, preconditions.
    Deletion,
    /// Owners and dependents.
    Garbage,
    /// Lists, selectors, pages, consistency.
    Lists,
    /// Watches, bookmarks, streaming lists.
    Watches,
    /// Custom resource definitions.
    Definitions,
    /// Validation, defaulting, pruning and CEL rules of custom resources.
    Schemas,
    /// The life of namespaces.
    Namespaces,
    /// Defaults and admission of built-in types.
    Defaults,
    /// Quotas and limits.
    Quota,
    /// Who may what.
    Access,
    /// Requests that change nothing.
    DryRun,
    /// What the server says about itself.
    Discovery,
    /// Tables, partial metadata, media types.
    Tables,
    /// What bodies look like, letter by letter.
    Texts,
    /// Rules of single built-in kinds.
    Kinds,
    /// Policies that change what is written.
    Policies,
    /// Workloads and their Pods, as far as that needs no node.
    Workloads,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Something that holds on a real API server.
#[derive(Clone, Copy)]
pub struct Behaviour {
    /// A short name, unique among all.
    pub name: &'static str,
    /// What it is about.
    pub area: Area,
    /// What holds.
    pub what: &'static str,
    /// Who relies on it, and for what.
    pub why: &'static str,
    /// Whether it needs the controllers of the control plane beside the API
    /// server (garbage collector, namespaces, quota).
    pub controllers: bool,
    check: fn(Site) -> BoxFuture<'static, Checked>,
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.area, self.name)
    }
}

impl Behaviour {
    /// Finds out whether it holds on the server behind `client`. The names of
    /// all that is made begin with `prefix`; it is removed again, but may still
    /// be terminating when this returns.
    ///
    /// # Errors
    /// It does not hold, the client lacks a right, or the server cannot be
    /// reached.
    pub async fn check(&self, client: Client, prefix: &str) -> Result<(), Failure> {
        let site = Site::new(client, prefix);
        let result = (self.check)(site.clone()).await;
        site.clean_up().await;
        result
    }
}

/// All behaviours, by area.
///
/// ```
/// use kite_conformance::{Area, behaviours};
///
/// assert!(behaviours().iter().any(|it| it.area == Area::Watches));
/// ```
pub fn behaviours() -> Vec<Behaviour> {
    checks::all()
}

/// How to run the checks.
#[derive(Debug, Clone)]
pub struct Options {
    prefix: String,
    only: Option<String>,
    controllers: bool,
    at_once: usize,
    limit: Duration,
}

impl Default for Options {
    /// All behaviours, four at once, with a random name.
    fn default() -> Self {
        let mut random = rand::rng();
        let letters = (0..6).map(|_| char::from(random.random_range(b'a'..=b'z')));
        Self {
            prefix: format!("kite-conformance-{}", letters.collect::<String>()),
            only: None,
            controllers: true,
            at_once: 4,
            limit: Duration::from_secs(120),
        }
    }
}

impl Options {
    /// What the names of all that is made begin with; a label (RFC 1123) of at
    /// most 40 characters. Something random if not set.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only behaviours whose area or name contains this text.
    #[must_use]
    pub fn only(mut self, text: impl Into<String>) -> Self {
        self.only = Some(text.into());
        self
    }

    /// Skips what needs controllers beside the API server.
    #[must_use]
    pub fn without_controllers(mut self) -> Self {
        self.controllers = false;
        self
    }

    /// How many checks run at once; 4 if not set.
    #[must_use]
    pub fn at_once(mut self, checks: usize) -> Self {
        self.at_once = checks.max(1);
        self
    }

    /// How long a check may take before it counts as failed; two minutes if not
    /// set.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

/// A client as [`run`] wants it, for the current context of a kubeconfig: one
/// that does not repeat requests by itself, since the checks look at every
/// answer.
///
/// ```no_run
/// use std::path::Path;
///
/// use kite_conformance::{Options, connect, run};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = connect(Path::new("kubeconfig")).await?;
/// let report = run(client, Options::default()).await;
/// println!("{report}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The file cannot be read, or names no server that can be asked.
pub async fn connect(kubeconfig: &Path) -> Result<Client, ConnectError> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig is missing, unreadable or incomplete.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The client cannot be set up.
    #[error("the client cannot be set up: {0}")]
    Client(#[from] kube::Error),
}

/// Tries the behaviours on the server behind `client`. Needs a tokio runtime
/// with time.
pub async fn run(client: Client, options: Options) -> Report {
    let shared = Arc::new(options);
    let chosen = behaviours().into_iter().filter(|behaviour| {
        let named = |text: &String| format!("{behaviour:?}").contains(text.as_str());
        shared.only.as_ref().is_none_or(named)
    });
    let tried: Vec<(Outcome, Site)> = futures::stream::iter(chosen.enumerate())
        .map(|(index, behaviour)| {
            let site = Site::new(client.clone(), &format!("{}-{index}", shared.prefix));
            try_one(behaviour, site, Arc::clone(&shared))
        })
        .buffered(shared.at_once)
        .collect()
        .await;
    let mut outcomes = Vec::new();
    let mut left_over = Vec::new();
    for (outcome, site) in tried {
        outcomes.push(outcome);
        left_over.extend(site.left_over(Duration::from_secs(60)).await);
    }
    Report {
        outcomes,
        left_over,
    }
}

/// Tries one behaviour, and cleans up whatever came of it.
async fn try_one(behaviour: Behaviour, site: Site, options: Arc<Options>) -> (Outcome, Site) {
    let verdict = if behaviour.controllers && !options.controllers {
        Verdict::Skipped("it needs controllers beside the API server".into())
    } else {
        // A task of its own, so that a panic is a failed check.
        let mut task = tokio::spawn((behaviour.check)(site.clone()));
        let verdict = match tokio::time::timeout(options.limit, &mut task).await {
            Ok(Ok(Ok(()))) => Verdict::Holds,
            Ok(Ok(Err(Failure::NoRight(what)))) => Verdict::Skipped(what),
            Ok(Ok(Err(failure))) => Verdict::Fails(failure.to_string()),
            Ok(Err(panic)) => Verdict::Fails(panic.to_string()),
            Err(_) => {
                task.abort();
                // What it is about to make is to be removed as well.
                let _ = task.await;
                Verdict::Fails(format!("it took longer than {:?}", options.limit))
            }
        };
        site.clean_up().await;
        verdict
    };
    (Outcome { behaviour, verdict }, site)
}
