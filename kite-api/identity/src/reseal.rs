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
    cluster::{Cluster as _, ClusterExt as _, Object, ObjectKey},
    crd::{KitePassword, KiteSecondFactor},
};
use kite_rest::{Answer, Problem, ProblemKind, patch_unchanged};
use kube::{ResourceExt as _, api::ListParams};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::{
    account_action::AccountAction,
    act::Whose,
    caller::Caller,
    seal::{Renewal, Seal},
    state::Accounts,
};

/// Writes under way at a time.
const PARALLEL: usize = 8;
/// How often what was written meanwhile is read again.
const ATTEMPTS: usize = 5;

/// What came of a rotation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SealKeyRotated")]
pub(crate) struct Rotated {
    /// Whether there is another key. False where an earlier rotation had left something
    /// behind: that is done now, and the next request makes the key.
    key_replaced: bool,
    /// Second factors and passwords that are sealed with the latest key now, and were not
    /// before.
    resealed: usize,
    /// Second factors that no key opens: their users sign in with them no more, and an
    /// administrator takes them away.
    unreadable: Vec<String>,
    /// Accounts whose password no key opens: their users sign in with it no more, and an
    /// administrator gives them another.
    unreadable_passwords: Vec<String>,
}

/// A kind whose objects have something sealed in them.
trait Sealed: Object {
    /// What people call it.
    const CALLED: &'static str;
    /// The field of the spec that it is in.
    const FIELD: &'static str;

    /// For whom it is sealed.
    fn whose(&self) -> String;

    /// What is sealed.
    fn sealed(&self) -> &str;

    /// Name of the account that it is of.
    fn account(&self) -> String;

    /// Whether it is missed if no key opens it.
    fn is_needed(&self, state: &Accounts) -> bool;
}

impl Sealed for KiteSecondFactor {
    const CALLED: &'static str = "second factor";
    const FIELD: &'static str = "sealedSecret";

    fn whose(&self) -> String {
        self.spec.user_uid.clone()
    }

    fn sealed(&self) -> &str {
        &self.spec.sealed_secret
    }

    fn account(&self) -> String {
        self.name_any()
    }

    fn is_needed(&self, _: &Accounts) -> bool {
        true
    }
}

impl Sealed for KitePassword {
    const CALLED: &'static str = "password";
    const FIELD: &'static str = "sealedHash";

    fn whose(&self) -> String {
        Self::place(&self.spec.user, &self.name_any())
    }

    fn sealed(&self) -> &str {
        &self.spec.sealed_hash
    }

    fn account(&self) -> String {
        self.spec.user.clone()
    }

    /// One that the account does not name is about to be swept up.
    fn is_needed(&self, state: &Accounts) -> bool {
        let user = state
            .caches()
            .users
            .get(&ObjectKey::cluster(&self.spec.user));
        user.is_some_and(|user| user.spec.credential == self.metadata.name)
    }
}

/// Makes another key, and seals all second factors and passwords with it. Nobody is signed
/// out, and codes and passwords go on to fit. What breaks it off is gone on with by the same
/// request.
pub(crate) async fn rotate_seal_key(
    State(state): State<Accounts>,
    caller: Caller,
) -> Result<Answer<Rotated>, Problem> {
    caller.require(AccountAction::RotateSealKey, Whose::Own)?;
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
        unreadable = rotated.unreadable.len() + rotated.unreadable_passwords.len(),
        "made another key for what is sealed"
    );
    Ok(Answer::new(rotated))
}

fn too_soon(left: Duration) -> Problem {
    let message = "the key was made a moment ago: wait until nobody uses the one before";
    Problem::new(ProblemKind::Conflict, message).retry_after(left)
}

/// Seals everything with the latest key.
async fn reseal(state: &Accounts, seal: &Seal) -> Result<Rotated, Problem> {
    let (factors, unreadable) = reseal_all::<KiteSecondFactor>(state, seal).await?;
    let (passwords, unreadable_passwords) = reseal_all::<KitePassword>(state, seal).await?;
    Ok(Rotated {
        key_replaced: false,
        resealed: factors + passwords,
        unreadable,
        unreadable_passwords,
    })
}

/// Seals all of a kind with the latest key: how many were not, and whose no key opens.
async fn reseal_all<K: Sealed>(
    state: &Accounts,
    seal: &Seal,
) -> Result<(usize, Vec<String>), Problem> {
    let all = state
        .cluster()
        .list::<K>(None, &ListParams::default())
        .await?;
    // The key of one that could not be looked at may not go.
    let all = all.complete()?.into_iter().map(|object| async move {
        let (account, is_needed) = (object.account(), object.is_needed(state));
        (account, is_needed, reseal_one(state, seal, object).await)
    });
    let (mut resealed, mut unreadable) = (0, Vec::new());
    let mut renewals = stream::iter(all).buffer_unordered(PARALLEL);
    while let Some((account, is_needed, renewal)) = renewals.next().await {
        match renewal? {
            Renewal::Sealed(_) => resealed += 1,
            Renewal::Unreadable if is_needed => {
                tracing::error!(user = account, "no key opens a {}", K::CALLED);
                unreadable.push(account);
            }
            Renewal::Latest | Renewal::Unreadable => {}
        }
    }
    Ok((resealed, unreadable))
}

async fn reseal_one<K: Sealed>(
    state: &Accounts,
    seal: &Seal,
    object: K,
) -> Result<Renewal, Problem> {
    let key = ObjectKey::of(&object);
    let mut there = Some(object);
    for _ in 0..ATTEMPTS {
        let Some(object) = there else {
            return Ok(Renewal::Latest);
        };
        let renewal = seal.renew(&object.whose(), object.sealed())?;
        let Renewal::Sealed(sealed) = &renewal else {
            return Ok(renewal);
        };
        let patch = json!({ "spec": { (K::FIELD): sealed } });
        let written =
            patch_unchanged(state.cluster(), state.store().manager(), &object, patch).await?;
        if written.is_some() {
            return Ok(renewal);
        }
        // A code of it was used, or it went.
        there = state.cluster().get_opt(&key).await?;
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        format!(
            "the {} {key} is being used all the time: try again",
            K::CALLED
        ),
    ))
}
