//! Who makes an object again that is deleted, as far as the cluster tells.

use k8s_openapi::api::coordination::v1::Lease;
use kite_render::install::Process;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};

/// The field managers that wrote an object; of Kite's controller, the process that leads.
pub(super) async fn makers(client: &Client, object: &DynamicObject) -> String {
    let fields = object.metadata.managed_fields.as_deref();
    let managers = fields.unwrap_or_default().iter();
    let mut managers: Vec<_> = managers.filter_map(|it| it.manager.clone()).collect();
    managers.sort_unstable();
    managers.dedup();
    if managers.is_empty() {
        return "nobody who gives a name".to_owned();
    }
    let is_controller = |it: &String| it == kite_core::managers::CONTROLLER.as_str();
    if managers.iter().any(is_controller) {
        managers.extend(leaders(client).await);
    }
    managers.join(", ")
}

/// Who holds the Lease of Kite's controllers, wherever it is.
async fn leaders(client: &Client) -> Vec<String> {
    let leases = Api::<Lease>::all(client.clone());
    let name = Process::Controller.name();
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    // Who may not look is told of the rest.
    let found = leases.list(&params).await.map(|it| it.items);
    let held = found.unwrap_or_default().into_iter().filter_map(|lease| {
        let holder = lease.spec?.holder_identity.filter(|it| !it.is_empty())?;
        let namespace = lease.metadata.namespace.unwrap_or_default();
        Some(format!("which is {holder} by the Lease {namespace}/{name}"))
    });
    held.collect()
}
