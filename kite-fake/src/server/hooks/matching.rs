//! Which webhooks are asked about a write, and in which version of the resource.

use std::sync::Arc;

use serde_json::Value;

use super::config::Hook;
use super::{Status, Write};
use crate::registry::Resource;
use crate::server::ApiServer;
use crate::server::policies::{self, selects};
use crate::store::{GroupResource, Key};

impl ApiServer {
    /// The version of the resource in which a webhook is asked about a write, if it is.
    pub(super) fn matched(
        &mut self,
        hook: &Hook,
        write: &Write<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let in_namespace = self.selects_namespace(hook, write, object);
        if in_namespace == Ok(false) || !selects_object(hook, write, object) {
            return Ok(None);
        }
        let Some(matched) = self.ruled(hook, write) else {
            return Ok(None);
        };
        in_namespace?;
        let holds = hook.match_conditions.is_empty()
            || self.conditions_hold(hook, write, &matched, object)?;
        Ok(holds.then_some(matched))
    }

    fn ruled(&self, hook: &Hook, write: &Write<'_>) -> Option<Arc<Resource>> {
        let (asked, below) = (&write.call.resource, write.subresource());
        let about = |resource: &Resource| {
            let mut rules = hook.rules.iter();
            rules.any(|rule| rule.is_about(write.operation, resource, below))
        };
        if about(asked) {
            return Some(Arc::clone(asked));
        }
        if !hook.takes_equivalents() {
            return None;
        }
        let equivalents = self.equivalents(write.call);
        // Earlier rules count first.
        hook.rules.iter().find_map(|rule| {
            let mut others = equivalents.iter();
            let found = others.find(|other| rule.is_about(write.operation, other, below));
            found.map(Arc::clone)
        })
    }

    fn selects_namespace(
        &self,
        hook: &Hook,
        write: &Write<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let name = write.namespace();
        let of_namespaces = write.call.resource.plural == "namespaces";
        if is_empty(&hook.namespace_selector) || (name.is_empty() && !of_namespaces) {
            return Ok(true);
        }
        if of_namespaces
            && write.subresource().is_empty()
            && matches!(write.operation, "CREATE" | "UPDATE")
        {
            let labels = object.map_or(&Value::Null, |object| &object["metadata"]["labels"]);
            return Ok(selects(&hook.namespace_selector, labels));
        }
        let namespaces = GroupResource::new("", "namespaces");
        match self.store.get(&namespaces, &Key::new("", name)) {
            Some(namespace) => Ok(selects(
                &hook.namespace_selector,
                &namespace.value()["metadata"]["labels"],
            )),
            None => Err(Status::not_found("", "namespaces", name)),
        }
    }

    fn conditions_hold(
        &mut self,
        hook: &Hook,
        write: &Write<'_>,
        matched: &Arc<Resource>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let call = write.call;
        let (object, old) = (
            self.shown_as(matched, call, object)?,
            self.shown_as(matched, call, write.old)?,
        );
        let seen = policies::Write {
            call,
            resource: Arc::clone(matched),
            operation: write.operation,
            object: object.as_deref(),
            old: old.as_deref(),
            namespace: Value::Null,
        };
        match seen.conditions(&self.store, &hook.match_conditions) {
            Ok(holds) => Ok(holds),
            // Where there is no language for conditions, nobody knows whether they hold.
            Err(_) if hook.fails_open() && cfg!(feature = "cel") => Ok(false),
            Err(why) => {
                let resource = &call.resource;
                Err(Status::forbidden(
                    &resource.group,
                    &resource.plural,
                    write.name,
                    &why,
                ))
            }
        }
    }
}

fn selects_object(hook: &Hook, write: &Write<'_>, object: Option<&Value>) -> bool {
    let selected = |object: Option<&Value>| {
        object.is_some_and(|object| selects(&hook.object_selector, &object["metadata"]["labels"]))
    };
    is_empty(&hook.object_selector) || selected(object) || selected(write.old)
}

/// Whether a selector selects everything.
fn is_empty(selector: &Value) -> bool {
    selector["matchLabels"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
        && selector["matchExpressions"]
            .as_array()
            .is_none_or(Vec::is_empty)
}
