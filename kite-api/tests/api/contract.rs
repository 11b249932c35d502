//! The OpenAPI document against the API, by a program that knows nothing else
//! of it: schemathesis makes requests that the document allows and some that it
//! does not, and complains about faults, answers that the document does not
//! have, and bodies of another shape.
//!
//! `KITE_CONTRACT_EXAMPLES` says how many per operation (12).

use std::{net::SocketAddr, process::Stdio};

use axum::serve;
use kite_core::crd::AccessLevel;
use serde_json::json;
use tokio::{net::TcpListener, process::Command};

use crate::world::World;

/// What would end the very session that asks, or does not end.
const LEFT_OUT: [&str; 5] = [
    "signOut",
    "changePassword",
    "endOtherSessions",
    "endSession",
    "followEvents",
];
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,allow_header_conformance,\
                      ignored_auth";

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_keeps_to_its_document() {
    let Some(python) = python() else {
        println!("skipped: no Python with schemathesis (KITE_PYTHON names one)");
        return;
    };
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    for name in ["web", "db"] {
        let body = json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                          "image": "debian-12"});
        assert_eq!(world.post("/api/v1/vms", &root, body).await.status, 201);
    }
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    assert_eq!(
        world
            .post("/api/v1/admin/offers", &root, offer)
            .await
            .status,
        201
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = world
        .router
        .clone()
        .into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { serve(listener, service).await.unwrap() });

    let examples = std::env::var("KITE_CONTRACT_EXAMPLES").unwrap_or_else(|_| "12".to_owned());
    let directory = std::env::temp_dir().join(format!("kite-contract-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new(python);
    command
        .args(["-m", "schemathesis.cli", "run"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"))
        .args(["--url", &format!("http://{address}")])
        .args(["--header", &format!("Authorization: Bearer {root}")])
        .args([
            "--checks",
            CHECKS,
            "--max-examples",
            &examples,
            "--seed",
            "1",
        ])
        .args(["--phases", "examples,coverage,fuzzing", "--no-shrink"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .args(
            LEFT_OUT
                .iter()
                .flat_map(|id| ["--exclude-operation-id", id]),
        )
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
}
