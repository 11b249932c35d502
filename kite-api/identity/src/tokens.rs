//! One's own API tokens.

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with},
};
use axum::{
    extract::FromRef,
    extract::{Path, State},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KiteToken, KiteTokenSpec, KiteUser, TokenScope},
};
use kite_rest::{
    Answer, Bodies, Bounds, Created, Done, Form, IdempotencyKey, Input, Items, LABEL, Named, Page,
    Problem, ProblemKind, Sent, SomeOf, Stamp, is_label, openapi::about, read_end,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    caller::Caller,
    kept_token::{API_TOKEN, seal_token, sealed_token},
    notices::{AccountNotice, tell_ahead},
    personal::{end_token, is_token_of, is_valid, new_token, tokens_of},
    state::Accounts,
    unread::require_read,
};

const TAG: &str = "me";

/// The paths below `/me/tokens`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    use ProblemKind::{Conflict, NotFound, Taken};
    ApiRouter::new()
        .api_route(
            "/me/tokens",
            get_with(list, about(TAG, "listTokens", "List one's API tokens", &[])).post_with(
                create,
                about(
                    TAG,
                    "createToken",
                    "Make an API token, which is shown this once",
                    &[Taken, Conflict],
                ),
            ),
        )
        .api_route(
            "/me/tokens/{name}",
            delete_with(
                delete,
                about(TAG, "endToken", "End an API token", &[NotFound]),
            ),
        )
}

/// Most tokens of a user.
const MOST_TOKENS: usize = 50;
/// How many scopes a token has.
const SCOPES: Bounds = Bounds::SOME;
/// Days that a token is good for unless told otherwise, and at most.
const DAYS: (i64, i64) = (90, 366);

/// A token as its owner sees it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Token")]
pub(crate) struct TokenView {
    /// What its owner calls it.
    name: String,
    /// What it may be used for.
    scopes: Vec<TokenScope>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// When it ends.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// Give or take an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    last_used_at: Option<String>,
}

impl TokenView {
    fn of(token: &KiteToken) -> Self {
        let status = token.status.as_ref();
        Self {
            name: token.spec.name.clone(),
            scopes: token.spec.scopes.clone(),
            created_at: token.creation_timestamp().map(|time| time.0.to_string()),
            expires_at: token.spec.expires_at.0.to_string(),
            last_used_at: status
                .and_then(|status| status.last_used_at.as_ref())
                .map(|time| time.0.to_string()),
        }
    }
}

/// A token that was just made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenMade {
    /// Told this once.
    token: String,
    #[serde(flatten)]
    view: TokenView,
}

/// `GET /api/v1/me/tokens`
async fn list(
    State(state): State<Accounts>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<TokenView>>, Problem> {
    caller.require(AccountAction::ManageTokens, Whose::Own)?;
    let platform = state.platform();
    let mut tokens = tokens_of(&state, caller.user());
    tokens.retain(|token| {
        is_valid(token)
            && is_token_of(token, caller.user(), &platform)
            && page.wants([token.spec.name.as_str()])
    });
    Ok(Answer::new(page.cut(&tokens, TokenView::of)))
}

/// A token that somebody wants to have.
pub(crate) struct NewToken {
    name: String,
    scopes: Vec<TokenScope>,
    expires_at: Timestamp,
}

impl Input for NewToken {
    const NAME: &'static str = "NewToken";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        (
            "name",
            "What to call it: a DNS label, and each of one's tokens another.",
        ),
        ("scopes", "What it may do, of what its owner may."),
        (
            "expiresAt",
            "When it ends: by default in 90 days, at most in 366.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("name", LABEL), ("scopes", SCOPES)];

    fn example() -> Option<Value> {
        Some(json!({"name": "ci", "scopes": ["vms:write"]}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let name: Option<String> = form.required("name");
        let scopes = form
            .required::<SomeOf<TokenScope>>("scopes")
            .map(|SomeOf(scopes)| scopes);
        let expires_at = read_end(form, DAYS);
        if name.as_deref().is_some_and(|name| !is_label(name)) {
            form.error(
                "name",
                "must be lower-case letters, digits and hyphens, at most 63",
            );
        }
        if scopes.as_ref().is_some_and(|it| !SCOPES.hold(it.len())) {
            form.error("scopes", "is empty: name what the token may do");
        }
        let mut scopes = scopes?;
        scopes.sort_by_key(|scope| scope.as_str());
        scopes.dedup();
        Some(Self {
            name: name?,
            scopes,
            expires_at,
        })
    }
}

/// `POST /api/v1/me/tokens`
async fn create(
    State(state): State<Accounts>,
    caller: Caller,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewToken>,
) -> Result<Created<TokenMade>, Problem> {
    caller.require(AccountAction::ManageTokens, Whose::Own)?;
    let NewToken {
        name,
        scopes,
        expires_at,
    } = form.finish_with(input)?;
    let user = caller.user();
    let platform = state.platform();
    require_read(&platform, "tokenEpoch")?;
    let stamp = once.stamp(&caller.uid(), &form);
    let (token, mut object) = new_token(KiteTokenSpec {
        user: user.name_any(),
        user_uid: user.uid().unwrap_or_default(),
        name: name.clone(),
        hash: String::new(),
        scopes,
        expires_at: Time(expires_at),
        user_epoch: user.spec.token_epoch,
        platform_epoch: platform.token_epoch,
    })?;
    if let Some(stamp) = &stamp {
        stamp.require_only(&state.caches().tokens, &ObjectKey::of(&object))?;
        if let Some(made) = repeated(&state, user, stamp, &object).await? {
            return Ok(made);
        }
        stamp.mark(&mut object);
        seal_token(&state, API_TOKEN, &token, &mut object).await?;
    }
    if let Err(refused) = make_room(&state, user, &name).await {
        // What is in the way may be what the same request has just made.
        let made = match &stamp {
            Some(stamp) => repeated(&state, user, stamp, &object).await?,
            None => None,
        };
        return made.ok_or(refused);
    }
    // Who makes one, uses it and ends it is told of, too.
    let told = tell_ahead(&state, user, AccountNotice::Token, &name).await?;
    let made = match state.cluster().create(&object).await {
        Ok(made) => made,
        // Nobody knows what came of it.
        Err(error @ ClusterError::Unavailable { .. }) => return Err(form.blame(error)),
        Err(error) => {
            told.withdraw(&state).await;
            return match (error, &stamp) {
                (ClusterError::AlreadyExists { .. }, Some(stamp)) => {
                    let made = repeated(&state, user, stamp, &object).await?;
                    made.ok_or_else(|| taken(&name))
                }
                (ClusterError::AlreadyExists { .. }, None) => Err(taken(&name)),
                (error, _) => Err(form.blame(error)),
            };
        }
    };
    state.caches().tokens.caught_up_with(&made).await;
    tracing::info!(user = caller.name(), token = name, "made an API token");
    Ok(created(&made, token))
}

fn created(object: &KiteToken, token: String) -> Created<TokenMade> {
    let view = TokenView::of(object);
    let at = format!("/api/v1/me/tokens/{}", view.name);
    Created::new(TokenMade { token, view }).with_location(&at)
}

/// The answer that the same request was given before. The object's name follows from
/// the user and the token's name, so it is there whichever replica made it.
async fn repeated(
    state: &Accounts,
    user: &KiteUser,
    stamp: &Stamp,
    wanted: &KiteToken,
) -> Result<Option<Created<TokenMade>>, Problem> {
    let key = ObjectKey::of(wanted);
    let there = state.cluster().get_opt::<KiteToken>(&key).await?;
    let Some(there) = there.filter(|there| stamp.is_on(there)) else {
        return Ok(None);
    };
    stamp.check(&there)?;
    if !is_valid(&there) || !is_token_of(&there, user, &state.platform()) {
        return Err(Problem::new(
            ProblemKind::Conflict,
            format!(
                "the API token {:?} that this Idempotency-Key made is over: make another with a \
                 new key",
                there.spec.name
            ),
        ));
    }
    // Of one that came back from a backup the token is not known any more.
    let token = sealed_token(state, API_TOKEN, &there).await?;
    state.caches().tokens.caught_up_with(&there).await;
    Ok(token.map(|token| created(&there, token).replayed(true)))
}

fn taken(name: &str) -> Problem {
    let message = "is the name of another of your tokens: choose another, or delete that one";
    Problem::field(ProblemKind::Taken, "name", name, message)
}

/// Takes one of this name away that is over, and sees to it that there are not too
/// many.
async fn make_room(state: &Accounts, user: &KiteUser, name: &str) -> Result<(), Problem> {
    let platform = state.platform();
    let tokens = tokens_of(state, user);
    let (kept, over): (Vec<_>, Vec<_>) = tokens
        .into_iter()
        .partition(|token| is_valid(token) && is_token_of(token, user, &platform));
    if kept.iter().any(|token| token.spec.name == name) {
        return Err(taken(name));
    }
    if kept.len() >= MOST_TOKENS {
        return Err(Problem::new(
            ProblemKind::Conflict,
            format!("you have {MOST_TOKENS} API tokens: delete one that is not used any more"),
        ));
    }
    for token in over.iter().filter(|token| token.spec.name == name) {
        end_token(state, token).await?;
    }
    Ok(())
}

/// `DELETE /api/v1/me/tokens/{name}`: of what opens the account this leaves less, so it
/// asks for no proof.
async fn delete(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Done, Problem> {
    caller.permit(AccountAction::ManageTokens, Whose::Own)?;
    let platform = state.platform();
    let token = tokens_of(&state, caller.user())
        .into_iter()
        .find(|token| token.spec.name == name && is_token_of(token, caller.user(), &platform))
        .ok_or_else(|| Problem::not_found("API token", &name))?;
    end_token(&state, &token).await?;
    tracing::info!(user = caller.name(), token = name, "ended an API token");
    Ok(Done::default())
}
