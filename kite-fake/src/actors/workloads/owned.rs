//! What a controller owns: the objects that name it as theirs and that it selects.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::actor::{ActorError, Change};
use crate::actors::kind::{Key, Kind, REPLICATION_CONTROLLER};
use crate::actors::labels::selects;
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, controller_reference, is_deleting, uid};

/// An object that controls others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) kind: &'a Kind,
    pub(super) object: &'a DynamicObject,
    /// What keeps whatever it takes until it has been counted.
    finalizer: Option<&'static str>,
}

/// How an object stands to an [`Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// It is the owner's, and selected.
    Owned,
    /// It is the owner's, and not selected any more.
    Stray,
    /// It is selected, and nobody's.
    Orphan,
    /// It has nothing to do with the owner.
    None,
}

impl<'a> Owner<'a> {
    pub(super) fn new(kind: &'a Kind, object: &'a DynamicObject) -> Self {
        Self {
            kind,
            object,
            finalizer: None,
        }
    }

    /// The same, which puts a finalizer on what it takes.
    pub(super) fn keeping(self, finalizer: &'static str) -> Self {
        Self {
            finalizer: Some(finalizer),
            ..self
        }
    }

    fn relation(self, other: &DynamicObject, selector: &Value) -> Relation {
        let is_selected = selects(selector, other);
        match controller(other) {
            Some(owner) if owner.uid != uid(self.object) => Relation::None,
            Some(_) if is_selected => Relation::Owned,
            Some(_) => Relation::Stray,
            None if is_selected && !is_deleting(other) => Relation::Orphan,
            None => Relation::None,
        }
    }

    /// The objects of `kind` that this one controls. Those that it selects and nobody
    /// controls become its own, and those of its own that it does not select are let go,
    /// unless the owner is being deleted.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub(super) async fn claim(
        self,
        objects: Objects<'_>,
        kind: &Kind,
    ) -> Result<Vec<Found>, ActorError> {
        self.claim_of(objects, kind, |_| true).await
    }

    /// The same, of those objects that `is_meant` means.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub(super) async fn claim_of(
        self,
        objects: Objects<'_>,
        kind: &Kind,
        is_meant: impl Fn(&DynamicObject) -> bool + Send,
    ) -> Result<Vec<Found>, ActorError> {
        let namespace = self.object.metadata.namespace.as_deref();
        let selector = selector_of(self.kind, self.object);
        let mut may_adopt = None;
        let mut owned = Vec::new();
        for found in objects.list(kind, namespace, "").await? {
            if !is_meant(&found) {
                continue;
            }
            match self.relation(&found, &selector) {
                Relation::Owned => owned.push(found),
                Relation::None => {}
                _ if is_deleting(self.object) => {}
                Relation::Orphan => {
                    if may_adopt.is_none() {
                        may_adopt = Some(self.is_there(objects).await?);
                    }
                    if may_adopt == Some(true) {
                        owned.extend(self.adopt(objects, kind, &found).await?);
                    }
                }
                Relation::Stray => self.release(objects, kind, &found).await?,
            }
        }
        Ok(owned)
    }

    /// Whether the owner is still there, and is to stay: watches may be late.
    async fn is_there(self, objects: Objects<'_>) -> Result<bool, ActorError> {
        let own = Key::of(self.kind, self.object);
        let now = objects.live().get(&own).await?;
        Ok(now.is_some_and(|now| uid(&now) == uid(self.object) && !is_deleting(&now)))
    }

    /// Takes an object that nobody controls.
    async fn adopt(
        self,
        objects: Objects<'_>,
        kind: &Kind,
        orphan: &Found,
    ) -> Result<Option<Found>, ActorError> {
        let mut owners: Vec<Value> = references(orphan);
        owners.push(controller_reference(self.kind, self.object));
        let mut patch = json!({"metadata": {"ownerReferences": owners}});
        if let Some(finalizer) = self.finalizer {
            let mut all = orphan.metadata.finalizers.clone().unwrap_or_default();
            if !all.iter().any(|it| it == finalizer) {
                all.push(finalizer.to_owned());
            }
            patch["metadata"]["finalizers"] = json!(all);
        }
        let key = Key::of(kind, orphan);
        gone_is_none(objects.merge(&key, Some(orphan), patch).await)
    }

    /// Lets go of an object that is not selected any more.
    async fn release(
        self,
        objects: Objects<'_>,
        kind: &Kind,
        stray: &Found,
    ) -> Result<(), ActorError> {
        let mut owners = references(stray);
        owners.retain(|owner| owner["uid"] != uid(self.object));
        let patch = json!({"metadata": {"ownerReferences": owners}});
        let key = Key::of(kind, stray);
        gone_is_none(objects.merge(&key, Some(stray), patch).await).map(drop)
    }
}

/// What an object of a kind that owns others selects: the oldest kind has a plain map.
fn selector_of<'a>(kind: &Kind, object: &'a DynamicObject) -> Cow<'a, Value> {
    let selector = &object.data["spec"]["selector"];
    if *kind == REPLICATION_CONTROLLER {
        Cow::Owned(json!({"matchLabels": selector}))
    } else {
        Cow::Borrowed(selector)
    }
}

fn references(object: &DynamicObject) -> Vec<Value> {
    let owners = object.metadata.owner_references.iter().flatten();
    owners.map(|owner| json!(owner)).collect()
}

fn gone_is_none(patched: Result<Found, ActorError>) -> Result<Option<Found>, ActorError> {
    match patched {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What controls an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Controller<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl Controller<'_> {
    /// Whether it is of this kind, in whatever version.
    pub(super) fn is(self, kind: &Kind) -> bool {
        let group = self
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        self.kind == kind.kind && group == kind.group
    }
}

/// What controls `object`, if anything does.
pub(super) fn controller(object: &DynamicObject) -> Option<Controller<'_>> {
    let owners = object.metadata.owner_references.as_deref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(Controller {
        api_version: &owner.api_version,
        kind: &owner.kind,
        name: &owner.name,
        uid: &owner.uid,
    })
}

/// Which owners of one kind there are and whom they select, so that a change of what
/// they own or could own brings them back.
#[derive(Debug)]
pub(super) struct Owners {
    kind: Kind,
    /// By namespace.
    selectors: HashMap<String, BTreeMap<Key, Value>>,
    /// Who controlled an object when it was last seen.
    of: HashMap<Key, Key>,
}

impl Owners {
    pub(super) fn of_kind(kind: Kind) -> Self {
        Self {
            kind,
            selectors: HashMap::new(),
            of: HashMap::new(),
        }
    }

    /// An owner is seen, or something that may be owned: whom that concerns.
    pub(super) fn saw(&mut self, change: &Change) -> Vec<Key> {
        if change.kind == self.kind {
            self.saw_owner(change)
        } else {
            self.saw_owned(change)
        }
    }

    fn saw_owner(&mut self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let beside = self.selectors.entry(key.space().to_owned()).or_default();
        if change.gone {
            beside.remove(&key);
            if beside.is_empty() {
                self.selectors.remove(key.space());
            }
            return Vec::new();
        }
        let selector = selector_of(&self.kind, &change.object).into_owned();
        beside.insert(key.clone(), selector);
        vec![key]
    }

    fn saw_owned(&mut self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        let controller = controller(&change.object);
        let now = controller.filter(|owner| owner.is(&self.kind));
        let now = now.map(|owner| Key::new(&self.kind, namespace, owner.name));
        let before = match &now {
            Some(owner) if !change.gone => self.of.insert(key.clone(), owner.clone()),
            _ => self.of.remove(&key),
        };
        let mut concerned: Vec<Key> = before.into_iter().collect();
        match now {
            Some(owner) if !concerned.contains(&owner) => concerned.push(owner),
            // Somebody may want it.
            None if controller.is_none() && !change.gone => {
                let beside = self.selectors.get(key.space()).into_iter().flatten();
                let wanting = beside.filter(|(_, selector)| selects(selector, &change.object));
                concerned.extend(wanting.map(|(owner, _)| owner.clone()));
            }
            _ => {}
        }
        concerned
    }

    /// All owners that are there.
    pub(super) fn all(&self) -> Vec<Key> {
        let owners = self.selectors.values().flat_map(BTreeMap::keys);
        owners.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::actors::kind::{POD, REPLICA_SET};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn pod(app: &str, owner: Option<&str>) -> DynamicObject {
        let owners = owner.map(|uid| {
            json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid,
                "controller": true,
            }])
        });
        object(json!({"metadata": {
            "name": "p", "namespace": "a", "labels": {"app": app}, "ownerReferences": owners,
        }}))
    }

    fn change(kind: &Kind, object: DynamicObject) -> Change {
        let (kind, object) = (kind.clone(), object.into());
        Change {
            kind,
            object,
            gone: false,
        }
    }

    #[test]
    fn an_owner_takes_what_is_nobodys_and_lets_go_what_it_does_not_select() {
        let set = object(json!({"metadata": {"name": "s", "namespace": "a", "uid": "1"}}));
        let kind = REPLICA_SET;
        let owner = Owner::new(&kind, &set);
        let selector = json!({"matchLabels": {"app": "web"}});
        let relation = |pod: &DynamicObject| owner.relation(pod, &selector);
        assert_eq!(relation(&pod("web", Some("1"))), Relation::Owned);
        assert_eq!(relation(&pod("db", Some("1"))), Relation::Stray);
        assert_eq!(relation(&pod("web", None)), Relation::Orphan);
        assert_eq!(relation(&pod("web", Some("2"))), Relation::None);
        let mut ending = pod("web", None);
        ending.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(relation(&ending), Relation::None);
    }

    #[test]
    fn a_change_concerns_the_owner_before_and_the_one_now() {
        let mut owners = Owners::of_kind(REPLICA_SET);
        let web = json!({"matchLabels": {"app": "web"}});
        let set = |name: &str| {
            let meta = json!({"name": name, "namespace": "a"});
            object(json!({"metadata": meta, "spec": {"selector": web}}))
        };
        let key = |name: &str| Key::new(&REPLICA_SET, Some("a"), name);
        owners.saw(&change(&REPLICA_SET, set("1")));
        assert_eq!(owners.saw(&change(&POD, pod("web", None))), [key("1")]);
        assert_eq!(owners.saw(&change(&POD, pod("web", Some("2")))), [key("2")]);
        let moved = owners.saw(&change(&POD, pod("web", Some("1"))));
        assert_eq!(moved, [key("2"), key("1")]);
        let gone = Change {
            gone: true,
            ..change(&POD, pod("web", Some("1")))
        };
        assert_eq!(owners.saw(&gone), [key("1")]);
        assert_eq!(owners.saw(&change(&POD, pod("db", None))), []);
    }
}
