//! `POST /api/v1/auth/prove`: showing again that it is still oneself who has the session.
//!
//! A session remembers when that was last shown, in its object, so it counts on every
//! replica. [`Act::asks_for_proof`](crate::Act::asks_for_proof) says what asks for it.

use axum::extract::State;
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::KiteSession,
};
use kite_rest::{Answer, FieldError, Form, Input, Problem, ProblemKind, Sent};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    caller::Caller,
    client::Client,
    openapi::EXAMPLE_PASSWORD,
    password::known_hash,
    second_factor::{find_factor, require_second_factor},
    state::Accounts,
    throttle::too_many,
};

/// What shows who one is.
pub(crate) struct Evidence {
    pub(crate) password: String,
    pub(crate) code: Option<String>,
}

impl Input for Evidence {
    const NAME: &'static str = "Evidence";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        ("password", "The password of the account."),
        (
            "code",
            "What the authenticator app shows, or a recovery code, where the account has a \
             second factor that was confirmed.",
        ),
    ];

    fn example() -> Option<Value> {
        Some(json!({"password": EXAMPLE_PASSWORD, "code": "123456"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let password = form.required("password");
        let code = form.optional("code");
        Some(Self {
            password: password?,
            code,
        })
    }
}

/// Until when a session counts as proved.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Proved {
    /// Until then this session does what asks for a proof.
    #[schemars(extend("format" = "date-time"))]
    proved_until: String,
}

/// `POST /api/v1/auth/prove`
pub(crate) async fn prove(
    State(state): State<Accounts>,
    caller: Caller,
    client: Client,
    Sent { input, mut form }: Sent<Evidence>,
) -> Result<Answer<Proved>, Problem> {
    if let Some(token) = caller.token() {
        let name = &token.spec.name;
        return Err(Problem::new(
            ProblemKind::Forbidden,
            format!("the API token {name:?} proves nothing: its scopes say what it may do"),
        ));
    }
    let Evidence { password, code } = form.finish_with(input)?;
    let Some(session) = caller.session() else {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "you did not sign in here: nothing asks you for a proof",
        ));
    };
    if !caller.user().spec.has_password() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the account has no password to show: sign in at your provider again",
        ));
    }
    verify_password(&state, &caller, &client, "password", password).await?;
    let source = client.source_in(&state, &caller);
    require_second_factor(&state, caller.user(), source, code.as_deref()).await?;
    let until = note_proof(&state, session).await?;
    tracing::info!(user = caller.name(), "proved who they are");
    let proved_until = until.to_string();
    Ok(Answer::new(Proved { proved_until }))
}

/// Notes in the session that its user has just proved who they are; until when that
/// counts.
async fn note_proof(state: &Accounts, session: &KiteSession) -> Result<Timestamp, Problem> {
    let now = Timestamp::now();
    let patch = json!({
        "metadata": { "uid": session.uid() },
        "spec": { "provedAt": now.to_string() },
    });
    let key = ObjectKey::of(session);
    let edited = state
        .cluster()
        .merge_patch::<KiteSession>(state.store().manager(), &key, &patch)
        .await
        .map_err(|error| match error {
            // Of another uid it is another one.
            ClusterError::NotFound { .. } | ClusterError::Conflict { .. } => Problem::new(
                ProblemKind::Unauthenticated,
                "the session has ended: sign in again",
            ),
            error => error.into(),
        })?;
    state.caches().sessions.caught_up_with(&edited).await;
    Ok(now + state.settings().proof_lifetime)
}

/// That whoever asks knows the password of their account. In a session that was not
/// proved lately that is the proof, unless the account has a second factor: then its code
/// belongs to it, and has to be shown first. An account without a password has to have
/// been proved lately by its provider.
pub(crate) async fn prove_password(
    state: &Accounts,
    caller: &Caller,
    client: &Client,
    field: &str,
    password: String,
) -> Result<(), Problem> {
    if !caller.user().spec.has_password() {
        return if caller.is_proved() {
            Ok(())
        } else {
            Err(caller.unproved())
        };
    }
    verify_password(state, caller, client, field, password).await?;
    if caller.is_proved() {
        return Ok(());
    }
    let factor = find_factor(state, caller.user()).await?;
    if factor.is_some_and(|factor| factor.spec.confirmed) {
        return Err(caller.unproved());
    }
    if let Some(session) = caller.session() {
        note_proof(state, session).await?;
    }
    Ok(())
}

/// That `password`, which was sent as `field`, is the account's; counted like a sign-in.
pub(crate) async fn verify_password(
    state: &Accounts,
    caller: &Caller,
    client: &Client,
    field: &str,
    password: String,
) -> Result<(), Problem> {
    let user = caller.user();
    let source = client.source_in(state, caller);
    let attempt = state
        .sign_in_throttle()
        .attempt(&user.spec.username, source)
        .map_err(too_many)?;
    let known = known_hash(state, Some(user));
    match state.passwords().verify(source, known, password).await {
        Ok(true) => {
            attempt.succeeded();
            Ok(())
        }
        Ok(false) => {
            let problem = Problem::new(
                ProblemKind::WrongCredentials,
                format!("{field} is not the password of the account: try again"),
            );
            Err(problem.with_error(FieldError {
                field: field.to_owned(),
                value: None,
                message: "is not the password of the account: try again".to_owned(),
            }))
        }
        Err(problem) => {
            attempt.undecided();
            Err(problem)
        }
    }
}
