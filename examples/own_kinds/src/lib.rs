//! An operator with two kinds of its own: a `Site` has a `Page` for each path that it
//! names, and a `Page` a `ConfigMap` with its text. It runs on `kite-runtime`: settled, it
//! sends no request, however often it looks. `tests/survives.rs` tries it with each fault
//! at each of its requests.
//!
//! ```console
//! $ cargo test -p own_kinds
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kite_cluster::{Cluster, ClusterExt as _, FieldManager, ObjectKey};
use kite_runtime::{Action, Error, Listener, Operator, Reconciler};
use kube::api::{ListParams, PropagationPolicy};
use kube::{CustomResource, Resource, ResourceExt as _, core::ObjectMeta};
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

/// The metadata of what `owner` has under this name.
fn owned(owner: &impl Resource<DynamicType = ()>, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: owner.namespace(),
        owner_references: owner.controller_owner_ref(&()).map(|it| vec![it]),
        ..ObjectMeta::default()
    }
}

/// Gives a site its pages.
#[derive(Debug)]
pub struct Sites;

#[async_trait]
impl Reconciler for Sites {
    type Object = Site;

    fn hears<L: Listener<Site>>(listener: L) -> L {
        listener.owns::<Page>()
    }

    async fn reconcile<C: Cluster>(site: Arc<Site>, cluster: &C) -> Result<Action, Error> {
        if site.meta().deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let everything = ListParams::default();
        let all = cluster.list::<Page>(site.namespace(), &everything).await?;
        let owner = site.uid();
        let is_ours = |page: &Page| {
            page.owner_references()
                .iter()
                .any(|it| Some(&it.uid) == owner.as_ref())
        };
        let mut pages: Vec<_> = all.complete()?.into_iter().filter(is_ours).collect();
        for (path, text) in &site.spec.pages {
            let name = format!("{}-{path}", site.name_any());
            let known = pages.iter().position(|page| page.name_any() == name);
            let known = known.map(|at| pages.swap_remove(at));
            if known.is_none_or(|page| page.spec.text != *text) {
                let mut page = Page::new(&name, PageSpec { text: text.clone() });
                page.metadata = owned(&*site, name);
                cluster.apply(MANAGER, &page).await?;
            }
        }
        for page in pages {
            cluster.remove(&page, PropagationPolicy::Background).await?;
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

    fn hears<L: Listener<Page>>(listener: L) -> L {
        listener.owns::<ConfigMap>()
    }

    async fn reconcile<C: Cluster>(page: Arc<Page>, cluster: &C) -> Result<Action, Error> {
        if page.meta().deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let map = ConfigMap {
            metadata: owned(&*page, page.name_any()),
            data: Some([("text".to_owned(), page.spec.text.clone())].into()),
            ..ConfigMap::default()
        };
        let known = cluster.find::<ConfigMap>(&ObjectKey::of(&map)).await?;
        if known.is_none_or(|known| known.data != map.data) {
            cluster.apply(MANAGER, &map).await?;
        }
        Ok(Action::await_change())
    }
}

/// All of it.
pub fn operator() -> Operator {
    Operator::new().controller::<Sites>().controller::<Pages>()
}
