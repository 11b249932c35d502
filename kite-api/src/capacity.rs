//! What the cluster has for VMs, read off its nodes.

use std::time::{Duration, Instant};

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use k8s_openapi::api::core::v1::Node;
use kite_core::{cluster::Cluster as _, crd::AccessLevel};
use kite_identity::Caller;
use kite_rest::{Answer, Problem, openapi::about};
use kube::api::ListParams;

use crate::{
    nodes::{Capacity, SCHEDULABLE},
    policy::{Action, Whose},
    state::ApiState,
};

/// For how long it is not read again. Nodes list their images, and there may be many.
const BELIEVED: Duration = Duration::from_secs(30);

/// The path `/admin/capacity`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/admin/capacity",
        get_with(
            get,
            about(
                "admin",
                "getCapacity",
                "See what the cluster has for VMs, of half a minute ago at most",
                &[],
            ),
        ),
    )
}

/// `GET /api/v1/admin/capacity`
async fn get(State(state): State<ApiState>, caller: Caller) -> Result<Answer<Capacity>, Problem> {
    caller.require(Action::ManagePlatform, Whose::Other(AccessLevel::ReadOnly))?;
    // Who asks meanwhile waits for the same answer.
    let mut seen = state.capacity().lock().await;
    if let Some((_, known)) = seen.as_ref().filter(|(at, _)| at.elapsed() < BELIEVED) {
        return Ok(Answer::new(known.clone()));
    }
    let takes_machines = ListParams::default().labels(&format!("{SCHEDULABLE}=true"));
    let nodes = state.cluster().list::<Node>(None, &takes_machines).await?;
    let capacity = Capacity::of(&nodes.items);
    *seen = Some((Instant::now(), capacity.clone()));
    Ok(Answer::new(capacity))
}
