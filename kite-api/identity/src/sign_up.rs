//! Making an account for oneself.

use std::sync::Arc;

use axum::extract::State;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec, SignUp},
    names,
};
use kite_rest::{
    Bounds, Created, FieldError, Form, IdempotencyKey, Input, Problem, ProblemKind, Sent, Stamp,
    audit::note,
};
use kube::ResourceExt as _;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::{
    client::Client,
    free::{check_free, taken, without_code},
    invite::look_at,
    notices::note_new,
    open_sign_up::{mark, mark_email, require_room, take_turn},
    openapi::EXAMPLE_PASSWORD,
    password::StoredPassword,
    password_rule::{
        Owner as PasswordOwner, PASSWORD_BOUNDS, PASSWORD_MEANING, fault, is_long, read_password,
        spec_of_user,
    },
    permit::make_account,
    session::require_epoch,
    shape::{NO_ADDRESS, NO_USERNAME, is_address, is_username},
    sign_in::{COOKIE_MEANING, SignedIn, find_by_username, greet, let_in},
    state::Accounts,
    throttle::too_many,
};

/// An account that somebody wants to have.
pub(crate) struct NewAccount {
    pub(crate) username: String,
    pub(crate) email: Option<String>,
    pub(crate) password: String,
    /// Whether the session goes into a cookie.
    pub(crate) cookie: bool,
}

/// Reads `username`, `email` and `password` of an account of this level. `None` only if an
/// error was noted.
pub(crate) fn read_account(form: &mut Form, level: AccessLevel) -> Option<NewAccount> {
    let username: Option<String> = form.required("username");
    let email: Option<String> = form.optional("email");
    // What is seen here costs no request, and so need not be counted.
    if username.as_deref().is_some_and(|it| !is_username(it)) {
        form.error("username", NO_USERNAME);
    }
    if email.as_deref().is_some_and(|it| !is_address(it)) {
        form.error("email", NO_ADDRESS);
    }
    let password: Option<String> = form.required("password");
    let cookie = form.optional("cookie").unwrap_or(false);
    if let Some(password) = &password {
        let owner = PasswordOwner {
            level: Some(level),
            names: &[username.as_deref(), email.as_deref()],
        };
        read_password(form, "password", password, &owner);
    }
    Some(NewAccount {
        username: username?,
        email,
        password: password?,
        cookie,
    })
}

/// An account that somebody makes for oneself.
pub(crate) struct Joining {
    account: NewAccount,
    invite: Option<String>,
}

impl Input for Joining {
    const NAME: &'static str = "NewAccount";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        PASSWORD_MEANING,
        COOKIE_MEANING,
        (
            "invite",
            "The invite that an administrator gave: needed where accounts are by invitation.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[PASSWORD_BOUNDS];

    fn example() -> Option<Value> {
        Some(json!({
            "username": "ann",
            "password": EXAMPLE_PASSWORD,
            "email": "ann@example.org",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        // By an invite it may become more; that is seen when the invite is.
        let account = read_account(form, AccessLevel::User);
        let invite = form.optional("invite");
        Some(Self {
            account: account?,
            invite,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// Refuses who comes without an invite where one is needed, or with one where none
/// counts.
async fn require_open(state: &Accounts, has_invite: bool) -> Result<(), Problem> {
    match state.platform_now().await?.sign_up {
        SignUp::Open => Ok(()),
        SignUp::Invite if has_invite => Ok(()),
        SignUp::Invite => {
            let message = "is missing: accounts are by invitation, ask an administrator for one";
            let closed = Problem::new(ProblemKind::SignUpClosed, format!("the invite {message}"));
            Err(closed.with_error(FieldError {
                field: "invite".to_owned(),
                value: None,
                message: message.to_owned(),
            }))
        }
        SignUp::Closed => Err(Problem::new(
            ProblemKind::SignUpClosed,
            "this platform does not let people sign up: ask an administrator for an account",
        )),
    }
}

/// `POST /api/v1/auth/sign-up`
pub(crate) async fn sign_up(
    State(state): State<Accounts>,
    client: Client,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<Joining>,
) -> Result<Created<SignedIn>, Problem> {
    require_open(&state, form.peek::<String>("invite").is_some()).await?;
    require_epoch(&state)?;
    let Joining { account, invite } = form.finish_with(input)?;
    note(|notes| notes.sign_in("sign-up", Some(&account.username)));
    let stamp = once.stamp_of_anybody(&form);
    let cookie = account.cookie;
    let attempt = state
        .sign_up_throttle()
        .attempt(&account.username, client.source(&state))
        .map_err(too_many)?;
    // The attempt counts, so guesses at invites do, and what only the API server could
    // tell: it was asked.
    let made = join(
        &state,
        &client,
        &form,
        &account,
        invite.as_deref(),
        stamp.as_ref(),
    )
    .await;
    let (user, is_new) = match (made, &stamp) {
        (Err(problem), Some(stamp)) => {
            let earlier = earlier(&state, &client, account, stamp, problem).await?;
            (earlier, false)
        }
        (made, _) => made?,
    };
    let by_invite = invite.is_some();
    tracing::info!(user = user.name_any(), by_invite, is_new, "signed up");
    if by_invite || !is_new {
        // How many of these there are is limited by the invites, or they make none.
        attempt.undecided();
    }
    Ok(greet(&state, &user, &client, cookie)
        .await?
        .with_location("/api/v1/me")
        .replayed(stamp.is_some() && !is_new))
}

/// Makes the account, or finds that an earlier attempt by the same invite got that far.
/// Whether it is new.
async fn join(
    state: &Accounts,
    client: &Client,
    form: &Form,
    account: &NewAccount,
    invite: Option<&str>,
    stamp: Option<&Stamp>,
) -> Result<(Arc<KiteUser>, bool), Problem> {
    let spec = KiteUserSpec {
        email: account.email.clone(),
        ..KiteUserSpec::new(&account.username)
    };
    let password = account.password.clone();
    let (user, is_new) = match invite {
        Some(token) => {
            let (invite, spec) = look_at(state, token, spec).await?;
            let owner = PasswordOwner {
                level: Some(spec.access_level),
                names: &[],
            };
            if let Some(fault) = fault(&password, &owner) {
                return Err(Problem::invalid(vec![FieldError {
                    field: "password".to_owned(),
                    value: None,
                    message: fault,
                }]));
            }
            make_account(state, client, form, invite, spec, password, stamp).await?
        }
        None => (
            create_user(state, form, spec, Some(password), stamp, Maker::Oneself).await?,
            true,
        ),
    };
    Ok((Arc::new(user), is_new))
}

/// The account that the same request has made before, whose answer was lost, or else
/// `problem`, which is what anybody gets.
///
/// The key proves nothing: it is a sign-in by the password, like any other, and counted
/// like one. Who guesses keys learns nothing from answers or their time either, for a
/// password is verified in any case, and nothing else is said before it fits.
async fn earlier(
    state: &Accounts,
    client: &Client,
    account: NewAccount,
    stamp: &Stamp,
    problem: Problem,
) -> Result<Arc<KiteUser>, Problem> {
    use ProblemKind::{Conflict, InviteOver, Taken, WrongCredentials};
    let stands_in_the_way = [Taken, InviteOver, Conflict, WrongCredentials];
    if !stands_in_the_way.contains(&problem.kind()) {
        return Err(problem);
    }
    let NewAccount {
        username, password, ..
    } = account;
    let key = ObjectKey::cluster(&username);
    let there = state.cluster().get_opt::<KiteUser>(&key).await?;
    if let Some(there) = there.filter(|there| stamp.is_on(there)) {
        // Perhaps another replica made it, a moment ago.
        state.caches().users.shows(&there).await;
    }
    let user = find_by_username(state, &username).filter(|user| stamp.is_on(user.as_ref()));
    let is_one = user.is_some();
    let known = let_in(state, client, &username, user, password, None).await;
    if is_one {
        let outcome = known.as_ref().map(|_| ()).map_err(Problem::kind);
        state.counts().signed_in(outcome);
    }
    match known {
        Ok(user) => {
            stamp.check(user.as_ref())?;
            state.caches().users.caught_up_with(&user).await;
            Ok(user)
        }
        Err(refused) if refused.kind() == WrongCredentials => Err(problem),
        Err(refused) => Err(without_code(refused, &username)),
    }
}

/// Who makes an account.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Whoever is to have it, without an invite.
    Oneself,
    /// An administrator.
    Administrator,
}

/// Creates an account. Its object is called like its username, so the API
/// server lets one of two racing requests win; what is reserved by others is
/// found out beforehand where possible, and marked by the controller otherwise.
pub(crate) async fn create_user(
    state: &Accounts,
    form: &Form,
    mut spec: KiteUserSpec,
    password: Option<String>,
    stamp: Option<&Stamp>,
    maker: Maker,
) -> Result<KiteUser, Problem> {
    let username = spec.username.clone();
    check_free(state, &spec, false).await?;
    if maker == Maker::Oneself {
        // Before anything is hashed for nothing.
        require_room(state).await?;
    }
    let is_long = password.as_deref().is_some_and(is_long);
    let hash = state.passwords().hash_if_any(password).await?;
    spec.credential = hash.as_ref().map(names::credential);
    let mut user = KiteUser::new(&username, spec);
    note_new(&mut user);
    let _turn = match maker {
        Maker::Oneself => {
            mark(&mut user);
            mark_email(&mut user);
            Some(take_turn(state).await?)
        }
        Maker::Administrator => None,
    };
    if let Some(stamp) = stamp {
        stamp.mark(&mut user);
    }
    let password = match &hash {
        Some(hash) => Some(StoredPassword::make(state, &username, hash, is_long).await?),
        None => None,
    };
    user.spec.password_hash = password.as_ref().and_then(StoredPassword::shown);
    let created = match state.cluster().create(&user).await {
        Err(ClusterError::AlreadyExists { .. }) => {
            let key = ObjectKey::cluster(&username);
            let there = state.cluster().get_opt::<KiteUser>(&key).await?;
            // The request was sent twice, and its first answer lost.
            let is_ours = |it: &KiteUser| password.as_ref().is_some_and(|own| own.is_of(it));
            let there = there.filter(|it| it.spec.unreadable.is_none() && is_ours(it));
            there.ok_or_else(|| taken("username", &username))
        }
        created => created.map_err(|error| form.blame(error)),
    };
    let created = match password {
        Some(password) => password.settle(state, None, created).await?,
        None => created?,
    };
    state.caches().users.caught_up_with(&created).await;
    Ok(created)
}
