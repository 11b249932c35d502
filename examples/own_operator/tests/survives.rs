//! Any operator, with everything going wrong: each fault at each request of it.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::{
    actors::control_plane,
    sim::{Controller, Simulation},
};
use kube::Client;
use own_operator::reconcile;

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
