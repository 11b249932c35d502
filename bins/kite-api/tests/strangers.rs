//! Strangers who hold all connections that there are, with a cheap request now and then,
//! keep nobody out who is signed in.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod floods;

use kite_process::Serving;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use self::floods::{PATIENCE, Stage};

/// Connections at a time.
const PLACES: usize = 8;

/// Whether all of an answer is there.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_lowercase();
    let mut lines = head.lines();
    match lines.find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => length.trim().parse::<usize>() == Ok(body.len()),
        None => body.ends_with("0\r\n\r\n"),
    }
}

/// Whether a request is answered with 200, on a connection that goes on.
async fn is_answered(client: &mut TcpStream, head: &str) -> bool {
    let asked = format!("{head}\r\nHost: a\r\n\r\n");
    if client.write_all(asked.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        let read = timeout(PATIENCE, client.read_buf(&mut answer)).await;
        if read.expect("it never comes").unwrap_or(0) == 0 {
            return false;
        }
    }
    answer.starts_with(b"HTTP/1.1 200")
}

#[tokio::test]
async fn strangers_who_hold_all_places_keep_nobody_out_who_is_signed_in() {
    let few = Serving::default().connections(PLACES);
    let stage = Stage::serving(few, |builder| builder).await;
    let token = stage.sign_in("ann").await;
    let signed_in = format!("GET /api/v1/me HTTP/1.1\r\nAuthorization: Bearer {token}");
    let stranger = "GET /health HTTP/1.1";
    let come = async |head: &str| {
        let mut client = TcpStream::connect(stage.address).await.unwrap();
        assert!(is_answered(&mut client, head).await, "{head}");
        client
    };
    let mut strangers = Vec::new();
    for _ in 0..2 * PLACES {
        strangers.push(come(stranger).await);
    }
    // All places are taken, and who is signed in comes all the same.
    let mut ann = come(&signed_in).await;
    for n in 0..2 * PLACES {
        strangers.push(come(stranger).await);
        let is_there = is_answered(&mut ann, &signed_in).await;
        assert!(is_there, "was cut off by stranger {n}");
    }
    stage.answers(&token).await;
    // A token that somebody made up keeps no place.
    let made_up = "GET /api/v1/me HTTP/1.1\r\nAuthorization: Bearer kite_nobodys";
    let mut impostor = TcpStream::connect(stage.address).await.unwrap();
    assert!(!is_answered(&mut impostor, made_up).await);
    for _ in 0..PLACES {
        strangers.push(come(stranger).await);
    }
    while is_answered(&mut impostor, stranger).await {}
    stage.stop.cancel();
}
