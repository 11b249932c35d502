//! The serial line and the screen of instances, over `WebSocket`s.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use kite_fake::actors::Rules;
use kite_fake_kubevirt::everything;
use kite_fake_kubevirt::kinds::{INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::kubevirt::{SUBRESOURCES, VmSubresources};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::world::World;

const NS: Option<&str> = Some("default");

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

async fn world() -> World {
    let world = World::with(Rules::instant(), everything()).await;
    let subresources =
        VmSubresources::new(world.cluster.client(), Arc::clone(world.cluster.clock()));
    world.cluster.extend(SUBRESOURCES, Arc::new(subresources));
    world
}

async fn machine(world: &World, name: &str, devices: Value) {
    let vm = json!({
        "metadata": {"name": name},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {"memory": {"guest": "1Gi"}, "devices": devices},
        }}},
    });
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
}

/// Asks in process, as a `kube` client of production would over TCP.
async fn ask(world: &World, name: &str, verb: &str) -> Result<Socket, (u16, String)> {
    let path = format!("{SUBRESOURCES}v1/namespaces/default/virtualmachineinstances/{name}/{verb}");
    let request = http::Request::builder()
        .uri(path)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", "plain.kubevirt.io")
        .body(kube::client::Body::empty())
        .unwrap();
    let response = world.cluster.client().send(request).await.unwrap();
    let status = response.status().as_u16();
    if status != 101 {
        let body = response.into_body().collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        return Err((status, body["message"].as_str().unwrap().to_owned()));
    }
    let headers = response.headers();
    assert_eq!(headers["sec-websocket-protocol"], "plain.kubevirt.io");
    assert_eq!(
        headers["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    let upgraded = hyper::upgrade::on(response).await.unwrap();
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await)
}

/// Reads until `text` came.
async fn until(socket: &mut Socket, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => seen.extend_from_slice(&bytes),
            other => panic!("{other:?} after {}", String::from_utf8_lossy(&seen)),
        }
    }
}

async fn over(socket: &mut Socket) {
    while let Some(Ok(message)) = socket.next().await {
        assert!(matches!(message, Message::Binary(_) | Message::Close(_)));
    }
}

#[tokio::test]
async fn the_serial_line_is_a_login_and_a_shell_and_the_last_viewer_has_it() {
    let world = world().await;
    machine(&world, "vm1", json!({})).await;
    let mut first = ask(&world, "vm1", "console").await.unwrap();
    until(&mut first, "vm1 login: ").await;
    let typed = Message::binary("user\rx\recho hel''lo\r");
    first.send(typed).await.unwrap();
    until(&mut first, "hello\r\n").await;
    let mut second = ask(&world, "vm1", "console").await.unwrap();
    until(&mut second, "vm1 login: ").await;
    over(&mut first).await;
    // The screen is another device.
    let mut screen = ask(&world, "vm1", "vnc").await.unwrap();
    until(&mut screen, "RFB 003.008\n").await;
    let refused = ask(&world, "vm1", "vnc?preserveSession=true").await;
    let (code, why) = refused.err().unwrap();
    assert_eq!(
        (code, why.as_str()),
        (503, "Active VNC connection. Request denied.")
    );
    second.send(Message::binary("\r")).await.unwrap();
    until(&mut second, "login: ").await;

    world.delete(&VIRTUAL_MACHINE, NS, "vm1").await;
    world.settle().await;
    assert!(world.get(&INSTANCE, NS, "vm1").await.is_none());
    over(&mut second).await;
    over(&mut screen).await;
    let (code, why) = ask(&world, "vm1", "console").await.err().unwrap();
    assert_eq!(code, 404, "{why}");
    world.end().await;
}

#[tokio::test]
async fn what_an_instance_has_not_is_refused() {
    let world = world().await;
    let none = json!({"autoattachSerialConsole": false, "autoattachGraphicsDevice": false});
    machine(&world, "dark", none).await;
    let refused = async |name: &str, verb: &str| ask(&world, name, verb).await.err().unwrap();
    assert_eq!(
        refused("dark", "console").await,
        (400, "No serial consoles are present.".to_owned())
    );
    assert_eq!(
        refused("dark", "vnc").await,
        (400, "No graphics devices are present.".to_owned())
    );
    let idle = json!({
        "metadata": {"name": "idle"},
        "spec": {"domain": {"devices": {}}},
    });
    let paused = World::with(Rules::instant(), vec![]).await;
    let subresources =
        VmSubresources::new(paused.cluster.client(), Arc::clone(paused.cluster.clock()));
    paused.cluster.extend(SUBRESOURCES, Arc::new(subresources));
    paused.create(&INSTANCE, NS, idle).await;
    for verb in ["console", "vnc"] {
        let refused = ask(&paused, "idle", verb).await.err().unwrap();
        assert_eq!(refused, (400, "VMI is not running".to_owned()));
    }
    paused.end().await;
    world.end().await;
}
