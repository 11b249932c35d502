//! Which versions of a container disk its registry has, by the OCI distribution API.
//!
//! Not by the crate `oci-client` (0.18), which does all of pulling and pushing: it follows
//! redirects and whatever a registry names as the place of its tokens, reads answers of any
//! size, and does not tell the `Link` by which some registries go on. What is asked here are
//! tags, of a registry that administrators of the cluster have named.

mod challenge;
mod problem;
mod tags;

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::Full;
use kite_rest::web::{FetchError, Reach, Web, get};
use serde::Deserialize;
use url::Url;

use self::challenge::More;
pub(crate) use self::{problem::RegistryError, tags::Repository};

/// Most answers with tags that are asked for.
const MOST_PAGES: usize = 10;
/// Most tags that are told.
const MOST_TAGS: usize = 2000;
/// Longest time for all of them.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many tags an answer is to have; some registries have fewer, whatever is asked.
const PER_PAGE: &str = "n=1000";

/// What a registry says of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    /// The newest version first, as far as names tell.
    pub(crate) tags: Vec<String>,
    /// Whether these are all.
    pub(crate) complete: bool,
}

/// Asks registries.
#[derive(Debug)]
pub(crate) struct Registries {
    web: Web,
    scheme: &'static str,
}

#[derive(Deserialize)]
struct Page {
    /// Null where there are none.
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registries {
    /// Asks registries elsewhere by HTTPS; on this very machine by HTTP, where `here`.
    pub(crate) fn new(here: bool) -> Self {
        let (reach, scheme) = if here {
            (Reach::Here, "http")
        } else {
            (Reach::Elsewhere, "https")
        };
        Self {
            web: Web::new(reach),
            scheme,
        }
    }

    /// The tags of a repository.
    pub(crate) async fn tags(&self, of: &Repository) -> Result<Tags, RegistryError> {
        let found = tokio::time::timeout(PATIENCE, self.found(of)).await;
        found.unwrap_or_else(|_| Err(FetchError::from("it takes too long").into()))
    }

    async fn found(&self, of: &Repository) -> Result<Tags, RegistryError> {
        let first = format!(
            "{}://{}/v2/{}/tags/list?{PER_PAGE}",
            self.scheme, of.host, of.path
        );
        let first = Url::parse(&first)
            .ok()
            .and_then(|url| self.web.address(url.as_str(), &url))
            .ok_or(RegistryError::Unreachable(FetchError::from(
                "it is on this machine, or on its link",
            )))?;
        let (mut more, mut token) = (More::At(first), None);
        let mut tags = BTreeSet::new();
        for _ in 0..MOST_PAGES {
            let More::At(url) = more else { break };
            let answer = self.page(&url, of, &mut token).await?;
            let page: Page = serde_json::from_slice(answer.body())
                .map_err(|error| RegistryError::Odd(error.to_string()))?;
            let found = page.tags.unwrap_or_default().into_iter();
            tags.extend(found.filter(|tag| tags::is_tag(tag)));
            more = challenge::next(answer.headers(), &url);
            if tags.len() >= MOST_TAGS {
                break;
            }
        }
        let complete = more == More::None && tags.len() <= MOST_TAGS;
        let mut tags: Vec<_> = tags.into_iter().collect();
        tags::newest_first(&mut tags);
        tags.truncate(MOST_TAGS);
        Ok(Tags { tags, complete })
    }

    /// An answer with tags; for a registry that asks for one, with a token that everybody gets.
    async fn page(
        &self,
        url: &Url,
        of: &Repository,
        token: &mut Option<String>,
    ) -> Result<Response<Bytes>, RegistryError> {
        let answer = self.ask(url, token.as_deref()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || token.is_some() {
            return judged(answer);
        }
        *token = Some(self.token(answer.headers(), url, of).await?);
        judged(self.ask(url, token.as_deref()).await?)
    }

    async fn ask(&self, url: &Url, token: Option<&str>) -> Result<Response<Bytes>, RegistryError> {
        let mut request: Request<Full<Bytes>> = get(url)?;
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse();
            let value = value.map_err(|_| RegistryError::Odd("its token is none".to_owned()))?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        Ok(self.web.ask(request).await?)
    }

    async fn token(
        &self,
        headers: &HeaderMap,
        registry: &Url,
        of: &Repository,
    ) -> Result<String, RegistryError> {
        let asked = challenge::bearer(headers).ok_or(RegistryError::Denied)?;
        // Where the token is asked for the registry says: not just anywhere.
        let place = self.web.address(&asked.realm, registry);
        let mut place = place
            .filter(|place| challenge::is_related(place, registry))
            .ok_or_else(|| RegistryError::Elsewhere(asked.realm.clone()))?;
        place
            .query_pairs_mut()
            .extend_pairs(asked.service.map(|it| ("service", it)))
            .append_pair("scope", &format!("repository:{}:pull", of.path));
        let answer = judged(self.web.ask(get(&place)?).await?)?;
        let token: Token = serde_json::from_slice(answer.body())
            .map_err(|error| RegistryError::Odd(error.to_string()))?;
        let token = token.token.or(token.access_token);
        token.ok_or_else(|| RegistryError::Odd("it gives no token".to_owned()))
    }
}

/// An answer that has what was asked for.
fn judged(answer: Response<Bytes>) -> Result<Response<Bytes>, RegistryError> {
    let text = |name: header::HeaderName| {
        let value = answer.headers().get(name)?.to_str().ok()?;
        Some(value.chars().take(200).collect::<String>())
    };
    match answer.status() {
        StatusCode::OK => Ok(answer),
        StatusCode::NOT_FOUND => Err(RegistryError::Missing),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(RegistryError::Denied),
        StatusCode::TOO_MANY_REQUESTS => {
            let seconds = text(header::RETRY_AFTER).and_then(|it| it.parse().ok());
            Err(RegistryError::Limited(seconds))
        }
        status if status.is_redirection() => Err(RegistryError::Elsewhere(
            text(header::LOCATION).unwrap_or_default(),
        )),
        status => Err(RegistryError::Odd(format!("it answers with {status}"))),
    }
}
