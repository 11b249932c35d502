//! What an API server owes to its clients, on the in-memory one, in process and
//! over HTTP, and on a real one where `KITE_CONFORMANCE_KUBECONFIG` names it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::path::Path;
use std::time::Duration;

use kite_conformance::{Options, Report};
use kite_fake::FakeCluster;
use kite_fake::actors::control_plane;

fn cluster() -> FakeCluster {
    let builder = FakeCluster::builder().rbac(true).actors(control_plane());
    builder.build().unwrap()
}

/// Runs against the cluster of a kubeconfig, as the variable has it.
async fn by_kubeconfig(path: &Path) -> Report {
    let client = kite_conformance::connect(path).await.unwrap();
    kite_conformance::run(client, Options::default().at_once(12)).await
}

/// On the fake nothing lacks, so that nothing is skipped either.
fn assert_all_hold(report: &Report) {
    assert!(report.holds(), "{report}");
    assert_eq!(report.skipped().count(), 0, "{report}");
    assert_eq!(
        report.held(),
        kite_conformance::behaviours().len(),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_fake_behaves_and_is_left_as_it_was() {
    let cluster = cluster();
    assert!(
        cluster
            .actors()
            .unwrap()
            .settled(Duration::from_secs(60))
            .await
    );
    let before = cluster.snapshot();
    let options = Options::default().prefix("kite-conformance-test");
    let report = kite_conformance::run(cluster.client(), options).await;
    println!("{report:#}");
    assert_all_hold(&report);
    assert!(
        cluster
            .actors()
            .unwrap()
            .settled(Duration::from_secs(60))
            .await
    );
    let left = before.diff(&cluster.snapshot());
    assert!(left.is_empty(), "left behind:\n{left}");
}

#[tokio::test]
async fn the_fake_behaves_over_http() {
    let cluster = cluster();
    let served = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    cluster.write_kubeconfig(&path, &served.url()).unwrap();
    let report = by_kubeconfig(&path).await;
    println!("{report}");
    cluster.shut_down();
    assert_all_hold(&report);
}

#[tokio::test]
async fn a_real_cluster_behaves() {
    let Some(path) = std::env::var_os("KITE_CONFORMANCE_KUBECONFIG") else {
        println!("skipped: KITE_CONFORMANCE_KUBECONFIG names no kubeconfig");
        return;
    };
    let report = by_kubeconfig(Path::new(&path)).await;
    println!("{report:#}");
    assert!(report.holds(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_misbehaves_is_found_out_and_left_clean() {
    let cluster = cluster();
    assert!(
        cluster
            .actors()
            .unwrap()
            .settled(Duration::from_secs(60))
            .await
    );
    let before = cluster.snapshot();
    // A server that knows no conflicts.
    let service = tower::ServiceExt::map_request(
        cluster.service(),
        |mut request: http::Request<kube::client::Body>| {
            if request.method() == http::Method::PATCH {
                let uri = request.uri().to_string();
                if uri.contains("fieldManager") && !uri.contains("force=") {
                    *request.uri_mut() = format!("{uri}&force=true").parse().unwrap();
                }
            }
            request
        },
    );
    let client = kube::Client::new(service, "default");
    let report = kite_conformance::run(client, Options::default().only("Apply")).await;
    let failed: Vec<&str> = report
        .failed()
        .map(|(behaviour, _)| behaviour.name)
        .collect();
    assert!(failed.contains(&"another_value_is_a_conflict"), "{report}");
    assert!(!failed.contains(&"apply_creates_then_updates"), "{report}");
    assert!(report.left_over.is_empty(), "{report}");
    assert!(
        cluster
            .actors()
            .unwrap()
            .settled(Duration::from_secs(60))
            .await
    );
    let left = before.diff(&cluster.snapshot());
    assert!(left.is_empty(), "left behind:\n{left}");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_may_not_do_is_skipped() {
    let cluster = cluster();
    let client = cluster.client_as("nobody");
    let options = Options::default().only("Objects");
    let report = kite_conformance::run(client, options).await;
    assert_eq!(report.failed().count(), 0, "{report}");
    assert_eq!(report.held(), 0, "{report}");
    assert!(!report.holds(), "nothing was checked: {report}");
    assert!(
        report
            .skipped()
            .all(|(_, why)| why.contains("cannot create")),
        "{report}"
    );
    cluster.shut_down();
}
