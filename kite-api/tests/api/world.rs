//! A cluster in memory with one or two replicas of the API before it.

use std::{net::SocketAddr, time::Duration};

use ::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::{Router, body::Body, extract::ConnectInfo};
use http_body_util::BodyExt as _;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{Namespace, Secret},
};
use kite_api::{ApiState, ApiStateBuilder, router};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, ObjectKey},
    crd::{
        self, AccessLevel, ImageSource, KiteImage, KiteImageSpec, KitePlatform, KitePlatformSpec,
        KiteSession, KiteUser, KiteUserSpec, KiteUserStatus, KiteVirtualMachine, SignUp, UserPhase,
    },
    names,
    password::PasswordHash,
};
use kite_fake::{FakeCluster, service::FakeService};
use kite_fake_kubevirt::kubevirt_definitions;
use kite_render::{
    User, grant,
    install::{Installation, Manifest, Process},
};
use kube::api::ListParams;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// The password of everybody in these tests.
pub const PASSWORD: &str = "correct horse battery";
/// How long anything may take before a test gives up: long, for a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The bootstrap token.
pub const TOKEN: &str = "a-token-that-nobody-guesses";

pub struct World {
    pub fake: FakeCluster,
    pub cluster: KubeCluster,
    pub state: ApiState,
    pub router: Router,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The client of an API that runs under its own account, as `kite install` gives it: what
/// its roles lack is refused here, too.
pub fn as_installed(fake: &FakeCluster) -> kube::Client {
    kube::Client::new(service_as_installed(fake), "default")
}

/// What is behind that client, to put layers around.
pub fn service_as_installed(fake: &FakeCluster) -> FakeService {
    fake.service_as(&Process::Api.username(names::PLATFORM_NAMESPACE))
}

/// The roles of an installation, and who has them.
fn give_rights(fake: &FakeCluster) {
    let installation = Installation {
        terminals: true,
        ..Installation::default()
    };
    let kept = |manifest: &Manifest| {
        let namespace = manifest.metadata().namespace.as_deref();
        let is_of_images = namespace.is_some_and(|it| it != names::PLATFORM_NAMESPACE);
        manifest
            .api_version()
            .starts_with("rbac.authorization.k8s.io/")
            && !is_of_images
    };
    for manifest in installation.manifests().into_iter().filter(kept) {
        fake.create(serde_json::to_value(manifest).unwrap())
            .unwrap();
    }
}

impl World {
    /// An empty platform where everybody may sign up, with one image.
    pub async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub async fn with(settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder) -> Self {
        let fake = FakeCluster::builder()
            .rbac(true)
            .crds(crd::all())
            .crds(kubevirt_definitions())
            .build()
            .unwrap();
        let cluster = KubeCluster::new(fake.client());
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": names::PLATFORM_NAMESPACE}}))
                .unwrap();
        cluster.create(&namespace).await.unwrap();
        give_rights(&fake);
        let builder = ApiState::builder(as_installed(&fake))
            .hashing_concurrency(2)
            .namespace_wait(Duration::from_millis(200));
        let state = settings(builder).build().await.unwrap();
        state.synced().await;
        let world = Self {
            router: router(state.clone()),
            fake,
            cluster,
            state,
        };
        world.platform(SignUp::Open).await;
        world
            .cluster
            .create(&KiteImage::new(
                "debian-12",
                KiteImageSpec {
                    display_name: Some("Debian 12".to_owned()),
                    ..KiteImageSpec::new(
                        ImageSource::http("https://images.test/debian-12.qcow2"),
                        "2Gi".parse().unwrap(),
                    )
                },
            ))
            .await
            .unwrap();
        let images = &world.state.caches().images;
        images
            .wait_for(PATIENCE, |images| {
                images.get(&ObjectKey::cluster("debian-12"))
            })
            .await
            .unwrap();
        world
    }

    /// Has the API server refuse what a policy of this specification denies.
    pub fn refuse(&self, spec: &Value) {
        let named = |spec: &Value| json!({"metadata": {"name": "of-the-cluster"}, "spec": spec});
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(named(spec)).unwrap();
        let binding = json!({"policyName": "of-the-cluster", "validationActions": ["Deny"]});
        let binding: ValidatingAdmissionPolicyBinding =
            serde_json::from_value(named(&binding)).unwrap();
        self.fake.create(&policy).unwrap();
        self.fake.create(&binding).unwrap();
    }

    /// What the API sends its requests to, to put layers around.
    pub fn service(&self) -> FakeService {
        service_as_installed(&self.fake)
    }

    /// Another replica of the API before the same cluster.
    pub async fn replica(&self) -> Router {
        self.replica_with(|builder| builder).await
    }

    pub async fn replica_with(
        &self,
        settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder,
    ) -> Router {
        let builder = ApiState::builder(as_installed(&self.fake));
        let state = settings(builder).build().await.unwrap();
        state.synced().await;
        router(state)
    }

    /// Sets who may sign up.
    pub async fn platform(&self, sign_up: SignUp) {
        let platform = KitePlatform::new(
            names::PLATFORM,
            KitePlatformSpec {
                sign_up,
                base_domain: Some("vm.test".to_owned()),
                ..KitePlatformSpec::default()
            },
        );
        let written = self
            .cluster
            .apply(kite_core::managers::CONTROLLER, &platform)
            .await
            .unwrap();
        self.state.caches().platforms.caught_up_with(&written).await;
    }

    /// Puts the bootstrap Secret there.
    /// Changes settings as an administrator of the cluster does, who has `kubectl`.
    pub async fn administer(&self, spec: Value) {
        let key = ObjectKey::cluster(names::PLATFORM);
        let manager = FieldManager::new("kubectl");
        let patch = json!({ "spec": spec });
        let edited: KitePlatform = self
            .cluster
            .merge_patch(manager, &key, &patch)
            .await
            .unwrap();
        self.state.caches().platforms.caught_up_with(&edited).await;
    }

    pub async fn bootstrap_secret(&self) {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": names::BOOTSTRAP_SECRET, "namespace": names::PLATFORM_NAMESPACE},
            "stringData": {names::BOOTSTRAP_TOKEN_KEY: TOKEN},
        }))
        .unwrap();
        self.cluster.create(&secret).await.unwrap();
    }

    pub async fn find_bootstrap_secret(&self) -> Option<Secret> {
        let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::BOOTSTRAP_SECRET);
        self.cluster.get_opt(&key).await.unwrap()
    }

    /// An account as `kubectl` would make it, with its namespace, signed in.
    pub async fn user(&self, name: &str, level: AccessLevel) -> String {
        // Hashing is slow by intent; one hash does for all of a test run.
        static HASH: std::sync::LazyLock<PasswordHash> =
            std::sync::LazyLock::new(|| PasswordHash::create(PASSWORD).unwrap());
        let user = KiteUser::new(
            name,
            KiteUserSpec {
                access_level: level,
                password_hash: Some(HASH.clone()),
                ..KiteUserSpec::new(name)
            },
        );
        self.cluster.create(&user).await.unwrap();
        self.prepare_namespace(name).await;
        self.sign_in(name).await
    }

    /// What the controller does for a new account.
    pub async fn prepare_namespace(&self, name: &str) {
        let namespace = names::user_namespace(name);
        let object: Namespace =
            serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        self.cluster.create(&object).await.unwrap();
        let user: KiteUser = self.cluster.get(&ObjectKey::cluster(name)).await.unwrap();
        let grant = Process::Api.grant(names::PLATFORM_NAMESPACE).unwrap();
        let binding = grant::binding(&User::of(&user).unwrap(), &grant);
        self.cluster.create(&binding).await.unwrap();
        let mut status = KiteUser::new(name, KiteUserSpec::new(name));
        status.status = Some(KiteUserStatus {
            phase: Some(UserPhase::Ready),
            namespace: Some(namespace),
            ..KiteUserStatus::default()
        });
        let written = self
            .cluster
            .apply_status(kite_core::managers::CONTROLLER, &status)
            .await
            .unwrap();
        self.state.caches().users.caught_up_with(&written).await;
    }

    pub async fn sign_in(&self, name: &str) -> String {
        let body = json!({"username": name, "password": PASSWORD});
        let answer = self.post("/api/v1/auth/sign-in", "", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text("/token").to_owned()
    }

    /// Lets the proof of who one is that each session has be an hour old.
    pub async fn age_proofs(&self) {
        let all = self.cluster.list(None, &ListParams::default()).await;
        let all: Vec<KiteSession> = all.unwrap().items;
        let hour_ago = (jiff::Timestamp::now() - jiff::Span::new().hours(1)).to_string();
        for session in all {
            let patch = json!({"spec": {"provedAt": &hour_ago}});
            let key = ObjectKey::of(&session);
            let manager = FieldManager::new("test");
            let edited: KiteSession = self
                .cluster
                .merge_patch(manager, &key, &patch)
                .await
                .unwrap();
            self.state.caches().sessions.caught_up_with(&edited).await;
        }
    }

    /// What the replica shows to Prometheus.
    pub fn metrics(&self) -> String {
        metrics_of(&self.state)
    }

    pub async fn get(&self, path: &str, token: &str) -> Answer {
        self.ask(Method::GET, path, token, None).await
    }

    pub async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, token, Some(body)).await
    }

    pub async fn patch(&self, path: &str, token: &str, body: Value) -> Answer {
        self.ask(Method::PATCH, path, token, Some(body)).await
    }

    pub async fn delete(&self, path: &str, token: &str) -> Answer {
        self.ask(Method::DELETE, path, token, None).await
    }

    async fn ask(&self, method: Method, path: &str, token: &str, body: Option<Value>) -> Answer {
        send(&self.router, request(method, path, token, body)).await
    }

    /// The VM as the API server has it.
    pub async fn vm(&self, owner: &str, name: &str) -> Option<KiteVirtualMachine> {
        let key = ObjectKey::namespaced(names::user_namespace(owner), name);
        self.cluster.get_opt(&key).await.unwrap()
    }

    /// Waits until the API has seen something.
    pub async fn until(&self, what: &str, mut check: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !check().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let come = tokio::time::timeout(PATIENCE, waiting).await;
        come.unwrap_or_else(|_| panic!("never: {what}"));
    }
}

/// What a replica shows to Prometheus.
pub fn metrics_of(state: &ApiState) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    state.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

/// A request from 192.0.2.1, with a bearer token unless it is empty.
pub fn request(method: Method, path: &str, token: &str, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.extension(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4000))));
    match body {
        Some(body) => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

pub async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let answer = Answer {
        status: parts.status,
        headers: parts.headers,
        body: serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes))),
    };
    answer.assert_shape();
    answer
}

impl Answer {
    /// What must hold for every answer there is.
    fn assert_shape(&self) {
        assert!(self.headers.contains_key("x-request-id"), "{self:?}");
        assert!(self.headers.contains_key("content-security-policy"));
        if self.status.is_client_error() || self.status.is_server_error() {
            assert_eq!(
                self.headers[header::CONTENT_TYPE],
                "application/problem+json",
                "{self:?}"
            );
            assert_eq!(self.body["status"], self.status.as_u16());
            for field in ["type", "title", "detail"] {
                assert!(!self.text(&format!("/{field}")).is_empty(), "{self:?}");
            }
        }
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no text at {pointer} in {self:?}"))
    }

    /// Asserts a problem of this kind.
    #[track_caller]
    pub fn is_problem(&self, status: u16, kind: &str) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.text("/type"), format!("urn:kite:problem:{kind}"));
        self
    }

    /// The fields that the problem names, in order.
    pub fn fields(&self) -> Vec<&str> {
        self.body["errors"]
            .as_array()
            .map(|errors| errors.iter().filter_map(|e| e["field"].as_str()).collect())
            .unwrap_or_default()
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<&str> {
        assert_eq!(self.status, 200, "{self:?}");
        self.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["name"].as_str())
            .collect()
    }
}
