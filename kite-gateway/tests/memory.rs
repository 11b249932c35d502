//! Memory stays bounded while one side sends without end and the other does
//! not read. Alone in its process, as it watches the whole of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Bed, Sshd, fill, resident, stands_still};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_readers_do_not_fill_the_memory() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    assert_eq!(bed.ssh("web", "true").await.status.code(), Some(0));
    let before = resident();
    let (mut children, mut written) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut down = bed.with_key("ssh");
        down.args(["-l", "web", "127.0.0.1", "cat /dev/zero"]);
        children.push(down.stdout(Stdio::piped()).spawn().unwrap());
        let mut up = bed.with_key("ssh");
        up.args(["-l", "web", "127.0.0.1", "sleep 600"]);
        let mut up = up.stdin(Stdio::piped()).spawn().unwrap();
        written.push(fill(up.stdin.take().unwrap()));
        children.push(up);
    }
    // All have filled what there is between the two sides.
    for written in &written {
        stands_still(written).await;
    }
    let mut most = resident();
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(resident());
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let grown = most.saturating_sub(before);
    eprintln!("resident memory grew by {grown} MiB for six stalled channels");
    assert!(grown < 6 * 12, "{grown} MiB");
}
