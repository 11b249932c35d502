//! An operator with two kinds of its own: a `Site` has a `Page` for each path that it
//! names, and a `Page` a `ConfigMap` with its text. It runs on `kite-runtime`: settled, it
//! sends no request, however often it looks. `tests/survives.rs` tries it with each fault
//! at each of its requests.
//!
//! A page is reconciled by hand, a site by plans: what is to be done follows from what was
//! seen, and what goes wrong is told in its status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_cluster::conditions::{NewCondition, ReportedStatus};
use kite_cluster::{
    ABSENT, Cluster, ClusterExt as _, FieldManager, Object, ObjectKey, StoredStatus,
};
use kite_runtime::plan::{self, Done, Executor, Plan, Planner, Step};
use kite_runtime::{Action, Error, Listener, Operator, Reconciler, Shared};
use kube::api::{ListParams, ObjectMeta, PropagationPolicy};
use kube::{CustomResource, Resource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MANAGER: FieldManager = FieldManager::new("sites");

/// What pages there are, by name.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Site",
    status = "SiteStatus",
    namespaced
)]
pub struct SiteSpec {
    /// Their texts.
    pub pages: BTreeMap<String, String>,
}

/// Whether a site has its pages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The `metadata.generation` that this speaks of.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `Ready`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl StoredStatus for SiteStatus {}

impl ReportedStatus for SiteStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn observed_generation(&self) -> Option<i64> {
        self.observed_generation
    }

    fn complete(self, conditions: Vec<Condition>, observed_generation: Option<i64>) -> Self {
        Self {
            observed_generation,
            conditions,
        }
    }
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

/// What is done for a site.
#[derive(Clone, Debug)]
pub enum Change {
    /// Has a page say this.
    Write(Page),
    /// Takes a page away.
    Remove(Page),
}

impl plan::Change for Change {
    fn describe(&self) -> String {
        match self {
            Self::Write(page) => format!("write {}", page.name_any()),
            Self::Remove(page) => format!("remove {}", page.name_any()),
        }
    }

    fn is_destructive(&self) -> bool {
        matches!(self, Self::Remove(_))
    }
}

#[async_trait]
impl Executor for Sites {
    type Change = Change;
    type Outcome = Change;
    type Error = Error;

    fn manager(&self) -> FieldManager {
        MANAGER
    }

    async fn execute<K: Object, C: Cluster>(
        &self,
        change: &Change,
        _: &K,
        cluster: &C,
    ) -> Result<Done<Change>, Error> {
        let done = match change {
            Change::Write(page) => Change::Write(cluster.apply(MANAGER, page).await?),
            Change::Remove(page) => {
                cluster.remove(page, PropagationPolicy::Background).await?;
                change.clone()
            }
        };
        Ok(done.into())
    }
}

#[async_trait]
impl Planner for Sites {
    type Object = Site;
    type Status = SiteStatus;
    type Observed = Vec<Page>;
    type Executor = Self;

    fn executor(&self) -> &Self {
        self
    }

    fn hears<L: Listener<Site>>(listener: L) -> L {
        listener.owns::<Page>()
    }

    async fn observe<C: Cluster>(&self, site: &Site, cluster: &C) -> Result<Vec<Page>, Error> {
        let everything = ListParams::default();
        let all = cluster.list::<Page>(site.namespace(), &everything).await?;
        let mut pages = all.complete()?;
        pages.retain(|page| is_of(site, page));
        Ok(pages)
    }

    fn plan(&self, site: &Site, pages: &Vec<Page>) -> Result<Plan<SiteStatus, Change>, Error> {
        let is_wanted = |page: &&Page| {
            let mut wanted = site.spec.pages.keys();
            wanted.any(|path| page.name_any() == name_of(site, path))
        };
        let write = site.spec.pages.iter().filter_map(|(path, text)| {
            let name = name_of(site, path);
            let known = pages.iter().find(|page| page.name_any() == name);
            if known.is_some_and(|page| page.spec.text == *text) {
                return None;
            }
            let mut page = Page::new("", PageSpec { text: text.clone() });
            page.metadata = owned(site, name, known.map(Resource::meta));
            Some(Change::Write(page))
        });
        let remove = pages.iter().filter(|page| !is_wanted(page));
        let changes = write.chain(remove.cloned().map(Change::Remove));
        let is_going = site.metadata.deletion_timestamp.is_some();
        Ok(Plan {
            steps: changes.filter(|_| !is_going).map(Step::Change).collect(),
            status: SiteStatus::default(),
            conditions: vec![NewCondition::new(
                "Ready",
                !is_going,
                if is_going { "Deleting" } else { "Written" },
                format!("{} pages", pages.len()),
            )],
            again: Duration::from_secs(600),
        })
    }

    fn absorb(&self, pages: &mut Vec<Page>, done: Change) {
        let (Change::Write(page) | Change::Remove(page)) = &done;
        pages.retain(|it| it.name_any() != page.name_any());
        if let Change::Write(page) = done {
            pages.push(page);
        }
    }
}

fn name_of(site: &Site, path: &str) -> String {
    format!("{}-{path}", site.name_any())
}

/// Gives a page its `ConfigMap`.
#[derive(Debug)]
pub struct Pages;

#[async_trait]
impl Reconciler for Pages {
    type Object = Page;
    type Error = Error;

    fn hears<L: Listener<Page>>(listener: L) -> L {
        listener.owns::<ConfigMap>()
    }

    async fn reconcile<C: Cluster>(
        &self,
        page: Arc<Page>,
        shared: &Shared<C>,
    ) -> Result<Action, Error> {
        let cluster = &shared.cluster;
        let known = cluster.find::<ConfigMap>(&ObjectKey::of(&*page)).await?;
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
