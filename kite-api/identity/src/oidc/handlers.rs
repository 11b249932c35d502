//! Where a browser leaves for a provider, and where it comes back.

use axum::extract::{Path, Query, State};
use http::HeaderValue;
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{KiteSession, SignInProvider},
};
use kite_rest::{Named, Problem, Redirect, audit::note};
use schemars::JsonSchema;
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use super::{
    account::{account_of, link},
    exchange::person_of,
    flow::{self, Flow, Linking, begin},
    place::{Visit, is_local_path},
};
use crate::{
    caller::find_user,
    client::Client,
    providers::Failure,
    session::{is_open, require_epoch},
    sign_in::open_in_browser,
    state::Accounts,
};

/// Where people are told what went wrong.
const SIGN_IN_PAGE: &str = "/sign-in";
/// Where they are told so who link an identity.
const ACCOUNT_PAGE: &str = "/account";

/// Where somebody wants to be after signing in.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wish {
    /// A path of the web page, such as `/account`.
    return_to: Option<String>,
}

/// `GET /api/v1/auth/oidc/{name}`
pub(crate) async fn start(
    State(state): State<Accounts>,
    client: Client,
    visit: Visit,
    Path(Named { name }): Path<Named>,
    Query(Wish { return_to }): Query<Wish>,
) -> Result<Redirect, Problem> {
    let return_to = return_to.unwrap_or_else(|| "/".to_owned());
    let started = async {
        if !is_local_path(&return_to) {
            return Err(Failure::BadReturn(return_to));
        }
        let provider = find_provider(&state, &name).await?;
        // Counted until it ends well.
        let _counted = state
            .provider_throttle()
            .attempt(&name, client.source(&state))
            .map_err(Failure::TooMany)?;
        begin(&state, &provider, &visit, return_to, None).await
    };
    match started.await {
        Ok(started) => Ok(Redirect::at(&started.url).cookies([started.cookie])),
        Err(failure) => told(&visit, SIGN_IN_PAGE, &name, failure, None),
    }
}

/// What a provider sends a browser back with.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Returned {
    /// What the sign-in was begun with.
    state: Option<String>,
    /// What the provider gives a token for.
    code: Option<String>,
    /// Why it does not.
    error: Option<String>,
    /// Which provider it is.
    iss: Option<String>,
}

/// `GET /api/v1/auth/oidc/{name}/callback`
pub(crate) async fn callback(
    State(state): State<Accounts>,
    client: Client,
    visit: Visit,
    Path(Named { name }): Path<Named>,
    Query(returned): Query<Returned>,
) -> Result<Redirect, Problem> {
    let given = returned.state.as_deref().unwrap_or_default();
    let flow = match Flow::find(&state, &visit, given).await {
        Ok(flow) => flow,
        // What somebody else's link leads to does not end what was begun. Whether
        // an identity was to be linked is not known: who is signed in is led on from
        // there by the page, which says it all the same.
        Err(failure) => return told(&visit, SIGN_IN_PAGE, &name, failure, None),
    };
    let ended = finish(&state, &client, &visit, &name, &flow, &returned).await;
    let cookie = flow::end(&state);
    let outcome = match ended {
        Ok(cookies) => {
            let cookies = cookies.into_iter().chain(cookie);
            return Ok(Redirect::at(&flow.return_to).cookies(cookies));
        }
        Err(failure) => failure,
    };
    let page = match flow.linking {
        Some(_) => ACCOUNT_PAGE,
        None => SIGN_IN_PAGE,
    };
    told(&visit, page, &name, outcome, cookie)
}

/// Ends a flow: what sets the cookies of a new session, or nothing where an
/// identity was linked.
async fn finish(
    state: &Accounts,
    client: &Client,
    visit: &Visit,
    name: &str,
    flow: &Flow,
    returned: &Returned,
) -> Result<Vec<HeaderValue>, Failure> {
    let source = client.source(state);
    let attempt = state
        .provider_throttle()
        .attempt(name, source)
        .map_err(Failure::TooMany)?;
    let ended = if let Some(linking) = &flow.linking {
        finish_linking(state, visit, name, flow, returned, linking).await
    } else {
        note(|notes| notes.sign_in(format!("provider:{name}"), None));
        let signed_in = sign_in(state, client, name, flow, returned).await;
        let outcome = signed_in.as_ref().map(|_| ());
        let outcome = outcome.map_err(|failure| failure.clone().problem().kind());
        state.counts().signed_in(outcome);
        signed_in
    };
    if ended.is_ok() {
        attempt.succeeded();
        state.provider_throttle().forgive(name, source);
    }
    ended
}

async fn sign_in(
    state: &Accounts,
    client: &Client,
    name: &str,
    flow: &Flow,
    returned: &Returned,
) -> Result<Vec<HeaderValue>, Failure> {
    let provider = find_provider(state, name).await?;
    let person = prove(state, &provider, flow, returned).await?;
    // Before it makes an account that nobody could be signed in to.
    require_epoch(state)?;
    let user = account_of(state, &provider, &person, client).await?;
    tracing::info!(
        user = user.spec.username,
        provider = name,
        "signed in at a provider"
    );
    Ok(open_in_browser(state, &user, client, &person.identity).await?)
}

async fn finish_linking(
    state: &Accounts,
    visit: &Visit,
    name: &str,
    flow: &Flow,
    returned: &Returned,
    linking: &Linking,
) -> Result<Vec<HeaderValue>, Failure> {
    require_session(state, visit, linking).await?;
    let provider = find_provider(state, name).await?;
    let person = prove(state, &provider, flow, returned).await?;
    link(state, linking, &person.identity).await?;
    Ok(Vec::new())
}

/// The person whom the provider has sent back.
async fn prove(
    state: &Accounts,
    provider: &SignInProvider,
    flow: &Flow,
    returned: &Returned,
) -> Result<super::person::Person, Failure> {
    if !flow.is_at(provider) {
        return Err(Failure::Expired);
    }
    let metadata = state.providers().metadata(provider).await?;
    let is_there = match &returned.iss {
        Some(issuer) => *issuer == provider.issuer,
        None => !metadata.names_itself,
    };
    if !is_there {
        tracing::warn!(provider = provider.name, "the answer is another provider's");
        return Err(Failure::Untrusted);
    }
    if let Some(error) = &returned.error {
        tracing::info!(provider = provider.name, ?error, "no sign-in");
        return Err(Failure::Denied);
    }
    let code = returned.code.as_deref().ok_or(Failure::Refused)?;
    let person = person_of(state, provider, &metadata, flow, code).await?;
    if !provider.admits(&person.groups) {
        return Err(Failure::NotAdmitted);
    }
    Ok(person)
}

/// That the browser still has the session that began to link an identity. Its
/// access token may have ended while the person was at the provider.
async fn require_session(
    state: &Accounts,
    visit: &Visit,
    linking: &Linking,
) -> Result<(), Failure> {
    if !visit.sessions.contains(&linking.session) {
        return Err(Failure::OtherSession);
    }
    let key = ObjectKey::cluster(&linking.session);
    let session = state.cluster().get_opt::<KiteSession>(&key).await;
    let session = session.map_err(Problem::from)?.filter(is_open);
    let session = session.ok_or(Failure::OtherSession)?;
    let user = find_user(state, &session).await?;
    let is_theirs = user.is_some_and(|user| {
        user.metadata.uid.as_deref() == Some(linking.user_uid.as_str())
            && session.spec.user == linking.user
    });
    if is_theirs {
        Ok(())
    } else {
        Err(Failure::OtherSession)
    }
}

/// The provider called `name`.
pub(crate) async fn find_provider(state: &Accounts, name: &str) -> Result<SignInProvider, Failure> {
    let providers = state.platform_now().await?.sign_in_providers;
    let mut providers = providers.into_iter();
    providers
        .find(|provider| provider.name == name)
        .ok_or(Failure::NoProvider)
}

/// Leads a browser to the page that says what went wrong; others get a problem
/// document. No text of a provider is in either.
fn told(
    visit: &Visit,
    page: &str,
    provider: &str,
    failure: Failure,
    cookie: Option<HeaderValue>,
) -> Result<Redirect, Problem> {
    tracing::info!(provider, code = failure.code(), "no sign-in at a provider");
    if !visit.shows_pages {
        return Err(failure.problem().with_cookies(cookie.into_iter().collect()));
    }
    let query = Serializer::new(String::new())
        .append_pair("failed", failure.code())
        .append_pair("provider", provider)
        .finish();
    Ok(Redirect::at(&format!("{page}?{query}")).cookies(cookie))
}
