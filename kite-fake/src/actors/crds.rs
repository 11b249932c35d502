//! Ends custom resource definitions: their objects go first.

use async_trait::async_trait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::actor::{Actor, ActorError, Change, Context, Next, Watches};
use super::kind::{CRD, Key, Kind};
use super::objects::{Deletion, Objects, ignore_missing, is_deleting, text};

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Plays the finalizer of the extensions API server: when a definition is
/// deleted its objects are, and when the last of them is gone the definition is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrdCleanup;

#[async_trait]
impl Actor for CrdCleanup {
    fn name(&self) -> &'static str {
        "kube-apiserver"
    }

    /// Everything, because the last object that goes lets the definition go.
    fn watches(&self) -> Watches {
        Watches::Everything
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == CRD {
            let wanted = !change.gone && is_deleting(&change.object);
            return if wanted {
                vec![change.key()]
            } else {
                Vec::new()
            };
        }
        if !change.gone || change.kind.group.is_empty() {
            return Vec::new();
        }
        let name = format!("{}.{}", change.kind.plural, change.kind.group);
        vec![Key::new(&CRD, None, &name)]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(crd) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let finalizers = crd.metadata.finalizers.iter().flatten();
        if !is_deleting(&crd) || !finalizers.into_iter().any(|f| f == FINALIZER) {
            return Ok(Next::Done);
        }
        if let Some(kind) = served(&crd) {
            let status = terminating(&crd.data["status"], &context.now());
            ignore_missing(objects.set_status(key, &crd, status).await)?;
            for object in objects.list(&kind, None, "").await? {
                if !is_deleting(&object) {
                    let key = Key::of(&kind, &object);
                    objects.delete(&key, &object, Deletion::default()).await?;
                }
            }
            if !objects.list(&kind, None, "").await?.is_empty() {
                return Ok(Next::Done);
            }
        }
        if let Some(crd) = objects.get(key).await? {
            objects.remove_finalizer(key, &crd, FINALIZER).await?;
        }
        Ok(Next::Done)
    }
}

/// The kind through which the objects of `crd` can be reached.
fn served(crd: &DynamicObject) -> Option<Kind> {
    let versions = crd.data["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|v| v["served"] == true)?;
    let word = |pointer: &str| text(crd, pointer).to_owned().into();
    Some(Kind {
        group: word("/spec/group"),
        version: version["name"].as_str()?.to_owned().into(),
        kind: word("/spec/names/kind"),
        plural: word("/spec/names/plural"),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
    })
}

/// The status with the condition that tells of the cleanup.
fn terminating(old: &Value, now: &str) -> Value {
    let mut status = old.clone();
    let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
    if !conditions.iter().any(|c| c["type"] == "Terminating") {
        conditions.push(json!({
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }));
    }
    status["conditions"] = json!(conditions);
    status
}
