//! [`Client`]: what guards against guessing need to know of a request.

use std::net::IpAddr;

use aide::OperationInput;
use axum::extract::{FromRef, FromRequestParts};
use http::{header, request::Parts};
use kite_rest::{Problem, address::address_in};

use crate::{origin::check_origin, state::Accounts, throttle::Source};

/// The address of whoever sent a request.
pub(crate) fn client_address(parts: &Parts, state: &Accounts) -> Option<IpAddr> {
    address_in(
        &parts.headers,
        &parts.extensions,
        state.settings().trusted_proxies,
    )
}

/// What guards against guessing need to know of a request.
pub struct Client {
    pub(crate) address: Option<IpAddr>,
    pub(crate) agent: Option<String>,
}

impl Client {
    /// Where it is, as far as that can be trusted.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Where it is, to whoever counts what is done from there.
    pub(crate) fn source(&self, state: &Accounts) -> Source<'static> {
        state.source_of(self.address)
    }
}

impl OperationInput for Client {}

impl<S: Send + Sync> FromRequestParts<S> for Client
where
    Accounts: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let state = &Accounts::from_ref(state);
        // Signing somebody in to an account that is not theirs is an attack too.
        check_origin(
            &parts.method,
            &parts.headers,
            &state.settings().origins,
            false,
        )?;
        Ok(Self {
            address: client_address(parts, state),
            agent: parts
                .headers
                .get(header::USER_AGENT)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        })
    }
}
