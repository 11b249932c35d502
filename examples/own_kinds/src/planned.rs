//! The same by plans, for a kind with a status: a `Blog` has a [`Page`] for each of its
//! posts. What is to be done follows from what was seen, as a pure function; carrying it
//! out, looking again before a page is removed, and telling in the status what was refused
//! are the runtime's.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_cluster::{
    Cluster, ClusterExt as _, FieldManager, Object, StoredStatus,
    conditions::{NewCondition, ReportedStatus},
};
use kite_runtime::{
    Error, Listener,
    plan::{self, Done, Executor, Plan, Planner, Step},
};
use kube::{
    CustomResource, Resource, ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MANAGER, Page, PageSpec, is_of, owned};

/// What posts there are, by name.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Blog",
    status = "BlogStatus",
    namespaced
)]
pub struct BlogSpec {
    /// Their texts.
    pub posts: BTreeMap<String, String>,
}

/// Whether a blog has its pages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlogStatus {
    /// The `metadata.generation` that this speaks of.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `Ready`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl StoredStatus for BlogStatus {}

impl ReportedStatus for BlogStatus {
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

/// Gives a blog its pages.
#[derive(Debug)]
pub struct Blogs;

/// What is done for a blog.
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
impl Executor for Blogs {
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
                cluster
                    .delete_by_uid(page, PropagationPolicy::Background)
                    .await?;
                change.clone()
            }
        };
        Ok(done.into())
    }
}

#[async_trait]
impl Planner for Blogs {
    type Object = Blog;
    type Status = BlogStatus;
    type Observed = Vec<Page>;
    type Executor = Self;

    fn executor(&self) -> &Self {
        self
    }

    fn watches<L: Listener<Blog>>(listener: L) -> L {
        listener.owns::<Page>()
    }

    async fn observe<C: Cluster>(&self, blog: &Blog, cluster: &C) -> Result<Vec<Page>, Error> {
        let everything = ListParams::default();
        let all = cluster.list::<Page>(blog.namespace(), &everything).await?;
        let mut pages = all.complete()?;
        pages.retain(|page| is_of(blog, page));
        Ok(pages)
    }

    fn plan(&self, blog: &Blog, pages: &Vec<Page>) -> Result<Plan<BlogStatus, Change>, Error> {
        let is_wanted = |page: &&Page| {
            let mut wanted = blog.spec.posts.keys();
            wanted.any(|post| page.name_any() == name_of(blog, post))
        };
        let write = blog.spec.posts.iter().filter_map(|(post, text)| {
            let name = name_of(blog, post);
            let known = pages.iter().find(|page| page.name_any() == name);
            if known.is_some_and(|page| page.spec.text == *text) {
                return None;
            }
            let mut page = Page::new("", PageSpec { text: text.clone() });
            page.metadata = owned(blog, name, known.map(Resource::meta));
            Some(Change::Write(page))
        });
        let remove = pages.iter().filter(|page| !is_wanted(page));
        let changes = write.chain(remove.cloned().map(Change::Remove));
        let is_going = blog.metadata.deletion_timestamp.is_some();
        Ok(Plan {
            steps: changes.filter(|_| !is_going).map(Step::Change).collect(),
            status: BlogStatus::default(),
            conditions: vec![NewCondition::new(
                "Ready",
                !is_going,
                if is_going { "Deleting" } else { "Written" },
                format!("{} pages", pages.len()),
            )],
            requeue_after: Duration::from_secs(600),
        })
    }

    fn absorb(&self, _: &Blog, pages: &mut Vec<Page>, done: Change) {
        let (Change::Write(page) | Change::Remove(page)) = &done;
        pages.retain(|it| it.name_any() != page.name_any());
        if let Change::Write(page) = done {
            pages.push(page);
        }
    }
}

fn name_of(blog: &Blog, post: &str) -> String {
    format!("{}-{post}", blog.name_any())
}
