//! Making an account for oneself.

use axum::{extract::State, response::Response};
use http::StatusCode;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteUserSpec, SignUp},
    names,
};
use kube::ResourceExt as _;

use super::{
    Client, read_password,
    sign_in::{greet, too_many},
};
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    web::Form,
};

/// An account that somebody wants to have.
pub(crate) struct NewAccount {
    pub(crate) username: String,
    pub(crate) email: Option<String>,
    pub(crate) password: String,
}

/// Reads `username`, `email` and `password`. `None` only if an error was noted.
pub(crate) fn read_account(form: &mut Form) -> Option<NewAccount> {
    let username: Option<String> = form.required("username");
    let email: Option<String> = form.optional("email");
    let password: Option<String> = form.required("password");
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
    })
}

/// `POST /api/v1/auth/sign-up`
pub(crate) async fn sign_up(
    State(state): State<ApiState>,
    client: Client,
    mut form: Form,
) -> Result<Response, Problem> {
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
    let cookie = form.optional("cookie").unwrap_or(false);
    let account = read_account(&mut form);
    form.finish()?;
    let Some(account) = account else {
        return Err(Problem::invalid(Vec::new()));
    };
    let attempt = state
        .sign_up_throttle()
        .attempt(&account.username, client.address)
        .map_err(too_many)?;
    // Dropped undecided on an error that made no account, kept otherwise.
    let spec = KiteUserSpec {
        email: account.email,
        ..KiteUserSpec::new(&account.username)
    };
    match create_user(&state, &form, spec, Some(account.password)).await {
        Ok(user) => {
            tracing::info!(user = user.name_any(), "signed up");
            greet(&state, &user, &client, cookie, StatusCode::CREATED).await
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
    let created = match state
        .cluster()
        .create(&KiteUser::new(&username, spec))
        .await
    {
        Err(ClusterError::AlreadyExists { .. }) => return Err(taken("username", &username)),
        created => created.map_err(|error| form.blame(error))?,
    };
    state.caches().users.caught_up_with(&created).await;
    Ok(created)
}
