//! [`Principal`]: a signed-in account, and what it may do with this request.

use std::sync::Arc;

use jiff::Timestamp;
use kite_core::{
    cluster::ObjectKey,
    crd::{AccessLevel, KiteSession, KiteToken, KiteUser},
};
use kite_rest::{Problem, ProblemKind, audit};
use kube::ResourceExt as _;

use crate::{
    act::{Access, Act, Deed, Whose},
    last_admin::WayIn,
    personal::{is_token_of, is_valid},
    session::{belongs_to, is_open},
    state::Accounts,
};

/// A signed-in account.
///
/// A project that mounts the router under its own authentication puts one into
/// the request's extensions; Kite's sessions are then not asked. Kite refuses it while the
/// account is suspended or about to be deleted, and requests of other sites' pages that
/// change something (by `Sec-Fetch-Site` and `Origin`). A fresh proof of who they are, and
/// a second factor, are that project's matter.
///
/// ```
/// use std::sync::Arc;
///
/// use kite_core::crd::{KiteUser, KiteUserSpec};
/// use kite_identity::Principal;
///
/// let mut user = KiteUser::new("ann", KiteUserSpec::new("ann"));
/// user.metadata.uid = Some("51c2".to_owned());
/// let principal = Principal::new(Arc::new(user));
/// assert_eq!(principal.name(), "ann");
/// ```
#[derive(Clone, Debug)]
pub struct Principal {
    user: Arc<KiteUser>,
    by: By,
    deed: Deed,
    standing: Standing,
}

/// By what somebody was recognised.
#[derive(Clone, Debug)]
enum By {
    /// By the project that Kite is part of.
    Elsewhere,
    Session(Arc<KiteSession>),
    Token(Arc<KiteToken>),
}

/// What is known of somebody beside who they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Whether they have proved lately who they are.
    pub(crate) is_proved: bool,
    /// Whether the account needs a second factor and has none.
    pub(crate) lacks_factor: bool,
}

/// Whether an account may come in at all.
pub(crate) fn may_come_in(user: &KiteUser) -> bool {
    user.metadata.deletion_timestamp.is_none() && user.spec.may_come_in()
}

impl Principal {
    /// An account that was authenticated elsewhere.
    pub fn new(user: Arc<KiteUser>) -> Self {
        Self {
            user,
            by: By::Elsewhere,
            deed: Deed {
                access: Access::Write,
                is_administration: false,
            },
            standing: Standing {
                is_proved: true,
                lacks_factor: false,
            },
        }
    }

    pub(crate) fn of_session(
        user: Arc<KiteUser>,
        session: Arc<KiteSession>,
        deed: Deed,
        standing: Standing,
    ) -> Self {
        Self {
            user,
            by: By::Session(session),
            deed,
            standing,
        }
    }

    /// A token proves nothing: what asks for a proof, its scopes say.
    pub(crate) fn of_token(
        user: Arc<KiteUser>,
        token: Arc<KiteToken>,
        deed: Deed,
        lacks_factor: bool,
    ) -> Self {
        Self {
            user,
            by: By::Token(token),
            deed,
            standing: Standing {
                is_proved: false,
                lacks_factor,
            },
        }
    }

    /// The account.
    pub fn user(&self) -> &Arc<KiteUser> {
        &self.user
    }

    /// The session by which it was recognised.
    pub fn session(&self) -> Option<&KiteSession> {
        match &self.by {
            By::Session(session) => Some(session),
            By::Elsewhere | By::Token(..) => None,
        }
    }

    /// The API token by which it was recognised.
    pub fn token(&self) -> Option<&KiteToken> {
        match &self.by {
            By::Token(token) => Some(token),
            By::Elsewhere | By::Session(_) => None,
        }
    }

    /// The name of its `KiteUser`.
    pub fn name(&self) -> String {
        self.user.name_any()
    }

    /// What never changes of its `KiteUser`, nor is given again.
    pub fn uid(&self) -> String {
        self.user.uid().unwrap_or_default()
    }

    /// By what it was recognised, as the audit log has it.
    pub fn by(&self) -> audit::By {
        match &self.by {
            By::Session(session) => {
                audit::By::Session(session.metadata.name.clone().unwrap_or_default())
            }
            By::Token(token) => audit::By::Token(token.spec.name.clone()),
            By::Elsewhere => audit::By::Elsewhere,
        }
    }

    /// Its access level.
    pub fn level(&self) -> AccessLevel {
        self.user.spec.access_level
    }

    /// By which way administrators come in where it comes from.
    pub(crate) fn way_in(&self) -> WayIn {
        match &self.by {
            By::Elsewhere => WayIn::Elsewhere,
            By::Session(_) | By::Token(..) => WayIn::Kite,
        }
    }

    /// When what it was recognised by ends by itself.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.by {
            By::Elsewhere => None,
            By::Session(session) => Some(session.spec.expires_at.0),
            By::Token(token) => Some(token.spec.expires_at.0),
        }
    }

    /// The same as it is now, for what lasts longer than a request; `None` when
    /// the session or token is over or the account may not come in any more.
    pub fn renewed(&self, state: &Accounts) -> Option<Self> {
        let caches = state.caches();
        let platform = state.platform();
        let user = caches.users.get(&ObjectKey::cluster(self.name()))?;
        let by = match &self.by {
            By::Elsewhere => By::Elsewhere,
            By::Session(known) => {
                let key = ObjectKey::cluster(known.name_any());
                let session = caches.sessions.get(&key)?;
                if !is_open(&session) || !belongs_to(&session, &user, platform.session_epoch) {
                    return None;
                }
                By::Session(session)
            }
            By::Token(known) => {
                let key = ObjectKey::cluster(known.name_any());
                let token = caches.tokens.get(&key)?;
                let is_same = token.uid() == known.uid();
                if !is_same || !is_valid(&token) || !is_token_of(&token, &user, &platform) {
                    return None;
                }
                By::Token(token)
            }
        };
        (user.uid() == self.user.uid() && may_come_in(&user)).then_some(Self { user, by, ..*self })
    }

    /// Whether whoever has the session has proved lately who they are.
    pub fn is_proved(&self) -> bool {
        self.standing.is_proved
    }

    /// Whether the account needs a second factor and has none.
    pub fn lacks_factor(&self) -> bool {
        self.standing.lacks_factor
    }

    /// Refuses what the policy does not allow, what an API token's scopes do not, and
    /// what needs a fresh proof of who one is.
    ///
    /// # Errors
    /// [`ProblemKind::Forbidden`], [`ProblemKind::SecondFactorMissing`] or
    /// [`ProblemKind::ProofRequired`], which say what is missing.
    pub fn require(&self, action: impl Act, whose: Whose) -> Result<(), Problem> {
        self.permit(action, whose)?;
        let needs_proof = match &self.by {
            By::Session(_) => self.deed.needs_proof(action, whose),
            By::Elsewhere | By::Token(_) => false,
        };
        if needs_proof && !self.is_proved() {
            return Err(self.unproved());
        }
        Ok(())
    }

    /// The same without the proof, for handlers that see to it themselves.
    ///
    /// # Errors
    /// [`ProblemKind::Forbidden`] or [`ProblemKind::SecondFactorMissing`], which say what is
    /// missing.
    pub fn permit(&self, action: impl Act, whose: Whose) -> Result<(), Problem> {
        if !action.is_allowed(self.level(), whose) {
            let owner = match whose {
                Whose::Own => "your own account",
                Whose::Other(_) => "another account",
            };
            return Err(Problem::new(
                ProblemKind::Forbidden,
                format!(
                    "you may not {} ({owner}) with access level {:?}: ask an administrator",
                    action.describe(),
                    self.level()
                ),
            ));
        }
        self.require_factor(action, whose)?;
        let By::Token(token) = &self.by else {
            return Ok(());
        };
        let access = self.deed.access;
        if action.is_within(&token.spec.scopes, access) {
            return Ok(());
        }
        let remedy = action.scope(access).map_or_else(
            || "no API token may: sign in".to_owned(),
            |scope| format!("make one with the scope {}", scope.as_str()),
        );
        Err(Problem::new(
            ProblemKind::Forbidden,
            format!(
                "the API token {:?} may not {}: {remedy}",
                token.spec.name,
                action.describe()
            ),
        ))
    }

    /// Whose account lacks a second factor that it needs sets one up, and sees and ends
    /// sessions; its API tokens do nothing.
    fn require_factor(&self, action: impl Act, whose: Whose) -> Result<(), Problem> {
        if !self.lacks_factor() {
            return Ok(());
        }
        let is_token = self.token().is_some();
        if action.leads_to_factor(whose) && !is_token {
            return Ok(());
        }
        let detail = if is_token {
            "the account needs a second factor, and its API tokens do nothing until it has one: \
             its owner signs in and sets one up"
        } else {
            "the account needs a second factor: set one up with POST /api/v1/me/totp, or on the \
             account page, to go on"
        };
        Err(Problem::new(ProblemKind::SecondFactorMissing, detail))
    }

    /// That one has to prove who one is, and how.
    pub(crate) fn unproved(&self) -> Problem {
        let detail = if self.user.spec.has_password() {
            "too long has passed since you showed that it is you: send your password (and a code, \
             if the account has a second factor) to POST /api/v1/auth/prove, then repeat this"
        } else {
            "too long has passed since you showed that it is you, and the account has no password \
             to do so: sign in at your provider again, then repeat this"
        };
        Problem::new(ProblemKind::ProofRequired, detail)
    }
}
