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

use super::report::Failure;
use crate::causes::causes;

/// Longest time for a request with its answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most bytes of an answer.
const MOST_BYTES: usize = 1024 * 1024;

/// The HTTP API at an address.
pub(super) struct Web {
    base: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What was answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Web {
    /// `base` is what stands before `/api/v1`.
    pub(super) fn at(base: &str) -> Result<Self, Failure> {
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
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request to `path` below `/api/v1`.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let url = format!("{}/api/v1/{path}", self.base);
        let what = format!("{method} {url}");
        let failed = |why: String| Failure::new(format!("{what}: {why}"));
        let mut request = Request::builder().method(method).uri(&url);
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
            Ok(Answer { status, body })
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
