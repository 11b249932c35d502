//! What providers say of themselves: where they are asked what (OpenID Connect
//! Discovery 1.0), and with which keys they sign.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jsonwebtoken::jwk::Jwk;
use kite_core::crd::SignInProvider;
use kite_rest::web::{FetchError, Reach, Web, get};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::failure::Failure;

/// How long it is believed what a provider said.
const BELIEVED: Duration = Duration::from_secs(3600);
/// How long a provider that did not answer is not asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// The keys are asked for again because of a token with an unknown one at most
/// every so often.
const KEYS_PAUSE: Duration = Duration::from_secs(10);
/// Most issuers that are remembered; a platform has eight at a time.
const MOST_ISSUERS: usize = 32;
/// Most keys of a provider that are looked at.
const MOST_KEYS: usize = 64;

/// What providers said, in memory: each replica asks for itself.
pub(crate) struct Providers {
    pub(crate) web: Web,
    known: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Known>>>>,
}

#[derive(Default)]
struct Known {
    metadata: Option<(Instant, Arc<Metadata>)>,
    keys: Option<(Instant, Arc<Vec<Jwk>>)>,
    failed: Option<Instant>,
}

impl Known {
    /// Whoever waited while a provider did not answer does not try it anew.
    fn require_no_pause(&self) -> Result<(), Failure> {
        match self.failed {
            Some(when) if when.elapsed() < PAUSE => Err(Failure::Unavailable),
            Some(_) | None => Ok(()),
        }
    }
}

/// A discovery document, as far as it matters.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization: Url,
    pub(crate) token: Url,
    pub(crate) user_info: Option<Url>,
    keys: Url,
    /// Whether the client's secret goes into the body instead of a header.
    pub(crate) secret_in_body: bool,
    /// Whether every answer of the provider names it (RFC 9207).
    pub(crate) names_itself: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Providers {
    /// Those within `reach`.
    pub(crate) fn new(reach: Reach) -> Self {
        Self {
            web: Web::new(reach),
            known: Mutex::default(),
        }
    }

    fn of(&self, issuer: &str) -> Arc<tokio::sync::Mutex<Known>> {
        let mut known = self.known.lock();
        if known.len() >= MOST_ISSUERS && !known.contains_key(issuer) {
            known.clear();
        }
        Arc::clone(known.entry(issuer.to_owned()).or_default())
    }

    /// Where `provider` is asked what.
    pub(crate) async fn metadata(
        &self,
        provider: &SignInProvider,
    ) -> Result<Arc<Metadata>, Failure> {
        let known = self.of(&provider.issuer);
        let mut known = known.lock().await;
        if let Some((when, metadata)) = &known.metadata
            && when.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(metadata));
        }
        known.require_no_pause()?;
        match self.discover(provider).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *known = Known {
                    metadata: Some((Instant::now(), Arc::clone(&metadata))),
                    ..Known::default()
                };
                Ok(metadata)
            }
            Err(failure) => {
                known.failed = Some(Instant::now());
                Err(failure)
            }
        }
    }

    async fn discover(&self, provider: &SignInProvider) -> Result<Metadata, Failure> {
        let name = &provider.name;
        let wrong = |what: &str| {
            tracing::error!(provider = name, "{what}");
            Failure::Misconfigured(format!(
                "the settings of the sign-in provider {name:?} cannot work: {what}"
            ))
        };
        let base = provider.issuer.trim_end_matches('/');
        let place = format!("{base}/.well-known/openid-configuration");
        let issuer = Url::parse(&provider.issuer).map_err(|_| wrong("its issuer is no URL"))?;
        let place = self.web.address(&place, &issuer).ok_or_else(|| {
            wrong("its issuer needs HTTPS, and cannot be on the machine of Kite itself")
        })?;
        let document = async { self.web.json::<Document>(get(&place)?).await };
        let document = document.await.map_err(|error| lost(name, &place, &error))?;
        if document.issuer != provider.issuer {
            return Err(wrong(
                "its discovery document names another issuer; the two must be the same to the \
                 letter",
            ));
        }
        let endpoint = |text: &str| {
            self.web.address(text, &issuer).ok_or_else(|| {
                wrong(
                    "its discovery document has an address without HTTPS, or on the machine of \
                     Kite itself",
                )
            })
        };
        let methods = document.token_endpoint_auth_methods_supported;
        let takes = |method: &str| {
            methods
                .as_deref()
                .is_some_and(|methods| methods.iter().any(|it| it == method))
        };
        Ok(Metadata {
            authorization: endpoint(&document.authorization_endpoint)?,
            token: endpoint(&document.token_endpoint)?,
            user_info: document
                .userinfo_endpoint
                .as_deref()
                .map(endpoint)
                .transpose()?,
            keys: endpoint(&document.jwks_uri)?,
            secret_in_body: !takes("client_secret_basic") && takes("client_secret_post"),
            names_itself: document.authorization_response_iss_parameter_supported,
        })
    }

    /// The keys with which `provider` signs. `but_not` are those in which the one
    /// that is looked for was not found: then others are asked for.
    pub(crate) async fn keys(
        &self,
        provider: &SignInProvider,
        metadata: &Metadata,
        but_not: Option<&Arc<Vec<Jwk>>>,
    ) -> Result<Arc<Vec<Jwk>>, Failure> {
        let known = self.of(&provider.issuer);
        let mut known = known.lock().await;
        if let Some((when, keys)) = &known.keys {
            let are_others = but_not.is_none_or(|these| !Arc::ptr_eq(these, keys));
            let enough = if are_others { BELIEVED } else { KEYS_PAUSE };
            if when.elapsed() < enough {
                return Ok(Arc::clone(keys));
            }
        }
        known.require_no_pause()?;
        let found = async { self.web.json::<Value>(get(&metadata.keys)?).await };
        let found = found.await.map_err(|error| {
            known.failed = Some(Instant::now());
            lost(&provider.name, &metadata.keys, &error)
        })?;
        let keys = Arc::new(readable(&found));
        known.keys = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }
}

/// The keys that can be read; others do not matter to Kite.
fn readable(found: &Value) -> Vec<Jwk> {
    let keys = found["keys"].as_array().map(Vec::as_slice);
    keys.unwrap_or_default()
        .iter()
        .take(MOST_KEYS)
        .filter_map(|key| Jwk::deserialize(key).ok())
        .collect()
}

/// Notes that a provider does not answer.
pub(crate) fn lost(provider: &str, place: &Url, error: &FetchError) -> Failure {
    tracing::warn!(provider, %place, %error, "a sign-in provider does not answer");
    Failure::Unavailable
}
