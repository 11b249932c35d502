//! A session of a real client, from its login to its end by request.

use kite_core::connections::Instance;
use kite_gateway::kubernetes::{Live, ReportLimits, Reporter};
use std::io::Read as _;
use std::process::Stdio;
use tokio_util::sync::CancellationToken;

use crate::common::{Bed, text};
use crate::connections::process::{all, api, cluster, run, until, wish};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ssh_session_is_listed_and_ended_with_a_reason() {
    let cluster = cluster().await;
    let reporter = Reporter::new(Instance::new(7, None), ReportLimits::default());
    let bed = Bed::reported(reporter.clone()).await;
    let stop = CancellationToken::new();
    let running = run(&reporter, &cluster.client(), bed.sessions.clone(), &stop);
    let _guest = bed.machine("web").await;
    let mut command = bed.with_key("ssh");
    command.args(["web@127.0.0.1", "echo in; sleep 60"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    tokio::task::spawn_blocking(move || stdout.read_exact(&mut [0; 3]).unwrap())
        .await
        .unwrap();
    let told = until("it is told of", async || all(&cluster).await.pop()).await;
    assert!(told.spec.client.clone().unwrap().contains("OpenSSH"));
    let name = told.metadata.name.clone().unwrap();
    let number = u64::try_from(told.spec.number).unwrap();
    assert!(Live::is_there(&bed.sessions, number));
    assert!(!Live::is_there(&bed.sessions, number + 1));
    wish(&cluster, &name, "the VM is rebuilt").await;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("ended by root: the VM is rebuilt"), "{said}");
    let ended = until("its end is told of", async || {
        api(&cluster).get(&name).await.unwrap().spec.ended
    })
    .await;
    assert!(ended.why.contains("the VM is rebuilt"), "{}", ended.why);
    assert!(!Live::is_there(&bed.sessions, number));
    assert_eq!(ended.bytes_down, Some(3));
    let last = api(&cluster).get(&name).await.unwrap();
    assert_eq!(last.spec.client, told.spec.client);
    stop.cancel();
    running.await.unwrap();
}
