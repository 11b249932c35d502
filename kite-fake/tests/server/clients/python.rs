//! The Python package `kubernetes`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kite_fake::FakeCluster;

/// A Python that has the package: `KITE_PYTHON`, or what is on the PATH.
fn python() -> Option<String> {
    let given = std::env::var("KITE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&given)
        .args(["-c", "import kubernetes.leaderelection"])
        .output()
        .ok()?;
    found.status.success().then_some(given)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_is_content() {
    let Some(python) = python() else {
        crate::clients::skip("no Python with the package kubernetes");
        return;
    };
    let cluster = FakeCluster::builder().build().unwrap();
    let served = crate::clients::serve(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("kubeconfig");
    cluster.write_kubeconfig(&config, &served).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/clients/session.py");
    let mut command = tokio::process::Command::new(python);
    command.arg(script).arg(&config).kill_on_drop(true);
    let out = tokio::time::timeout(Duration::from_secs(60), command.output())
        .await
        .expect("the session ends")
        .unwrap();
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    cluster.shut_down();
    served.ended().await;
}
