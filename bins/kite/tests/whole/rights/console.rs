//! A VM's consoles, as a script opens them.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use super::stage::Stage;

/// Opens a console of ann's VM, and leaves it open for a while.
pub fn use_one(stage: &Stage, token: &str, vm: &str, kind: &str) {
    let platform = &stage.platform;
    let path = &format!("/api/v1/vms/{vm}/console");
    let ticket = platform.curl_ok(201, "POST", path, Some(token), Some(&json!({"kind": kind})));
    let address = platform.text("api").replace("http://", "");
    stage.wait(async {
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
        // One that is over at once is reported once; this one is while it is open, too.
        tokio::time::sleep(Duration::from_secs(3)).await;
        socket.close(None).await.unwrap();
    });
}
