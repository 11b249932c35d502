use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use url::Url;

use super::reach::{NotHere, Reach};

/// Longest time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest time for a request with its answer.
const TIMEOUT: Duration = Duration::from_secs(7);
/// Most bytes of an answer.
const MOST_BYTES: usize = 512 * 1024;
/// Most requests at once.
const AT_ONCE: usize = 32;

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive()
    }
}

type Connection = Client<HttpsConnector<HttpConnector<NotHere>>, Full<Bytes>>;

/// Why there is no answer; for the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(String);

impl From<&str> for FetchError {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// Asks servers that somebody names.
pub struct Web {
    /// Made when it is first needed, for it reads the certificates of all
    /// authorities.
    connection: OnceLock<Result<Connection, FetchError>>,
    places: Semaphore,
    reach: Reach,
}

impl Web {
    /// Asks what is within `reach`.
    pub fn new(reach: Reach) -> Self {
        Self {
            connection: OnceLock::new(),
            places: Semaphore::new(AT_ONCE),
            reach,
        }
    }

    /// An address that requests may go to, as the server at `by` names it, or whoever named that.
    pub fn address(&self, text: &str, by: &Url) -> Option<Url> {
        self.reach.address(text, by)
    }

    /// Sends a request; its answer, whatever its status.
    ///
    /// # Errors
    /// A [`FetchError`] if there is no answer, or none of bounded size in bounded time.
    pub async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, FetchError> {
        let _place = self.places.try_acquire().map_err(|_| {
            FetchError("too many requests to other servers are under way".to_owned())
        })?;
        let connection = self.connection.get_or_init(|| connect(self.reach));
        let connection = connection.clone()?;
        let answer = async {
            let response = connection.request(request).await.map_err(told)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MOST_BYTES);
            let body = body.collect().await.map_err(|error| told(&*error))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(FetchError(format!("no answer within {TIMEOUT:?}"))))
    }

    /// Sends a request that is answered with a JSON document.
    ///
    /// # Errors
    /// A [`FetchError`] if there is no answer, or another one.
    pub async fn json<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, FetchError> {
        let answer = self.ask(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError(format!("it answers with {}", answer.status())));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| FetchError(format!("the answer is not what it should be: {error}")))
    }
}

/// A request for a document.
///
/// # Errors
/// A [`FetchError`] for an address that no request can be made for.
pub fn get(url: &Url) -> Result<Request<Full<Bytes>>, FetchError> {
    Request::get(url.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Full::default())
        .map_err(|error| told(&error))
}

fn connect(reach: Reach) -> Result<Connection, FetchError> {
    let mut plain = HttpConnector::new_with_resolver(NotHere::new(reach));
    plain.enforce_http(false);
    plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
        .map_err(|error| {
            FetchError(format!(
                "there are no certificates of authorities: install ca-certificates, or name a \
                 file with SSL_CERT_FILE ({error})"
            ))
        })?
        .https_or_http()
        .enable_http1()
        .wrap_connector(plain);
    Ok(Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// An error with its causes, in one line.
fn told(error: impl std::error::Error) -> FetchError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    FetchError(text)
}
