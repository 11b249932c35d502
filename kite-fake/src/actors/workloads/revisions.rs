//! The history of a workload's templates: a `ControllerRevision` for each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::hash;
use super::owned::Owner;
use crate::actors::actor::ActorError;
use crate::actors::kind::{CONTROLLER_REVISION, Key};
use crate::actors::mirror::Found;
use crate::actors::objects::{Deletion, Objects, controller_reference};

/// The label by which a Pod names the revision it is of.
pub(super) const HASH: &str = "controller-revision-hash";
/// The same at a revision of a `StatefulSet`.
const OWN_HASH: &str = "controller.kubernetes.io/hash";
/// Longest beginning of a revision's name.
const LONGEST: usize = 223;

/// One revision.
#[derive(Clone, Debug)]
pub(super) struct Revision(pub(super) Found);

impl Revision {
    pub(super) fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The end of its name, by which Pods of a `DaemonSet` name it.
    pub(super) fn hash(&self) -> &str {
        let labels = self.0.metadata.labels.as_ref();
        let label = labels.and_then(|it| it.get(HASH).or_else(|| it.get(OWN_HASH)));
        label.map_or_else(|| self.name(), String::as_str)
    }

    fn number(&self) -> i64 {
        self.0.data["revision"].as_i64().unwrap_or_default()
    }

    /// The template that it remembers.
    pub(super) fn template(&self) -> Value {
        let mut template = self.0.data["data"]["spec"]["template"].clone();
        if let Some(members) = template.as_object_mut() {
            members.remove("$patch");
        }
        template
    }
}

/// The revisions of a workload, the oldest first.
#[derive(Debug)]
pub(super) struct History {
    pub(super) all: Vec<Revision>,
    /// How often a name was taken.
    pub(super) collisions: u64,
}

/// What a revision remembers of a template: the patch that brings it back.
fn data(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

impl History {
    /// Of those that a workload controls.
    pub(super) fn of(owner: Owner<'_>, claimed: Vec<Found>) -> Self {
        let mut all: Vec<Revision> = claimed.into_iter().map(Revision).collect();
        all.sort_by_key(|it| (it.number(), it.name().to_owned()));
        let collisions = owner.object.data["status"]["collisionCount"].as_u64();
        Self {
            all,
            collisions: collisions.unwrap_or_default(),
        }
    }

    /// The revision of a name.
    pub(super) fn named(&self, name: &str) -> Option<&Revision> {
        self.all.iter().find(|it| it.name() == name)
    }

    /// The revision of the workload's template, which is the newest: it is made, or put
    /// at the end again, where it is not.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub(super) async fn newest(
        &mut self,
        objects: Objects<'_>,
        owner: Owner<'_>,
        label: Label,
    ) -> Result<Revision, ActorError> {
        let template = &owner.object.data["spec"]["template"];
        let wanted = data(template);
        let next = self.all.last().map_or(1, |it| it.number() + 1);
        let found = self.all.iter().rposition(|it| it.0.data["data"] == wanted);
        let Some(at) = found else {
            let made = self.make(objects, owner, label, &wanted, next).await?;
            self.all.push(made.clone());
            return Ok(made);
        };
        let found = self.all.remove(at);
        let newest = if at == self.all.len() {
            found
        } else {
            let key = Key::of(&CONTROLLER_REVISION, &found.0);
            let patch = json!({"revision": next});
            Revision(objects.merge(&key, Some(&found.0), patch).await?)
        };
        self.all.push(newest.clone());
        Ok(newest)
    }

    async fn make(
        &mut self,
        objects: Objects<'_>,
        owner: Owner<'_>,
        label: Label,
        data: &Value,
        number: i64,
    ) -> Result<Revision, ActorError> {
        let meta = &owner.object.metadata;
        let namespace = meta.namespace.as_deref();
        let prefix: String = meta
            .name
            .iter()
            .flat_map(|it| it.chars())
            .take(LONGEST)
            .collect();
        loop {
            let hash = hash::of(data, self.collisions);
            let template = &owner.object.data["spec"]["template"];
            let mut labels = template["metadata"]["labels"].clone();
            labels[label.name()] = json!(hash);
            let body = json!({
                "metadata": {
                    "name": format!("{prefix}-{hash}"),
                    "namespace": namespace,
                    "labels": labels,
                    "annotations": meta.annotations,
                    "ownerReferences": [controller_reference(owner.kind, owner.object)],
                },
                "data": data,
                "revision": number,
            });
            let name = format!("{prefix}-{hash}");
            let made = objects
                .create(&CONTROLLER_REVISION, namespace, body)
                .await?;
            if let Some(made) = made {
                return Ok(Revision(made));
            }
            let live = objects.live();
            let there = live.find(&CONTROLLER_REVISION, namespace, &name).await?;
            match there {
                // The watch has not shown it yet.
                Some(there) if there.data["data"] == *data => return Ok(Revision(there)),
                Some(_) => self.collisions += 1,
                None => {}
            }
        }
    }

    /// Deletes the oldest beyond those that are to be remembered, but for those that are
    /// `alive`.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub(super) async fn forget(
        &self,
        objects: Objects<'_>,
        owner: Owner<'_>,
        alive: &BTreeSet<String>,
    ) -> Result<(), ActorError> {
        let limit = owner.object.data["spec"]["revisionHistoryLimit"].as_u64();
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
        let is_alive = |it: &&Revision| alive.contains(it.name()) || alive.contains(it.hash());
        let old: Vec<&Revision> = self.all.iter().filter(|it| !is_alive(it)).collect();
        for revision in old.iter().take(old.len().saturating_sub(limit)) {
            let key = Key::of(&CONTROLLER_REVISION, &revision.0);
            let options = Deletion::default();
            objects.delete(&key, &revision.0, options).await?;
        }
        Ok(())
    }
}

/// By which label a revision has its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    OfStatefulSet,
    OfDaemonSet,
}

impl Label {
    fn name(self) -> &'static str {
        match self {
            Self::OfStatefulSet => OWN_HASH,
            Self::OfDaemonSet => HASH,
        }
    }
}
