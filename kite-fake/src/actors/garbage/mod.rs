//! The garbage collector: objects go when all their owners are gone.

mod graph;
mod plan;

use crate::actors::mirror::Found;
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DynamicObject, PropagationPolicy};
use parking_lot::Mutex;
use serde_json::json;

use self::graph::{Graph, Named};
use self::plan::{Owner, Plan, blocks, has_finalizer, plan};
use super::actor::{Actor, ActorError, Change, Context, Next, Watches};
use super::kind::Key;
use super::objects::{Deletion, Objects, ignore_missing, is_deleting, uid};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Plays the garbage collector.
///
/// An object with owner references is deleted when **all** its owners are
/// absent; an owner counts as present only if an object with its uid is there,
/// so an owner that was made anew, or one in another namespace, is absent.
/// Deletes carry the uid and the resourceVersion that were seen. Foreground
/// deletion waits for dependents that block it; orphaning takes the references
/// out of dependents first.
#[derive(Debug, Default)]
pub struct GarbageCollector {
    graph: Mutex<Graph>,
}

#[async_trait]
impl Actor for GarbageCollector {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Everything
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let (key, object) = (change.key(), &change.object);
        let id = uid(object);
        let mut graph = self.graph.lock();
        // Those that wait for this object may go once it is gone or has changed.
        let mut keys = graph.waiting_owners(id);
        if change.gone {
            keys.extend(graph.dependents(id));
            graph.remove(id);
            return keys;
        }
        let references = object.metadata.owner_references.iter().flatten();
        let owners: Vec<String> = references.map(|o| o.uid.clone()).collect();
        let (deleting, owned) = (is_deleting(object), !owners.is_empty());
        let waits = deleting && has_finalizer(object, FOREGROUND);
        let orphans = deleting && has_finalizer(object, ORPHAN);
        graph.set(id, &key, owners, waits);
        keys.extend(graph.waiting_owners(id));
        // Where every owner is known to be there, its end is what to wait for.
        let named = object.metadata.owner_references.iter().flatten();
        let named = named.map(|reference| Named {
            uid: &reference.uid,
            api_version: &reference.api_version,
            kind: &reference.kind,
            name: &reference.name,
        });
        let sure = graph.has_all(named, key.namespace.as_deref());
        if waits || orphans || (owned && !deleting && !sure) {
            keys.push(key);
        }
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(object) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if is_deleting(&object) {
            if has_finalizer(&object, ORPHAN) {
                self.orphan(context, objects, key, &object).await?;
            } else if has_finalizer(&object, FOREGROUND) {
                self.foreground(context, objects, key, &object).await?;
            }
        } else {
            self.collect(context, objects, key, &object).await?;
        }
        Ok(Next::Done)
    }
}

impl GarbageCollector {
    /// Deletes `object` or takes lost owners out of it.
    async fn collect(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        object: &DynamicObject,
    ) -> Result<(), ActorError> {
        let mut owners = Vec::new();
        for reference in object.metadata.owner_references.iter().flatten() {
            let state = owner_state(context, objects, key, reference).await?;
            owners.push((reference.uid.clone(), state));
        }
        let dependents = self.graph.lock().dependents(uid(object));
        match plan(&owners, !dependents.is_empty()) {
            Plan::Keep => Ok(()),
            Plan::Disown(lost) => {
                let rest = object.metadata.owner_references.iter().flatten();
                let rest: Vec<_> = rest.filter(|o| !lost.contains(&o.uid)).collect();
                let patch = json!({"metadata": {"ownerReferences": rest}});
                ignore_missing(objects.merge(key, Some(object), patch).await)
            }
            Plan::Delete { foreground } => {
                let propagation = if foreground {
                    // Two that wait for each other would wait for ever.
                    for dependent in &dependents {
                        unblock(objects, dependent, uid(object)).await?;
                    }
                    PropagationPolicy::Foreground
                } else if has_finalizer(object, ORPHAN) {
                    PropagationPolicy::Orphan
                } else if has_finalizer(object, FOREGROUND) {
                    PropagationPolicy::Foreground
                } else {
                    PropagationPolicy::Background
                };
                tracing::debug!(%key, "collects an object without owners");
                let deletion = Deletion {
                    propagation: Some(propagation),
                    unchanged: true,
                    ..Deletion::default()
                };
                objects.delete(key, object, deletion).await
            }
        }
    }

    /// Deletes the dependents of `owner`; lets it go when none blocks it.
    async fn foreground(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        owner: &DynamicObject,
    ) -> Result<(), ActorError> {
        let mut blocked = false;
        for dependent in self.dependents(context, objects, key, owner).await? {
            let (dependent_key, dependent) = dependent;
            if !is_deleting(&dependent) {
                self.collect(context, objects, &dependent_key, &dependent)
                    .await?;
            }
            // It may have gone at once.
            if blocks(&dependent, uid(owner)) {
                blocked |= objects.get(&dependent_key).await?.is_some();
            }
        }
        // The end of the last one is heard of, and brings the owner back here.
        if blocked {
            return Ok(());
        }
        objects.remove_finalizer(key, owner, FOREGROUND).await
    }

    /// Takes the references to `owner` out of its dependents and lets it go.
    async fn orphan(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        owner: &DynamicObject,
    ) -> Result<(), ActorError> {
        for (dependent_key, dependent) in self.dependents(context, objects, key, owner).await? {
            let rest = dependent.metadata.owner_references.iter().flatten();
            let rest: Vec<_> = rest.filter(|o| o.uid != uid(owner)).collect();
            let rest = if rest.is_empty() {
                json!(null)
            } else {
                json!(rest)
            };
            let patch = json!({"metadata": {"ownerReferences": rest}});
            ignore_missing(objects.merge(&dependent_key, Some(&dependent), patch).await)?;
        }
        objects.remove_finalizer(key, owner, ORPHAN).await
    }

    /// The dependents of `owner` as they are now. The API server is asked, not
    /// the graph: a dependent that no watch has shown yet would be lost.
    async fn dependents(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        owner: &DynamicObject,
    ) -> Result<Vec<(Key, Found)>, ActorError> {
        let mut found = Vec::new();
        for kind in context.catalog.kinds(&["list", "delete"]) {
            if key.kind.namespaced && !kind.namespaced {
                continue;
            }
            for object in objects.list(&kind, key.namespace.as_deref(), "").await? {
                let references = object.metadata.owner_references.iter().flatten();
                if references.into_iter().any(|o| o.uid == uid(owner)) {
                    found.push((Key::of(&kind, &object), object));
                }
            }
        }
        Ok(found)
    }
}

/// Whether the object that `reference` names is there.
async fn owner_state(
    context: &Context,
    objects: Objects<'_>,
    dependent: &Key,
    reference: &OwnerReference,
) -> Result<Owner, ActorError> {
    let Some(kind) = context
        .catalog
        .find(&reference.api_version, &reference.kind)
    else {
        // Nobody can tell; a kind that is not served now may come back.
        return Ok(Owner::There);
    };
    if kind.namespaced && dependent.namespace.is_none() {
        return Ok(Owner::There);
    }
    let owner = objects
        .find(&kind, dependent.namespace.as_deref(), &reference.name)
        .await?;
    Ok(match owner {
        Some(owner) if uid(&owner) == reference.uid => {
            if is_deleting(&owner) && has_finalizer(&owner, FOREGROUND) {
                Owner::Waits
            } else {
                Owner::There
            }
        }
        _ => Owner::Absent,
    })
}

/// Lets a dependent that waits for its own dependents not block its owner.
async fn unblock(objects: Objects<'_>, key: &Key, owner: &str) -> Result<(), ActorError> {
    let Some(dependent) = objects.get(key).await? else {
        return Ok(());
    };
    if !is_deleting(&dependent) || !has_finalizer(&dependent, FOREGROUND) {
        return Ok(());
    }
    let mut references = dependent
        .metadata
        .owner_references
        .clone()
        .unwrap_or_default();
    for reference in references.iter_mut().filter(|o| o.uid == owner) {
        reference.block_owner_deletion = Some(false);
    }
    let patch = json!({"metadata": {"ownerReferences": references}});
    ignore_missing(objects.merge(key, Some(&dependent), patch).await)
}
