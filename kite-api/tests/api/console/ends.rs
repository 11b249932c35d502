//! What ends a console.

use kite_core::{
    cluster::Cluster as _,
    connections::{Instance, object},
    crd::{AccessLevel, VmPhase},
    names,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::stage::{Stage, serve};
use crate::world::{request, send};

#[tokio::test]
async fn with_the_session() {
    let stage = Stage::new().await;
    let mut client = stage.open("Serial").await;
    client.until("login: ").await;
    // On another replica.
    let other = stage.world.replica().await;
    let out = crate::world::request(
        ::http::Method::POST,
        "/api/v1/auth/sign-out",
        &stage.ann,
        None,
    );
    assert_eq!(crate::world::send(&other, out).await.status, 204);
    let (code, why) = client.end().await;
    assert_eq!(code, 4401, "{why}");
}

#[tokio::test]
async fn because_somebody_wants_it() {
    let instance = Instance::new(42, None);
    let stage = Stage::with(|builder| builder.instance(instance.clone())).await;
    let other = stage.world.replica().await;
    let mut client = stage.open("Serial").await;
    client.until("login: ").await;
    let mut second = stage.open("Vnc").await;
    // As it is reported.
    let vm = stage.world.vm("ann", "web").await.unwrap();
    let spec = json!({
        "vm": {"name": "web", "uid": vm.metadata.uid}, "owner": "ann", "login": "ann",
        "kind": "Serial", "instance": instance.id(), "number": 1,
        "openedAt": "2026-01-01T00:00:00Z",
    });
    let spec = serde_json::from_value(spec).unwrap();
    let reported = object(&names::user_namespace("ann"), spec);
    let cluster = &stage.world.cluster;
    let reported = cluster
        .apply(kite_core::managers::API, &reported)
        .await
        .unwrap();
    let path = format!(
        "/api/v1/vms/web/sessions/{}?reason=over",
        reported.name_any()
    );
    // On another replica, which may hear of it later.
    stage
        .world
        .until("it is to end", async || {
            let end = request(::http::Method::DELETE, &path, &stage.ann, None);
            send(&other, end).await.status == 202
        })
        .await;
    let told = json!({"ended": {"by": "ann", "reason": "over"}});
    assert_eq!(client.told().await, told);
    let (code, why) = client.end().await;
    assert_eq!((code, why.as_str()), (4410, "ended by ann: over"));
    second.send(b"RFB 003.008\n").await;
    stage.delete("web").await;
    assert_eq!(second.end().await.0, 1000, "the other one stayed");
}

#[tokio::test]
async fn with_the_account_and_its_rights() {
    let stage = Stage::new().await;
    let root = stage.world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/users/ann";
    for (edit, code) in [
        (json!({"accessLevel": "ReadOnly"}), 4403),
        (json!({"suspended": true}), 4401),
    ] {
        let mut client = stage.open("Vnc").await;
        let edited = stage.world.patch(path, &root, edit.clone()).await;
        assert_eq!(edited.status, 200, "{edited:?}");
        let (closed, why) = client.end().await;
        assert_eq!(closed, code, "{edit}: {why}");
        let back = json!({"accessLevel": "User"});
        assert_eq!(stage.world.patch(path, &root, back).await.status, 200);
    }
}

#[tokio::test]
async fn with_the_password() {
    let stage = Stage::new().await;
    let mut client = stage.open("Serial").await;
    let root = stage.world.user("root", AccessLevel::Admin).await;
    let body = json!({"password": "another long one"});
    let path = "/api/v1/admin/users/ann";
    assert_eq!(stage.world.patch(path, &root, body).await.status, 200);
    assert_eq!(client.end().await.0, 4401);
}

#[tokio::test]
async fn with_the_vm() {
    let stage = Stage::new().await;
    let mut serial = stage.open("Serial").await;
    stage.phase("web", VmPhase::Stopping).await;
    stage.unplug("web").await;
    assert_eq!(serial.told().await, json!({"cause": "vmStopped"}));
    let (code, why) = serial.end().await;
    assert_eq!(code, 1000, "{why}");
    stage.instance("web").await;
    stage.phase("web", VmPhase::Running).await;
    let mut serial = stage.open("Serial").await;
    let restart = "/api/v1/vms/web/restart";
    stage.world.post(restart, &stage.ann, Value::Null).await;
    stage.phase("web", VmPhase::Stopping).await;
    stage.unplug("web").await;
    assert_eq!(serial.told().await, json!({"cause": "vmRestarted"}));
    let end = (1000, "the VM was restarted".to_owned());
    assert_eq!(serial.end().await, end);
    stage.instance("web").await;
    stage.phase("web", VmPhase::Running).await;
    let mut screen = stage.open("Vnc").await;
    stage.delete("web").await;
    assert_eq!(screen.told().await, json!({"cause": "vmGone"}));
    assert_eq!(screen.end().await, (1000, "the VM is gone".to_owned()));
}

#[tokio::test]
async fn when_somebody_else_opens_it() {
    let stage = Stage::new().await;
    let root = stage.world.user("root", AccessLevel::Admin).await;
    let mut first = stage.open("Serial").await;
    let mut second = stage.open("Serial").await;
    assert_eq!(first.end().await.0, 4409);
    // On another replica, which knows nothing of the first.
    let elsewhere = serve(stage.world.replica().await).await;
    let ticket = stage.ticket(&root, "Serial").await;
    let mut third = super::Client::connect(elsewhere, &root).await.unwrap();
    third.show(&ticket).await;
    third.ready().await;
    assert_eq!(second.end().await.0, 4409);
    third.until("login: ").await;
    // The screen is another console.
    let mut screen = stage.open("Vnc").await;
    third.send(b"user\r").await;
    third.until("Password: ").await;
    screen.until("RFB").await;
}

#[tokio::test]
async fn with_the_process() {
    let stage = Stage::new().await;
    let mut serial = stage.open("Serial").await;
    let mut screen = stage.open("Vnc").await;
    serial.until("login: ").await;
    // Its ticket was not shown yet.
    let mut early = super::Client::connect(stage.address, &stage.ann)
        .await
        .unwrap();
    let ticket = stage.ticket(&stage.ann, "Vnc").await;
    let draining = stage.world.state.drain();
    let ends = async {
        early.show(&ticket).await;
        for client in [&mut serial, &mut screen, &mut early] {
            let (code, why) = client.end().await;
            assert_eq!((code, why.contains("connect again")), (1001, true), "{why}");
        }
    };
    tokio::join!(draining, ends);
    let refused = super::Client::connect(stage.address, &stage.ann)
        .await
        .err();
    assert_eq!(refused, Some(503));
}

#[tokio::test]
async fn by_what_makes_no_sense() {
    let stage = Stage::new().await;
    let mut client = stage.open("Serial").await;
    client.say(json!({"reboot": true})).await;
    assert_eq!(client.end().await.0, 4500);
    let mut client = stage.open("Serial").await;
    client.until("login: ").await;
    // More than one message may have.
    let sent = futures::SinkExt::send(
        &mut client.0,
        tokio_tungstenite::tungstenite::Message::binary(vec![b'x'; 300 * 1024]),
    );
    let _ = sent.await;
    // It may be cut off before it can be told.
    while let Some(Ok(message)) = futures::StreamExt::next(&mut client.0).await {
        if let tokio_tungstenite::tungstenite::Message::Close(Some(frame)) = message {
            assert_eq!(u16::from(frame.code), 4500);
        }
    }
    let answer = stage.world.get("/api/v1/me", &stage.ann).await;
    assert_eq!(answer.status, 200);
}
