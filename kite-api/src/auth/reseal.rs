//! `POST /api/v1/admin/rotate-seal-key`: another key for what is sealed in objects.
//!
//! The new key seals from the next request on, on every replica, and the one before
//! opens what it has sealed until the next rotation: a request that has read the old
//! key may be about to write. What was left behind so is sealed anew by that one.

use std::time::Duration;

use axum::extract::State;
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::KiteSecondFactor,
};
use kube::{ResourceExt as _, api::ListParams};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{
    Caller,
    seal::{Renewal, Seal},
    second_factor::write,
};
use crate::{
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    web::Answer,
};

/// Writes under way at a time.
const PARALLEL: usize = 8;
/// How often a second factor is read again that was used meanwhile.
const ATTEMPTS: usize = 5;

/// What came of a rotation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SealKeyRotated")]
pub(crate) struct Rotated {
    /// Whether there is another key. False where an earlier rotation had left something
    /// behind: that is done now, and the next request makes the key.
    key_replaced: bool,
    /// Second factors that are sealed with the latest key now, and were not before.
    resealed: usize,
    /// Second factors that no key opens: their users sign in with them no more, and an
    /// administrator takes them away.
    unreadable: Vec<String>,
}

/// Makes another key, and seals all second factors with it. Nobody is signed out, and
/// codes go on to fit. What breaks it off is gone on with by the same request.
pub(super) async fn rotate_seal_key(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Answer<Rotated>, Problem> {
    caller.require(Action::RotateSealKey, Whose::Own)?;
    let secret = Seal::secret_of(&state).await?;
    // The key before goes with this rotation: nothing may need it any more.
    let left = reseal(&state, &Seal::of_secret(&secret)?).await?;
    if left.resealed > 0 {
        tracing::warn!(
            by = caller.name(),
            resealed = left.resealed,
            "went on with a rotation"
        );
        return Ok(Answer::new(left));
    }
    // Each request that has read the key before is over by then.
    let rest = SignedDuration::try_from(state.settings().request_timeout * 2).unwrap_or_default();
    if let Some(last) = Seal::rotated_at(&secret)
        && let left = rest - Timestamp::now().duration_since(last)
        && left.is_positive()
    {
        return Err(too_soon(left.unsigned_abs()));
    }
    let renewed = Seal::with_another_key(&state, &secret).await?;
    let rotated = Rotated {
        key_replaced: true,
        ..reseal(&state, &renewed).await?
    };
    tracing::warn!(
        by = caller.name(),
        resealed = rotated.resealed,
        unreadable = rotated.unreadable.len(),
        "made another key for what is sealed"
    );
    Ok(Answer::new(rotated))
}

fn too_soon(left: Duration) -> Problem {
    let message = "the key was made a moment ago: wait until nobody uses the one before";
    Problem::new(ProblemKind::Conflict, message).retry_after(left)
}

/// Seals every second factor with the latest key.
async fn reseal(state: &ApiState, seal: &Seal) -> Result<Rotated, Problem> {
    let all = ListParams::default();
    let factors = state.cluster().list::<KiteSecondFactor>(None, &all).await?;
    let mut rotated = Rotated {
        key_replaced: false,
        resealed: 0,
        unreadable: Vec::new(),
    };
    // The key of one that could not be looked at may not go.
    let factors = factors.complete()?.into_iter().map(|factor| async move {
        let name = factor.name_any();
        (name, reseal_one(state, seal, factor).await)
    });
    let mut renewals = stream::iter(factors).buffer_unordered(PARALLEL);
    while let Some((name, renewal)) = renewals.next().await {
        match renewal? {
            Renewal::Latest => {}
            Renewal::Sealed(_) => rotated.resealed += 1,
            Renewal::Unreadable => {
                tracing::error!(user = name, "no key opens a second factor");
                rotated.unreadable.push(name);
            }
        }
    }
    Ok(rotated)
}

async fn reseal_one(
    state: &ApiState,
    seal: &Seal,
    factor: KiteSecondFactor,
) -> Result<Renewal, Problem> {
    let key = ObjectKey::of(&factor);
    let mut there = Some(factor);
    for _ in 0..ATTEMPTS {
        let Some(factor) = there else {
            return Ok(Renewal::Latest);
        };
        let renewal = seal.renew(&factor.spec.user_uid, &factor.spec.sealed_secret)?;
        let Renewal::Sealed(sealed) = &renewal else {
            return Ok(renewal);
        };
        if write(state, &factor, json!({ "sealedSecret": sealed })).await? {
            return Ok(renewal);
        }
        // A code of it was used, or it went.
        there = state.cluster().find(&key).await?;
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        format!("the second factor of {key} is being used all the time: try again"),
    ))
}
