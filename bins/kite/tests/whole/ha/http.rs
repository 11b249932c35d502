//! A client of the HTTP API as a decent one is: it keeps its connection, gives what it
//! creates an Idempotency-Key, and tries again when it is told to or hears nothing.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request,
    body::{Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::notes::{Notes, What};

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how long it tries again.
const TRIES: Duration = Duration::from_secs(60);
/// The pause before it does, if it is told of none.
const PAUSE: Duration = Duration::from_millis(500);

pub struct Answer {
    pub status: u16,
    pub body: Value,
    retry_after: Option<Duration>,
}

pub struct Http {
    address: SocketAddr,
    /// As a proxy in front says who asks.
    peer: String,
    pub token: Option<String>,
    pub notes: Notes,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Http {
    pub fn new(address: SocketAddr, peer: &str, notes: &Notes) -> Self {
        Self {
            address,
            peer: peer.to_owned(),
            token: None,
            notes: notes.clone(),
            connection: None,
        }
    }

    /// A request, tried again until it is answered for good.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Option<Answer> {
        let start = Instant::now();
        loop {
            let answer = timeout(PATIENCE, self.once(method, path, body, key)).await;
            let (pause, told) = match answer {
                Ok(Ok(answer)) if !is_for_later(&answer) => {
                    self.notes.note(What::Attempt { is_good: true });
                    let is_refused = [401, 403].contains(&answer.status);
                    let is_good = answer.status < 500 && !is_refused;
                    let took = start.elapsed();
                    self.notes.note(What::Request { is_good, took });
                    if !is_good {
                        let text = format!("{method} {path}: {} {}", answer.status, answer.body);
                        self.notes.note(What::Wrong(text));
                    }
                    return Some(answer);
                }
                Ok(Ok(answer)) => {
                    if answer.retry_after.is_none() {
                        let text =
                            format!("{method} {path}: {} without Retry-After", answer.status);
                        self.notes.note(What::Wrong(text));
                    }
                    let told = answer.status.to_string();
                    (answer.retry_after.unwrap_or(PAUSE), told)
                }
                Ok(Err(error)) => (PAUSE, error),
                Err(_) => (PAUSE, "no answer".to_owned()),
            };
            self.notes.note(What::Attempt { is_good: false });
            if told.parse::<u16>().is_err() {
                self.connection = None;
            }
            if start.elapsed() > TRIES {
                let took = start.elapsed();
                eprintln!("given up: {method} {path}: {told}");
                self.notes.note(What::Request {
                    is_good: false,
                    took,
                });
                return None;
            }
            sleep(pause).await;
        }
    }

    async fn once(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Answer, String> {
        let response = self.open(method, path, body, key).await?;
        let status = response.status().as_u16();
        let seconds = response.headers().get("retry-after");
        let seconds = seconds.and_then(|it| it.to_str().ok()?.parse().ok());
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer {
            status,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    /// The beginning of an answer.
    pub async fn open(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<hyper::Response<Incoming>, String> {
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => self.connect().await?,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("host", "kite.test")
            .header("x-forwarded-for", &self.peer);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::from(body)).unwrap();
        let response = connection.send_request(request).await;
        let response = response.map_err(|error| error.to_string())?;
        self.connection = Some(connection);
        Ok(response)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Whether the answer asks to come again: then it says when.
fn is_for_later(answer: &Answer) -> bool {
    matches!(answer.status, 429 | 502 | 503 | 504)
        || (answer.status == 409 && answer.retry_after.is_some())
}
