//! What the audit records say, whatever a user does to them.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bed, Sshd, Trusting};
use kite_gateway::Config;
use russh::client;
use russh::keys::PrivateKeyWithHashAlg;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_does_not_hide_the_first() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let mut handle = client::connect(Arc::default(), bed.address, Trusting)
        .await
        .unwrap();
    let key = PrivateKeyWithHashAlg::new(Arc::new(bed.user_key.clone()), None);
    let login = handle.authenticate_publickey("web", key).await.unwrap();
    assert!(login.success());
    let mut channel = handle.channel_open_session().await.unwrap();
    channel.exec(true, "cat; echo evil").await.unwrap();
    channel.wait().await.unwrap();
    channel.exec(true, "scp -f harmless").await.unwrap();
    channel.wait().await.unwrap();
    channel.eof().await.unwrap();
    while channel.wait().await.is_some() {}
    let record = bed.records.find(|r| r["event"] == "channel").await;
    assert_eq!(record["detail"], "cat; echo evil");
    assert_eq!(record["purpose"], "command");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_to_say_when_the_gateway_has_ended() {
    let bed = Bed::with(Config {
        drain_grace: Duration::from_millis(300),
        ..Config::default()
    })
    .await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "echo up; sleep 600"]);
    client.stdout(std::process::Stdio::piped());
    let mut client = tokio::process::Command::from(client).spawn().unwrap();
    let mut up = [0; 3];
    let stdout = client.stdout.as_mut().unwrap();
    tokio::io::AsyncReadExt::read_exact(stdout, &mut up)
        .await
        .unwrap();
    let records = bed.records.clone();
    bed.end().await;
    for event in ["login", "channel", "connection"] {
        assert!(records.any(|r| r["event"] == event), "{event}");
    }
    client.wait().await.unwrap();
}
