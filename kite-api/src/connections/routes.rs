//! Where sessions in VMs are found, and what is refused there.

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with},
};
use kite_rest::{
    ProblemKind::{Conflict, NotFound},
    openapi::about,
};

use super::{archive, end, end_of_vm, list, list_of_vm, replay};
use crate::state::ApiState;

/// The paths of sessions in VMs.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new()
        .api_route(
            "/vms/{name}/sessions",
            get_with(
                list_of_vm,
                about(
                    "vms",
                    "listVmSessions",
                    "List who is connected to a VM, and who was, the newest first",
                    &[NotFound],
                ),
            ),
        )
        .api_route(
            "/vms/{name}/sessions/{session}",
            delete_with(
                end_of_vm,
                about("vms", "endVmSession", "End a session in a VM", &[NotFound]),
            ),
        )
        .api_route(
            "/admin/sessions",
            get_with(
                list,
                about(
                    "admin",
                    "listAllVmSessions",
                    "List the sessions in all VMs, the newest first",
                    &[],
                ),
            ),
        )
        .api_route(
            "/admin/sessions/{name}",
            delete_with(
                end,
                about(
                    "admin",
                    "endAnyVmSession",
                    "End a session in any VM",
                    &[NotFound],
                ),
            ),
        )
        .api_route(
            "/admin/sessions/{name}/recordings/{recording}",
            get_with(
                replay,
                about(
                    "admin",
                    "replayVmSession",
                    "Get a recording of a session",
                    &[NotFound, Conflict],
                ),
            ),
        )
        .api_route(
            "/admin/recordings",
            get_with(
                archive::list,
                about(
                    "admin",
                    "listRecordings",
                    "List the recordings of a day, the newest first, also of sessions that are \
                     not kept any more",
                    &[NotFound],
                ),
            ),
        )
        .api_route(
            "/admin/recordings/{recording}",
            get_with(
                archive::replay,
                about(
                    "admin",
                    "replayRecording",
                    "Get a recording by its name",
                    &[NotFound],
                ),
            ),
        )
}
