//! A kind that is reconciled by plans: whatever goes wrong it comes to the same, its status
//! tells what was refused, and settled it is silent.

use std::time::Duration;

use kite_fake::{
    FakeCluster,
    actors::control_plane,
    sim::{ScenarioError, Simulation, World},
};
use kite_runtime::{Operator, events::Reporter, kinds::Whole, process::Process, sim::controller};
use kube::{
    Api, CustomResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use own_kinds::{
    Page, Pages,
    planned::{Blog, BlogSpec, Blogs},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn blog() -> Blog {
    let posts = [("home", "hello"), ("about", "us")];
    let posts = posts.map(|(post, text)| (post.to_owned(), text.to_owned()));
    let mut blog = Blog::new(
        "ann",
        BlogSpec {
            posts: posts.into(),
        },
    );
    blog.metadata.namespace = Some("default".to_owned());
    blog
}

/// The reason of `Ready` in the blog's status.
fn told(blog: Option<Blog>) -> String {
    let ready = blog.and_then(|blog| blog.status?.conditions.pop());
    ready.map(|ready| ready.reason).unwrap_or_default()
}

/// That there are these pages, and that the blog says so.
async fn expect(world: &World, pages: [&str; 2]) -> Result<(), ScenarioError> {
    let mut there = world.list::<Page>().await?;
    there.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let names = there.iter().filter_map(|it| it.metadata.name.as_deref());
    let names: Vec<_> = names.collect();
    let what = format!("there are {names:?} and not {pages:?}");
    world.expect(names == pages, &what).await;
    let reason = told(world.get::<Blog>("default", "ann").await?);
    let what = format!("the blog tells {reason}");
    world.expect(reason == "Written", &what).await;
    Ok(())
}

async fn scenario(world: World) -> Result<(), ScenarioError> {
    let blog = blog();
    world.create(&blog).await?;
    world.settle().await?;
    expect(&world, ["ann-about", "ann-home"]).await?;
    let edit = json!({"spec": {"posts": {"home": "bye", "about": null, "news": "none"}}});
    world.patch(&blog, edit).await?;
    world.settle().await?;
    expect(&world, ["ann-home", "ann-news"]).await?;
    world.delete(&blog).await?;
    world.settle().await?;
    let left = world.list::<Page>().await?;
    world.expect(left.is_empty(), "all pages are gone").await;
    Ok(())
}

#[test]
fn it_survives_everything() {
    let simulation = Simulation::builder()
        .crds([Blog::crd(), Page::crd()])
        .actors(control_plane)
        .controller(controller::<Whole, _>(|| Blogs))
        .controller(controller::<Whole, _>(|| Pages))
        .scenario(scenario)
        .forbid_noop_writes()
        .build();
    let summary = simulation.sweep().run();
    assert!(summary.is_clean(), "{summary}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_told_and_at_rest_it_is_silent() -> Result<(), Box<dyn std::error::Error>>
{
    let fake = FakeCluster::builder()
        .crds([Blog::crd(), Page::crd()])
        .actors(control_plane())
        .build()?;
    let reporter = Reporter {
        controller: "example.org/blogs",
        instance: "blogs",
    };
    let stop = CancellationToken::new();
    let operator = Operator::new().controller(Blogs).controller(Pages);
    let running = operator.run(
        fake.client(),
        Process::without_election(reporter),
        stop.clone(),
    );
    let running = tokio::spawn(running);
    let blogs: Api<Blog> = Api::default_namespaced(fake.client());
    blogs.create(&PostParams::default(), &blog()).await?;
    let says = async |reason: &str| {
        let is_told = async || told(blogs.get_opt("ann").await.ok().flatten()) == reason;
        assert!(
            fake.until(Duration::from_secs(60), is_told).await,
            "{reason}"
        );
    };
    says("Written").await;
    let params = PatchParams::default();
    for (text, reason) in [(json!("upper case"), "Refused"), (json!(null), "Written")] {
        let patch = Patch::Merge(json!({"spec": {"posts": {"About": text}}}));
        blogs.patch("ann", &params, &patch).await?;
        says(reason).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;

    let mark = fake.log().mark();
    let touched = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
    blogs.patch("ann", &params, &touched).await?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let sent = fake.log().since(&mark).entries;
    assert_eq!(sent.len(), 1, "the test's own: {sent:#?}");
    stop.cancel();
    running.await??;
    Ok(())
}
