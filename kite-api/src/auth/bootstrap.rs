//! The first administrator: made once, by whoever has the one-use token that
//! the installation left in a Secret.
//!
//! 1. The Secret is *claimed* for a username by an update on the condition that
//!    nobody changed it, so of two racing requests one loses.
//! 2. The account is created, marked with the Secret's uid.
//! 3. The Secret is deleted.
//!
//! A crash after 1 or 2 leaves a claim with which only the same username can go
//! on. If another account took the username in between, the claim is released.

use axum::extract::State;
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec},
    names,
};
use kube::{Resource as _, ResourceExt as _, api::PropagationPolicy};
use schemars::{Schema, SchemaGenerator};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{
    Client,
    sign_in::{COOKIE_MEANING, SignedIn, greet, too_many},
    sign_up::{NewAccount, read_account},
};
use crate::{
    problem::{FieldError, Problem, ProblemKind},
    state::ApiState,
    users::{PASSWORD_MEANING, spec_of_user},
    web::{Created, Form, Input, Sent, is_label},
};

/// Annotation of the Secret: the username that it was claimed for.
const CLAIMED_FOR: &str = "hy3ons.github.io/bootstrap-claimed-for";
/// Annotation of the account: uid of the Secret that made it.
const MADE_BY: &str = "hy3ons.github.io/bootstrap-secret-uid";
/// Under what guesses of the token are counted; no username has a space.
const THROTTLE_ACCOUNT: &str = "bootstrap token";
/// How long `config` believes what it last saw.
const BELIEVED: std::time::Duration = std::time::Duration::from_secs(3);

fn secret_key() -> ObjectKey {
    ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::BOOTSTRAP_SECRET)
}

/// Whether a token waits for its first administrator.
pub(crate) async fn is_open(state: &ApiState) -> Result<bool, Problem> {
    if let Some(open) = state.bootstrap_seen(BELIEVED) {
        return Ok(open);
    }
    let open = state
        .cluster()
        .find::<Secret>(&secret_key())
        .await?
        .is_some_and(|secret| token_of(&secret).is_some());
    state.note_bootstrap(open);
    Ok(open)
}

/// The first administrator.
pub(super) struct Bootstrap {
    token: String,
    account: NewAccount,
}

impl Input for Bootstrap {
    const NAME: &'static str = "Bootstrap";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        (
            "token",
            "The one-use token that the installation left in a Secret.",
        ),
        PASSWORD_MEANING,
        COOKIE_MEANING,
    ];

    fn read(form: &mut Form) -> Option<Self> {
        let token = form.required("token");
        let account = read_account(form);
        Some(Self {
            token: token?,
            account: account?,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// `POST /api/v1/auth/bootstrap`
pub(super) async fn bootstrap(
    State(state): State<ApiState>,
    client: Client,
    Sent { input, mut form }: Sent<Bootstrap>,
) -> Result<Created<SignedIn>, Problem> {
    let Bootstrap { token, account } = form.finish_with(input)?;
    let cookie = account.cookie;
    let attempt = state
        .sign_in_throttle()
        .attempt(THROTTLE_ACCOUNT, client.address)
        .map_err(too_many)?;
    let secret = state.cluster().find::<Secret>(&secret_key()).await?;
    let Some(secret) = secret.filter(|secret| token_of(secret).is_some()) else {
        attempt.undecided();
        state.note_bootstrap(false);
        return Err(Problem::new(
            ProblemKind::BootstrapClosed,
            "the bootstrap token has been used: sign in, or ask an administrator for an account",
        ));
    };
    if !token_fits(&secret, &token) {
        let message = format!(
            "is not the right one: read it with kubectl -n {} get secret {} -o \
             jsonpath='{{.data.{}}}' | base64 -d",
            names::PLATFORM_NAMESPACE,
            names::BOOTSTRAP_SECRET,
            names::BOOTSTRAP_TOKEN_KEY
        );
        return Err(Problem::new(
            ProblemKind::WrongCredentials,
            format!("the token {message}"),
        )
        .with_error(FieldError {
            field: "token".to_owned(),
            value: None,
            message,
        }));
    }
    attempt.succeeded();

    let user = make_administrator(&state, &form, secret, account).await?;
    tracing::info!(
        user = user.name_any(),
        "bootstrap made the first administrator"
    );
    Ok(greet(&state, &user, &client, cookie)
        .await?
        .at("/api/v1/me"))
}

fn token_of(secret: &Secret) -> Option<&[u8]> {
    let token = secret.data.as_ref()?.get(names::BOOTSTRAP_TOKEN_KEY)?;
    (!token.0.is_empty() && secret.meta().deletion_timestamp.is_none())
        .then_some(token.0.as_slice())
}

/// Compares digests, whose length tells nothing, in constant time.
fn token_fits(secret: &Secret, given: &str) -> bool {
    token_of(secret).is_some_and(|token| {
        let wanted = Sha256::digest(token.trim_ascii());
        let given = Sha256::digest(given.trim().as_bytes());
        wanted.as_slice().ct_eq(given.as_slice()).into()
    })
}

async fn make_administrator(
    state: &ApiState,
    form: &Form,
    secret: Secret,
    account: NewAccount,
) -> Result<KiteUser, Problem> {
    let uid = secret.uid().unwrap_or_default();
    let key = ObjectKey::cluster(&account.username);
    let earlier = if is_label(&account.username) {
        state.cluster().find::<KiteUser>(&key).await?
    } else {
        None
    };
    if earlier.as_ref().is_some_and(|user| !made_by(user, &uid)) {
        return Err(taken(&account.username));
    }
    let secret = claim(state, secret, &account.username).await?;
    let password = account.password.clone();
    let hash = state.passwords().hash(account.password).await?;
    let mut user = KiteUser::new(
        &account.username,
        KiteUserSpec {
            email: account.email,
            password_hash: Some(hash),
            access_level: AccessLevel::Admin,
            ..KiteUserSpec::new(&account.username)
        },
    );
    user.annotations_mut()
        .insert(MADE_BY.to_owned(), uid.clone());

    let user = match state.cluster().create(&user).await {
        Ok(user) => user,
        Err(ClusterError::AlreadyExists { .. }) => {
            let user = state.cluster().get::<KiteUser>(&key).await?;
            if !made_by(&user, &uid) {
                release(state, &secret).await?;
                return Err(taken(&account.username));
            }
            // An earlier attempt got this far. The account is made either way,
            // so the token is used up whether or not the password is the same.
            discard(state, &secret).await?;
            let hash = user.spec.password_hash.as_ref();
            if !state.passwords().verify(hash, password).await? {
                return Err(Problem::new(
                    ProblemKind::BootstrapClosed,
                    format!(
                        "the administrator {:?} was made with this token before: sign in with the \
                         password given then",
                        account.username
                    ),
                ));
            }
            user
        }
        Err(error @ ClusterError::Invalid { .. }) => {
            release(state, &secret).await?;
            return Err(form.blame(error));
        }
        Err(error) => return Err(error.into()),
    };
    discard(state, &secret).await?;
    state.caches().users.caught_up_with(&user).await;
    Ok(user)
}

fn made_by(user: &KiteUser, secret_uid: &str) -> bool {
    user.annotations().get(MADE_BY).map(String::as_str) == Some(secret_uid)
}

fn taken(username: &str) -> Problem {
    Problem::field(
        ProblemKind::Taken,
        "username",
        username,
        "is taken: choose another",
    )
}

/// Claims the Secret for `username`, or finds that it is already.
async fn claim(state: &ApiState, secret: Secret, username: &str) -> Result<Secret, Problem> {
    match secret.annotations().get(CLAIMED_FOR) {
        Some(holder) if holder == username => return Ok(secret),
        Some(holder) => {
            return Err(Problem::field(
                ProblemKind::Conflict,
                "username",
                username,
                format!(
                    "the token was claimed for {holder:?} by a request that did not finish: \
                     repeat it with that username"
                ),
            ));
        }
        None => {}
    }
    match annotate(state, &secret, Some(username)).await {
        Ok(secret) => Ok(secret),
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Err(Problem::new(
            ProblemKind::Conflict,
            "another request used the token at the same moment: reload the page",
        )),
        Err(error) => Err(error.into()),
    }
}

async fn release(state: &ApiState, secret: &Secret) -> Result<(), Problem> {
    match annotate(state, secret, None).await {
        Ok(_) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn annotate(
    state: &ApiState,
    secret: &Secret,
    claimed_for: Option<&str>,
) -> Result<Secret, ClusterError> {
    let patch = json!({
        "metadata": {
            "uid": secret.uid(),
            "resourceVersion": secret.resource_version(),
            "annotations": { CLAIMED_FOR: claimed_for },
        }
    });
    state
        .cluster()
        .edit(FieldManager::API, &secret_key(), &patch)
        .await
}

async fn discard(state: &ApiState, secret: &Secret) -> Result<(), Problem> {
    state
        .cluster()
        .remove(secret, PropagationPolicy::Background)
        .await?;
    state.note_bootstrap(false);
    Ok(())
}
