//! Versions of container disks: against Debian's `docker-registry`, and against one that does
//! what a registry should not.

use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use kite_core::crd::AccessLevel;
use serde_json::json;
use tokio::net::TcpListener;

use crate::world::{Answer, World};

/// The tags of `repository` at a registry on this machine, as an administrator asks for them.
async fn tags(world: &World, root: &str, port: u16, repository: &str) -> Answer {
    let url = format!("docker://127.0.0.1:{port}/{repository}");
    let path = format!("/api/v1/admin/image-tags?url={url}");
    world.get(&path, root).await
}

async fn world(port: u16) -> (World, String) {
    let world = World::with(kite_api::ApiStateBuilder::local_providers).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let sources = json!({"imageSources": [format!("docker://127.0.0.1:{port}/vms/")]});
    world.administer(sources).await;
    (world, root)
}

/// Debian's registry, which ends with the test.
struct Real {
    process: Child,
    port: u16,
    _folder: Folder,
}

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Real {
    /// None where there is no such program, which is said.
    async fn start() -> Option<Self> {
        let program = std::env::var("KITE_DOCKER_REGISTRY");
        let program = program.unwrap_or_else(|_| "docker-registry".to_owned());
        let is_here = Command::new(&program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok();
        if !is_here {
            let what = "there is no docker-registry (Debian's package of that name)";
            assert!(
                std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
                "KITE_REQUIRE_CLIENTS is set: {what}"
            );
            let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let folder = std::env::temp_dir().join(format!("kite-registry-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("config.yml");
        let root = folder.join("data");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n\
             http: {{addr: \"127.0.0.1:{port}\"}}\n",
            root.display()
        );
        std::fs::write(&config, text).unwrap();
        let process = Command::new(program)
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let real = Self {
            process,
            port,
            _folder: Folder(folder),
        };
        let since = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "it does not start"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(real)
    }

    /// Puts an image there under these tags.
    fn push(&self, repository: &str, tags: &[&str]) {
        let base = format!("http://127.0.0.1:{}/v2/{repository}", self.port);
        let curl = |arguments: &[&str]| {
            let done = Command::new("curl")
                .args(["--silent", "--show-error", "--fail"])
                .args(arguments)
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
            String::from_utf8(done.stdout).unwrap()
        };
        // The digest of "{}".
        let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        let uploads = format!("{base}/blobs/uploads/");
        let head = curl(&["-X", "POST", "-D", "-", "-o", "/dev/null", &uploads]);
        let place = head
            .lines()
            .find_map(|it| it.strip_prefix("Location: "))
            .unwrap();
        let place = format!("{}&digest={digest}", place.trim());
        curl(&[
            "-X",
            "PUT",
            "--data-binary",
            "{}",
            "-H",
            "Content-Type: application/octet-stream",
            &place,
        ]);
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let blob = |kind: &str| json!({"mediaType": kind, "digest": digest, "size": 2});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind,
            "config": blob("application/vnd.oci.image.config.v1+json"),
            "layers": [],
        });
        for tag in tags {
            let content = format!("Content-Type: {kind}");
            let place = format!("{base}/manifests/{tag}");
            curl(&[
                "-X",
                "PUT",
                "--data-binary",
                &manifest.to_string(),
                "-H",
                &content,
                &place,
            ]);
        }
    }
}

#[tokio::test]
async fn a_registry_is_asked_for_the_versions_of_an_image() {
    let Some(real) = Real::start().await else {
        return;
    };
    real.push("vms/fedora", &["42", "43", "latest", "9"]);
    let (world, root) = world(real.port).await;
    let answer = tags(&world, &root, real.port, "vms/fedora:42").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["tags"], json!(["43", "42", "9", "latest"]));
    assert_eq!(answer.body["complete"], true);
    let url = format!("docker://127.0.0.1:{}/vms/fedora", real.port);
    assert_eq!(answer.text("/url"), url);
    let none = tags(&world, &root, real.port, "vms/none").await;
    none.is_problem(404, "not-found");
    assert!(none.text("/detail").contains("vms/none"), "{none:?}");
}

#[tokio::test]
async fn only_registries_that_are_named_are_asked_and_only_by_administrators() {
    let (world, root) = world(9).await;
    let sam = world.user("sam", AccessLevel::Manager).await;
    tags(&world, &sam, 9, "vms/fedora")
        .await
        .is_problem(403, "forbidden");
    let elsewhere = tags(&world, &root, 10, "vms/fedora").await;
    elsewhere.is_problem(422, "invalid");
    assert!(
        elsewhere
            .text("/errors/0/message")
            .contains("spec.imageSources")
    );
    for odd in ["vms/../x", "Vms/X", "vms//x", ""] {
        let refused = tags(&world, &root, 9, odd).await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.fields(), ["url"], "{odd}");
    }
    // Nobody listens there.
    let silent = tags(&world, &root, 9, "vms/fedora").await;
    silent.is_problem(503, "unavailable");
    assert!(silent.text("/detail").contains("127.0.0.1:9"), "{silent:?}");
    // As in a cluster: what is on this very machine is asked nothing.
    let elsewhere = World::new().await;
    let root = elsewhere.user("root", AccessLevel::Admin).await;
    let sources = json!({"imageSources": ["docker://127.0.0.1:9/"]});
    elsewhere.administer(sources).await;
    let near = tags(&elsewhere, &root, 9, "vms/fedora").await;
    near.is_problem(503, "unavailable");
}

/// What a registry answers that means no good.
async fn odd(request: Request) -> Response {
    let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
    let (path, query) = (request.uri().path(), request.uri().query());
    let query = query.unwrap_or_default();
    let with = |name: header::HeaderName, value: String, body: serde_json::Value| {
        ([(name, value)], axum::Json(body)).into_response()
    };
    let unauthorized = |challenge: String| {
        let head = [(header::WWW_AUTHENTICATE, challenge)];
        (StatusCode::UNAUTHORIZED, head).into_response()
    };
    let bearer = request.headers().get(header::AUTHORIZATION);
    match path {
        "/token" => axum::Json(json!({ "token": format!("for-{query}") })).into_response(),
        "/v2/vms/guarded/tags/list" => match bearer {
            None => unauthorized(format!(
                "Bearer realm=\"http://{host}/token\",service=\"here\",scope=\"repository:other:push\""
            )),
            Some(token) => {
                // The scope is that of what was asked for, whatever it says.
                let expected = "Bearer for-service=here&scope=repository%3Avms%2Fguarded%3Apull";
                assert_eq!(token, expected);
                axum::Json(json!({"name": "vms/guarded", "tags": ["1"]})).into_response()
            }
        },
        "/v2/vms/thief/tags/list" => {
            unauthorized("Bearer realm=\"https://evil.example.org/token\"".to_owned())
        }
        "/v2/vms/password/tags/list" => unauthorized("Basic realm=\"x\"".to_owned()),
        "/v2/vms/pages/tags/list" if query.contains("last=") => {
            axum::Json(json!({"tags": ["3", "a/b", "2"]})).into_response()
        }
        "/v2/vms/pages/tags/list" => with(
            header::LINK,
            "</v2/vms/pages/tags/list?last=1>; rel=\"next\"".to_owned(),
            json!({"tags": ["1"]}),
        ),
        "/v2/vms/endless/tags/list" => with(
            header::LINK,
            format!(
                "</v2/vms/endless/tags/list?last={}x>; rel=\"next\"",
                query.len()
            ),
            json!({ "tags": [format!("{}", query.len())] }),
        ),
        "/v2/vms/leads-away/tags/list" => with(
            header::LINK,
            "<http://evil.example.org/v2/vms/leads-away/tags/list>; rel=\"next\"".to_owned(),
            json!({"tags": ["1"]}),
        ),
        "/v2/vms/moved/tags/list" => {
            let head = [(header::LOCATION, "http://169.254.169.254/".to_owned())];
            (StatusCode::TEMPORARY_REDIRECT, head).into_response()
        }
        "/v2/vms/busy/tags/list" => {
            let head = [(header::RETRY_AFTER, "7")];
            (StatusCode::TOO_MANY_REQUESTS, head).into_response()
        }
        "/v2/vms/empty/tags/list" => axum::Json(json!({"tags": null})).into_response(),
        "/v2/vms/huge/tags/list" => vec![b' '; 1 << 20].into_response(),
        _ => "hello".into_response(),
    }
}

#[tokio::test]
async fn a_registry_that_means_no_good_gets_nothing_and_is_told_of() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = axum::serve(listener, Router::new().fallback(odd));
    let server = tokio::spawn(async move { server.await });
    let (world, root) = world(port).await;
    let of = async |repository: &str| tags(&world, &root, port, &format!("vms/{repository}")).await;

    assert_eq!(of("guarded").await.body["tags"], json!(["1"]));
    let pages = of("pages").await;
    assert_eq!(pages.body["tags"], json!(["3", "2", "1"]));
    assert_eq!(pages.body["complete"], true);
    assert_eq!(of("endless").await.body["complete"], false);
    let away = of("leads-away").await;
    assert_eq!(away.body["tags"], json!(["1"]));
    assert_eq!(
        away.body["complete"], false,
        "there is more, and nobody asks for it"
    );
    assert_eq!(of("empty").await.body["tags"], json!([]));

    for (repository, status, kind, words) in [
        ("thief", 409, "conflict", "elsewhere"),
        ("password", 409, "conflict", "sign in"),
        ("moved", 409, "conflict", "elsewhere"),
        ("busy", 503, "unavailable", "less often"),
        ("huge", 503, "unavailable", "does not answer"),
        ("odd", 503, "unavailable", "as a registry does"),
    ] {
        let answer = of(repository).await;
        answer.is_problem(status, kind);
        assert!(answer.text("/detail").contains(words), "{answer:?}");
        let waits = answer.headers.get("retry-after");
        assert_eq!(waits.is_some_and(|it| it == "7"), repository == "busy");
    }
    server.abort();
}
