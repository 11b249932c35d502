//! An operator with a kind of its own.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::{
    actors::control_plane,
    sim::{Controller, Simulation},
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    core::ObjectMeta,
    runtime::controller::Action,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A site of somebody's: its text goes into a `ConfigMap`.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "sites.example.org",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
struct SiteSpec {
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct SiteStatus {
    published: String,
}

async fn reconcile(site: Arc<Site>, client: Client) -> Result<Action, kube::Error> {
    let (namespace, name) = (site.namespace().unwrap(), site.name_any());
    let sites: Api<Site> = Api::namespaced(client.clone(), &namespace);
    let Some(site) = sites
        .get_opt(&name)
        .await?
        .filter(|it| it.meta().deletion_timestamp.is_none())
    else {
        return Ok(Action::await_change());
    };
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), site.spec.text.clone())].into()),
        ..ConfigMap::default()
    };
    let params = PatchParams::apply("sites").force();
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    maps.patch(&name, &params, &Patch::Apply(map)).await?;
    let published = site.spec.text.clone();
    if site
        .status
        .as_ref()
        .is_none_or(|status| status.published != published)
    {
        let status = json!({"status": {"published": published}});
        sites
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(Action::await_change())
}

#[test]
fn it_survives_everything() {
    let simulation = Simulation::builder()
        .crds([Site::crd()])
        .actors(control_plane)
        .controller(
            Controller::new("sites", |client: Client| {
                move |site| reconcile(site, client.clone())
            })
            .owns::<ConfigMap>(),
        )
        .scenario(async |world| {
            let mut site = Site::new(
                "hello",
                SiteSpec {
                    text: "hello".to_owned(),
                },
            );
            site.metadata.namespace = Some("default".to_owned());
            let site = world.create(&site).await?;
            world.settle().await?;
            world.patch(&site, json!({"spec": {"text": "bye"}})).await?;
            world.settle().await?;
            world.delete(&site).await?;
            world.settle().await
        })
        .build();
    let summary = simulation.sweep().run();
    println!("{summary}");
    assert!(summary.is_clean(), "{summary}");
}
