//! [`FakeCluster`]: the server with its clock, its clients and its sockets.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use parking_lot::{MappedMutexGuard, MutexGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::actors::{Actor, Actors, Rules};
use crate::auth::Identity;
use crate::build_error::BuildError;
use crate::clock::Clock;
use crate::desk::{Desk, Unserved};
use crate::endpoint::Endpoint;
use crate::extension::Extension;
use crate::hooks::{Caller, Said};
use crate::server::{self, Answer, ApiServer, Ask, RequestLog, Webhook};
use crate::state::Snapshot;
use crate::status::Status;
use crate::yaml;

struct Inner {
    server: Desk,
    clock: Arc<dyn Clock>,
    admin_token: String,
    actors: OnceLock<Actors>,
    caller: Caller,
    stop: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An in-memory cluster. Clones are handles to the same one.
#[derive(Clone)]
pub struct FakeCluster {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for FakeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeCluster")
            .field("revision", &self.server().store().revision())
            .finish_non_exhaustive()
    }
}

impl FakeCluster {
    pub(crate) fn new(mut server: ApiServer, clock: Arc<dyn Clock>) -> Self {
        server.now = clock.now();
        let admin_token = server.issue_token(Identity::admin());
        Self {
            inner: Arc::new(Inner {
                server: Desk::new(server),
                clock,
                admin_token,
                actors: OnceLock::new(),
                caller: Caller::default(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// The administrator's bearer token.
    pub fn admin_token(&self) -> &str {
        &self.inner.admin_token
    }

    /// Lets the administrator's token in, whatever state was taken up.
    pub(crate) fn admit_admin(&self, server: &mut ApiServer) {
        let now = self.now();
        let token = &self.inner.admin_token;
        server.tokens.insert(token, Identity::admin(), now, None);
    }

    /// A kubeconfig for the administrator of the server at `at`: a
    /// [`Served`](crate::serve::Served), or a URL.
    pub fn kubeconfig(&self, at: impl Into<Endpoint>) -> String {
        let Endpoint { url, authority } = at.into();
        let mut cluster = serde_json::json!({"server": url});
        if let Some(authority) = authority {
            cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
        } else if url.starts_with("http://") {
            // Without TLS there is nothing to verify, but some clients want to be told.
            cluster["insecure-skip-tls-verify"] = true.into();
        }
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kite-fake", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.admin_token()}}],
            "contexts": [{"name": "kite-fake", "context": {"cluster": "kite-fake", "user": "admin"}}],
            "current-context": "kite-fake",
        });
        yaml::text(&config).unwrap_or_else(|_| config.to_string())
    }

    /// Writes the [`kubeconfig`](Self::kubeconfig) to a file that only its owner
    /// reads: for `kubectl`, and other processes.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("kubeconfig");
    /// let cluster = kite_fake::FakeCluster::builder().build()?;
    /// let served = cluster.serve(([127, 0, 0, 1], 0).into()).await?;
    /// cluster.write_kubeconfig(&path, &served)?;
    ///
    /// let config = kube::config::Kubeconfig::read_from(&path)?;
    /// let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    /// let version = kube::Client::try_from(config)?.apiserver_version().await?;
    /// assert_eq!(version.major, "1");
    /// # cluster.shut_down();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(
        &self,
        path: &std::path::Path,
        at: impl Into<Endpoint>,
    ) -> std::io::Result<()> {
        use std::io::Write as _;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(path)?
            .write_all(self.kubeconfig(at).as_bytes())
    }

    /// What was asked so far; see [`RequestLog::mark`].
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::{Api, api::ListParams};
    ///
    /// let cluster = kite_fake::FakeCluster::builder().build()?;
    /// let mark = cluster.log().mark();
    /// Api::<Namespace>::all(cluster.client()).list(&ListParams::default()).await?;
    /// assert_eq!(cluster.log().since(&mark).to_string(), "list namespaces: 1\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log(&self) -> MappedMutexGuard<'_, RequestLog> {
        MutexGuard::map(self.server(), ApiServer::log_mut)
    }

    /// Lets an extension answer all paths below `prefix`, such as
    /// `/apis/subresources.example.com/`.
    pub fn extend(&self, prefix: &str, extension: Arc<dyn Extension>) {
        self.server().extend(prefix, extension);
    }

    /// Asks `webhook` about every write from now on.
    pub fn admit_by(&self, webhook: Arc<dyn Webhook>) {
        self.server().admit_by(webhook);
    }

    /// The server itself, locked.
    pub fn server(&self) -> MutexGuard<'_, ApiServer> {
        self.inner.server.lock()
    }

    /// The time as the cluster sees it.
    pub fn now(&self) -> jiff::Timestamp {
        self.inner.clock.now()
    }

    /// Where the cluster's time comes from.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Waits until the actors that were started with the cluster have done all
    /// that what was written so far asks for; false if that did not happen within
    /// `limit`. Without actors there is nothing to wait for.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// use std::time::Duration;
    /// use kite_fake::{FakeCluster, actors::control_plane};
    ///
    /// let cluster = FakeCluster::builder().actors(control_plane()).build()?;
    /// assert!(cluster.settled(Duration::from_secs(60)).await);
    /// assert!(cluster.dump().contains("# ServiceAccount default/default\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn settled(&self, limit: Duration) -> bool {
        match self.actors() {
            Some(actors) => actors.settled(limit).await,
            None => true,
        }
    }

    /// Waits until `holds`, which is asked again after each change of the cluster; false
    /// if that did not happen within `limit`. For what a test's own controller does, of
    /// which [`settled`](Self::settled) knows nothing.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kite_fake::FakeCluster;
    /// use kube::Api;
    /// use serde_json::json;
    ///
    /// let cluster = FakeCluster::builder().build()?;
    /// let other = cluster.clone();
    /// tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_secs(3600)).await;
    ///     let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}});
    ///     other.create(map)
    /// });
    /// let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    /// let is_there = async || maps.get_opt("late").await.is_ok_and(|map| map.is_some());
    /// assert!(!cluster.until(Duration::from_secs(60), is_there).await);
    /// assert!(cluster.until(Duration::from_secs(3600), is_there).await);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn until(&self, limit: Duration, holds: impl AsyncFn() -> bool) -> bool {
        /// How often it is looked whether anything has changed.
        const LOOK: Duration = Duration::from_millis(5);
        let waiting = async {
            loop {
                let revision = self.server().store().revision();
                if holds().await {
                    return;
                }
                while self.server().store().revision() == revision {
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        tokio::time::timeout(limit, waiting).await.is_ok()
    }

    /// The actors that were started with the cluster.
    pub fn actors(&self) -> Option<&Actors> {
        self.inner.actors.get()
    }

    pub(crate) fn start_actors(&self, actors: Vec<Arc<dyn Actor>>, rules: &Arc<Rules>) {
        let client = self.control_plane_client();
        self.inner
            .actors
            .get_or_init(|| Actors::spawn(&client, self.clock(), rules, actors, self.stopped()));
    }

    /// Fires when the cluster is shut down: watches, actors and servers end.
    pub fn stopped(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Ends watches, actors and servers.
    pub fn shut_down(&self) {
        self.inner.stop.cancel();
    }

    /// Answers one request, without waiting. The sender is who the request's
    /// extensions say ([`Identity`]), or its credentials.
    pub fn handle(&self, request: Request<Bytes>) -> Answer {
        let now = self.now();
        let (answer, unwritten) = self.server().begin(request, now);
        // Others are served while a long list is written.
        server::finish(answer, unwritten)
    }

    /// [`FakeCluster::handle`] for tasks: none of their threads sleeps until it
    /// is the request's turn.
    pub(crate) async fn answer(&self, request: Request<Bytes>) -> Answer {
        // When it is its turn: the server's time does not go back.
        let clock = Arc::clone(&self.inner.clock);
        let asked = self.ask(move |server| server.begin(request, clock.now()));
        Self::finished(asked.await)
    }

    /// Goes on with a request that asked webhooks.
    pub(crate) async fn answer_asked(&self, ask: Ask, said: Vec<Said>) -> Answer {
        let clock = Arc::clone(&self.inner.clock);
        let asked = self.ask(move |server| server.go_on(ask, said, clock.now()));
        Self::finished(asked.await)
    }

    fn finished(begun: Result<server::Begun, Unserved>) -> Answer {
        match begun {
            Ok((answer, unwritten)) => server::finish(answer, unwritten),
            Err(Unserved) => Answer::Response(server::status_response(&Status::internal(
                "the request was not served: the server panicked",
            ))),
        }
    }

    /// Who makes the calls to webhooks.
    pub(crate) fn caller(&self) -> &Caller {
        &self.inner.caller
    }

    /// What `job` gives, done by the server when it is its turn.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ApiServer) -> R + Send + 'static,
    ) -> Result<R, Unserved> {
        self.inner.server.ask(job).await
    }

    /// Creates an object as the administrator, without waiting: a typed one, or
    /// JSON.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use kite_fake::FakeCluster;
    /// use serde_json::json;
    ///
    /// let cluster = FakeCluster::builder().build()?;
    /// let mut account = ServiceAccount::default();
    /// account.metadata.name = Some("robot".into());
    /// cluster.create(&account)?;
    /// let again = cluster.create(&account);
    /// assert!(again.unwrap_err().to_string().contains("already exists"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the server says against it.
    pub fn create(&self, object: impl serde::Serialize) -> Result<(), BuildError> {
        match serde_json::to_value(object) {
            Ok(object) => self.create_value(&object),
            Err(error) => Err(BuildError::Unreadable {
                what: "an object".to_owned(),
                why: error.to_string(),
            }),
        }
    }

    fn create_value(&self, object: &Value) -> Result<(), BuildError> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let what = format!(
            "{} {}",
            text(&object["kind"]),
            text(&object["metadata"]["name"])
        );
        let unreadable = |why: &str| BuildError::Unreadable {
            what: what.clone(),
            why: why.to_owned(),
        };
        let path = self
            .collection_path(object)
            .ok_or_else(|| unreadable("no such kind is served"))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, "kite-fake")
            .extension(Identity::admin())
            .body(Bytes::from(object.to_string()))
            .map_err(|e| unreadable(&e.to_string()))?;
        match self.handle(request) {
            Answer::Response(r) if r.status().is_success() => Ok(()),
            Answer::Response(r) => Err(BuildError::Refused {
                what,
                why: message(&r),
            }),
            Answer::Ask(_) => Err(BuildError::Refused {
                what,
                why: "a webhook is to be asked about it, which takes a client".to_owned(),
            }),
            Answer::Watch(_) | Answer::NotYet(_) | Answer::Extension(..) => {
                Err(unreadable("a create was not answered as one"))
            }
        }
    }

    /// Goes on exactly where a state ended.
    pub(crate) fn resume(&self, snapshot: &Snapshot) {
        let mut server = self.server();
        server.resume(snapshot);
        self.admit_admin(&mut server);
    }

    /// Whether there is an object of that kind, namespace and name.
    pub(crate) fn holds(&self, object: &Value) -> bool {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let name = text(&object["metadata"]["name"]);
        let Some(path) = self.collection_path(object) else {
            return false;
        };
        let request = Request::builder()
            .uri(format!("{path}/{name}"))
            .extension(Identity::admin())
            .body(Bytes::new());
        let answer = request.map(|request| self.handle(request));
        !name.is_empty() && matches!(answer, Ok(Answer::Response(r)) if r.status().is_success())
    }

    /// Path to which an object is posted.
    fn collection_path(&self, object: &Value) -> Option<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let api = text(&object["apiVersion"]);
        let (group, version) = api.split_once('/').unwrap_or(("", api.as_str()));
        let resource = self
            .server()
            .registry()
            .by_kind(group, version, &text(&object["kind"]))
            .cloned()?;
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if !resource.namespaced {
            return Some(format!("{root}/{}", resource.plural));
        }
        let given = text(&object["metadata"]["namespace"]);
        let namespace = if given.is_empty() { "default" } else { &given };
        Some(format!("{root}/namespaces/{namespace}/{}", resource.plural))
    }
}

fn message(response: &Response<Bytes>) -> String {
    serde_json::from_slice::<Value>(response.body())
        .ok()
        .and_then(|v| v["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(response.body()).into_owned())
}
