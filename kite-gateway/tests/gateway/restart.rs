//! A VM that goes down and comes back, while its user stays logged in at the
//! gateway.

use std::process::Stdio;

use crate::common::{Bed, appears, run, text};
use kite_fake_kubevirt::guest::{Guest, GuestConfig};
use tokio::io::AsyncReadExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_restarted_takes_its_sessions_along_and_no_connection() {
    let bed = Bed::new().await;
    let keys = vec![bed.vm_key.public_key().clone()];
    let mut config = GuestConfig::new("vm-web", "web", keys).unwrap();
    let guest = Guest::start(config.clone()).await.unwrap();
    config.listen = guest.address();
    let route = bed.route("web", guest.address(), "web", guest.host_key().clone());
    bed.table.set("web", route);

    let control = bed.path("control");
    let mux = |extra: &[&str]| bed.mux(&control, extra);
    let mut master = mux(&["-M", "-N"]).spawn().unwrap();
    appears(&control).await;
    let mut running = mux(&[]);
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
    assert!(
        told.contains("kite: the connection to the VM was lost"),
        "{told}"
    );
    // While it is down: a reason, at once, and the connection stays.
    let mut client = mux(&[]);
    client.arg("echo in");
    let output = run(client, Vec::new()).await;
    let told = text(&output.stderr);
    assert!(told.contains("does not answer"), "{told}");
    assert_eq!(output.status.code(), Some(255));

    let _guest = Guest::start(config).await.unwrap();
    let mut client = mux(&[]);
    client.arg("cat file");
    let output = run(client, Vec::new()).await;
    assert_eq!(text(&output.stdout), "kept\n", "{}", text(&output.stderr));
    assert_eq!(bed.sessions.list().len(), 1, "the same connection");
    master.kill().unwrap();
    master.wait().unwrap();
}
