//! [`Flow`]: a sign-in at a provider between its begin and its end. It is sealed
//! into a cookie of the browser, so that no replica has to remember it and no
//! other browser can end it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use jiff::Timestamp;
use kite_core::crd::SignInProvider;
use kite_rest::{
    Problem,
    cookie::{self, Role},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::place::{Visit, own_origin};
use crate::{providers::Failure, seal::Seal, state::Accounts, token::random_token};

/// How long people may take at the provider.
const LIFETIME: Duration = Duration::from_secs(600);
/// What a sealed flow is for; no account's uid reads so.
const PURPOSE: &str = "a sign-in at a provider";
/// Most bytes of a cookie that is worth opening.
const MOST_BYTES: usize = 8192;

/// What the end of a sign-in must fit.
#[derive(Serialize, Deserialize)]
pub(super) struct Flow {
    /// Name of the provider, where it is and what Kite is there: whoever edits
    /// that meanwhile ends the flow.
    pub(super) provider: String,
    issuer: String,
    client_id: String,
    state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) redirect_uri: String,
    /// Where the person wants to be in the end.
    pub(super) return_to: String,
    /// Seconds since 1970.
    begun: i64,
    /// For whom an identity is to be linked; absent where somebody signs in.
    pub(super) linking: Option<Linking>,
}

/// The account that an identity is to be linked with.
#[derive(Serialize, Deserialize)]
pub(crate) struct Linking {
    /// Name of the account.
    pub(crate) user: String,
    /// Its uid.
    pub(crate) user_uid: String,
    /// Name of the session that began it.
    pub(crate) session: String,
}

/// A sign-in that was begun.
pub(crate) struct Started {
    /// Where the browser goes.
    pub(crate) url: String,
    /// What it takes along.
    pub(crate) cookie: HeaderValue,
}

/// Begins a sign-in at `provider`.
pub(crate) async fn begin(
    state: &Accounts,
    provider: &SignInProvider,
    visit: &Visit,
    return_to: String,
    linking: Option<Linking>,
) -> Result<Started, Failure> {
    let metadata = state.providers().metadata(provider).await?;
    let origin = own_origin(state, visit)?;
    let flow = Flow {
        provider: provider.name.clone(),
        issuer: provider.issuer.clone(),
        client_id: provider.client_id.clone(),
        state: random_token("")?,
        nonce: random_token("")?,
        verifier: random_token("")?,
        redirect_uri: format!("{origin}/api/v1/auth/oidc/{}/callback", provider.name),
        return_to,
        begun: Timestamp::now().as_second(),
        linking,
    };
    let mut url = metadata.authorization.clone();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("redirect_uri", &flow.redirect_uri)
        .append_pair("scope", &provider.scope())
        .append_pair("state", &flow.state)
        .append_pair("nonce", &flow.nonce)
        .append_pair("code_challenge", &challenge(&flow.verifier))
        .append_pair("code_challenge_method", "S256");
    Ok(Started {
        url: url.into(),
        cookie: flow.cookie(state).await?,
    })
}

/// What the provider knows of the verifier (RFC 7636 §4.2).
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

impl Flow {
    async fn cookie(&self, state: &Accounts) -> Result<HeaderValue, Failure> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let sealed = Seal::of_cluster(state).await?.seal(PURPOSE, &text)?;
        let secure = state.settings().secure_cookies;
        cookie::set(Role::Flow, &sealed, LIFETIME, secure).ok_or(Failure::Expired)
    }

    /// The flow that the browser began and to which the answer `given` belongs.
    /// There may be several cookies where another host planted one.
    pub(super) async fn find(
        state: &Accounts,
        visit: &Visit,
        given: &str,
    ) -> Result<Self, Failure> {
        if visit.flows.is_empty() {
            return Err(Failure::Expired);
        }
        let seal = Seal::of_cluster(state).await?;
        visit
            .flows
            .iter()
            .filter(|sealed| sealed.len() <= MOST_BYTES)
            .filter_map(|sealed| seal.open(PURPOSE, sealed).ok())
            .filter_map(|text| serde_json::from_slice::<Self>(&text).ok())
            .find(|flow| flow.is_fresh() && flow.state.as_bytes().ct_eq(given.as_bytes()).into())
            .ok_or(Failure::Expired)
    }

    fn is_fresh(&self) -> bool {
        let age = Timestamp::now().as_second() - self.begun;
        u64::try_from(age).is_ok_and(|age| age < LIFETIME.as_secs())
    }

    /// Whether it was begun with the provider as it is set up now.
    pub(super) fn is_at(&self, provider: &SignInProvider) -> bool {
        self.provider == provider.name
            && self.issuer == provider.issuer
            && self.client_id == provider.client_id
    }

    /// When it was begun.
    pub(super) fn begun(&self) -> Timestamp {
        Timestamp::from_second(self.begun).unwrap_or_default()
    }
}

/// Takes the cookie away.
pub(super) fn end(state: &Accounts) -> Option<HeaderValue> {
    let secure = state.settings().secure_cookies;
    cookie::set(Role::Flow, "", Duration::ZERO, secure)
}

/// Its end as a problem of everyday kinds.
impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        failure.problem()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let expected = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(challenge(verifier), expected);
    }
}
