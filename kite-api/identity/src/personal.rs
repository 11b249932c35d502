//! API tokens: what programs send instead of a session's token.
//!
//! A token leads to its `KiteToken`, whose name follows from the user and from
//! what the user calls it: so the API server sees to it that there is one of each.

use std::{net::IpAddr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{ClusterError, ClusterExt as _, ObjectKey},
    crd::{KitePlatformSpec, KiteToken, KiteTokenSpec, KiteTokenStatus, KiteUser},
    names,
};
use kite_rest::Problem;
use kube::{ResourceExt as _, api::PropagationPolicy};
use subtle::ConstantTimeEq as _;

use crate::{
    state::{Accounts, noted_uses::NOTED_EVERY},
    token::{Halves, PERSONAL},
};

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
pub(crate) fn is_personal(text: &str) -> bool {
    text.starts_with(PERSONAL)
}

/// The token's object, if it has not ended. As with sessions, the API server is
/// asked where the copy does not know it.
pub(crate) async fn find_token(
    state: &Accounts,
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
        let asked = state
            .lookups()
            .ask(
                state.cluster(),
                cache,
                &key,
                false,
                state.source_of(address),
            )
            .await?;
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
pub(crate) fn tokens_of(state: &Accounts, user: &KiteUser) -> Vec<Arc<KiteToken>> {
    let name = user.name_any();
    state.caches().tokens.list(|token| token.spec.user == name)
}

/// Ends one token.
pub(crate) async fn end_token(state: &Accounts, token: &KiteToken) -> Result<(), Problem> {
    state
        .cluster()
        .delete_by_uid(token, PropagationPolicy::Background)
        .await?;
    state.caches().tokens.caught_up_with_deletion(token).await;
    Ok(())
}

/// Writes down that a token was used, if that was not done within the hour. The
/// request does not wait for it, and of several replicas one does it.
pub(crate) fn note_use(state: &Accounts, token: &KiteToken) {
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
            .write_status(state.store().manager(), &token, used);
        match written.await {
            // Another replica did it, or it has ended.
            Ok(_) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {}
            Err(error) => tracing::debug!(%error, "the use of a token was not written down"),
        }
    });
}
