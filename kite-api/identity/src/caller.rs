//! [`Caller`]: who sent a request.

use std::{net::IpAddr, sync::Arc, time::Duration};

use aide::{OperationInput, generate::GenContext, openapi::Operation};
use axum::{
    extract::FromRef,
    extract::{FromRequestParts, MatchedPath},
};
use http::{HeaderMap, header, request::Parts};
use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{KitePlatform, KitePlatformSpec, KiteSession, KiteUser},
    names,
};
use kite_rest::{
    Problem, ProblemKind,
    audit::note,
    budget::OfAccount,
    cookie::{self, Role},
};
use kube::ResourceExt as _;

use crate::{
    act::{Access, Deed},
    client::client_address,
    demand::lacks_factor,
    openapi::signed_in,
    origin::check_origin,
    personal::{find_token, is_personal, is_token_of, note_use},
    principal::{Principal, Standing, may_come_in},
    session::{belongs_to, find_session, is_proved, session_now},
    state::Accounts,
};

/// How old a copy of an object may be while its watch is not known to be broken.
const YOUNG: Duration = Duration::from_secs(60);

/// Extractor: the account that sent the request, or a 401 problem.
#[derive(Clone, Debug)]
pub struct Caller(pub Principal);

impl std::ops::Deref for Caller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller
where
    Accounts: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let state = &Accounts::from_ref(state);
        let caller = Self::recognise(parts, state).await?;
        parts.extensions.insert(OfAccount(caller.name().into()));
        note(|notes| notes.caller(caller.name(), caller.by()));
        Ok(caller)
    }
}

impl Caller {
    async fn recognise(parts: &Parts, state: &Accounts) -> Result<Self, Problem> {
        if let Some(principal) = parts.extensions.get::<Principal>() {
            return admit(state, principal, parts).map(Self);
        }
        let address = client_address(parts, state);
        let route = parts.extensions.get::<MatchedPath>();
        let deed = Deed::of(&parts.method, route.map_or("", MatchedPath::as_str));
        let token = if let Some(token) = bearer(&parts.headers)? {
            if is_personal(&token) {
                return by_api_token(state, &token, deed, address).await.map(Self);
            }
            token
        } else {
            let secure = state.settings().secure_cookies;
            let mut tokens = cookie::tokens(&parts.headers, Role::Access, secure);
            if tokens.is_empty() {
                return Err(Problem::new(
                    ProblemKind::Unauthenticated,
                    "sign in with POST /api/v1/auth/sign-in and send the token in the header \
                     Authorization: Bearer <token>",
                ));
            }
            check_origin(
                &parts.method,
                &parts.headers,
                &state.settings().origins,
                true,
            )?;
            tokens.swap_remove(0)
        };
        let ended = || {
            Problem::new(
                ProblemKind::Unauthenticated,
                "the session, or the time of its access token, has ended: a browser renews it \
                 with POST /api/v1/auth/refresh; otherwise sign in again",
            )
        };
        let mut session = find_session(state, &token, address)
            .await?
            .ok_or_else(ended)?;
        let user = find_user(state, &session).await?.ok_or_else(ended)?;
        tracing::Span::current().record("user", user.name_any());
        if deed.access == Access::Write && !is_proved(state, &session) {
            // Perhaps it was proved on another replica a moment ago.
            session = session_now(state, &session).await?.ok_or_else(ended)?;
        }
        let standing = Standing {
            is_proved: is_proved(state, &session),
            lacks_factor: lacks_factor(state, &user).await?,
        };
        Ok(Self(Principal::of_session(user, session, deed, standing)))
    }
}

/// Refuses a WebSocket that another site's page opens. Browsers send a cookie with
/// it, whatever page it is, and always `Origin` (RFC 6455 §4.1); who sends none is
/// no browser, and then a cookie is not believed.
///
/// # Errors
/// [`ProblemKind::Forbidden`] if the page is another site's, or a cookie comes without
/// `Origin`.
pub fn check_socket_origin(
    state: &Accounts,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let by_cookie = caller.session().is_some() && !headers.contains_key(header::AUTHORIZATION);
    check_origin(
        // Opening one is as much as any change.
        &http::Method::POST,
        headers,
        &state.settings().origins,
        by_cookie,
    )
}

/// Somebody whom the project around Kite recognised. By what is its own matter: it may be
/// a cookie, so another site's page is refused as with Kite's own. And who is suspended,
/// or goes, does not come in, though they were given from a copy of before.
fn admit(state: &Accounts, principal: &Principal, parts: &Parts) -> Result<Principal, Problem> {
    let origins = &state.settings().origins;
    check_origin(&parts.method, &parts.headers, origins, false)?;
    let key = ObjectKey::cluster(principal.name());
    let known = state.caches().users.get(&key);
    let known = known.filter(|known| known.uid() == principal.user().uid());
    if !may_come_in(principal.user()) || known.is_some_and(|known| !may_come_in(&known)) {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            format!(
                "the account {} is suspended or about to be deleted: ask an administrator",
                principal.name()
            ),
        ));
    }
    Ok(principal.clone())
}

impl OperationInput for Caller {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        signed_in(ctx, operation);
    }
}

/// Whom an API token stands for in a request that is about to do `deed`.
async fn by_api_token(
    state: &Accounts,
    text: &str,
    deed: Deed,
    address: Option<IpAddr>,
) -> Result<Principal, Problem> {
    let ended = || {
        Problem::new(
            ProblemKind::Unauthenticated,
            "the API token is not, or no longer, one of an account: sign in and make another",
        )
    };
    let token = find_token(state, text, address).await?.ok_or_else(ended)?;
    let belongs =
        |user: &KiteUser, platform: &KitePlatformSpec| is_token_of(&token, user, platform);
    let user = find_account(state, &token.spec.user, is_young(token.as_ref()), belongs)
        .await?
        .ok_or_else(ended)?;
    tracing::Span::current().record("user", user.name_any());
    note_use(state, &token);
    let lacks_factor = lacks_factor(state, &user).await?;
    Ok(Principal::of_token(user, token, deed, lacks_factor))
}

/// The session's account, unless it is gone, replaced, going or suspended, has
/// another password since, or everybody was signed out.
pub(crate) async fn find_user(
    state: &Accounts,
    session: &KiteSession,
) -> Result<Option<Arc<KiteUser>>, Problem> {
    let belongs = |user: &KiteUser, platform: &KitePlatformSpec| {
        belongs_to(session, user, platform.session_epoch)
    };
    find_account(state, &session.spec.user, is_young(session), belongs).await
}

/// The account called `name`, if it may come in and `belongs` says so too.
///
/// What is younger than a copy may be old does not end by what the copy says: the
/// account, or the platform, may be newer too.
async fn find_account(
    state: &Accounts,
    name: &str,
    is_young: bool,
    belongs: impl Fn(&KiteUser, &KitePlatformSpec) -> bool,
) -> Result<Option<Arc<KiteUser>>, Problem> {
    let stands = |user: &Arc<KiteUser>, platform: &KitePlatformSpec| {
        belongs(user, platform) && may_come_in(user)
    };
    let key = ObjectKey::cluster(name);
    let caches = state.caches();
    if caches.users.is_live() && caches.platforms.is_live() {
        let platform = state.platform();
        let user = caches.users.get(&key);
        let user = user.filter(|user| stands(user, &platform));
        if user.is_some() || !is_young {
            return Ok(user);
        }
    }
    let _permit = state.lookups().known()?;
    let user = state
        .cluster()
        .get_opt::<KiteUser>(&key)
        .await?
        .map(Arc::new);
    let key = ObjectKey::cluster(names::PLATFORM);
    let platform = state.cluster().get_opt::<KitePlatform>(&key).await?;
    let platform = platform.map(|it| it.spec).unwrap_or_default();
    Ok(user.filter(|user| stands(user, &platform)))
}

/// Whether it was made so short a time ago that a copy of another object may be
/// older.
fn is_young(object: &impl kube::Resource) -> bool {
    object
        .creation_timestamp()
        .is_none_or(|made| made.0 + YOUNG > Timestamp::now())
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| Some(token.trim().to_owned()))
        .ok_or_else(|| {
            Problem::new(
                ProblemKind::Unauthenticated,
                "the Authorization header must read: Bearer <token>",
            )
        })
}
