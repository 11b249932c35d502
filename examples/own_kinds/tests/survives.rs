//! Whatever goes wrong at whichever request, it comes to the same; and settled it is silent.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::{
    FakeCluster,
    actors::control_plane,
    sim::{ScenarioError, Simulation, World},
};
use kite_runtime::{Metrics, events::Reporter, kinds::Whole, process::Process, sim::controller};
use kube::{
    Api, CustomResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use own_kinds::{Page, Pages, Site, SiteSpec, Sites, operator};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn site() -> Site {
    let pages = [("home", "hello"), ("about", "us")];
    let pages = pages.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let mut site = Site::new(
        "shop",
        SiteSpec {
            pages: pages.into(),
        },
    );
    site.metadata.namespace = Some("default".to_owned());
    site
}

async fn expect(world: &World, name: &str, text: Option<&str>) -> Result<(), ScenarioError> {
    let map: Option<ConfigMap> = world.get("default", name).await?;
    let said = map.and_then(|it| it.data?.remove("text"));
    let what = format!("{name} says {said:?} and not {text:?}");
    world.expect(said.as_deref() == text, &what).await;
    Ok(())
}

async fn scenario(world: World) -> Result<(), ScenarioError> {
    let site = site();
    world.create(&site).await?;
    world.settle().await?;
    expect(&world, "shop-home", Some("hello")).await?;
    let edit = json!({"spec": {"pages": {"home": "bye", "about": null, "news": "none"}}});
    world.patch(&site, edit).await?;
    world.settle().await?;
    expect(&world, "shop-home", Some("bye")).await?;
    expect(&world, "shop-about", None).await?;
    expect(&world, "shop-news", Some("none")).await?;
    world.delete(&site).await?;
    world.settle().await?;
    expect(&world, "shop-home", None).await
}

#[test]
fn it_survives_everything() {
    let simulation = Simulation::builder()
        .crds([Site::crd(), Page::crd()])
        .actors(control_plane)
        .controller(controller::<Whole, _>(|| Sites))
        .controller(controller::<Whole, _>(|| Pages))
        .scenario(scenario)
        .forbid_noop_writes()
        .build();
    let summary = simulation.sweep().run();
    assert!(summary.is_clean(), "{summary}");
}

#[tokio::test(start_paused = true)]
async fn at_rest_it_sends_no_request() -> Result<(), Box<dyn std::error::Error>> {
    let fake = FakeCluster::builder()
        .crds([Site::crd(), Page::crd()])
        .actors(control_plane())
        .build()?;
    let reporter = Reporter {
        controller: "example.org/sites",
        instance: "sites",
    };
    let stop = CancellationToken::new();
    let (metrics, mut registry) = (
        Metrics::new("sites", &["Site", "Page"]),
        Registry::default(),
    );
    metrics.register(&mut registry);
    let operator = operator().counted(metrics);
    let running = operator.run(
        fake.client(),
        Process::without_election(reporter),
        stop.clone(),
    );
    let running = tokio::spawn(running);
    let sites: Api<Site> = Api::default_namespaced(fake.client());
    sites.create(&PostParams::default(), &site()).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(fake.client());
    let is_there = async || {
        maps.get_opt("shop-about")
            .await
            .is_ok_and(|it| it.is_some())
    };
    assert!(fake.until(Duration::from_secs(60), is_there).await);
    tokio::time::sleep(Duration::from_secs(60)).await;

    // It looks at all of it again, and that costs nothing.
    let mark = fake.log().mark();
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&touched));
    sites.patch("shop", &params, &patch).await?;
    let pages: Api<Page> = Api::default_namespaced(fake.client());
    pages.patch("shop-about", &params, &patch).await?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let sent = fake.log().since(&mark).entries;
    assert_eq!(sent.len(), 2, "the test's own: {sent:#?}");
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, &registry)?;
    for reconciles in [
        "reconciles_total{kind=\"Site\"}",
        "reconciles_total{kind=\"Page\"}",
    ] {
        let line = shown.lines().find_map(|line| line.split_once(reconciles));
        let often: u32 = line.ok_or(shown.as_str())?.1.trim().parse()?;
        assert!(often >= 2, "{reconciles}: {often}");
    }
    stop.cancel();
    running.await??;
    Ok(())
}
