//! What a scenario does with the world.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::engine::{Engine, Until};
use super::run::Rule;
use crate::FakeCluster;
use crate::actors::Rules;

/// Who a scenario is in the trace, and the field manager of what it writes.
pub(super) const SCENARIO: &str = "scenario";

/// Why a scenario stopped before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The API server refused what the scenario wanted.
    #[error("{doing}: {source}")]
    Refused {
        /// What it was doing.
        doing: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The world does not settle; who is still busy.
    #[error("{0}")]
    Unsettled(String),
    /// What the scenario expects is not so.
    #[error("{0}")]
    Unmet(String),
}

impl From<kube::Error> for ScenarioError {
    fn from(error: kube::Error) -> Self {
        Self::Refused {
            doing: "request".to_owned(),
            source: Box::new(error),
        }
    }
}

/// The world as a scenario sees it. Rivals do not delete what the scenario
/// made, nor what was there at the start, for good. Nothing moves but while it waits: in
/// [`settle`](Self::settle), [`steps`](Self::steps) and
/// [`run_for`](Self::run_for).
#[derive(Clone)]
pub struct World {
    pub(super) engine: Arc<Mutex<Engine>>,
    pub(super) cluster: FakeCluster,
    pub(super) client: Client,
    pub(super) rules: Arc<Rules>,
}

impl Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

fn name_of<K: Resource>(object: &K) -> (String, String) {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

impl World {
    /// The cluster.
    pub fn cluster(&self) -> &FakeCluster {
        &self.cluster
    }

    /// A client of the scenario's own; nothing goes wrong there.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Delays and failures of the actors.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Creates an object; a namespaced one has to say its namespace.
    ///
    /// # Errors
    /// [`ScenarioError::Refused`] by the API server, [`ScenarioError::Unmet`] if the answer
    /// cannot be read as `K`.
    pub async fn create<K>(&self, object: &K) -> Result<K, ScenarioError>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let (namespace, name) = name_of(object);
        let resource = ApiResource::erase::<K>(&());
        let plural = crate::status::qualified(&resource.group, &resource.plural);
        let engine = self.engine.lock().await;
        engine.faults.spare(&plural, &namespace, &name);
        let what = Self::describe::<K>("create", &namespace, &name);
        let value = serde_json::to_value(object).and_then(serde_json::from_value);
        let value: DynamicObject =
            value.map_err(|error| ScenarioError::Unmet(error.to_string()))?;
        let params = PostParams {
            field_manager: Some(SCENARIO.to_owned()),
            ..PostParams::default()
        };
        let made = self.api::<K>(&namespace).create(&params, &value).await;
        self.after(engine, what, made).await.and_then(typed)
    }

    /// Changes fields of an object by a merge patch (RFC 7386).
    ///
    /// # Errors
    /// [`ScenarioError::Refused`] by the API server, [`ScenarioError::Unmet`] if the answer
    /// cannot be read as `K`.
    pub async fn patch<K>(&self, object: &K, patch: Value) -> Result<K, ScenarioError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (namespace, name) = name_of(object);
        let engine = self.engine.lock().await;
        let what = Self::describe::<K>("patch", &namespace, &name);
        let params = PatchParams {
            field_manager: Some(SCENARIO.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api::<K>(&namespace);
        let changed = api.patch(&name, &params, &Patch::Merge(patch)).await;
        self.after(engine, what, changed).await.and_then(typed)
    }

    /// Deletes an object; one that is gone already is no error.
    ///
    /// # Errors
    /// [`ScenarioError::Refused`] by the API server.
    pub async fn delete<K>(&self, object: &K) -> Result<(), ScenarioError>
    where
        K: Resource<DynamicType = ()>,
    {
        let (namespace, name) = name_of(object);
        let engine = self.engine.lock().await;
        let what = Self::describe::<K>("delete", &namespace, &name);
        let api = self.api::<K>(&namespace);
        let deleted = match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop),
        };
        self.after(engine, what, deleted).await
    }

    /// An object as it is now; the namespace of cluster-scoped ones is empty.
    ///
    /// # Errors
    /// [`ScenarioError::Refused`] by the API server, [`ScenarioError::Unmet`] if it cannot be
    /// read as `K`.
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ScenarioError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let found = self.api::<K>(namespace).get_opt(name).await;
        let found =
            found.map_err(|error| refused(Self::describe::<K>("get", namespace, name), error))?;
        found.map(typed).transpose()
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// [`ScenarioError::Refused`] by the API server, [`ScenarioError::Unmet`] if one cannot be
    /// read as `K`.
    pub async fn list<K>(&self) -> Result<Vec<K>, ScenarioError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let list = self.api::<K>("").list(&ListParams::default()).await;
        let list = list.map_err(|error| refused(Self::describe::<K>("list", "", ""), error))?;
        list.items.into_iter().map(typed).collect()
    }

    /// Goes on until no participant has anything to do, every watch event was
    /// heard, and no timer is due soon.
    ///
    /// # Errors
    /// [`ScenarioError::Unsettled`] after too many steps, with who is still busy.
    pub async fn settle(&self) -> Result<(), ScenarioError> {
        let mut engine = self.engine.lock().await;
        engine.settle().await.map_err(ScenarioError::Unsettled)
    }

    /// Goes on for so many steps, or until the world is settled.
    ///
    /// # Errors
    /// [`ScenarioError::Unsettled`] after too many steps, with who is still busy.
    pub async fn steps(&self, count: u64) -> Result<(), ScenarioError> {
        let mut engine = self.engine.lock().await;
        let done = engine.drive(Until::Steps(count)).await;
        done.map_err(ScenarioError::Unsettled)
    }

    /// Goes on for so long, in simulated time, whether the world settles or not.
    ///
    /// # Errors
    /// [`ScenarioError::Unsettled`] after too many steps, with who is still busy.
    pub async fn run_for(&self, time: Duration) -> Result<(), ScenarioError> {
        let mut engine = self.engine.lock().await;
        let done = engine.drive(Until::Time(Instant::now() + time)).await;
        done.map_err(ScenarioError::Unsettled)
    }

    /// All participants are gone with all they had in memory, and start anew when
    /// the scenario goes on: an upgrade, or a node that is drained. What they were
    /// about to send is not sent.
    pub async fn restart(&self) {
        let mut engine = self.engine.lock().await;
        engine.restart().await;
    }

    /// What has to be so; `what` is said if it is not.
    pub async fn expect(&self, is_so: bool, what: &str) {
        if !is_so {
            let mut engine = self.engine.lock().await;
            engine.violate(Rule::Scenario, what);
        }
    }

    fn api<K: Resource<DynamicType = ()>>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    fn describe<K: Resource<DynamicType = ()>>(verb: &str, namespace: &str, name: &str) -> String {
        let kind = K::kind(&());
        if namespace.is_empty() {
            format!("{verb} {kind} {name}")
        } else {
            format!("{verb} {kind} {namespace}/{name}")
        }
    }

    async fn after<T>(
        &self,
        mut engine: MutexGuard<'_, Engine>,
        doing: String,
        result: Result<T, kube::Error>,
    ) -> Result<T, ScenarioError> {
        engine.note(&format!("{SCENARIO}: {doing}"));
        engine.absorb(SCENARIO).await;
        result.map_err(|error| refused(doing, error))
    }
}

fn refused(doing: String, error: kube::Error) -> ScenarioError {
    ScenarioError::Refused {
        doing,
        source: Box::new(error),
    }
}

fn typed<K: DeserializeOwned>(object: DynamicObject) -> Result<K, ScenarioError> {
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    value.map_err(|error| ScenarioError::Unmet(error.to_string()))
}
