//! A VM's consoles, as a script opens them.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use super::stage::Stage;
use crate::support::{Platform, eventually, show};

/// Opens a console of ann's VM, and leaves it open until it is told of: one that is over
/// at once is reported once, and this one is while it is open, too.
pub fn use_one(stage: &Stage, token: &str, vm: &str, kind: &str) {
    let platform = &stage.platform;
    let path = &format!("/api/v1/vms/{vm}/console");
    let ticket = platform.curl_ok(201, "POST", path, Some(token), Some(&json!({"kind": kind})));
    let address = platform.text("api").replace("http://", "");
    let mut socket = stage.wait(async {
        let url = format!("ws://{address}/api/v1/console");
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let stream = TcpStream::connect(&address).await.unwrap();
        let opened = tokio_tungstenite::client_async(request, stream).await;
        let (mut socket, _) = opened.unwrap();
        let hello = json!({"ticket": ticket["ticket"], "cols": 80, "rows": 24});
        socket.send(Message::text(hello.to_string())).await.unwrap();
        let answer = loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) => break text,
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{kind}: {other:?}"),
            }
        };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["ready"], true, "{kind}: {answer}");
        socket
    });
    let path = &format!("/api/v1/vms/{vm}/sessions?live=true");
    eventually("the console is told of", || {
        let (_, list) = platform.curl("GET", path, Some(token), None);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let is_there = items.iter().any(|it| it["kind"] == kind);
        is_there.then_some(()).ok_or_else(|| list.to_string())
    });
    is_used(platform, vm);
    stage.wait(async { socket.close(None).await }).unwrap();
}

/// Waits until it is told that a VM with an idle timeout is used.
pub fn is_used(platform: &Platform, vm: &str) {
    let lease = format!("lease/{vm}-activity");
    eventually(&lease, || {
        let output = platform.kubectl(&["get", &lease, "-n", "kite-user-ann"]);
        let is_there = output.status.success();
        is_there.then_some(()).ok_or_else(|| show(&output))
    });
}
