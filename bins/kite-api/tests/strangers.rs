//! Strangers who hold all connections that there are, with a cheap request now and then,
//! keep nobody out who is signed in.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod floods;

use std::time::Duration;

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

/// What a request is answered with, on a connection that goes on; nothing where that was
/// closed.
async fn status(client: &mut TcpStream, head: &str) -> Option<u16> {
    let asked = format!("{head}\r\nHost: a\r\n\r\n");
    client.write_all(asked.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        let read = timeout(PATIENCE, client.read_buf(&mut answer)).await;
        if read.expect("it never comes").unwrap_or(0) == 0 {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1)?.parse().ok()
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
        assert_eq!(status(&mut client, head).await, Some(200), "{head}");
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
        let answer = status(&mut ann, &signed_in).await;
        assert_eq!(answer, Some(200), "was cut off by stranger {n}");
    }
    stage.answers(&token).await;
    // A token that somebody made up keeps no place.
    let made_up = "GET /api/v1/me HTTP/1.1\r\nAuthorization: Bearer kite_nobodys";
    let mut impostor = TcpStream::connect(stage.address).await.unwrap();
    assert_eq!(status(&mut impostor, made_up).await, Some(401));
    assert_eq!(status(&mut impostor, stranger).await, Some(200));
    for _ in 0..PLACES {
        strangers.push(come(stranger).await);
    }
    // It has made room for one of them.
    let goes = async {
        while let Some(answer) = status(&mut impostor, stranger).await {
            assert_eq!(answer, 200);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, goes).await.expect("it keeps its place");
    stage.stop.cancel();
}
