//! Starting VMs by their spec.

use async_trait::async_trait;
use kite_core::crd::{KiteVirtualMachine, PowerState};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::route::Route;
use crate::start::Starter;

/// Who is told to have changed the spec.
const MANAGER: &str = "kite-gateway";

/// Switches a VM on by its spec: the controller does the rest.
#[derive(Clone)]
pub struct SpecStarter(Client);

impl SpecStarter {
    /// Writes through `client`, which must be allowed to patch
    /// `KiteVirtualMachine`s.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl Starter for SpecStarter {
    async fn start(&self, route: &Route) -> Result<(), String> {
        let vms = Api::<KiteVirtualMachine>::namespaced(self.0.clone(), &route.vm.namespace);
        // Of this VM and of no other that has got its name.
        let on = json!({
            "metadata": {"uid": route.uid},
            "spec": {"powerState": PowerState::On},
        });
        let params = PatchParams::apply(MANAGER);
        let started = vms.patch(&route.vm.name, &params, &Patch::Merge(&on)).await;
        started.map(drop).map_err(|error| {
            tracing::warn!(vm = %route.vm, %error, "a VM cannot be started");
            match error {
                kube::Error::Api(status) => status.message.clone(),
                _ => "the cluster does not answer; try again in a moment".to_owned(),
            }
        })
    }
}
