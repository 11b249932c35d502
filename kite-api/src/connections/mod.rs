//! Sessions of people in VMs: who is connected and was, by ssh or by a console in the
//! browser; ending one; and seeing again what was recorded of one.
//!
//! The gateways write them, as [`KiteConnection`]s; whoever carries one hears by its
//! own watch that it is to end. The sessions of the API itself are something else
//! ([`crate::auth`]).
//!
//! | Module | What |
//! |---|---|
//! | `view` | what the API shows of one |
//! | `archive` | recordings whose sessions may be forgotten |
//! | `sweep` | the ends of those whose process is gone |
//! | `claims` | which of them count which |
//! | `kept` | which are kept of those that have ended, and for which others these stand |
//! | `merge` | having one stand for others |
//! | `forget` | clearing away what is not kept |

mod archive;
mod claims;
mod forget;
mod kept;
mod merge;
mod routes;
mod sweep;
mod view;

use std::{io, sync::Arc, time::Duration};

use axum::extract::{Path, Query, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::{AccessLevel, EndWish, KiteConnection, KiteVirtualMachine},
};
use kite_identity::{Caller, whose};
use kite_rest::{Accepted, Answer, Items, LINE, Named, Page, Problem, ProblemKind, audit::note};
use kube::{ResourceExt as _, api::ListParams};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::view::VmSessionView;
pub(crate) use self::{forget::forget, routes::routes, sweep::sweep_up};

use crate::{
    owned::{Found, Owner, find},
    policy::{Action, Whose},
    recordings::{Cast, is_plain},
    state::ApiState,
};

/// Which sessions are asked for.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// Only those that last (true), or only those that have ended (false).
    live: Option<bool>,
    /// Only those of VMs of this name.
    vm: Option<String>,
    /// Only those of VMs of the account with this name.
    user: Option<String>,
}

/// Which sessions of one VM are asked for.
#[derive(Deserialize, JsonSchema)]
struct WantedOfVm {
    /// Only those that last (true), or only those that have ended (false).
    live: Option<bool>,
}

/// A session of a VM.
#[derive(Deserialize, JsonSchema)]
struct OfVm {
    /// Name of the VM.
    name: String,
    /// Name of the session.
    session: String,
}

/// A recording of a session.
#[derive(Deserialize, JsonSchema)]
struct OfSession {
    /// Name of the session.
    name: String,
    /// Name of the recording, as the session has it.
    recording: String,
}

/// Why a session is ended.
#[derive(Deserialize, JsonSchema)]
struct Ending {
    /// Whoever is connected reads it: at most 200 characters.
    #[schemars(length(max = 200), extend("format" = LINE))]
    #[serde(default)]
    reason: String,
}

/// `GET /api/v1/vms/{name}/sessions`
async fn list_of_vm(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    Query(wanted): Query<WantedOfVm>,
    page: Page,
) -> Result<Answer<Items<VmSessionView>>, Problem> {
    let found = find(&state, &caller, &name, owner.as_deref()).await?;
    caller.require(Action::SeeVmSessions, found.whose)?;
    let connections = state.caches().connections.list(|it| {
        is_of(it, &found)
            && wanted.live.is_none_or(|live| it.is_live() == live)
            && found_by(&page, it)
    });
    Ok(Answer::new(newest_first(connections, &page)))
}

/// `GET /api/v1/admin/sessions`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
    page: Page,
) -> Result<Answer<Items<VmSessionView>>, Problem> {
    caller.require(Action::SeeVmSessions, Whose::Other(AccessLevel::Admin))?;
    note(|notes| notes.of(wanted.user.as_deref()));
    let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|it| it == is);
    let connections = state.caches().connections.list(|it| {
        wanted.live.is_none_or(|live| it.is_live() == live)
            && is(&wanted.vm, &it.spec.vm.name)
            && is(&wanted.user, &it.spec.owner)
            && found_by(&page, it)
    });
    Ok(Answer::new(newest_first(connections, &page)))
}

fn is_of(connection: &KiteConnection, found: &Found<KiteVirtualMachine>) -> bool {
    connection.metadata.namespace == found.object.metadata.namespace
        && Some(&connection.spec.vm.uid) == found.object.metadata.uid.as_ref()
}

fn found_by(page: &Page, connection: &KiteConnection) -> bool {
    let spec = &connection.spec;
    let earlier = spec.earlier.iter().flat_map(|it| &it.peers);
    let own = [
        spec.vm.name.as_str(),
        spec.owner.as_str(),
        spec.login.as_str(),
        spec.peer.as_deref().unwrap_or_default(),
    ];
    page.wants(own.into_iter().chain(earlier.map(String::as_str)))
}

fn newest_first(mut connections: Vec<Arc<KiteConnection>>, page: &Page) -> Items<VmSessionView> {
    connections.sort_by_cached_key(|it| place(it));
    page.cut_along(&connections, |it| place(it), |it| VmSessionView::of(it))
}

/// Where it stands in lists, as a text: what was opened later comes first.
fn place(connection: &KiteConnection) -> String {
    let opened = connection.spec.opened_at.0.as_microsecond();
    // Times before 1970 do not matter.
    let from_the_end = i64::MAX - opened.max(0);
    format!("{from_the_end:020}\0{}", connection.name_any())
}

/// `DELETE /api/v1/vms/{name}/sessions/{session}`
async fn end_of_vm(
    State(state): State<ApiState>,
    caller: Caller,
    Path(OfVm { name, session }): Path<OfVm>,
    Query(Owner { owner }): Query<Owner>,
    Query(ending): Query<Ending>,
) -> Result<Accepted<VmSessionView>, Problem> {
    let found = find(&state, &caller, &name, owner.as_deref()).await?;
    caller.require(Action::EndVmSession, found.whose)?;
    let reason = ending.reason;
    let connection = state
        .caches()
        .connections
        .find(|it| is_of(it, &found) && it.name_any() == session)
        .ok_or_else(|| Problem::not_found("session", &session))?;
    end_one(&state, &caller, &connection, reason).await
}

/// `DELETE /api/v1/admin/sessions/{name}`
async fn end(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(ending): Query<Ending>,
) -> Result<Accepted<VmSessionView>, Problem> {
    let connection = find_for(&state, &caller, Action::EndVmSession, &name)?;
    let reason = ending.reason;
    end_one(&state, &caller, &connection, reason).await
}

/// A session with which the caller may do this. Who may not see the sessions of
/// others learns nothing of which there are.
fn find_for(
    state: &ApiState,
    caller: &Caller,
    action: Action,
    name: &str,
) -> Result<Arc<KiteConnection>, Problem> {
    caller.require(Action::SeeVmSessions, Whose::Other(AccessLevel::Admin))?;
    let found = state.caches().connections.find(|it| it.name_any() == name);
    let connection = found.ok_or_else(|| Problem::not_found("session", name))?;
    let owner = ObjectKey::cluster(&connection.spec.owner);
    let whose = match state.caches().users.get(&owner) {
        Some(owner) => whose(caller, &owner),
        // An account that nobody knows may have been anybody's.
        None => Whose::Other(AccessLevel::Admin),
    };
    caller.require(action, whose)?;
    note(|notes| notes.of(Some(&connection.spec.owner)));
    Ok(connection)
}

/// Writes that a session is to end. One that has ended is left as it is, and one
/// that somebody ends already keeps the first reason.
async fn end_one(
    state: &ApiState,
    caller: &Caller,
    connection: &KiteConnection,
    reason: String,
) -> Result<Accepted<VmSessionView>, Problem> {
    if !connection.is_live() || connection.spec.end.is_some() {
        return Ok(Answer::new(VmSessionView::of(connection)));
    }
    let key = ObjectKey::of(connection);
    tracing::info!(by = caller.name(), session = %key, reason, "ends a session in a VM");
    let end = EndWish {
        by: caller.user().spec.username.clone(),
        reason,
        at: Time(Timestamp::now()),
    };
    let patch = json!({
        "metadata": { "uid": connection.uid() },
        "spec": { "end": end },
    });
    let edit = state
        .cluster()
        .merge_patch(kite_core::managers::API, &key, &patch);
    let written: KiteConnection = match edit.await {
        Ok(written) => written,
        // Somebody else was first, or the cluster does not want it so.
        Err(refused @ ClusterError::Invalid { .. }) => {
            // The API may list them, and reads none by name.
            let by_name = ListParams::default().fields(&format!("metadata.name={}", key.name));
            let now = state
                .cluster()
                .list::<KiteConnection>(key.namespace.clone(), &by_name);
            let mut now = now.await?.items.into_iter();
            let now = now.find(|it| it.uid() == connection.uid());
            let now = now.ok_or_else(|| Problem::not_found("session", &key.name))?;
            if now.spec.end.is_none() {
                return Err(refused.into());
            }
            now
        }
        Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => {
            return Err(Problem::not_found("session", &key.name));
        }
        Err(error) => return Err(error.into()),
    };
    state.caches().connections.caught_up_with(&written).await;
    Ok(Answer::new(VmSessionView::of(&written)))
}

/// How long after a session its recording may take to arrive: longer than the pause
/// between two tries of a gateway to store it.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_mins(2);
/// When a page does well to ask for it again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Why a recording is not where recordings are.
fn not_there(connection: &KiteConnection, now: Timestamp) -> Problem {
    let Some(ended) = &connection.spec.ended else {
        return Problem::new(
            ProblemKind::Conflict,
            "the recording is still under way: see it when the session has ended",
        );
    };
    // The session is over when its people are gone, whatever the disk still has to do.
    if now.duration_since(ended.at.0) < ON_ITS_WAY {
        return Problem::new(
            ProblemKind::Conflict,
            "the recording is still being stored: try again in a moment",
        )
        .retry_after(ASK_AGAIN);
    }
    Problem::new(
        ProblemKind::NotFound,
        "the recording is not there: the gateway could not store it yet, or it is not kept any \
         more",
    )
}

fn not_read_here() -> Problem {
    Problem::new(
        ProblemKind::NotFound,
        "recordings are not read by this server: its operator names where they are \
         (--recordings-from)",
    )
}

fn unreadable(recording: &str, error: &io::Error) -> Problem {
    tracing::error!(recording, %error, "recordings cannot be read");
    Problem::new(
        ProblemKind::Unavailable,
        "recordings cannot be read now: try again, the operator finds the cause in the log",
    )
}

/// `GET /api/v1/admin/sessions/{name}/recordings/{recording}`
async fn replay(
    State(state): State<ApiState>,
    caller: Caller,
    Path(OfSession { name, recording }): Path<OfSession>,
) -> Result<Cast, Problem> {
    let connection = find_for(&state, &caller, Action::ReplayVmSession, &name)?;
    let spec = &connection.spec;
    if !spec.recordings.contains(&recording) || !is_plain(&recording) {
        return Err(Problem::not_found("recording", &recording));
    }
    let recordings = state.recordings().ok_or_else(not_read_here)?;
    let found = recordings.read(&recording).await;
    let found = found.map_err(|error| unreadable(&recording, &error))?;
    let Some(recorded) = found else {
        return Err(not_there(&connection, Timestamp::now()));
    };
    note(|notes| {
        let (vm, owner) = (&spec.vm.name, &spec.owner);
        notes.remark(format!(
            "replayed the recording {recording} of {owner}'s VM {vm}"
        ));
    });
    Ok(Cast(recorded))
}
