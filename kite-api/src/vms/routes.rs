//! Where VMs are found, and what is refused there.

use aide::axum::{
    ApiRouter,
    routing::{get_with, post_with},
};
use kite_core::crd::KiteVirtualMachine;
use kite_rest::{
    ProblemKind::{Conflict, NotFound, QuotaExceeded, Taken},
    openapi::about,
};

use super::{
    create, delete, list, patch,
    power::{restart, start, stop},
    restore::{cancel, restore},
};
use crate::{owned, state::ApiState};

const TAG: &str = "vms";

/// The paths below `/vms`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new()
        .api_route(
            "/vms",
            get_with(list, about(TAG, "listVms", "List VMs", &[NotFound])).post_with(
                create,
                about(
                    TAG,
                    "createVm",
                    "Create a VM",
                    &[NotFound, Taken, QuotaExceeded, Conflict],
                ),
            ),
        )
        .api_route(
            "/vms/{name}",
            get_with(
                owned::get::<KiteVirtualMachine>,
                about(TAG, "getVm", "See a VM", &[NotFound]),
            )
            .patch_with(
                patch,
                about(
                    TAG,
                    "editVm",
                    "Change a VM",
                    &[NotFound, Taken, QuotaExceeded, Conflict],
                ),
            )
            .delete_with(
                delete,
                about(
                    TAG,
                    "deleteVm",
                    "Delete a VM and its disk",
                    &[NotFound, Conflict],
                ),
            ),
        )
        .api_route(
            "/vms/{name}/start",
            post_with(
                start,
                about(TAG, "startVm", "Switch a VM on", &[NotFound, Conflict]),
            ),
        )
        .api_route(
            "/vms/{name}/stop",
            post_with(
                stop,
                about(TAG, "stopVm", "Shut a VM down", &[NotFound, Conflict]),
            ),
        )
        .api_route(
            "/vms/{name}/restart",
            post_with(
                restart,
                about(
                    TAG,
                    "restartVm",
                    "Restart a VM that runs",
                    &[NotFound, Conflict],
                ),
            ),
        )
        .api_route(
            "/vms/{name}/restore",
            post_with(
                restore,
                about(
                    TAG,
                    "restoreVm",
                    "Make a VM's disk anew from a snapshot, or put a former one back",
                    &[NotFound, Conflict],
                ),
            )
            .delete_with(
                cancel,
                about(
                    TAG,
                    "cancelRestore",
                    "Take a restore back that has not been done yet",
                    &[NotFound, Conflict],
                ),
            ),
        )
}
