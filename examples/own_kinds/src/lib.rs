//! An operator with two kinds of its own: a `Site` has a `Page` for each path that it
//! names, and a `Page` a `ConfigMap` with its text. It runs on `kite-runtime`: settled, it
//! sends no request, however often it looks. `tests/survives.rs` tries it with each fault
//! at each of its requests. [`planned`] is the same for a kind with a status.

pub mod planned;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kite_cluster::{ABSENT, Cluster, ClusterExt as _, FieldManager, Object, ObjectKey};
use kite_runtime::{Action, Error, Listener, Operator, Reconciler, Shared};
use kube::api::{ListParams, ObjectMeta, PropagationPolicy};
use kube::{CustomResource, Resource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MANAGER: FieldManager = FieldManager::new("sites");

/// What pages there are, by name.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "example.org", version = "v1", kind = "Site", namespaced)]
pub struct SiteSpec {
    /// Their texts.
    pub pages: BTreeMap<String, String>,
}

/// What a page says.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "example.org", version = "v1", kind = "Page", namespaced)]
pub struct PageSpec {
    /// The text.
    pub text: String,
}

/// The metadata of what `owner` has under this name, which is `known` as it is now. It is
/// refused for what others have made there, seen or unseen.
fn owned(owner: &impl Object, name: String, known: Option<&ObjectMeta>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: owner.namespace(),
        uid: known.and_then(|it| it.uid.clone()),
        resource_version: known.is_none().then(|| ABSENT.to_owned()),
        owner_references: owner.controller_owner_ref(&()).map(|it| vec![it]),
        ..ObjectMeta::default()
    }
}

fn is_of(owner: &impl Object, object: &impl Object) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|it| Some(&it.uid) == owner.meta().uid.as_ref())
}

/// Gives a site its pages.
#[derive(Debug)]
pub struct Sites;

#[async_trait]
impl Reconciler for Sites {
    type Object = Site;
    type Error = Error;

    fn watches<L: Listener<Site>>(listener: L) -> L {
        listener.owns::<Page>()
    }

    async fn reconcile<C: Cluster>(
        &self,
        site: Arc<Site>,
        shared: &Shared<C>,
    ) -> Result<Action, Error> {
        let cluster = &shared.cluster;
        if site.meta().deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let everything = ListParams::default();
        let all = cluster.list::<Page>(site.namespace(), &everything).await?;
        let mut pages: Vec<_> = all.complete()?;
        pages.retain(|page| is_of(&*site, page));
        for (path, text) in &site.spec.pages {
            let name = format!("{}-{path}", site.name_any());
            let known = pages.iter().position(|page| page.name_any() == name);
            let known = known.map(|at| pages.swap_remove(at));
            if known.as_ref().is_none_or(|page| page.spec.text != *text) {
                let mut page = Page::new("", PageSpec { text: text.clone() });
                page.metadata = owned(&*site, name, known.as_ref().map(Resource::meta));
                cluster.apply(MANAGER, &page).await?;
            }
        }
        for page in pages {
            cluster
                .delete_by_uid(&page, PropagationPolicy::Background)
                .await?;
        }
        Ok(Action::await_change())
    }
}

/// Gives a page its `ConfigMap`.
#[derive(Debug)]
pub struct Pages;

#[async_trait]
impl Reconciler for Pages {
    type Object = Page;
    type Error = Error;

    fn watches<L: Listener<Page>>(listener: L) -> L {
        listener.owns::<ConfigMap>()
    }

    async fn reconcile<C: Cluster>(
        &self,
        page: Arc<Page>,
        shared: &Shared<C>,
    ) -> Result<Action, Error> {
        let cluster = &shared.cluster;
        let known = cluster.get_opt::<ConfigMap>(&ObjectKey::of(&*page)).await?;
        let is_others = known.as_ref().is_some_and(|map| !is_of(&*page, map));
        if is_others || page.meta().deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let text = [("text".to_owned(), page.spec.text.clone())];
        let map = ConfigMap {
            metadata: owned(&*page, page.name_any(), known.as_ref().map(Resource::meta)),
            data: Some(text.into()),
            ..ConfigMap::default()
        };
        if known.is_none_or(|known| known.data != map.data) {
            cluster.apply(MANAGER, &map).await?;
        }
        Ok(Action::await_change())
    }
}

/// All of it.
pub fn operator() -> Operator {
    Operator::new().controller(Sites).controller(Pages)
}
