//! Invites, for administrators: who has one may make one account.

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
    crd::{AccessLevel, InviteAccount, KiteInvite, KiteInviteSpec, Quota},
};
use kite_rest::{
    Answer, Bodies, Created, Done, Form, IdempotencyKey, Input, Items, Named, OneOf, Page, Problem,
    ProblemKind, Sent, Stamp, openapi::about, read_end,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    allowance::Allowance,
    caller::Caller,
    invite::{InviteState, new_invite, state_of},
    kept_token::{INVITE_TOKEN, seal_token, sealed_token},
    openapi::example_quota,
    state::Accounts,
};

const TAG: &str = "admin";

/// The paths below `/admin/invites`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    use ProblemKind::{Conflict, NotFound};
    ApiRouter::new()
        .api_route(
            "/admin/invites",
            get_with(list, about(TAG, "listInvites", "List invites", &[])).post_with(
                create,
                about(
                    TAG,
                    "createInvite",
                    "Make an invite, whose token is shown this once",
                    &[Conflict],
                ),
            ),
        )
        .api_route(
            "/admin/invites/{name}",
            delete_with(
                delete,
                about(TAG, "deleteInvite", "Withdraw an invite", &[NotFound]),
            ),
        )
}

/// Most invites that are open at a time.
const MOST_INVITES: usize = 1000;
/// Days that an invite is good for unless told otherwise, and at most.
const DAYS: (i64, i64) = (7, 90);

/// An invite without its token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Invite")]
pub(crate) struct InviteView {
    /// Name of its `KiteInvite`.
    name: String,
    /// Whether it can be used.
    state: InviteState,
    /// The only address for which it is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// What the account may do that is made with it.
    access_level: AccessLevel,
    /// What the account may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
    /// What its maker wrote about it, for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The account that made it.
    created_by: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// When it ends.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// The username for which an account is being made, or was.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_for: Option<String>,
    /// The account that was made with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<String>,
    /// When an account was made with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    used_at: Option<String>,
}

impl InviteView {
    fn of(state: &Accounts, invite: &KiteInvite) -> Self {
        let maker = ObjectKey::cluster(&invite.spec.created_by.name);
        let maker = state.caches().users.get(&maker);
        let spec = &invite.spec;
        let status = invite.status.clone().unwrap_or_default();
        Self {
            name: invite.name_any(),
            state: state_of(invite, maker.as_deref(), Timestamp::now()),
            email: spec.email.clone(),
            access_level: spec.access_level,
            quota: spec.quota.clone(),
            note: spec.note.clone(),
            created_by: spec.created_by.name.clone(),
            created_at: invite.creation_timestamp().map(|time| time.0.to_string()),
            expires_at: spec.expires_at.0.to_string(),
            claimed_for: status.claimed_for,
            used_by: status.used_by.map(|account| account.name),
            used_at: status.used_at.map(|time| time.0.to_string()),
        }
    }
}

/// An invite that was just made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InviteMade {
    /// Told this once.
    token: String,
    /// The page to sign up at, with the token in its fragment, which browsers send
    /// to nobody. Absent while the platform has no web address.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(flatten)]
    view: InviteView,
}

/// `GET /api/v1/admin/invites`
async fn list(
    State(state): State<Accounts>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<InviteView>>, Problem> {
    caller.require(
        AccountAction::ManageInvites,
        Whose::Other(AccessLevel::ReadOnly),
    )?;
    let invites = state.caches().invites.list(|invite| {
        let spec = &invite.spec;
        let used_by = invite.status.as_ref().and_then(|it| it.used_by.as_ref());
        let used_by = used_by.map(|account| account.name.as_str());
        let texts = [
            invite.metadata.name.as_deref(),
            spec.email.as_deref(),
            spec.note.as_deref(),
            Some(&*spec.created_by.name),
            used_by,
        ];
        page.wants(texts.into_iter().flatten())
    });
    Ok(Answer::new(
        page.cut(&invites, |invite| InviteView::of(&state, invite)),
    ))
}

/// An invite that an administrator makes.
pub(crate) struct NewInvite {
    email: Option<String>,
    access_level: AccessLevel,
    quota: Option<Quota>,
    note: Option<String>,
    expires_at: Timestamp,
}

impl Input for NewInvite {
    const NAME: &'static str = "NewInvite";
    const MEANING: &'static [(&'static str, &'static str)] = &[(
        "expiresAt",
        "When it ends: by default in 7 days, at most in 90.",
    )];

    fn example() -> Option<Value> {
        Some(json!({
            "email": "ann@example.org",
            "accessLevel": "User",
            "quota": example_quota(),
            "note": "For the course",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let email = form.optional("email");
        let access_level = form.optional("accessLevel").map(|OneOf(level)| level);
        let access_level = access_level.unwrap_or_default();
        let quota = form.optional("quota").map(|it: Allowance| it.quota);
        let note = form.optional("note");
        let expires_at = read_end(form, DAYS);
        Some(Self {
            email,
            access_level,
            quota,
            note,
            expires_at,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteInviteSpec::json_schema(generator))
    }
}

/// `POST /api/v1/admin/invites`
async fn create(
    State(state): State<Accounts>,
    caller: Caller,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewInvite>,
) -> Result<Created<InviteMade>, Problem> {
    let level = input.as_ref().map(|new| new.access_level);
    let level = level.unwrap_or_default();
    caller.require(AccountAction::ManageInvites, Whose::Other(level))?;
    let new = form.finish_with(input)?;
    let stamp = once.stamp(&caller.uid(), &form);
    let (token, mut invite) = new_invite(
        stamp.as_ref().map(Stamp::id),
        KiteInviteSpec {
            hash: String::new(),
            email: new.email,
            access_level: new.access_level,
            quota: new.quota,
            note: new.note,
            created_by: InviteAccount {
                name: caller.name(),
                uid: caller.user().uid().unwrap_or_default(),
            },
            expires_at: Time(new.expires_at),
        },
    )?;
    if let Some(stamp) = &stamp {
        if let Some(made) = repeated(&state, stamp, &invite).await? {
            return Ok(made);
        }
        stamp.mark(&mut invite);
        seal_token(&state, INVITE_TOKEN, &token, &mut invite).await?;
    }
    if let Err(refused) = require_room(&state) {
        // What is in the way may be what the same request has just made.
        let made = match &stamp {
            Some(stamp) => repeated(&state, stamp, &invite).await?,
            None => None,
        };
        return made.ok_or(refused);
    }
    let made = match (state.cluster().create(&invite).await, &stamp) {
        (Err(error @ ClusterError::AlreadyExists { .. }), Some(stamp)) => {
            let made = repeated(&state, stamp, &invite).await?;
            return made.ok_or_else(|| error.into());
        }
        (made, _) => made.map_err(|error| form.blame(error))?,
    };
    state.caches().invites.caught_up_with(&made).await;
    tracing::info!(
        by = caller.name(),
        invite = made.name_any(),
        ?level,
        "made an invite"
    );
    Ok(created(&state, &made, token))
}

/// The answer that the same request was given before.
async fn repeated(
    state: &Accounts,
    stamp: &Stamp,
    invite: &KiteInvite,
) -> Result<Option<Created<InviteMade>>, Problem> {
    let key = ObjectKey::of(invite);
    let Some(there) = state.cluster().get_opt::<KiteInvite>(&key).await? else {
        return Ok(None);
    };
    if !stamp.is_on(&there) {
        return Ok(None);
    }
    stamp.check(&there)?;
    let token = sealed_token(state, INVITE_TOKEN, &there).await?;
    state.caches().invites.caught_up_with(&there).await;
    Ok(token.map(|token| created(state, &there, token).replayed(true)))
}

fn created(state: &Accounts, invite: &KiteInvite, token: String) -> Created<InviteMade> {
    let url = state.platform_status().url;
    let made = InviteMade {
        url: url.map(|url| format!("{}/sign-up#invite={token}", url.trim_end_matches('/'))),
        token,
        view: InviteView::of(state, invite),
    };
    Created::new(made).with_location(&format!("/api/v1/admin/invites/{}", invite.name_any()))
}

/// That there are not too many open ones.
fn require_room(state: &Accounts) -> Result<(), Problem> {
    let now = Timestamp::now();
    let open = state.caches().invites.list(|invite| {
        let used = invite
            .status
            .as_ref()
            .is_some_and(|it| it.used_by.is_some());
        !used && invite.spec.expires_at.0 > now
    });
    if open.len() < MOST_INVITES {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        format!("there are {MOST_INVITES} open invites: withdraw some that are not needed"),
    ))
}

/// `DELETE /api/v1/admin/invites/{name}`. An account that was made with it stays.
async fn delete(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Done, Problem> {
    caller.require(
        AccountAction::ManageInvites,
        Whose::Other(AccessLevel::ReadOnly),
    )?;
    let invites = &state.caches().invites;
    let invite = invites
        .get(&ObjectKey::cluster(&name))
        .ok_or_else(|| Problem::not_found("invite", &name))?;
    state
        .cluster()
        .delete_by_uid(invite.as_ref(), PropagationPolicy::Background)
        .await?;
    invites.caught_up_with_deletion(&invite).await;
    tracing::info!(by = caller.name(), invite = name, "withdrew an invite");
    Ok(Done::default())
}
