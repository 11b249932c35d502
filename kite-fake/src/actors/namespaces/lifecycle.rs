//! Ends namespaces: deletes what is in them, waits for finalizers, finalizes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use http::Request;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::conditions::{self, Remaining};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{Key, Kind, NAMESPACE, POD};
use crate::actors::objects::{Objects, api_error, ignore_missing, is_deleting};

/// The finalizer in a namespace's spec that this actor answers for.
const FINALIZER: &str = "kubernetes";

/// Plays the namespace controller. A terminating namespace loses every object
/// of every namespaced kind that discovery lists, custom resources included;
/// while finalizers hold some of them its conditions tell which; then it goes.
#[derive(Debug, Default)]
pub struct NamespaceLifecycle {
    terminating: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Actor for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Everything
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let mut terminating = self.terminating.lock();
        if change.kind == NAMESPACE {
            let key = change.key();
            if change.gone || !is_deleting(&change.object) {
                terminating.remove(&key.name);
                return Vec::new();
            }
            terminating.insert(key.name.clone());
            return vec![key];
        }
        let namespace = change.object.metadata.namespace.as_deref();
        namespace
            .filter(|name| terminating.contains(*name))
            .map(|name| Key::new(&NAMESPACE, None, name))
            .into_iter()
            .collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(namespace) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let held = namespace.data["spec"]["finalizers"].as_array();
        if !is_deleting(&namespace) || !held.is_some_and(|f| f.iter().any(|f| f == FINALIZER)) {
            return Ok(Next::Done);
        }
        let remaining = empty(context, &key.name).await?;
        let old = &namespace.data["status"];
        let status = conditions::status(old, &remaining, &context.now());
        ignore_missing(objects.set_status(key, &namespace, status).await)?;
        if remaining.is_nothing() {
            // The status has a new version by now.
            if let Some(namespace) = objects.get(key).await? {
                finalize(context, &namespace).await?;
            }
        }
        // What refused may be elsewhere, and nothing in the namespace tells when it does
        // not any more.
        Ok(if remaining.failures.is_empty() {
            Next::Done
        } else {
            Next::Later(TRY_AGAIN)
        })
    }
}

/// After which time what was refused is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Deletes everything in `namespace` and counts what stays. Pods go first, so
/// that what they use is there until they have ended.
async fn empty(context: &Context, namespace: &str) -> Result<Remaining, ActorError> {
    let mut kinds = context.catalog.kinds(&["list", "delete"]);
    kinds.retain(|kind| kind.namespaced);
    kinds.sort_by_key(|kind| *kind != POD);
    let mut remaining = Remaining::default();
    for kind in kinds {
        // Another name for objects of the core group.
        if kind.group == "events.k8s.io" {
            continue;
        }
        let left = match delete_all(context, &kind, namespace).await {
            Ok(left) => left,
            // The kind went while its objects were looked for.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(kube::Error::Api(status)) => {
                remaining.failures.push(status.message.clone());
                continue;
            }
            Err(error) => return Err(api_error("emptying a namespace")(error)),
        };
        if left.is_empty() {
            continue;
        }
        let finalizers = left
            .iter()
            .flat_map(|o| o.metadata.finalizers.iter().flatten());
        for finalizer in finalizers {
            *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        let name = format!("{}.{}", kind.plural, kind.group);
        remaining.resources.insert(name, left.len());
        if kind == POD {
            break;
        }
    }
    Ok(remaining)
}

/// Deletes the objects of `kind` that are not being deleted yet; those left.
async fn delete_all(
    context: &Context,
    kind: &Kind,
    namespace: &str,
) -> Result<Vec<DynamicObject>, kube::Error> {
    let api = kind.api(&context.client, Some(namespace));
    let all = ListParams::default();
    let there = api.list(&all).await?.items;
    if there.iter().all(is_deleting) {
        return Ok(there);
    }
    let options = DeleteParams::background();
    if context.catalog.allows(kind, "deletecollection") {
        api.delete_collection(&options, &all).await?;
    } else {
        for object in there {
            let name = object.metadata.name.unwrap_or_default();
            match api.delete(&name, &options).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
    }
    Ok(api.list(&all).await?.items)
}

/// Takes the namespace's finalizer off, which ends it.
async fn finalize(context: &Context, namespace: &DynamicObject) -> Result<(), ActorError> {
    let name = namespace.metadata.name.clone().unwrap_or_default();
    let finalizers = namespace.data["spec"]["finalizers"].as_array();
    let rest: Vec<Value> = finalizers
        .into_iter()
        .flatten()
        .filter(|f| *f != FINALIZER)
        .cloned()
        .collect();
    // With all of its metadata: finalizers there are somebody else's.
    let body = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": namespace.metadata,
        "spec": {"finalizers": rest},
    });
    let doing = "finalizing a namespace";
    let request = Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|e| api_error(doing)(kube::Error::HttpError(e)))?;
    let answer = context.client.request::<Value>(request).await;
    ignore_missing(answer.map_err(api_error(doing)))
}
