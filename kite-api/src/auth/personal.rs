//! API tokens: what programs send instead of a session's token.
//!
//! A token leads to its `KiteToken`, whose name follows from the user and from
//! what the user calls it: so the API server sees to it that there is one of each.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{ClusterError, ClusterExt as _, ObjectKey},
    crd::{KitePlatformSpec, KiteToken, KiteTokenSpec, KiteTokenStatus, KiteUser},
    names,
};
use kite_rest::Problem;
use kube::{ResourceExt as _, api::PropagationPolicy};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::{
    lookups,
    token::{Halves, PERSONAL},
};

use crate::state::ApiState;

/// How old `lastUsedAt` may be: a token's use is written no more often.
const NOTED_EVERY: Duration = Duration::from_secs(3600);
/// Most tokens whose last use is remembered here.
const MOST_NOTED: usize = 10_000;

/// A token and the object that is to be created for it.
pub(crate) fn new_token(mut spec: KiteTokenSpec) -> Result<(String, KiteToken), Problem> {
    let halves = Halves::of(names::token_id(&spec.user_uid, &spec.name))?;
    spec.hash = halves.fingerprint();
    Ok((
        halves.token(PERSONAL),
        KiteToken::new(&halves.token_name(), spec),
    ))
}

/// Whether a text can be an API token.
pub(super) fn is_personal(text: &str) -> bool {
    text.starts_with(PERSONAL)
}

/// The token's object, if it has not ended. As with sessions, the API server is
/// asked where the copy does not know it.
pub(super) async fn find_token(
    state: &ApiState,
    text: &str,
    address: Option<IpAddr>,
) -> Result<Option<Arc<KiteToken>>, Problem> {
    let Some(halves) = Halves::parse(PERSONAL, text) else {
        return Ok(None);
    };
    let hash = halves.fingerprint();
    let fits = |token: &Arc<KiteToken>| token.spec.hash.as_bytes().ct_eq(hash.as_bytes()).into();
    let key = ObjectKey::cluster(halves.token_name());
    let cache = &state.caches().tokens;
    let mut token = cache.get(&key).filter(|it| cache.is_live() && fits(it));
    if token.is_none() {
        let asked = lookups::ask(state, cache, &key, false, address).await?;
        token = asked.map(Arc::new);
    }
    Ok(token.filter(|token| fits(token) && is_valid(token)))
}

/// Whether it has neither expired nor been ended.
pub(crate) fn is_valid(token: &KiteToken) -> bool {
    token.spec.expires_at.0 > Timestamp::now() && token.metadata.deletion_timestamp.is_none()
}

/// Whether a token is one of this account, as account and platform are now: not of
/// an earlier one of its name, and not from before all tokens were ended. No token is of
/// an epoch below zero, which stands for one that cannot be read.
pub(crate) fn is_token_of(token: &KiteToken, user: &KiteUser, platform: &KitePlatformSpec) -> bool {
    user.uid().as_deref() == Some(token.spec.user_uid.as_str())
        && token.spec.user_epoch == user.spec.token_epoch
        && token.spec.platform_epoch == platform.token_epoch
        && platform.token_epoch >= 0
}

/// The tokens of an account, also those that are over and not cleared away yet.
pub(crate) fn tokens_of(state: &ApiState, user: &KiteUser) -> Vec<Arc<KiteToken>> {
    let name = user.name_any();
    state.caches().tokens.list(|token| token.spec.user == name)
}

/// Ends one token.
pub(crate) async fn end_token(state: &ApiState, token: &KiteToken) -> Result<(), Problem> {
    state
        .cluster()
        .remove(token, PropagationPolicy::Background)
        .await?;
    state.caches().tokens.caught_up_with_deletion(token).await;
    Ok(())
}

/// When this replica last wrote down the use of which token.
#[derive(Default)]
pub(crate) struct NotedUses(Mutex<HashMap<String, Instant>>);

impl NotedUses {
    /// Whether it is time to write it down again.
    fn is_due(&self, token: &str) -> bool {
        let mut noted = self.0.lock();
        if noted
            .get(token)
            .is_some_and(|at| at.elapsed() < NOTED_EVERY)
        {
            return false;
        }
        if noted.len() >= MOST_NOTED {
            noted.retain(|_, at| at.elapsed() < NOTED_EVERY);
        }
        if noted.len() >= MOST_NOTED {
            return false;
        }
        noted.insert(token.to_owned(), Instant::now());
        true
    }
}

/// Writes down that a token was used, if that was not done within the hour. The
/// request does not wait for it, and of several replicas one does it.
pub(super) fn note_use(state: &ApiState, token: &KiteToken) {
    let now = Timestamp::now();
    let last = token
        .status
        .as_ref()
        .and_then(|it| it.last_used_at.as_ref());
    if last.is_some_and(|last| last.0 + NOTED_EVERY > now)
        || !state.noted_uses().is_due(&token.name_any())
    {
        return;
    }
    let used = KiteTokenStatus {
        last_used_at: Some(Time(now)),
        unreadable: None,
    };
    let (state, token) = (state.clone(), token.clone());
    tokio::spawn(async move {
        let written = state
            .cluster()
            .write_status(kite_core::managers::API, &token, used);
        match written.await {
            // Another replica did it, or it has ended.
            Ok(_) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {}
            Err(error) => tracing::debug!(%error, "the use of a token was not written down"),
        }
    });
}
