//! Any operator, with everything going wrong: each fault at each request of it.
//! Nothing of Kite is needed here but `kite-fake`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::{
    actors::control_plane,
    sim::{Controller, Simulation},
};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams},
    runtime::controller::Action,
};

/// The operator: next to each `ConfigMap` a Secret that says the same.
async fn reconcile(map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client, &map.namespace().unwrap());
    let secret = Secret {
        metadata: ObjectMeta {
            name: map.metadata.name.clone(),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: map.data.clone(),
        ..Secret::default()
    };
    let params = PatchParams::apply("copier").force();
    let patch = Patch::Apply(&secret);
    secrets.patch(&map.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

#[test]
fn it_survives_everything() {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("greeting".to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map.data = Some([("text".to_owned(), "hello".to_owned())].into());

    // Whatever the closure keeps in memory is lost in a crash.
    let copier = Controller::new("copier", |client: Client| {
        move |map| reconcile(map, client.clone())
    });
    let simulation = Simulation::builder()
        .actors(control_plane)
        .controller(copier.owns::<Secret>())
        .scenario(move |world| {
            let map = map.clone();
            async move {
                world.create(&map).await?;
                world.settle().await?;
                world.delete(&map).await?;
                world.settle().await
            }
        })
        .build();
    let summary = simulation.sweep().run();
    assert!(summary.is_clean(), "{summary}");
}
