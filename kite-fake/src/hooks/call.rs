//! What is asked of whom, and what came back.

use std::time::Duration;

use bytes::Bytes;

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Host and port as in the URL, such as `hooks.default.svc:443`.
    pub authority: String,
    /// The name that the certificate must have.
    pub server_name: String,
    /// Path, with the slash that it begins with.
    pub path: String,
    /// Where to connect to, if that is not the authority: an endpoint of the Service, or
    /// why there is none.
    pub endpoint: Option<Result<String, String>>,
}

/// One call to a webhook: a POST of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    /// Where to.
    pub place: Place,
    /// Certificates in PEM of the authorities that are trusted (`caBundle`); empty for
    /// those of the system.
    pub authorities: Bytes,
    /// How long it may take.
    pub timeout: Duration,
    /// What is sent.
    pub body: Bytes,
}

impl HookCall {
    /// The whole URL, with the time that the webhook has.
    pub fn url(&self) -> String {
        format!("https://{}{}", self.place.authority, self.target())
    }

    /// Path and query.
    pub fn target(&self) -> String {
        format!("{}?timeout={}s", self.place.path, self.timeout.as_secs())
    }
}

/// A whole response of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replied {
    /// HTTP status code.
    pub code: u16,
    /// `Content-Type`, empty if there is none.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// What came of a call: a response, or why there is none, in the words of Go's HTTP client.
pub type Said = Result<Replied, String>;
