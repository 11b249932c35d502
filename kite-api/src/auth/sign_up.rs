//! Making an account for oneself.

use axum::extract::State;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteUserSpec, SignUp},
    names,
};
use kube::ResourceExt as _;
use schemars::{Schema, SchemaGenerator};

use super::{
    Client, read_password,
    sign_in::{COOKIE_MEANING, SignedIn, greet, too_many},
};
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::{PASSWORD_MEANING, spec_of_user},
    web::{Created, Form, Input, Sent, Stamp},
};

/// An account that somebody wants to have.
pub(crate) struct NewAccount {
    pub(crate) username: String,
    pub(crate) email: Option<String>,
    pub(crate) password: String,
    /// Whether the session goes into a cookie.
    pub(crate) cookie: bool,
}

/// Reads `username`, `email` and `password`. `None` only if an error was noted.
pub(crate) fn read_account(form: &mut Form) -> Option<NewAccount> {
    let username: Option<String> = form.required("username");
    let email: Option<String> = form.optional("email");
    let password: Option<String> = form.required("password");
    let cookie = form.optional("cookie").unwrap_or(false);
    if let Some(password) = &password {
        read_password(
            form,
            "password",
            password,
            &[username.as_deref(), email.as_deref()],
        );
    }
    Some(NewAccount {
        username: username?,
        email,
        password: password?,
        cookie,
    })
}

impl Input for NewAccount {
    const NAME: &'static str = "NewAccount";
    const MEANING: &'static [(&'static str, &'static str)] = &[PASSWORD_MEANING, COOKIE_MEANING];

    fn read(form: &mut Form) -> Option<Self> {
        read_account(form)
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// `POST /api/v1/auth/sign-up`
pub(super) async fn sign_up(
    State(state): State<ApiState>,
    client: Client,
    Sent { input, mut form }: Sent<NewAccount>,
) -> Result<Created<SignedIn>, Problem> {
    match state.platform().sign_up {
        SignUp::Open => {}
        SignUp::Invite => {
            return Err(Problem::new(
                ProblemKind::SignUpClosed,
                "accounts are by invitation: ask an administrator to create one for you",
            ));
        }
        SignUp::Closed => {
            return Err(Problem::new(
                ProblemKind::SignUpClosed,
                "this platform does not let people sign up: ask an administrator for an account",
            ));
        }
    }
    let account = form.finish_with(input)?;
    let attempt = state
        .sign_up_throttle()
        .attempt(&account.username, client.address)
        .map_err(too_many)?;
    // Dropped undecided on an error that made no account, kept otherwise.
    let spec = KiteUserSpec {
        email: account.email,
        ..KiteUserSpec::new(&account.username)
    };
    match create_user(&state, &form, spec, Some(account.password), None).await {
        Ok(user) => {
            tracing::info!(user = user.name_any(), "signed up");
            Ok(greet(&state, &user, &client, account.cookie)
                .await?
                .at("/api/v1/me"))
        }
        Err(problem) => {
            if problem.kind() == ProblemKind::Invalid {
                attempt.undecided();
            }
            Err(problem)
        }
    }
}

fn taken(field: &'static str, value: &str) -> Problem {
    Problem::field(ProblemKind::Taken, field, value, "is taken: choose another")
}

/// That nobody but the user with the uid `of` has this address. Two at once are
/// told apart by the controller.
pub(crate) async fn require_free_email(
    state: &ApiState,
    email: &str,
    of: Option<&str>,
) -> Result<(), Problem> {
    let claim = names::email_reservation(email);
    let used = state.caches().users.find(|user| {
        let theirs = user.spec.email.as_deref().map(names::email_reservation);
        theirs.as_ref() == Some(&claim) && user.uid().as_deref() != of
    });
    let key = ObjectKey::cluster(claim);
    let reserved = state.cluster().find::<KiteReservation>(&key).await?;
    if used.is_some() || reserved.is_some_and(|held| Some(held.spec.holder.uid.as_str()) != of) {
        return Err(taken("email", email));
    }
    Ok(())
}

/// Creates an account. Its object is called like its username, so the API
/// server lets one of two racing requests win; what is reserved by others is
/// found out beforehand where possible, and marked by the controller otherwise.
pub(crate) async fn create_user(
    state: &ApiState,
    form: &Form,
    mut spec: KiteUserSpec,
    password: Option<String>,
    stamp: Option<&Stamp>,
) -> Result<KiteUser, Problem> {
    let username = spec.username.clone();
    let users = &state.caches().users;
    if users
        .find(|user| user.spec.username == username || user.name_any() == username)
        .is_some()
    {
        return Err(taken("username", &username));
    }
    if let Some(email) = &spec.email {
        require_free_email(state, email, None).await?;
    }
    if let Some(password) = password {
        spec.password_hash = Some(state.passwords().hash(password).await?);
    }
    let mut user = KiteUser::new(&username, spec);
    if let Some(stamp) = stamp {
        stamp.mark(&mut user);
    }
    let created = match state.cluster().create(&user).await {
        Err(ClusterError::AlreadyExists { .. }) => return Err(taken("username", &username)),
        created => created.map_err(|error| form.blame(error))?,
    };
    state.caches().users.caught_up_with(&created).await;
    Ok(created)
}
