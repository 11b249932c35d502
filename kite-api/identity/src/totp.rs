//! One's own second factor.

use aide::axum::{
    ApiRouter,
    routing::{get_with, post_with},
};
use axum::{extract::FromRef, extract::State};
use kite_rest::{
    Answer, Bodies, Created, Done, Form, Input, Problem, ProblemKind, Sent, openapi::about,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    caller::Caller,
    client::Client,
    openapi::EXAMPLE_PASSWORD,
    prove::{Evidence, prove_password, verify_password},
    second_factor::{confirm, enrol, find_factor, remove_factor, require_second_factor},
    state::Accounts,
};

const TAG: &str = "me";

/// The paths below `/me/totp`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    use ProblemKind::{
        Conflict, NotFound, SecondFactorRequired, TooManyRequests, WrongCredentials,
    };
    ApiRouter::new()
        .api_route(
            "/me/totp",
            get_with(
                get,
                about(
                    TAG,
                    "getSecondFactor",
                    "See whether there is a second factor",
                    &[],
                ),
            )
            .post_with(
                begin,
                about(
                    TAG,
                    "beginSecondFactor",
                    "Begin with a second factor",
                    &[Conflict, WrongCredentials, TooManyRequests],
                ),
            )
            .delete_with(
                remove,
                about(
                    TAG,
                    "removeSecondFactor",
                    "Remove the second factor",
                    &[
                        NotFound,
                        WrongCredentials,
                        SecondFactorRequired,
                        TooManyRequests,
                    ],
                ),
            ),
        )
        .api_route(
            "/me/totp/confirm",
            post_with(
                confirm_it,
                about(
                    TAG,
                    "confirmSecondFactor",
                    "Tell the first code; recovery codes are shown this once",
                    &[Conflict, WrongCredentials, TooManyRequests],
                ),
            ),
        )
}

/// How it stands with the second factor.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SecondFactor")]
pub(crate) struct FactorView {
    /// Whether signing in asks for a code.
    enabled: bool,
    /// How many recovery codes were not used yet.
    recovery_codes_left: usize,
}

/// `GET /api/v1/me/totp`
async fn get(State(state): State<Accounts>, caller: Caller) -> Result<Answer<FactorView>, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    let factor = find_factor(&state, caller.user()).await?;
    let spec = factor.map(|factor| factor.spec);
    let spec = spec.filter(|spec| spec.confirmed);
    Ok(Answer::new(FactorView {
        enabled: spec.is_some(),
        recovery_codes_left: spec.map_or(0, |spec| spec.recovery_codes.len()),
    }))
}

/// What an authenticator app is told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NewSecondFactor")]
pub(crate) struct EnrolmentView {
    /// The secret in base 32, to be typed.
    secret: String,
    /// The same as an `otpauth` URL, to be shown as a QR code.
    url: String,
}

/// `POST /api/v1/me/totp`: with the password, lest a session in other hands locks its
/// owner out.
async fn begin(
    State(state): State<Accounts>,
    caller: Caller,
    client: Client,
    Sent { input, mut form }: Sent<Proof>,
) -> Result<Created<EnrolmentView>, Problem> {
    caller.permit(AccountAction::ManageSecondFactor, Whose::Own)?;
    if !caller.user().spec.has_password() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the account has no password that a second factor would stand beside",
        ));
    }
    let Proof(password) = form.finish_with(input)?;
    prove_password(&state, &caller, &client, "password", password).await?;
    let enrolment = enrol(&state, caller.user()).await?;
    let view = EnrolmentView {
        secret: enrolment.secret,
        url: enrolment.url,
    };
    Ok(Created::new(view).with_location("/api/v1/me/totp"))
}

/// What the app shows.
pub(crate) struct Code(String);

impl Input for Code {
    const NAME: &'static str = "Code";
    const MEANING: &'static [(&'static str, &'static str)] =
        &[("code", "What the authenticator app shows.")];

    fn example() -> Option<Value> {
        Some(json!({"code": "123456"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        form.required("code").map(Self)
    }
}

/// What is told once.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecoveryCodes {
    /// Each signs in once in place of the app's code.
    recovery_codes: Vec<String>,
}

/// `POST /api/v1/me/totp/confirm`
async fn confirm_it(
    State(state): State<Accounts>,
    caller: Caller,
    client: Client,
    Sent { input, mut form }: Sent<Code>,
) -> Result<Answer<RecoveryCodes>, Problem> {
    caller.require(AccountAction::ManageSecondFactor, Whose::Own)?;
    let Code(code) = form.finish_with(input)?;
    let source = client.source_in(&state, &caller);
    let recovery_codes = confirm(&state, caller.user(), source, &code).await?;
    tracing::info!(user = caller.name(), "has a second factor");
    Ok(Answer::new(RecoveryCodes { recovery_codes }))
}

/// The password, once more.
pub(crate) struct Proof(String);

impl Input for Proof {
    const NAME: &'static str = "Proof";
    const MEANING: &'static [(&'static str, &'static str)] =
        &[("password", "The password of the account.")];

    fn example() -> Option<Value> {
        Some(json!({"password": EXAMPLE_PASSWORD}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        form.required("password").map(Self)
    }
}

/// `DELETE /api/v1/me/totp`: who has got hold of a session and of the password does not
/// get rid of it.
async fn remove(
    State(state): State<Accounts>,
    caller: Caller,
    client: Client,
    Sent { input, mut form }: Sent<Evidence>,
) -> Result<Done, Problem> {
    caller.permit(AccountAction::ManageSecondFactor, Whose::Own)?;
    let Evidence { password, code } = form.finish_with(input)?;
    // With the code this is all that proves who one is.
    verify_password(&state, &caller, &client, "password", password).await?;
    let source = client.source_in(&state, &caller);
    require_second_factor(&state, caller.user(), source, code.as_deref()).await?;
    if !remove_factor(&state, caller.user()).await? {
        return Err(Problem::new(
            ProblemKind::NotFound,
            "the account has no second factor",
        ));
    }
    tracing::info!(user = caller.name(), "removed the second factor");
    Ok(Done::default())
}
