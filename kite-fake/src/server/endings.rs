//! How definitions of custom resources end: their objects go first. A real server does
//! so itself, too, by a controller within it.

use serde_json::{Value, json};

use super::ApiServer;
use super::delete::is_held;
use crate::clock::rfc3339;
use crate::registry::Resource;
use crate::schema::crd::CLEANUP_FINALIZER;
use crate::store::{GroupResource, Key, Object};

impl ApiServer {
    /// Goes on with a definition that is being deleted: deletes its objects, and lets go
    /// of it when none is left.
    pub(crate) fn end_definition(&mut self, definitions: &Resource, key: &Key) {
        let Some(crd) = self.ending(definitions, key) else {
            return;
        };
        let of = objects_of(crd.value());
        let objects: Vec<(Key, Object)> = self
            .store
            .range(&of, None, None)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        if !objects.is_empty() {
            self.tell_of_ending(definitions, &crd);
        }
        for (key, object) in objects {
            self.end_object(&of, &key, &object);
        }
        if self.store.range(&of, None, None).next().is_some() {
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
            self.store.put(
                &definitions.collection(),
                key.clone(),
                value,
                definitions.epoch,
            );
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

    fn tell_of_ending(&mut self, definitions: &Resource, crd: &Object) {
        let mut status = crd.value()["status"].clone();
        let Some(conditions) = status["conditions"].as_array_mut() else {
            return;
        };
        let condition = json!({
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": rfc3339(self.now),
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        let told = conditions.iter_mut().find(|it| it["type"] == "Terminating");
        match told {
            Some(told) if told["reason"] == condition["reason"] => return,
            Some(told) => *told = condition,
            None => conditions.push(condition),
        }
        self.write_definition_status(definitions, crd.value(), status);
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
