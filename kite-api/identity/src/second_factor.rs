//! The second factor: codes of an authenticator app (TOTP, RFC 6238), and recovery
//! codes for when it is lost. Each code is good once, on whatever replica: that it
//! was used is written on the condition that nobody wrote meanwhile.

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KiteSecondFactor, KiteSecondFactorSpec, KiteUser},
    names,
};
use kite_rest::{FieldError, Problem, ProblemKind, audit::note, patch_unchanged};
use kube::{Resource as _, ResourceExt as _, api::PropagationPolicy};
use serde_json::json;
use totp_rs::{Builder, Secret, Totp};

use crate::{
    notices::{AccountNotice, tell_ahead},
    seal::Seal,
    state::Accounts,
    throttle::{Source, too_many},
    token::random,
};

/// What authenticator apps show beside the account.
const ISSUER: &str = "Kite";
/// Recovery codes that are given out.
const RECOVERY_CODES: usize = 10;
/// Random bytes in a recovery code: too many to be found from its hash.
const RECOVERY_BYTES: usize = 10;
/// How often a write is tried again that others were faster than.
const ATTEMPTS: usize = 5;

/// What an authenticator app is told.
pub(crate) struct Enrolment {
    /// In base 32, to be typed.
    pub(crate) secret: String,
    /// To be scanned.
    pub(crate) url: String,
}

fn key_of(user: &KiteUser) -> ObjectKey {
    ObjectKey::cluster(user.name_any())
}

/// The account's second factor, confirmed or not. Read from the API server: what
/// keeps somebody out must not be stale.
pub(crate) async fn find_factor(
    state: &Accounts,
    user: &KiteUser,
) -> Result<Option<KiteSecondFactor>, Problem> {
    let factor: Option<KiteSecondFactor> = state.cluster().get_opt(&key_of(user)).await?;
    Ok(factor.filter(|factor| Some(&*factor.spec.user_uid) == user.uid().as_deref()))
}

/// Makes a secret that counts once a code was told ([`confirm`]).
pub(crate) async fn enrol(state: &Accounts, user: &KiteUser) -> Result<Enrolment, Problem> {
    let bytes: [u8; 20] = random()?;
    let uid = user.uid().unwrap_or_default();
    let sealed_secret = Seal::of_cluster(state).await?.seal(&uid, &bytes)?;
    let earlier: Option<KiteSecondFactor> = state.cluster().get_opt(&key_of(user)).await?;
    if earlier
        .as_ref()
        .is_some_and(|it| it.spec.confirmed && it.spec.user_uid == uid)
    {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the account has a second factor: remove it first with DELETE /api/v1/me/totp",
        ));
    }
    if let Some(earlier) = earlier {
        state
            .cluster()
            .delete_by_uid(&earlier, PropagationPolicy::Background)
            .await?;
    }
    let mut factor = KiteSecondFactor::new(
        &user.name_any(),
        KiteSecondFactorSpec {
            user_uid: uid,
            sealed_secret,
            confirmed: false,
            last_step: 0,
            recovery_codes: Vec::new(),
        },
    );
    factor.metadata.owner_references = user.owner_ref(&()).map(|owner| vec![owner]);
    match state.cluster().create(&factor).await {
        Err(ClusterError::AlreadyExists { .. }) => return Err(meanwhile()),
        made => made?,
    };
    let totp = totp(&bytes, &user.spec.username)?;
    let url = totp.to_url().map_err(|error| internal(&error))?;
    let secret = totp.secret().to_base32();
    Ok(Enrolment { secret, url })
}

/// Makes the second factor count, if `code` is the app's, and gives the recovery
/// codes, which are nowhere else.
pub(crate) async fn confirm(
    state: &Accounts,
    user: &KiteUser,
    source: Source<'_>,
    code: &str,
) -> Result<Vec<String>, Problem> {
    let factor = find_factor(state, user).await?;
    let factor = factor.filter(|it| !it.spec.confirmed).ok_or_else(|| {
        Problem::new(
            ProblemKind::Conflict,
            "no second factor waits to be confirmed: begin with POST /api/v1/me/totp",
        )
    })?;
    let attempt = state
        .second_factor_throttle()
        .attempt(&user.spec.username, source)
        .map_err(too_many)?;
    let Some(step) = step_of(state, &factor, &user.spec.username, &normal(code)).await? else {
        return Err(wrong_code(ProblemKind::WrongCredentials));
    };
    attempt.succeeded();
    let mut codes = Vec::with_capacity(RECOVERY_CODES);
    for _ in 0..RECOVERY_CODES {
        let bytes: [u8; RECOVERY_BYTES] = random()?;
        codes.push(Secret::new(Box::new(bytes)).to_base32().to_lowercase());
    }
    let hashes: Vec<_> = codes.iter().map(|code| names::fingerprint(code)).collect();
    let spec = json!({ "confirmed": true, "lastStep": step, "recoveryCodes": hashes });
    let patch = json!({ "spec": spec });
    let told = tell_ahead(state, user, AccountNotice::SecondFactor, "").await?;
    let written = patch_unchanged(state.cluster(), state.store().manager(), &factor, patch).await?;
    if written.is_none() {
        told.withdraw(state).await;
        return Err(meanwhile());
    }
    Ok(codes.iter().map(|code| in_groups(code)).collect())
}

/// Takes the second factor away; whether there was one.
pub(crate) async fn remove_factor(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
    let Some(factor) = find_factor(state, user).await? else {
        return Ok(false);
    };
    // One that was never confirmed guards nothing.
    if factor.spec.confirmed {
        tell_ahead(state, user, AccountNotice::SecondFactor, "").await?;
    }
    state
        .cluster()
        .delete_by_uid(&factor, PropagationPolicy::Background)
        .await?;
    state.seen_factors().forget(&factor.spec.user_uid);
    Ok(true)
}

/// Lets somebody whose password is right in, with a code where the account has a
/// second factor. Failures are counted by themselves: who knows the password gets
/// no further tries at it.
pub(crate) async fn require_second_factor(
    state: &Accounts,
    user: &KiteUser,
    source: Source<'_>,
    code: Option<&str>,
) -> Result<(), Problem> {
    let factor = find_factor(state, user).await?;
    if !factor.is_some_and(|factor| factor.spec.confirmed) {
        return Ok(());
    }
    let Some(code) = code else {
        note(|notes| notes.factor("missing"));
        return Err(Problem::new(
            ProblemKind::SecondFactorRequired,
            "repeat it with code: what the authenticator app shows, or a recovery code",
        ));
    };
    let attempt = state
        .second_factor_throttle()
        .attempt(&user.spec.username, source)
        .map_err(too_many)?;
    match use_code(state, user, &normal(code)).await {
        Ok(true) => {
            attempt.succeeded();
            Ok(())
        }
        Ok(false) => Err(wrong_code(ProblemKind::SecondFactorRequired)),
        Err(problem) => {
            attempt.undecided();
            Err(problem)
        }
    }
}

/// Whether `code` fits and was not used before; from now on it was.
async fn use_code(state: &Accounts, user: &KiteUser, code: &str) -> Result<bool, Problem> {
    for _ in 0..ATTEMPTS {
        let factor = find_factor(state, user).await?;
        let Some(factor) = factor.filter(|factor| factor.spec.confirmed) else {
            return Err(meanwhile());
        };
        let left = &factor.spec.recovery_codes;
        let hash = names::fingerprint(code);
        let spec = if left.contains(&hash) {
            note(|notes| notes.factor("recovery-code"));
            let left: Vec<_> = left.iter().filter(|it| **it != hash).collect();
            tracing::warn!(user = user.name_any(), "used a recovery code");
            json!({ "recoveryCodes": left })
        } else {
            note(|notes| notes.factor("code"));
            match step_of(state, &factor, &user.spec.username, code).await? {
                Some(step) => json!({ "lastStep": step }),
                None => return Ok(false),
            }
        };
        let patch = json!({ "spec": spec });
        let written =
            patch_unchanged(state.cluster(), state.store().manager(), &factor, patch).await?;
        if written.is_some() {
            return Ok(true);
        }
    }
    Err(meanwhile())
}

/// The span of time whose code this is, if it is later than that of the last one
/// that was used.
async fn step_of(
    state: &Accounts,
    factor: &KiteSecondFactor,
    account: &str,
    code: &str,
) -> Result<Option<i64>, Problem> {
    let seal = Seal::of_cluster(state).await?;
    let secret = seal.open(&factor.spec.user_uid, &factor.spec.sealed_secret)?;
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
    let step = totp(&secret, account)?
        .check(code, now)
        .and_then(|step| i64::try_from(step).ok());
    Ok(step.filter(|step| *step > factor.spec.last_step))
}

fn totp(secret: &[u8], account: &str) -> Result<Totp, Problem> {
    Builder::new()
        .with_secret(Secret::new(secret.into()))
        .with_account_name(account)
        .with_issuer(Some(ISSUER))
        .build()
        .map_err(|error| internal(&error))
}

fn internal(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "a second factor cannot be used");
    Problem::new(
        ProblemKind::Internal,
        "the second factor cannot be used: the operator finds the cause in the log",
    )
}

fn meanwhile() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "the second factor was changed at the same moment: try again",
    )
}

fn wrong_code(kind: ProblemKind) -> Problem {
    let message = "does not fit, or was used before: wait for the next one";
    Problem::new(kind, format!("code: {message}")).with_error(FieldError {
        field: "code".to_owned(),
        value: None,
        message: message.to_owned(),
    })
}

/// People type codes with spaces and hyphens, and in capitals.
fn normal(code: &str) -> String {
    code.chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .take(64)
        .collect::<String>()
        .to_lowercase()
}

/// In groups of four, for people.
fn in_groups(code: &str) -> String {
    let groups: Vec<_> = code
        .as_bytes()
        .chunks(4)
        .map(String::from_utf8_lossy)
        .collect();
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_type_them() {
        assert_eq!(normal("123 456"), "123456");
        assert_eq!(in_groups("abcdefghijkl"), "abcd-efgh-ijkl");
        assert_eq!(normal("ABCD-efgh"), "abcdefgh");
    }
}
