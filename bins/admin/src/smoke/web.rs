//! Requests to the HTTP API.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::report::Failure;
use crate::causes::causes;

/// Longest time for a request with its answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time that an API that is not ready is left alone, whatever it says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MOST_BYTES: usize = 1024 * 1024;

/// The HTTP API at an address.
pub(super) struct Web {
    base: String,
    /// How long it may not be ready.
    patience: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What was answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// When to ask again, if it said so.
    retry_after: Option<Duration>,
}

impl Web {
    /// `base` is what stands before `/api/v1`; `patience` is how long it may answer that
    /// it is not ready, and when it will be.
    pub(super) fn at(base: &str, patience: Duration) -> Result<Self, Failure> {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| {
                Failure::with_remedy(
                    format!("there are no certificates of authorities: {error}"),
                    "install ca-certificates, or name a file with SSL_CERT_FILE",
                )
            })?
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            patience,
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request to `path` below `/api/v1`, again for as long as it is asked to.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let since = Instant::now();
        // What was made although the answer says otherwise is not made twice.
        let key = format!("{:032x}", rand::random::<u128>());
        loop {
            let answer = self.ask_once(&method, path, token, body, &key).await?;
            let pause = match answer.retry_after {
                Some(pause) if answer.status == StatusCode::SERVICE_UNAVAILABLE => pause,
                _ => return Ok(answer),
            };
            let pause = pause.clamp(Duration::from_secs(1), LONGEST_PAUSE);
            if since.elapsed() + pause > self.patience {
                return Ok(answer);
            }
            sleep(pause).await;
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
        key: &str,
    ) -> Result<Answer, Failure> {
        let url = format!("{}/api/v1/{path}", self.base);
        let what = format!("{method} {url}");
        let failed = |why: String| Failure::new(format!("{what}: {why}"));
        let mut request = Request::builder().method(method).uri(&url);
        if *method == Method::POST {
            request = request.header("idempotency-key", key);
        }
        request = request.header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(|body| Bytes::from(body.to_string()));
        let request = request
            .body(Full::new(bytes.unwrap_or_default()))
            .map_err(|error| failed(error.to_string()))?;
        let answered = async {
            let response = self.client.request(request).await;
            let response = response.map_err(|error| failed(causes(&error)))?;
            let status = response.status();
            let retry_after = response.headers().get(header::RETRY_AFTER);
            let seconds = retry_after.and_then(|it| it.to_str().ok()?.parse().ok());
            let retry_after = seconds.map(Duration::from_secs);
            let body = Limited::new(response.into_body(), MOST_BYTES);
            let body = body.collect().await;
            let bytes = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            let text = || {
                String::from_utf8_lossy(&bytes)
                    .chars()
                    .take(200)
                    .collect::<String>()
            };
            let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(text()));
            Ok(Answer {
                status,
                body,
                retry_after,
            })
        };
        let answer = tokio::time::timeout(TIMEOUT, answered).await;
        answer.unwrap_or_else(|_| Err(failed(format!("no answer within {TIMEOUT:?}"))))
    }

    /// As [`Self::ask`], where any answer but `expected` is a failure.
    pub(super) async fn expect(
        &self,
        expected: StatusCode,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let what = format!("{method} {}/api/v1/{path}", self.base);
        let answer = self.ask(method, path, token, body).await?;
        if answer.status == expected {
            return Ok(answer.body);
        }
        let why = &answer.body;
        let detail = why["detail"].as_str().or(why["title"].as_str());
        let fields = why["errors"].as_array().into_iter().flatten();
        let fields: Vec<_> = fields.map(Value::to_string).collect();
        Err(Failure::new(format!(
            "{what}: {} instead of {expected}: {} {}",
            answer.status,
            detail.map_or_else(|| why.to_string(), str::to_owned),
            fields.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const SOON: &str = "503 Service Unavailable\r\nretry-after: 1";
    const LATER: &str = "503 Service Unavailable\r\nretry-after: 7";

    /// An API that answers one request after the other so, each on a connection of its
    /// own; gives its address, and the requests in the end.
    async fn api(
        answers: &'static [&'static str],
    ) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.push(whole(&mut stream).await);
                let text = format!(
                    "HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
                );
                stream.write_all(text.as_bytes()).await.unwrap();
            }
            asked
        });
        (base, serving)
    }

    /// A request to its end, in however many pieces it comes: what is left unread when the
    /// connection is closed takes the answer with it.
    async fn whole(stream: &mut TcpStream) -> String {
        let mut request = String::new();
        loop {
            request.push_str(&String::from_utf8(vec![stream.read_u8().await.unwrap()]).unwrap());
            let Some((head, body)) = request.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_lowercase();
            let length = |line: &str| line.strip_prefix("content-length: ")?.parse().ok();
            if body.len() == head.lines().find_map(length).unwrap_or(0) {
                return head;
            }
        }
    }

    fn key_of(request: &str) -> &str {
        let mut lines = request.lines();
        lines
            .find_map(|line| line.strip_prefix("idempotency-key: "))
            .unwrap()
    }

    #[tokio::test]
    async fn what_is_not_ready_is_asked_again() {
        let (base, serving) = api(&[SOON, SOON, "201 Created"]).await;
        let web = Web::at(&base, Duration::from_secs(600)).unwrap();
        let body = Value::from("it");
        let answer = web.ask(Method::POST, "vms", None, Some(&body)).await;
        assert!(answer.is_ok_and(|it| it.status == StatusCode::CREATED));
        let asked = serving.await.unwrap();
        let first = key_of(&asked[0]);
        assert!(asked.iter().all(|it| key_of(it) == first), "{asked:?}");
    }

    #[tokio::test]
    async fn what_will_not_be_ready_in_time_is_told_at_once() {
        let (base, serving) = api(&[LATER, "503 Service Unavailable"]).await;
        for patience in [Duration::from_secs(6), Duration::from_secs(600)] {
            let web = Web::at(&base, patience).unwrap();
            let answer = web.ask(Method::GET, "health", None, None).await;
            assert!(answer.is_ok_and(|it| it.status == StatusCode::SERVICE_UNAVAILABLE));
        }
        assert_eq!(serving.await.unwrap().len(), 2);
    }
}
