//! Invites: what makes them, whether they are good, and how they are used up.
//!
//! The token leads to its `KiteInvite`, which is the [`Permit`]: its status says
//! for which username it is claimed and whose account was made with it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{ClusterError, ClusterExt as _, ObjectKey},
    crd::{InviteAccount, KiteInvite, KiteInviteSpec, KiteInviteStatus, KiteUser, KiteUserSpec},
    names,
};
use kite_rest::{FieldError, Problem, ProblemKind};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use subtle::ConstantTimeEq as _;

use crate::{
    account_action::AccountAction,
    act::{Act as _, Whose},
    permit::Permit,
    state::Accounts,
    token::{Halves, INVITE},
};

/// How often it is tried to write down that an invite was used.
const TRIES: usize = 5;

/// How it stands with an invite.
#[derive(Serialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(rename = "InviteState")]
pub(crate) enum InviteState {
    /// It can be used.
    Open,
    /// An account is being made with it.
    Claimed,
    /// An account was made with it.
    Used,
    /// Its time is over.
    Expired,
    /// Who made it is suspended or gone, or may not make it any more.
    Void,
}

/// How it stands with an invite; `maker` is the account named in it, as it is now.
pub(crate) fn state_of(
    invite: &KiteInvite,
    maker: Option<&KiteUser>,
    now: Timestamp,
) -> InviteState {
    let status = invite.status.as_ref();
    if status.is_some_and(|status| status.used_by.is_some()) {
        InviteState::Used
    } else if invite.spec.expires_at.0 <= now {
        InviteState::Expired
    } else if !maker.is_some_and(|maker| may_make(maker, invite)) {
        InviteState::Void
    } else if invite.holder().is_some() {
        InviteState::Claimed
    } else {
        InviteState::Open
    }
}

/// Whether an account may make this invite: who is suspended cannot leave a door
/// open behind.
fn may_make(maker: &KiteUser, invite: &KiteInvite) -> bool {
    let whose = Whose::Other(invite.spec.access_level);
    maker.uid().as_deref() == Some(invite.spec.created_by.uid.as_str())
        && maker.spec.may_come_in()
        && maker.metadata.deletion_timestamp.is_none()
        && AccountAction::ManageInvites.is_allowed(maker.spec.access_level, whose)
}

/// An invite's token and the object that is to be created for it. The same `id`
/// leads to the same object.
pub(crate) fn new_invite(
    id: Option<[u8; 16]>,
    mut spec: KiteInviteSpec,
) -> Result<(String, KiteInvite), Problem> {
    let halves = match id {
        Some(id) => Halves::of(id)?,
        None => Halves::random()?,
    };
    spec.hash = halves.fingerprint();
    let invite = KiteInvite::new(&halves.invite_name(), spec);
    Ok((halves.token(INVITE), invite))
}

/// The invite of this token and the account that `spec` becomes by it. It is asked
/// for at the API server: that is seldom, and what was used or withdrawn on another
/// replica counts at once.
pub(crate) async fn look_at(
    state: &Accounts,
    token: &str,
    mut spec: KiteUserSpec,
) -> Result<(KiteInvite, KiteUserSpec), Problem> {
    let halves = Halves::parse(INVITE, token.trim()).ok_or_else(wrong)?;
    let key = ObjectKey::cluster(halves.invite_name());
    let invite = state.cluster().get_opt::<KiteInvite>(&key).await?;
    let hash = halves.fingerprint();
    let invite = invite
        .filter(|invite| {
            invite.metadata.deletion_timestamp.is_none()
                && bool::from(invite.spec.hash.as_bytes().ct_eq(hash.as_bytes()))
        })
        .ok_or_else(wrong)?;
    let maker = ObjectKey::cluster(&invite.spec.created_by.name);
    let maker = state.cluster().get_opt::<KiteUser>(&maker).await?;
    match state_of(&invite, maker.as_ref(), Timestamp::now()) {
        InviteState::Open | InviteState::Claimed => {}
        InviteState::Used => {
            return Err(over(
                "was used: if that was you, sign in, and ask for another otherwise",
            ));
        }
        InviteState::Expired => return Err(over("has expired: ask for another")),
        InviteState::Void => return Err(over("is not good any more: ask for another")),
    }
    check_email(&invite, spec.email.as_deref())?;
    spec.access_level = invite.spec.access_level;
    spec.quota = invite.spec.quota.clone();
    Ok((invite, spec))
}

/// The address itself is not told: the invite may have come to somebody else.
fn check_email(invite: &KiteInvite, given: Option<&str>) -> Result<(), Problem> {
    let Some(wanted) = &invite.spec.email else {
        return Ok(());
    };
    let message = match given {
        Some(given) if names::email_reservation(given) == names::email_reservation(wanted) => {
            return Ok(());
        }
        Some(_) => "is not the address that the invite is for: write that one, or ask for another",
        None => "is missing: the invite is for one address, write that",
    };
    Err(Problem::invalid(vec![FieldError {
        field: "email".to_owned(),
        value: given.map(Into::into),
        message: message.to_owned(),
    }]))
}

fn of_field(kind: ProblemKind, message: &str) -> Problem {
    Problem::new(kind, format!("the invite {message}")).with_error(FieldError {
        field: "invite".to_owned(),
        value: None,
        message: message.to_owned(),
    })
}

fn wrong() -> Problem {
    let message = "is not known: copy the whole of it, or ask for another";
    of_field(ProblemKind::WrongCredentials, message)
}

fn over(message: &str) -> Problem {
    of_field(ProblemKind::InviteOver, message)
}

impl Permit for KiteInvite {
    const CALLED: &'static str = "the invite";
    const MADE_BY: &'static str = "hy3ons.github.io/invite-uid";
    const OVER: ProblemKind = ProblemKind::InviteOver;

    fn vouches_for_email(&self) -> bool {
        self.spec.email.is_some()
    }

    fn holder(&self) -> Option<&str> {
        self.status.as_ref()?.claimed_for.as_deref()
    }

    async fn hold(&self, state: &Accounts, username: Option<&str>) -> Result<Self, ClusterError> {
        let status = KiteInviteStatus {
            claimed_for: username.map(str::to_owned),
            ..KiteInviteStatus::default()
        };
        write_status(state, self, status).await
    }

    async fn use_up(&self, state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
        let account = InviteAccount {
            name: user.name_any(),
            uid: user.uid().unwrap_or_default(),
        };
        let key = ObjectKey::of(self);
        let mut invite = self.clone();
        for _ in 0..TRIES {
            let status = KiteInviteStatus {
                claimed_for: Some(user.spec.username.clone()),
                used_by: Some(account.clone()),
                used_at: Some(Time(Timestamp::now())),
                unreadable: None,
            };
            match write_status(state, &invite, status).await {
                Ok(written) => {
                    state.caches().invites.caught_up_with(&written).await;
                    return Ok(true);
                }
                Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            match state.cluster().get_opt::<Self>(&key).await? {
                Some(now) if now.uid() == self.uid() => invite = now,
                // Withdrawn in the same moment, which is too late.
                _ => return Ok(true),
            }
            let status = invite.status.clone().unwrap_or_default();
            if let Some(used_by) = status.used_by {
                return Ok(used_by == account);
            }
            if status
                .claimed_for
                .is_some_and(|it| it != user.spec.username)
            {
                return Ok(false);
            }
        }
        Err(Problem::new(
            ProblemKind::Conflict,
            "the invite changes faster than it can be used: try again",
        ))
    }
}

async fn write_status(
    state: &Accounts,
    invite: &KiteInvite,
    status: KiteInviteStatus,
) -> Result<KiteInvite, ClusterError> {
    state
        .cluster()
        .write_status(state.store().manager(), invite, status)
        .await
}
