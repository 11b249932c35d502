//! Any operator, with everything going wrong: each fault at each request of it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::{
    actors::control_plane,
    sim::{Controller, Simulation},
};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource as _, ResourceExt as _, core::ObjectMeta};

/// The operator: next to each `ConfigMap` a Secret that says the same.
async fn reconcile(map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let (namespace, name) = (map.namespace().unwrap(), map.name_any());
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

#[test]
fn it_survives_everything() {
    // Whatever the closure keeps in memory is lost in a crash.
    let copier = Controller::new("copier", |client: Client| {
        move |map| reconcile(map, client.clone())
    });
    let scenario = Simulation::builder().scenario(async |world| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("greeting".to_owned());
        map.metadata.namespace = Some("default".to_owned());
        map.data = Some([("text".to_owned(), "hello".to_owned())].into());
        world.create(&map).await?;
        world.settle().await?;
        world.delete(&map).await?;
        world.settle().await
    });
    let stage = scenario.actors(control_plane);
    let simulation = stage.controller(copier.owns::<Secret>()).build();
    let summary = simulation.sweep().run();
    assert!(summary.is_clean(), "{summary}");
}
