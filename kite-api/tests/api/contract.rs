//! The OpenAPI document against the API, by a program that knows nothing else
//! of it: schemathesis makes requests that the document allows and some that it
//! does not, and complains about faults, answers that the document does not
//! have, and bodies of another shape. It comes as an administrator, and as an
//! ordinary user, who gets other answers from most operations.
//!
//! `KITE_CONTRACT_EXAMPLES` says how many per operation (12 and 2).

use std::{
    collections::BTreeSet,
    io::Write as _,
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
    serve,
};
use futures::StreamExt as _;
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kite_core::crd::AccessLevel;
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command, sync::Mutex};

use crate::data::{snapshot, volume};
use crate::world::{PASSWORD, World};

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,allow_header_conformance,\
                      ignored_auth";

/// How much of the news is let through: the stream has no end of its own.
const NEWS: Duration = Duration::from_millis(50);

/// The Python that has schemathesis, if there is one.
fn python() -> Option<String> {
    let python = std::env::var("KITE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = std::process::Command::new(&python)
        .args(["-c", "import schemathesis"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if found {
        return Some(python);
    }
    let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
    assert!(
        !required,
        "{python} has no schemathesis: pip install schemathesis"
    );
    None
}

/// Stands before the API and sees to it that schemathesis, which knows one token and no
/// password, is somebody all the time: no operation has to be left out because it ends
/// the session that asks, or never ends, or wants a password that nobody can guess.
struct Desk {
    world: World,
    username: &'static str,
    /// What schemathesis sends.
    badge: HeaderValue,
    now: Mutex<Standing>,
    requests: AtomicU32,
    /// What was answered well.
    done: Mutex<BTreeSet<String>>,
}

/// The session and the password of the account, as they are now.
struct Standing {
    token: String,
    password: String,
}

impl Desk {
    fn new(world: World, username: &'static str, token: String) -> Self {
        Self {
            world,
            username,
            badge: bearer(&token),
            now: Mutex::new(Standing {
                token,
                password: PASSWORD.to_owned(),
            }),
            requests: AtomicU32::new(0),
            done: Mutex::default(),
        }
    }

    /// Another address for each request: guesses of the one are not to keep the other from
    /// being looked at.
    fn address(&self) -> SocketAddr {
        let [_, a, b, c] = self.requests.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        SocketAddr::from(([10, a, b, c], 4000))
    }

    /// Puts the account's password where some text stands for it. The new one, if the body
    /// has one.
    async fn fill_in(&self, request: Request, password: &str) -> (Request, Option<String>) {
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&bytes) else {
            return (Request::from_parts(parts, Body::from(bytes)), None);
        };
        for field in ["currentPassword", "password"] {
            if let Some(Value::String(text)) = fields.get_mut(field) {
                password.clone_into(text);
            }
        }
        let new = fields.get("newPassword").and_then(Value::as_str);
        let new = new.map(str::to_owned);
        parts.headers.remove(header::CONTENT_LENGTH);
        let body = Body::from(Value::Object(fields).to_string());
        (Request::from_parts(parts, body), new)
    }

    async fn sign_in(&self, password: &str) -> String {
        let body = json!({"username": self.username, "password": password});
        let answer = self.world.post("/api/v1/auth/sign-in", "", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text("/token").to_owned()
    }
}

fn bearer(token: &str) -> HeaderValue {
    HeaderValue::try_from(format!("Bearer {token}")).unwrap()
}

async fn attend(State(desk): State<Arc<Desk>>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(ConnectInfo(desk.address()));
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    if request.headers().get(header::AUTHORIZATION) != Some(&desk.badge) {
        return next.run(request).await;
    }
    let mut now = desk.now.lock().await;
    let token = bearer(&now.token);
    request.headers_mut().insert(header::AUTHORIZATION, token);
    let mut new_password = None;
    let asks_for_password = ["/me/password", "/me/totp", "/me/identities"];
    if asks_for_password.iter().any(|it| path.ends_with(it)) && method != Method::GET {
        (request, new_password) = desk.fill_in(request, &now.password).await;
    }
    let answer = next.run(request).await;
    if !answer.status().is_success() {
        return answer;
    }
    desk.done.lock().await.insert(format!("{method} {path}"));
    let ends_session = path.ends_with("/auth/sign-out")
        || path.ends_with("/admin/sign-out-everyone")
        || path.ends_with("/me/password")
        || (path.contains("/me/sessions/") && method == Method::DELETE);
    if ends_session {
        now.password = new_password.unwrap_or_else(|| now.password.clone());
        now.token = desk.sign_in(&now.password).await;
    }
    if path.ends_with("/api/v1/events") {
        return answer.map(|body| {
            let news = body.into_data_stream();
            Body::from_stream(news.take_until(tokio::time::sleep(NEWS)))
        });
    }
    answer
}

/// A platform with something of everything, of which `root` is the administrator, and `ann`
/// an ordinary user.
async fn furnished() -> World {
    let world = World::new().await;
    // No registry, whose answers are not the API's.
    let sources = json!({"imageSources": ["https://cloud.debian.org/images/"]});
    world.administer(sources).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    for (token, name) in [(&root, "web"), (&root, "db"), (&ann, "web")] {
        let body = json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                          "image": "debian-12"});
        assert_eq!(world.post("/api/v1/vms", token, body).await.status, 201);
    }
    for owner in ["root", "ann"] {
        let web = world.vm(owner, "web").await.unwrap();
        snapshot(&world, &web, "before-the-update", json!({})).await;
        volume(&world, owner, "data", json!({"phase": "Available"})).await;
    }
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    let made = world.post("/api/v1/admin/offers", &root, offer).await;
    assert_eq!(made.status, 201);
    world
}

async fn keeps_to_its_document(
    username: &'static str,
    phases: &str,
    examples: &str,
) -> BTreeSet<String> {
    let Some(python) = python() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no Python with schemathesis (KITE_PYTHON names one)"
        );
        return BTreeSet::new();
    };
    let world = furnished().await;
    let token = world.sign_in(username).await;
    let router = world.router.clone();
    let desk = Arc::new(Desk::new(world, username, token.clone()));
    let router = router.layer(from_fn_with_state(Arc::clone(&desk), attend));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { serve(listener, router).await.unwrap() });

    let examples = std::env::var("KITE_CONTRACT_EXAMPLES").unwrap_or_else(|_| examples.to_owned());
    let directory =
        std::env::temp_dir().join(format!("kite-contract-{}-{username}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new(python);
    command
        .args(["-m", "schemathesis.cli", "run"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"))
        .args(["--url", &format!("http://{address}")])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args([
            "--checks",
            CHECKS,
            "--max-examples",
            &examples,
            "--seed",
            "1",
        ])
        .args(["--phases", phases, "--no-shrink"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .current_dir(&directory)
        .env("HYPOTHESIS_STORAGE_DIRECTORY", &directory)
        .stdin(Stdio::null());
    let output = command.output().await.unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("Test cases:"), "{said}");
    let done = desk.done.lock().await.clone();
    // These went through, and whoever asked went on.
    for asked in [
        "POST /api/v1/auth/sign-out",
        "DELETE /api/v1/me/sessions",
        "GET /api/v1/events",
    ] {
        assert!(done.contains(asked), "{asked}: {done:#?}");
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_keeps_to_its_document() {
    let done = keeps_to_its_document("root", "examples,coverage,fuzzing", "12").await;
    for asked in [
        "POST /api/v1/admin/sign-out-everyone",
        "POST /api/v1/me/password",
        "POST /api/v1/me/totp",
    ] {
        assert!(
            done.is_empty() || done.contains(asked),
            "{asked}: {done:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_keeps_to_its_document_for_an_ordinary_user() {
    // Each field's bounds are looked at by the administrator, who gets that far everywhere.
    let done = keeps_to_its_document("ann", "examples,fuzzing", "2").await;
    let of_administrators: Vec<_> = done.iter().filter(|it| it.contains("/admin/")).collect();
    assert!(of_administrators.is_empty(), "{of_administrators:#?}");
}
