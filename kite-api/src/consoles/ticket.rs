//! Tickets: the right to open one console once, within seconds.
//!
//! Of a ticket its hash is kept, in an annotation of the [`KiteSession`] of whoever
//! asked for it, with what it is for. So it goes with the session, no other session
//! can use it, and it is good on every replica. It is taken away by a write on the
//! condition that the session is as it was read: of several that try at once, on
//! whatever replicas, one succeeds.
//!
//! Who was authenticated elsewhere ([`Principal::new`]) has no session. Those
//! tickets are in the memory of the replica that gave them: a project with several
//! replicas and authentication of its own leads both requests to the same one.

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::KiteSession,
};
use kite_identity::{Principal, random_token};
use kite_rest::{Problem, ProblemKind};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

use crate::{
    console::{Grant, MOST_WAITING, too_many},
    state::ApiState,
};

/// How tickets begin, so that nobody takes one for a session's token.
const PREFIX: &str = "kite_console_";
/// Before the hash, in the name of the annotation.
const ANNOTATION: &str = "console.hy3ons.github.io/";
/// How often a ticket is tried to be taken away, while others write the session.
const TRIES: usize = 8;

/// Name of the annotation of a ticket.
fn annotation(ticket: &str) -> String {
    // As much of the hash as a name has room for.
    let hash = &Sha256::digest(ticket.as_bytes())[..30];
    hash.iter().fold(ANNOTATION.to_owned(), |name, byte| {
        format!("{name}{byte:02x}")
    })
}

/// The tickets that wait in a session, and when each ends.
fn waiting(session: &KiteSession) -> impl Iterator<Item = (&String, Option<Timestamp>)> {
    let all = session.annotations().iter();
    let tickets = all.filter(|(name, _)| name.starts_with(ANNOTATION));
    tickets.map(|(name, grant)| {
        let grant = serde_json::from_str::<Grant>(grant).ok();
        (name, grant.map(|grant| grant.expires_at))
    })
}

/// Gives a ticket.
pub(super) async fn issue(
    state: &ApiState,
    principal: &Principal,
    grant: Grant,
) -> Result<String, Problem> {
    let ticket = random_token(PREFIX)?;
    let name = annotation(&ticket);
    let Some(session) = principal.session() else {
        let tickets = &state.consoles().tickets;
        tickets.put(name, &uid_of(principal), grant)?;
        return Ok(ticket);
    };
    let now = Timestamp::now();
    let mut annotations = Map::new();
    let mut fresh = 0;
    for (old, until) in waiting(session) {
        if until.is_some_and(|until| until > now) {
            fresh += 1;
        } else {
            annotations.insert(old.clone(), Value::Null);
        }
    }
    if fresh >= MOST_WAITING {
        return Err(too_many());
    }
    let text = serde_json::to_string(&grant).map_err(|error| {
        tracing::error!(%error, "a ticket cannot be written");
        Problem::new(ProblemKind::Internal, "the ticket could not be written")
    })?;
    annotations.insert(name, Value::from(text));
    let patch = json!({"metadata": {"uid": session.uid(), "annotations": annotations}});
    let key = ObjectKey::of(session);
    let edited = state
        .cluster()
        .merge_patch::<KiteSession>(kite_core::managers::API, &key, &patch)
        .await
        .map_err(|error| match error {
            ClusterError::NotFound { .. } => session_ended(),
            error => error.into(),
        })?;
    state.caches().sessions.caught_up_with(&edited).await;
    Ok(ticket)
}

/// Takes a ticket away, and gives what it is for and the session as it is then.
pub(super) async fn redeem(
    state: &ApiState,
    principal: &Principal,
    ticket: &str,
) -> Result<(Grant, Option<Arc<KiteSession>>), Problem> {
    let name = annotation(ticket);
    let Some(session) = principal.session() else {
        let grant = state.consoles().tickets.take(&name, &uid_of(principal));
        return valid(grant).map(|grant| (grant, None));
    };
    let key = ObjectKey::of(session);
    for _ in 0..TRIES {
        let found = state.cluster().get_opt::<KiteSession>(&key).await?;
        let found = found.filter(|found| found.uid() == session.uid());
        let found = found.ok_or_else(session_ended)?;
        let grant = found.annotations().get(&name);
        let Some(grant) = grant.and_then(|text| serde_json::from_str(text).ok()) else {
            return Err(invalid());
        };
        let patch = json!({"metadata": {
            "uid": found.uid(),
            "resourceVersion": found.resource_version(),
            "annotations": {&name: null},
        }});
        match state
            .cluster()
            .merge_patch::<KiteSession>(kite_core::managers::API, &key, &patch)
            .await
        {
            Ok(edited) => return Ok((valid(Some(grant))?, Some(Arc::new(edited)))),
            // Somebody else wrote the session: another took this ticket, or not.
            Err(ClusterError::Conflict { .. }) => {}
            Err(ClusterError::NotFound { .. }) => return Err(session_ended()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::new(
        ProblemKind::Unavailable,
        "the session is being written by many at once: ask for another ticket",
    ))
}

/// Refuses what is no ticket any more.
fn valid(grant: Option<Grant>) -> Result<Grant, Problem> {
    grant
        .filter(|grant| grant.expires_at > Timestamp::now())
        .ok_or_else(invalid)
}

fn invalid() -> Problem {
    Problem::new(
        ProblemKind::WrongCredentials,
        "the ticket is not good: it was used, has expired, or is another session's; ask for \
         another with POST /api/v1/vms/{name}/console",
    )
}

fn session_ended() -> Problem {
    Problem::new(
        ProblemKind::Unauthenticated,
        "the session has ended: sign in again",
    )
}

fn uid_of(principal: &Principal) -> String {
    principal.user().uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn annotations_are_names_and_tell_nothing_of_the_ticket() {
        let ticket = random_token(PREFIX).unwrap();
        let name = annotation(&ticket);
        let (_, name) = name.split_once('/').unwrap();
        assert_eq!(name.len(), 60, "at most 63");
        assert!(!name.contains(&ticket[PREFIX.len()..]));
        assert_ne!(annotation(&ticket), annotation(PREFIX));
    }
}
