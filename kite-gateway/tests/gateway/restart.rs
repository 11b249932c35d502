//! A VM that goes down and comes back: its users' connections end, as they would without a
//! gateway, and whoever logs in again is told what is the matter.

use std::process::Stdio;

use crate::common::{Bed, text};
use kite_fake_kubevirt::guest::{Guest, GuestConfig};
use tokio::io::AsyncReadExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_restarted_takes_its_connections_along() {
    let bed = Bed::new().await;
    let keys = vec![bed.vm_key.public_key().clone()];
    let mut config = GuestConfig::new("vm-web", "web", keys).unwrap();
    let guest = Guest::start(config.clone()).await.unwrap();
    config.listen = guest.address();
    let route = bed.route("web", guest.address(), "web", guest.host_key().clone());
    bed.table.set("web", route);

    let mut running = bed.with_key("ssh");
    running.args(["-l", "web", "127.0.0.1"]);
    running.arg("echo kept > file; echo up; sleep 600");
    running.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = tokio::process::Command::from(running).spawn().unwrap();
    let mut up = [0; 3];
    let stdout = running.stdout.as_mut().unwrap();
    stdout.read_exact(&mut up).await.unwrap();

    guest.stop().await;
    let output = running.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(255));
    let told = text(&output.stderr);
    assert!(told.contains("the connection to the VM was lost"), "{told}");
    // While it is down: a reason, at once.
    let output = bed.ssh("web", "echo in").await;
    let told = text(&output.stderr);
    assert!(told.contains("does not answer"), "{told}");
    assert_eq!(output.status.code(), Some(255));

    let _guest = Guest::start(config).await.unwrap();
    let output = bed.ssh("web", "cat file").await;
    assert_eq!(text(&output.stdout), "kept\n", "{}", text(&output.stderr));
}
