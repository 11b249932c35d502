//! Consoles over `WebSocket`s.

mod ends;
mod last_words;
mod limits;
mod stage;
mod tickets;

use kite_core::crd::{AccessLevel, VmPhase};
use serde_json::{Value, json};

use self::stage::{Client, Stage};

#[tokio::test]
async fn the_serial_line_carries_bytes_both_ways() {
    let stage = Stage::new().await;
    let mut client = stage.open("Serial").await;
    client.until("web login: ").await;
    client.send(b"user\rany\r").await;
    client.until("user@web:~$ ").await;
    client.send(b"echo over''the''line\r").await;
    client.until("overtheline\r\n").await;
    // A size means nothing to a serial line, and does no harm.
    client
        .say(json!({"resize": {"cols": 120, "rows": 40}}))
        .await;
    client.send(b"echo again\r").await;
    client.until("again\r\n").await;
    client.0.close(None).await.unwrap();
}

#[tokio::test]
async fn the_screen_is_vnc_and_its_picture_changes() {
    let stage = Stage::new().await;
    let mut client = stage.open("Vnc").await;
    client.until("RFB 003.008\n").await;
    client.send(b"RFB 003.008\n").await;
    client.until("\u{1}\u{1}").await;
    client.send(&[1]).await;
    client.until("\0\0\0\0").await;
    client.send(&[1]).await;
    client.until("web").await;
    let mut picture = async |message: &[u8], least: usize| {
        client.send(message).await;
        let mut bytes = Vec::new();
        while bytes.len() < least {
            match client.next().await {
                tokio_tungstenite::tungstenite::Message::Binary(more) => bytes.extend(more),
                other => panic!("{other:?}"),
            }
        }
        bytes
    };
    let all = [3, 0, 0, 0, 0, 0, 2, 128, 1, 224];
    let first = picture(&all, 16 + 640 * 480 * 4).await;
    // A key goes down.
    let key = [4, 1, 0, 0, 0, 0, 0, b'k', 3, 0, 0, 0, 0, 0, 2, 128, 1, 224];
    let second = picture(&key, 16 + 640 * 480 * 4).await;
    assert_eq!(first.len(), second.len());
    assert_ne!(first, second);
}

#[tokio::test]
async fn what_kubevirt_refuses_is_told_before_any_byte() {
    let stage = Stage::new().await;
    for kind in ["Serial", "Vnc"] {
        let answer = stage.ask(&stage.ann, "idle", kind).await;
        let ticket = answer.text("/ticket");
        let refused = stage.refusal(stage.address, &stage.ann, ticket).await;
        assert_eq!(refused, "conflict", "there is no instance");
    }
    let path = "/api/v1/vms/idle/stop";
    stage.world.post(path, &stage.ann, Value::Null).await;
    stage.phase("idle", VmPhase::Stopped).await;
    stage
        .ask(&stage.ann, "idle", "Serial")
        .await
        .is_problem(409, "conflict");
    // Nobody logs in to VMs here.
    stage
        .ask(&stage.ann, "web", "Terminal")
        .await
        .is_problem(409, "conflict");
    let wrong = stage.ask(&stage.ann, "web", "Telnet").await;
    assert_eq!(wrong.is_problem(422, "invalid").fields(), ["kind"]);
    stage
        .ask(&stage.ann, "none", "Vnc")
        .await
        .is_problem(404, "not-found");
}

#[tokio::test]
async fn only_the_owner_and_administrators_get_in() {
    let stage = Stage::new().await;
    for (name, level, status) in [
        ("bob", AccessLevel::User, 403),
        ("max", AccessLevel::Manager, 403),
        ("root", AccessLevel::Admin, 201),
    ] {
        let token = stage.world.user(name, level).await;
        let answer = stage.ask(&token, "web", "Serial").await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
    let root = stage.world.sign_in("root").await;
    let ticket = stage.ticket(&root, "Serial").await;
    let mut client = Client::connect(stage.address, &root).await.unwrap();
    client.show(&ticket).await;
    client.ready().await;
    client.until("login: ").await;
    // Who may only read does not open what is theirs.
    let body = json!({"accessLevel": "ReadOnly"});
    let path = "/api/v1/admin/users/ann";
    assert_eq!(stage.world.patch(path, &root, body).await.status, 200);
    stage
        .ask(&stage.ann, "web", "Serial")
        .await
        .is_problem(403, "forbidden");
}
