//! An operator with nothing of Kite in it: next to each `ConfigMap` it keeps a Secret
//! that says the same. `tests/survives.rs` tries it on the in-memory cluster, with each
//! fault at each of its requests.
//!
//! ```console
//! $ cargo test -p own_operator
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::runtime::{Controller, controller::Action, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _, core::ObjectMeta};

/// Looks at one `ConfigMap` and writes its Secret.
///
/// # Errors
///
/// What the API server answers.
pub async fn reconcile(map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let (namespace, name) = (map.namespace().unwrap_or_default(), map.name_any());
    // The cache may show what is gone. Kubernetes' own maps are not copied.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let live = maps.get_opt(&name).await?;
    let Some(map) = live.filter(|map| map.name_any() != "kube-root-ca.crt") else {
        return Ok(Action::await_change());
    };
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: map.data.clone(),
        ..Secret::default()
    };
    let params = PatchParams::apply("copier").force();
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    secrets.patch(&name, &params, &Patch::Apply(secret)).await?;
    Ok(Action::await_change())
}

/// Runs it on the cluster behind `client`, until the process ends.
pub async fn run(client: Client) {
    let config = watcher::Config::default();
    Controller::new(Api::<ConfigMap>::all(client.clone()), config.clone())
        .owns(Api::<Secret>::all(client.clone()), config)
        .run(
            |map, client| reconcile(map, Client::clone(&client)),
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(client),
        )
        .for_each(async |_| ())
        .await;
}
