//! How definitions of custom resources end: their objects go first. A real server does
//! so itself, too, by a controller within it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ApiServer;
use super::delete::is_held;
use crate::clock::rfc3339;
use crate::registry::Resource;
use crate::schema::crd::CLEANUP_FINALIZER;
use crate::store::{GroupResource, Key, Object};

/// How far the end of a definition has come: status, reason and message of its condition.
type Progress = [&'static str; 3];

const IN_PROGRESS: Progress = [
    "True",
    "InstanceDeletionInProgress",
    "CustomResource deletion is in progress",
];
const COMPLETED: Progress = [
    "False",
    "InstanceDeletionCompleted",
    "removed all instances",
];

impl ApiServer {
    /// Goes on with a definition that is being deleted: deletes its objects, and lets go
    /// of it when none is left.
    pub(crate) fn end_definition(&mut self, definitions: &Resource, key: &Key) {
        let Some(crd) = self.ending(definitions, key) else {
            return;
        };
        self.tell_of_ending(definitions, &crd);
        let of = objects_of(crd.value());
        for (key, object) in self.own_objects(&of) {
            self.end_object(&of, &key, &object);
        }
        if !self.own_objects(&of).is_empty() {
            return;
        }
        // It has another state by now.
        let Some(crd) = self.ending(definitions, key) else {
            return;
        };
        let mut value = crd.to_value();
        if let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|it| it != CLEANUP_FINALIZER);
        }
        if is_held(&value) {
            // Somebody else's finalizers keep it.
            let status = terminating(&value["status"], &COMPLETED, self.now);
            self.write_definition_status(definitions, &value, status);
        } else {
            self.remove(definitions, key);
        }
    }

    /// Whether the object that went was the last of a definition that waits for that.
    pub(crate) fn after_last(&mut self, resource: &Resource) {
        if !resource.is_custom() || !resource.terminating {
            return;
        }
        if self
            .store
            .range(&resource.collection(), None, None)
            .next()
            .is_some()
        {
            return;
        }
        let definitions = self
            .registry
            .get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            .cloned();
        if let Some(definitions) = definitions {
            let name = format!("{}.{}", resource.plural, resource.group);
            self.end_definition(&definitions, &Key::new("", name));
        }
    }

    /// A definition that is being deleted and waits for its objects.
    fn ending(&self, definitions: &Resource, key: &Key) -> Option<Object> {
        let crd = self.store.get(&definitions.collection(), key)?;
        let value = crd.value();
        let mut finalizers = value["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten();
        (crd.is_deleting() && finalizers.any(|it| it == CLEANUP_FINALIZER)).then(|| crd.clone())
    }

    /// The objects of a definition. Those of a built-in kind of that name are not its own.
    fn own_objects(&self, of: &GroupResource) -> Vec<(Key, Object)> {
        if self.registry.storage(of).is_some_and(|it| !it.is_custom()) {
            return Vec::new();
        }
        let objects = self.store.range(of, None, None);
        objects
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    fn tell_of_ending(&mut self, definitions: &Resource, crd: &Object) {
        let old = &crd.value()["status"];
        let status = terminating(old, &IN_PROGRESS, self.now);
        if status != *old {
            self.write_definition_status(definitions, crd.value(), status);
        }
    }

    /// Deletes an object without asking anybody, as the server does with its own storage.
    fn end_object(&mut self, of: &GroupResource, key: &Key, object: &Object) {
        let resource = self.registry.storage(of).cloned();
        let mut value = object.to_value();
        let held = is_held(&value);
        match resource {
            Some(resource) if !held => self.remove(&resource, key),
            None if !held => drop(self.store.remove(of, key)),
            resource => {
                if object.is_deleting() {
                    return;
                }
                let metadata = &mut value["metadata"];
                metadata["deletionTimestamp"] = rfc3339(self.now).into();
                metadata["deletionGracePeriodSeconds"] = json!(0);
                if let Some(generation) = metadata["generation"].as_i64() {
                    metadata["generation"] = json!(generation + 1);
                }
                let epoch = resource.map_or(object.epoch(), |resource| resource.epoch);
                self.store.put(of, key.clone(), value, epoch);
            }
        }
    }
}

/// What a definition defines.
fn objects_of(crd: &Value) -> GroupResource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    GroupResource::new(
        text(&crd["spec"]["group"]),
        text(&crd["spec"]["names"]["plural"]),
    )
}

/// A status with the condition that tells of the end.
fn terminating(status: &Value, [holds, reason, message]: &Progress, now: Timestamp) -> Value {
    let mut status = status.clone();
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        let told = conditions.iter().position(|it| it["type"] == "Terminating");
        let mut condition = json!({
            "type": "Terminating",
            "status": holds,
            "lastTransitionTime": rfc3339(now),
            "reason": reason,
            "message": message,
        });
        match told {
            None => conditions.push(condition),
            Some(at) => {
                // The time is that of the last change of the status.
                if conditions[at]["status"] == *holds {
                    condition["lastTransitionTime"] = conditions[at]["lastTransitionTime"].clone();
                }
                conditions[at] = condition;
            }
        }
    }
    status
}
