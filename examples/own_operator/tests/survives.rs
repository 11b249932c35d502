//! Any operator, with everything going wrong: each fault at each request of it.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::{
    actors::control_plane,
    sim::{Controller, ScenarioError, Simulation, World},
};
use kube::Client;
use own_operator::reconcile;
use serde_json::json;

/// Runs are compared with the one without faults, which tells nothing of whether that
/// is right: the scenario says what it expects.
async fn expect(world: &World, text: Option<&str>) -> Result<(), ScenarioError> {
    let secret: Option<Secret> = world.get("default", "greeting").await?;
    let said = secret
        .and_then(|it| it.data?.remove("text"))
        .map(|it| String::from_utf8_lossy(&it.0).into_owned());
    let what = format!("the Secret says {said:?} and not {text:?}");
    world.expect(said.as_deref() == text, &what).await;
    Ok(())
}

async fn scenario(world: World) -> Result<(), ScenarioError> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("greeting".to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map.data = Some([("text".to_owned(), "hello".to_owned())].into());
    world.create(&map).await?;
    world.settle().await?;
    expect(&world, Some("hello")).await?;

    world.patch(&map, json!({"data": {"text": "bye"}})).await?;
    world.settle().await?;
    expect(&world, Some("bye")).await?;

    world.delete(&map).await?;
    world.settle().await?;
    expect(&world, None).await
}

#[test]
fn it_survives_everything() {
    // Whatever the closure keeps in memory is lost in a crash.
    let copier = Controller::new("copier", |client: Client| {
        move |map| reconcile(map, client.clone())
    });
    let simulation = Simulation::builder()
        .actors(control_plane)
        .controller(copier.owns::<Secret>())
        .scenario(scenario)
        .build();
    let summary = simulation.sweep().run();
    assert!(summary.is_clean(), "{summary}");
}
