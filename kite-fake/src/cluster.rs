//! [`FakeCluster`]: the server with its clock, its clients and its sockets.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, TokioClock};
use crate::server::{Answer, ApiServer};
use crate::service::FakeService;

/// What went wrong while a cluster was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A document is no YAML, or an object lacks what its path needs.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// Which input.
        what: String,
        /// Why.
        why: String,
    },
    /// The server refused a start object.
    #[error("the server refused {what}: {why}")]
    Refused {
        /// Kind and name.
        what: String,
        /// The message of its `Status`.
        why: String,
    },
}

/// Settings of a [`FakeCluster`].
#[derive(Debug)]
pub struct Builder {
    crds: Vec<Value>,
    objects: Vec<Value>,
    seed: u64,
    history: usize,
    clock: Option<Arc<dyn Clock>>,
    rbac: bool,
    error: Option<BuildError>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            crds: Vec::new(),
            objects: Vec::new(),
            seed: 0,
            history: 4096,
            clock: None,
            rbac: false,
            error: None,
        }
    }
}

fn documents(what: &str, yaml: &str) -> Result<Vec<Value>, BuildError> {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|e| BuildError::Unreadable {
            what: what.to_owned(),
            why: e.to_string(),
        })?;
    Ok(all.into_iter().filter(|d| !d.is_null()).collect())
}

impl Builder {
    /// Installs CRDs before anything else.
    #[must_use]
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        for crd in crds {
            match serde_json::to_value(crd) {
                Ok(value) => self.crds.push(value),
                Err(e) => self.fail("a CRD", &e.to_string()),
            }
        }
        self
    }

    /// Installs the CRDs of a YAML file's text (several documents are fine).
    #[must_use]
    pub fn crds_yaml(mut self, yaml: &str) -> Self {
        match documents("CRD YAML", yaml) {
            Ok(all) => self.crds.extend(all),
            Err(e) => self.error = self.error.or(Some(e)),
        }
        self
    }

    /// Creates an object at the start, after the CRDs.
    #[must_use]
    pub fn object(mut self, object: impl serde::Serialize) -> Self {
        match serde_json::to_value(object) {
            Ok(value) => self.objects.push(value),
            Err(e) => self.fail("a start object", &e.to_string()),
        }
        self
    }

    /// Creates the objects of a YAML text at the start.
    #[must_use]
    pub fn objects_yaml(mut self, yaml: &str) -> Self {
        match documents("start objects", yaml) {
            Ok(all) => self.objects.extend(all),
            Err(e) => self.error = self.error.or(Some(e)),
        }
        self
    }

    /// Seed of uids, generated names and tokens; 0 if not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where timestamps come from; tokio's clock from the system time on if not set.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How many events each resource remembers for watches; 4096 if not set.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// Whether RBAC decides; otherwise every authenticated request is allowed.
    #[must_use]
    pub fn rbac(mut self, on: bool) -> Self {
        self.rbac = on;
        self
    }

    fn fail(&mut self, what: &str, why: &str) {
        self.error.get_or_insert_with(|| BuildError::Unreadable {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }

    /// The cluster, with its default namespaces, CRDs and start objects.
    ///
    /// # Errors
    /// What could not be read, or what the server refused.
    pub fn build(self) -> Result<FakeCluster, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let cluster = FakeCluster {
            inner: Arc::new(Inner {
                server: Mutex::new(ApiServer::new(self.seed, self.history)),
                clock: self
                    .clock
                    .unwrap_or_else(|| Arc::new(TokioClock::from_system())),
                stop: CancellationToken::new(),
            }),
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            cluster.create(&serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}
            }))?;
        }
        for object in self.crds.iter().chain(&self.objects) {
            cluster.create(object)?;
        }
        // Watches of what was before the start are told that it is too old.
        cluster.server().compact();
        Ok(cluster)
    }
}

#[derive(Debug)]
struct Inner {
    server: Mutex<ApiServer>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

/// An in-memory cluster. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct FakeCluster {
    inner: Arc<Inner>,
}

impl FakeCluster {
    /// Settings to start from.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client with full rights, in process. Needs a running tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The tower service behind [`client`](Self::client), to put layers around.
    pub fn service(&self) -> FakeService {
        FakeService::new(self.clone())
    }

    /// The server itself, locked.
    pub fn server(&self) -> MutexGuard<'_, ApiServer> {
        self.inner.server.lock()
    }

    /// The clock that the cluster goes by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock)
    }

    /// The time as the cluster sees it.
    pub fn now(&self) -> jiff::Timestamp {
        self.inner.clock.now()
    }

    /// Fires when the cluster is shut down: watches and servers end.
    pub fn stopped(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Ends watches and servers.
    pub fn shut_down(&self) {
        self.inner.stop.cancel();
    }

    /// Answers one request, without waiting.
    pub fn handle(&self, request: Request<Bytes>) -> Answer {
        let now = self.now();
        self.server().handle(request, now)
    }

    /// Creates an object as the administrator.
    ///
    /// # Errors
    /// What the server says against it.
    pub fn create(&self, object: &Value) -> Result<(), BuildError> {
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
        let api = text(&object["apiVersion"]);
        let (group, version) = api.split_once('/').unwrap_or(("", api.as_str()));
        let resource = self
            .server()
            .registry()
            .by_kind(group, version, &text(&object["kind"]))
            .cloned()
            .ok_or_else(|| unreadable("no such kind is served"))?;
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let path = if resource.namespaced {
            let given = text(&object["metadata"]["namespace"]);
            let namespace = if given.is_empty() { "default" } else { &given };
            format!("{root}/namespaces/{namespace}/{}", resource.plural)
        } else {
            format!("{root}/{}", resource.plural)
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, "kite-fake")
            .body(Bytes::from(object.to_string()))
            .map_err(|e| unreadable(&e.to_string()))?;
        match self.handle(request) {
            Answer::Response(r) if r.status().is_success() => Ok(()),
            Answer::Response(r) => Err(BuildError::Refused {
                what,
                why: message(&r),
            }),
            Answer::Watch(_) => Err(unreadable("it was answered with a watch")),
        }
    }
}

fn message(response: &Response<Bytes>) -> String {
    serde_json::from_slice::<Value>(response.body())
        .ok()
        .and_then(|v| v["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(response.body()).into_owned())
}
