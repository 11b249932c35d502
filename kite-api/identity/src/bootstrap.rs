//! The first administrator: made once, by whoever has the one-use token that
//! the installation left in a Secret.
//!
//! The Secret is the [`Permit`]: an annotation claims it, and it is deleted when
//! it is used up.

use std::sync::Arc;

use axum::extract::State;
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec},
    names,
};
use kite_rest::{
    Bounds, Created, FieldError, Form, Input, Problem, ProblemKind, Sent, audit::note,
};
use kube::{Resource as _, ResourceExt as _, api::PropagationPolicy};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{
    client::Client,
    openapi::EXAMPLE_PASSWORD,
    password::has_way_in,
    password_rule::{ADMIN_PASSWORD, PASSWORD_MEANING, spec_of_user},
    permit::{Permit, make_account},
    session::require_epoch,
    sign_in::{COOKIE_MEANING, SignedIn, greet},
    sign_up::{NewAccount, read_account},
    state::Accounts,
    throttle::too_many,
};

/// Annotation of the Secret: the username that it was claimed for.
const CLAIMED_FOR: &str = "hy3ons.github.io/bootstrap-claimed-for";
/// Under what guesses of the token are counted; no username has a space.
const THROTTLE_ACCOUNT: &str = "bootstrap token";
/// How long `config` believes what it last saw.
const BELIEVED: std::time::Duration = std::time::Duration::from_secs(3);

fn secret_key(state: &Accounts) -> ObjectKey {
    state.own_key(names::BOOTSTRAP_SECRET)
}

/// Whether a token waits for its first administrator.
///
/// # Errors
/// A problem if the API server does not say whether there is such a token, or an administrator.
pub async fn is_open(state: &Accounts) -> Result<bool, Problem> {
    if let Some(open) = state.bootstrap_seen(BELIEVED) {
        return Ok(open);
    }
    let secret = state
        .cluster()
        .get_opt::<Secret>(&secret_key(state))
        .await?;
    let open = match secret.filter(|secret| token_of(secret).is_some()) {
        Some(secret) => administrator(state, &secret).await?.is_none(),
        None => false,
    };
    state.note_bootstrap(open);
    Ok(open)
}

/// An administrator who is there already, and not by this very token. Then it is too late
/// for it, whoever has put it there: it makes the first one.
async fn administrator(
    state: &Accounts,
    secret: &Secret,
) -> Result<Option<Arc<KiteUser>>, Problem> {
    let all = state.caches().users.list(|user| {
        let made_by = user.annotations().get(Secret::MADE_BY);
        user.spec.can_administrate()
            && user.metadata.deletion_timestamp.is_none()
            && made_by.is_none_or(|it| Some(it) != secret.metadata.uid.as_ref())
    });
    for user in all {
        // A password that is lost is nobody's way in.
        if !user.spec.identities.is_empty() || has_way_in(state, &user).await? {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

/// The first administrator.
pub(crate) struct Bootstrap {
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
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("password", ADMIN_PASSWORD)];

    fn example() -> Option<Value> {
        Some(json!({
            "token": "what the Secret kite-bootstrap holds",
            "username": "root",
            "password": EXAMPLE_PASSWORD,
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let token = form.required("token");
        let account = read_account(form, AccessLevel::Admin);
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
pub(crate) async fn bootstrap(
    State(state): State<Accounts>,
    client: Client,
    Sent { input, mut form }: Sent<Bootstrap>,
) -> Result<Created<SignedIn>, Problem> {
    let Bootstrap { token, account } = form.finish_with(input)?;
    note(|notes| notes.sign_in("bootstrap", Some(&account.username)));
    let cookie = account.cookie;
    let attempt = state
        .sign_in_throttle()
        .attempt(THROTTLE_ACCOUNT, client.source(&state))
        .map_err(too_many)?;
    let secret = state
        .cluster()
        .get_opt::<Secret>(&secret_key(&state))
        .await?;
    let Some(secret) = secret.filter(|secret| token_of(secret).is_some()) else {
        attempt.undecided();
        state.note_bootstrap(false);
        return Err(Problem::new(
            ProblemKind::BootstrapClosed,
            "the bootstrap token has been used: if that was you, sign in with the username and \
             password given then; ask an administrator for an account otherwise",
        ));
    };
    if !token_fits(&secret, &token) {
        let message = format!(
            "is not the right one: read it with kubectl -n {} get secret {} -o \
             jsonpath='{{.data.{}}}' | base64 -d",
            state.settings().namespace,
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
    if let Some(there) = administrator(&state, &secret).await? {
        state.note_bootstrap(false);
        return Err(Problem::new(
            ProblemKind::BootstrapClosed,
            format!(
                "there is an administrator already, {}: sign in, or ask them for an account",
                there.name_any()
            ),
        ));
    }

    // Before the token is used up: nobody could be signed in with what it makes.
    require_epoch(&state)?;
    let spec = KiteUserSpec {
        email: account.email,
        access_level: AccessLevel::Admin,
        ..KiteUserSpec::new(account.username)
    };
    let password = account.password;
    let (user, _) = make_account(&state, &client, &form, secret, spec, password, None).await?;
    tracing::info!(
        user = user.name_any(),
        "bootstrap made the first administrator"
    );
    Ok(greet(&state, &user, &client, cookie)
        .await?
        .with_location("/api/v1/me"))
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

impl Permit for Secret {
    const CALLED: &'static str = "the token";
    const MADE_BY: &'static str = "hy3ons.github.io/bootstrap-secret-uid";
    const OVER: ProblemKind = ProblemKind::BootstrapClosed;

    fn vouches_for_email(&self) -> bool {
        true
    }

    fn holder(&self) -> Option<&str> {
        self.annotations().get(CLAIMED_FOR).map(String::as_str)
    }

    async fn hold(&self, state: &Accounts, username: Option<&str>) -> Result<Self, ClusterError> {
        let patch = json!({
            "metadata": {
                "uid": self.uid(),
                "resourceVersion": self.resource_version(),
                "annotations": { CLAIMED_FOR: username },
            }
        });
        state
            .cluster()
            .merge_patch(state.store().manager(), &secret_key(state), &patch)
            .await
    }

    async fn use_up(&self, state: &Accounts, _: &KiteUser) -> Result<bool, Problem> {
        state
            .cluster()
            .delete_by_uid(self, PropagationPolicy::Background)
            .await?;
        state.note_bootstrap(false);
        Ok(true)
    }
}
