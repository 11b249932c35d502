//! Who one is at sign-in providers: at whichever of them one may sign in.

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with},
};
use axum::{
    extract::FromRef,
    extract::{Path, State},
};
use kite_core::{
    cluster::Cluster as _,
    crd::{Identity, KiteSession, KiteUser, SignInProvider},
};
use kite_rest::{
    Answer, Bodies, Bounds, Done, Form, Input, Items, Page, Problem, ProblemKind, Sent,
    openapi::about,
};
use kube::{ResourceExt, api::ListParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    caller::Caller,
    client::Client,
    oidc::{LOCAL_PATH, Linking, Visit, begin, find_provider, is_local_path, unlink},
    openapi::EXAMPLE_PASSWORD,
    prove::prove_password,
    session::end_session,
    sign_in::clear_cookies,
    state::Accounts,
};

const TAG: &str = "me";

/// The paths below `/me/identities`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    use ProblemKind::{Conflict, NotFound, TooManyRequests, WrongCredentials};
    ApiRouter::new()
        .api_route(
            "/me/identities",
            get_with(
                list,
                about(
                    TAG,
                    "listIdentities",
                    "See who one is at sign-in providers",
                    &[],
                ),
            )
            .post_with(
                begin_linking,
                about(
                    TAG,
                    "linkIdentity",
                    "Begin to link the account with a sign-in provider",
                    &[NotFound, Conflict, WrongCredentials, TooManyRequests],
                ),
            ),
        )
        .api_route(
            "/me/identities/{id}",
            delete_with(
                remove,
                about(
                    TAG,
                    "unlinkIdentity",
                    "Unlink the account from a sign-in provider",
                    &[NotFound, Conflict, TooManyRequests],
                ),
            ),
        )
}

/// Who the account is at a provider.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Identity")]
pub(crate) struct IdentityView {
    /// By which it is unlinked.
    id: String,
    /// Where the provider is.
    issuer: String,
    /// What the provider calls one for ever.
    subject: String,
    /// The provider's name. Absent where the platform has it no more: then nobody
    /// signs in by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// What people call the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Whether the session by which this was asked began with it: without it the
    /// session is over.
    current: bool,
}

/// `GET /api/v1/me/identities`
async fn list(
    State(state): State<Accounts>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<IdentityView>>, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    let platform = state.platform();
    let begun_with = caller.session().and_then(|it| it.spec.identity.clone());
    let provider_of = |identity: &Identity| {
        let mut providers = platform.sign_in_providers.iter();
        providers.find(|provider| provider.issuer == identity.issuer)
    };
    let view = |identity: &&Identity| {
        let provider = provider_of(identity);
        let id = identity.id();
        IdentityView {
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            provider: provider.map(|provider| provider.name.clone()),
            display_name: provider.map(|provider| provider.title().to_owned()),
            current: begun_with.as_deref() == Some(id.as_str()),
            id,
        }
    };
    let mut identities: Vec<_> = caller.user().spec.identities.iter().collect();
    identities.retain(|identity| {
        let title = provider_of(identity).map(SignInProvider::title);
        let texts = [identity.issuer.as_str(), &identity.subject];
        page.wants(texts.into_iter().chain(title))
    });
    identities.sort_by_cached_key(|identity| identity.id());
    let place = |identity: &&Identity| identity.id();
    Ok(Answer::new(page.cut_along(&identities, place, view)))
}

/// With which provider, and the password once more: whoever links an identity can
/// come back by it.
pub(crate) struct Link {
    provider: String,
    password: Option<String>,
    return_to: Option<String>,
}

impl Input for Link {
    const NAME: &'static str = "Link";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        ("provider", "Name of the sign-in provider."),
        (
            "password",
            "The password of the account. Needed unless the account has none.",
        ),
        (
            "returnTo",
            "Where the browser is led in the end: a path of the web page such as `/account`.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("returnTo", LOCAL_PATH)];

    fn example() -> Option<Value> {
        Some(json!({"provider": "staff", "password": EXAMPLE_PASSWORD, "returnTo": "/account"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let provider = form.required("provider");
        let password = form.optional("password");
        let return_to: Option<String> = form.optional("returnTo");
        if return_to
            .as_deref()
            .is_some_and(|path| !is_local_path(path))
        {
            form.error(
                "returnTo",
                "must be a path of the web page such as /account",
            );
        }
        Some(Self {
            provider: provider?,
            password,
            return_to,
        })
    }
}

/// Where the browser has to go.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Begun {
    /// An address of the provider, for this browser within ten minutes.
    url: String,
}

/// `POST /api/v1/me/identities`: the browser gets a cookie and an address at the
/// provider. When it comes back from there the identity is linked, if it still has
/// the session by which this was asked.
async fn begin_linking(
    State(state): State<Accounts>,
    caller: Caller,
    client: Client,
    visit: Visit,
    Sent { input, mut form }: Sent<Link>,
) -> Result<Answer<Begun>, Problem> {
    caller.permit(AccountAction::ManageIdentities, Whose::Own)?;
    let user = caller.user();
    if user.spec.has_password() && form.peek::<String>("password").is_none() {
        form.missing::<String>("password");
    }
    let Link {
        provider,
        password,
        return_to,
    } = form.finish_with(input)?;
    let session = caller.session().filter(|it| it.spec.tokens.is_some());
    let session = session.map(ResourceExt::name_any).ok_or_else(|| {
        Problem::new(
            ProblemKind::Conflict,
            "only a browser that is signed in by its cookies can go to a provider and come back: \
             link it on the account page",
        )
    })?;
    let provider = find_provider(&state, &provider).await?;
    let password = password.unwrap_or_default();
    prove_password(&state, &caller, &client, "password", password).await?;
    let linking = Linking {
        user: caller.name(),
        user_uid: user.uid().unwrap_or_default(),
        session,
    };
    let return_to = return_to.unwrap_or_else(|| "/account".to_owned());
    let started = begin(&state, &provider, &visit, return_to, Some(linking)).await?;
    Ok(Answer::new(Begun { url: started.url }).cookies([started.cookie]))
}

/// An identity in a path.
#[derive(Deserialize, JsonSchema)]
struct Identified {
    /// What the list calls it.
    id: String,
}

/// `DELETE /api/v1/me/identities/{id}`: the sessions that began with it are over, on
/// every replica, and this one is too if it is one of them.
async fn remove(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Identified { id }): Path<Identified>,
) -> Result<Done, Problem> {
    caller.require(AccountAction::ManageIdentities, Whose::Own)?;
    take_away(&state, caller.user(), &id).await?;
    tracing::info!(user = caller.name(), "unlinked an identity");
    let begun_with = caller.session().and_then(|it| it.spec.identity.as_deref());
    Ok(if begun_with == Some(id.as_str()) {
        Done::cookies(clear_cookies(&state))
    } else {
        Done::default()
    })
}

/// Takes the identity called `id` from an account, and with it the sessions that began
/// with it.
///
/// # Errors
///
/// `Conflict` where nobody could sign in to the account any more.
pub(crate) async fn take_away(state: &Accounts, user: &KiteUser, id: &str) -> Result<(), Problem> {
    let edited = unlink(state, user, id).await?;
    // They are over by now. Linked again, the identity must not bring them back, those
    // of other replicas neither, so the API server is asked.
    let name = edited.name_any();
    let sessions = state.cluster().list(None, &ListParams::default()).await;
    let sessions: Vec<KiteSession> = match sessions {
        Ok(sessions) => sessions.items,
        Err(error) => {
            tracing::warn!(%error, "sessions of an unlinked identity stay until the next sweep");
            Vec::new()
        }
    };
    let began_with_it =
        |it: &&KiteSession| it.spec.user == name && it.spec.identity.as_deref() == Some(id);
    for session in sessions.iter().filter(began_with_it) {
        if let Err(problem) = end_session(state, session).await {
            let detail = problem.detail();
            tracing::warn!(
                detail,
                "a session of an unlinked identity stays until the next sweep"
            );
        }
    }
    Ok(())
}
