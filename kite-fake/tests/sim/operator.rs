//! An operator for `Site`s. Each has a `ConfigMap` and a claim, which it owns,
//! and an entry in the namespace `registry`, which it cannot own: a finalizer
//! sees to that one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kite_fake::actors::{ClaimBinder, GarbageCollector, NamespaceLifecycle};
use kite_fake::sim::{Builder, Controller, ControllerContext, ScenarioError, Simulation, World};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const FINALIZER: &str = "x.io/registered";
const MANAGER: &str = "sites";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "x.io",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
pub struct SiteSpec {
    pub text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    pub ready: Option<bool>,
    pub observed_generation: Option<i64>,
    pub config: Option<String>,
    pub passes: Option<i64>,
}

/// What is wrong with an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// The `ConfigMap` gets a generated name, which only the status remembers.
    GeneratesNames,
    /// What is there already is an error.
    DoesNotAdopt,
    /// It says that it is ready before it is, and believes itself.
    StatusFirst,
    /// An entry that is gone already is an error when it is to be deleted.
    FailsOnGone,
    /// It remembers by name what it has made.
    RemembersNames,
    /// A claim that its cached status does not know of is a leftover.
    TrustsItsCache,
    /// It registers before it has a finalizer.
    RegistersFirst,
    /// Counts its passes in the status.
    CountsPasses,
    /// Any error is a panic.
    Panics,
    /// Takes what answers for true: a failed write is not repeated.
    IgnoresErrors,
}

struct Operator {
    flaw: Flaw,
    client: Client,
    made: Mutex<HashSet<String>>,
}

type Done = Result<(), kube::Error>;

fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

impl Operator {
    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn reconcile(&self, site: &Site) -> Done {
        let namespace = site.namespace().unwrap();
        // A cache may show what is gone: for that nothing is made.
        let sites: Api<Site> = self.api(&namespace);
        let Some(live) = sites.get_opt(&site.name_any()).await? else {
            return Ok(());
        };
        let seen = if self.flaw == Flaw::TrustsItsCache {
            site.clone()
        } else {
            live.clone()
        };
        if live.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&sites, &live).await;
        }
        if self.flaw == Flaw::RegistersFirst {
            self.register(&live).await?;
        }
        if !live.finalizers().iter().any(|f| f == FINALIZER) {
            self.set_finalizers(&sites, &live, &[FINALIZER]).await?;
        }
        let is_done = live
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation == live.metadata.generation);
        if is_done && [Flaw::StatusFirst, Flaw::IgnoresErrors].contains(&self.flaw) {
            return Ok(());
        }
        if self.flaw == Flaw::StatusFirst {
            self.report(&sites, &seen, None).await?;
        }
        let is_made = !self.made.lock().unwrap().insert(live.name_any());
        if self.flaw == Flaw::RemembersNames && is_made {
            return Ok(());
        }
        self.register(&live).await?;
        self.claim(&seen).await?;
        let config = self.configure(&live).await?;
        self.report(&sites, &live, Some(config)).await
    }

    async fn set_finalizers(&self, sites: &Api<Site>, site: &Site, all: &[&str]) -> Done {
        let patch = json!({"metadata": {
            "finalizers": all, "resourceVersion": site.resource_version(),
        }});
        let params = PatchParams {
            field_manager: Some(MANAGER.into()),
            ..Default::default()
        };
        match sites
            .patch(&site.name_any(), &params, &Patch::Merge(patch))
            .await
        {
            // Gone: nothing is left to finalize.
            Err(error) if is_code(&error, 404) && all.is_empty() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn clean_up(&self, sites: &Api<Site>, site: &Site) -> Done {
        if !site.finalizers().iter().any(|f| f == FINALIZER) {
            return Ok(());
        }
        let entries: Api<ConfigMap> = self.api("registry");
        let name = entry_name(site);
        let deleted = entries.delete(&name, &DeleteParams::default()).await;
        match deleted {
            Err(error) if is_code(&error, 404) && self.flaw != Flaw::FailsOnGone => {}
            other => drop(other?),
        }
        self.set_finalizers(sites, site, &[]).await
    }

    async fn register(&self, site: &Site) -> Done {
        let entry = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": entry_name(site), "labels": {"site": site.name_any()}},
        });
        self.apply::<ConfigMap>("registry", entry).await.map(drop)
    }

    async fn apply<K>(&self, namespace: &str, object: Value) -> Result<K, kube::Error>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = self.api(namespace);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(object)).await
    }

    async fn claim(&self, site: &Site) -> Done {
        let claims: Api<PersistentVolumeClaim> = self.api(&site.namespace().unwrap());
        let name = format!("data-{}", site.name_any());
        if self.flaw == Flaw::TrustsItsCache
            && site.status.is_none()
            && let Some(old) = claims.get_opt(&name).await?
        {
            let uid = old.uid();
            let preconditions = Some(Preconditions {
                uid,
                resource_version: None,
            });
            let params = DeleteParams {
                preconditions,
                ..Default::default()
            };
            claims.delete(&name, &params).await?;
        }
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "ownerReferences": [site.controller_owner_ref(&())]},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let claim = serde_json::from_value(claim).unwrap();
        match claims.create(&PostParams::default(), &claim).await {
            Err(error) if is_code(&error, 409) && self.flaw != Flaw::DoesNotAdopt => {
                self.adopt(&claims, site, &name).await
            }
            Err(error) if is_code(&error, 409) && site.status.is_some() => Ok(()),
            other => other.map(drop),
        }
    }

    /// A claim of that name is there. That of a former site of this name has to
    /// go first.
    async fn adopt(&self, claims: &Api<PersistentVolumeClaim>, site: &Site, name: &str) -> Done {
        let found = claims.get(name).await?;
        if found
            .owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == site.uid().as_ref())
        {
            return Ok(());
        }
        let error = kube::core::Status::failure("another site's claim is in the way", "Taken");
        Err(kube::Error::Api(error.boxed()))
    }

    /// Gives the name of the `ConfigMap`.
    async fn configure(&self, site: &Site) -> Result<String, kube::Error> {
        let namespace = site.namespace().unwrap();
        let owner = site.controller_owner_ref(&());
        let data = json!({"text": site.spec.text});
        if self.flaw == Flaw::GeneratesNames {
            if let Some(name) = site
                .status
                .as_ref()
                .and_then(|status| status.config.clone())
            {
                return Ok(name);
            }
            let map = json!({
                "metadata": {"generateName": "config-", "ownerReferences": [owner]},
                "data": data,
            });
            let map: ConfigMap = serde_json::from_value(map).unwrap();
            let maps: Api<ConfigMap> = self.api(&namespace);
            let made = maps.create(&PostParams::default(), &map).await?;
            return Ok(made.name_any());
        }
        let name = format!("config-{}", site.name_any());
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [owner]}, "data": data,
        });
        match self.apply::<ConfigMap>(&namespace, map).await {
            Err(_) if self.flaw == Flaw::IgnoresErrors => {}
            Err(error) if self.flaw == Flaw::Panics => panic!("apply: {error}"),
            other => drop(other?),
        }
        Ok(name)
    }

    async fn report(&self, sites: &Api<Site>, site: &Site, config: Option<String>) -> Done {
        let old = site.status.clone().unwrap_or_default();
        let counts = self.flaw == Flaw::CountsPasses;
        let status = json!({
            "ready": true,
            "observedGeneration": site.metadata.generation,
            "config": config.or(old.config),
            "passes": counts.then(|| old.passes.unwrap_or_default() + 1),
        });
        let patch = json!({"status": status, "metadata": {"uid": site.uid()}});
        let params = PatchParams {
            field_manager: Some(MANAGER.into()),
            ..Default::default()
        };
        sites
            .patch_status(&site.name_any(), &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }
}

fn entry_name(site: &Site) -> String {
    format!("{}.{}", site.namespace().unwrap(), site.name_any())
}

pub fn controller(flaw: Flaw) -> Controller<Site> {
    let start = move |context: ControllerContext<Site>| {
        let operator = Arc::new(Operator {
            flaw,
            client: context.client,
            made: Mutex::default(),
        });
        move |site: Arc<Site>| {
            let operator = Arc::clone(&operator);
            async move {
                operator.reconcile(&site).await?;
                Ok::<_, kube::Error>(Action::requeue(Duration::from_secs(3600)))
            }
        }
    };
    Controller::with_context("sites", start)
        .watching(watcher::Config::default().any_semantic())
        .owns::<ConfigMap>()
        .owns::<PersistentVolumeClaim>()
        .watches(|entry: ConfigMap| {
            let name = entry.name_any();
            if entry.namespace().as_deref() != Some("registry") {
                return None;
            }
            let (namespace, name) = name.split_once('.')?;
            Some(ObjectRef::<Site>::new(name).within(namespace))
        })
}

pub fn site(name: &str) -> Site {
    let mut site = Site::new(name, SiteSpec { text: "one".into() });
    site.metadata.namespace = Some("default".into());
    site
}

/// A site is made, changed, deleted, and made again.
pub async fn life(world: World) -> Result<(), ScenarioError> {
    let site = world.create(&site("a")).await?;
    world.settle().await?;
    world.patch(&site, json!({"spec": {"text": "two"}})).await?;
    world.settle().await?;
    world.delete(&site).await?;
    world.settle().await?;
    world.create(&self::site("a")).await?;
    world.settle().await
}

/// A site is made and deleted.
pub async fn short_life(world: World) -> Result<(), ScenarioError> {
    let site = world.create(&site("a")).await?;
    world.settle().await?;
    world.delete(&site).await?;
    world.settle().await
}

pub fn stage() -> Builder {
    Simulation::builder()
        .max_steps(2_000)
        .crds([Site::crd()])
        .cluster(|builder| {
            builder.object(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "registry"},
            }))
        })
        .actors(|| {
            vec![
                Arc::new(NamespaceLifecycle::default()),
                Arc::new(GarbageCollector::default()),
                Arc::new(ClaimBinder),
            ]
        })
}

pub fn simulation(flaw: Flaw) -> Simulation {
    stage().controller(controller(flaw)).scenario(life).build()
}
