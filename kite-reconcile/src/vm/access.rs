//! How people get into a VM: its keys, its user data, its Service, and where that is told.

use kite_core::{
    crd::{AccessStatus, KiteVirtualMachineStatus, VmPhase},
    names,
};
use kite_render::{RenderError, Vm, cloud_init, exposure, keys, service};

use super::{
    draft::VmDraft,
    exposed, image,
    observe::Observed,
    reserved::{has_domain, has_ssh_id},
};
use crate::{
    Error,
    plan::{Change, Step},
    stage::{Flow, Stage},
};

/// Its keys and its user data. Goes by `key_secret`, `cloud_init`, `disk` and `image`.
pub(super) struct Secrets;

impl Stage<VmDraft<'_>> for Secrets {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let may_be_made = draft.obstacles.is_empty() && (draft.is_entitled || !draft.is_new());
        if may_be_made {
            match keys_and_user_data(draft) {
                Ok(are_there) => draft.has_secrets = are_there,
                Err(error) => return Flow::Fail(error),
            }
        }
        Flow::Next
    }
}

/// Whether both Secrets are there or will be by the steps so far.
fn keys_and_user_data(draft: &mut VmDraft<'_>) -> Result<bool, Error> {
    let (vm, seen) = (draft.vm, draft.seen);
    let Some(stored) = &seen.key_secret else {
        // The user data needs the keys: it is planned when they are there.
        let template = Box::new(keys::secret_metadata(vm));
        draft.steps.push(Step::Change(Change::CreateKeys(template)));
        return Ok(false);
    };
    if !draft.wanted(&keys::secret_metadata(vm), Some(stored)) {
        return Ok(false);
    }
    let Some(os) = image::family(seen) else {
        // Nobody knows any more what the guest is. What was rendered stays.
        return Ok(seen.cloud_init.is_some());
    };
    let user_data =
        keys::VmKeys::from_secret(stored).and_then(|keys| cloud_init::secret(vm, &keys, os));
    match user_data {
        Ok(secret) => Ok(draft.wanted(&secret, seen.cloud_init.as_ref())),
        Err(error @ (RenderError::KeySecret { .. } | RenderError::LoginName { .. })) => {
            draft.obstacle(VmPhase::Failed, "CloudInit", error.to_string());
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// The Service for SSH, and where the VM is reached. Goes by `access_service`, `key_secret`,
/// `claims`, `ingress`, `route`, `platform` and the gateway's port and addresses.
pub(super) struct Access;

impl Stage<VmDraft<'_>> for Access {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.is_prepared && draft.is_entitled {
            let stored = draft.seen.access_service.as_ref();
            draft.wanted(&service::access(draft.vm), stored);
        }
        Flow::Next
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.access = access(draft.vm, draft.seen);
    }
}

/// How the VM is reached: nobody gets in by a login name that is not the VM's.
fn access(vm: &Vm<'_>, seen: &Observed) -> Option<AccessStatus> {
    // Nobody is sent to what belongs to somebody else.
    exposed::own(vm, seen.access_service.as_ref())?;
    exposed::own(vm, seen.key_secret.as_ref())?;
    if !has_ssh_id(seen) {
        return None;
    }
    Some(AccessStatus {
        service: names::access_service(vm.name),
        key_secret: names::ssh_key_secret(vm.name),
        ssh_command: ssh_command(&vm.object.spec.ssh_id, seen),
        domain: exposure::host(vm, &seen.platform)
            .filter(|_| has_domain(seen) && exposed::is_made(vm, seen)),
    })
}

/// The command that logs in, if it is known where the gateway is.
fn ssh_command(ssh_id: &str, seen: &Observed) -> Option<String> {
    let platform = &seen.platform;
    let host = platform.host_of_users(&seen.gateway_addresses)?;
    Some(match platform.gateway.port_of_users(seen.gateway_port)? {
        22 => format!("ssh {ssh_id}@{host}"),
        port => format!("ssh -p {port} {ssh_id}@{host}"),
    })
}
