//! Subresources with a body of their own: scale, eviction, finalize.

use http::Method;
use serde_json::{Value, json};

use super::{ApiServer, Call, Outcome, Produced, body};
use crate::clock::rfc3339;
use crate::registry::Subresource;
use crate::rest::options::DeleteOptions;
use crate::status::{Cause, Status};
use crate::store::Object;

pub(crate) fn done(code: u16, value: Value) -> Outcome {
    Outcome {
        body: Produced::Value(value),
        code,
    }
}

impl ApiServer {
    /// Answers a subresource that is not simply a part of the object; `None`
    /// for those that are.
    pub(crate) fn subresource(&mut self, call: &Call) -> Result<Option<Outcome>, Status> {
        let Some(name) = &call.target.subresource else {
            return Ok(None);
        };
        let Some(subresource) = call.resource.subresource(name).cloned() else {
            // A custom resource says that the object is missing.
            return Err(if call.resource.is_custom() {
                call.not_found()
            } else {
                Status::no_such_resource()
            });
        };
        match subresource {
            Subresource::EphemeralContainers | Subresource::Resize | Subresource::Approval => {
                match call.method {
                    Method::GET | Method::PUT | Method::PATCH => Ok(None),
                    _ => Err(Status::method_not_allowed()),
                }
            }
            Subresource::Status => match call.method {
                Method::POST => Err(Self::unsupported_verb(call, "create")),
                Method::DELETE => Err(Self::unsupported_verb(call, "delete")),
                _ => Ok(None),
            },
            Subresource::Scale(paths) => self.scale(call, &paths).map(Some),
            Subresource::Finalize => match call.method {
                Method::PUT => Ok(None),
                _ => Err(Status::method_not_allowed()),
            },
            Subresource::Token => self.token(call).map(Some),
            Subresource::Eviction => self.evict(call).map(Some),
            Subresource::Binding => self.bind(call).map(Some),
            Subresource::Unsupported { name, .. } => {
                // What would come of it is not there, but who may is known.
                if matches!(name, "attach" | "exec" | "portforward" | "proxy") {
                    self.admit_connection(call)?;
                }
                Err(Status::unsupported(&format!(
                    "{}/{name}: it needs a kubelet or a network",
                    call.resource.plural
                )))
            }
        }
    }

    pub(crate) fn unsupported_verb(call: &Call, verb: &str) -> Status {
        if call.resource.is_custom() {
            Status::verb_not_supported(&call.resource.group, &call.resource.plural, verb)
        } else {
            Status::method_not_allowed()
        }
    }

    /// An eviction is a deletion that a disruption budget may refuse.
    fn evict(&mut self, call: &Call) -> Result<Outcome, Status> {
        if call.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let eviction = body::decode(call)?;
        let dry_run = Self::eviction_options(call, &eviction)?.dry_run;
        let pod = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let eviction = self.admit_below(call, eviction, dry_run)?;
        let mut options = Self::eviction_options(call, &eviction)?;
        self.ask_about_eviction(call, pod.value(), &eviction, options.dry_run)?;
        self.spend_budget(call, &pod, options.dry_run)?;
        if !options.dry_run {
            self.say_disrupted(call, &pod, &mut options);
        }
        self.delete_one(call, &call.key(), &options)?;
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(done(201, success))
    }

    fn eviction_options(call: &Call, eviction: &Value) -> Result<DeleteOptions, Status> {
        let given = &eviction["deleteOptions"];
        DeleteOptions::parse(&call.query, given.is_object().then_some(given))
    }

    /// Says of a Pod why it is about to go, where the deletion will find it as it was seen.
    fn say_disrupted(&mut self, call: &Call, pod: &Object, options: &mut DeleteOptions) {
        let is_seen = |wanted: &Option<String>, field: &str| {
            wanted.as_deref().is_none_or(|it| it == pod.meta(field))
        };
        if !is_seen(&options.uid, "uid") || !is_seen(&options.resource_version, "resourceVersion") {
            return;
        }
        let mut new = pod.value().clone();
        let conditions = &mut new["status"]["conditions"];
        let mut all = conditions.as_array().cloned().unwrap_or_default();
        all.retain(|it| it["type"] != "DisruptionTarget");
        all.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(call.now),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }));
        *conditions = json!(all);
        self.commit(&call.resource, &call.key(), new);
        if options.resource_version.is_some() {
            let now = self.store.get(&call.resource.collection(), &call.key());
            options.resource_version = now.map(|it| it.meta("resourceVersion").to_owned());
        }
    }

    /// Gives a Pod its node, as schedulers do: once, and never another.
    fn bind(&mut self, call: &Call) -> Result<Outcome, Status> {
        if call.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let binding = body::decode(call)?;
        let options = call.write_options("CreateOptions")?;
        let pod = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let conflict = |why: &str| {
            let resource = &call.resource;
            Err(Status::conflict(
                &resource.group,
                &format!("{}/binding", resource.plural),
                call.name(),
                why,
            ))
        };
        named(call, &binding)?;
        let binding = if call.admitted {
            binding
        } else {
            self.admit_below(call, binding, options.dry_run)?
        };
        // Admission may have changed it.
        let node = named(call, &binding)?;
        let uid = &binding["metadata"]["uid"];
        if uid.is_string() && *uid != pod.meta("uid") {
            return conflict("the UID in the binding is not the Pod's");
        }
        if !pod.value()["metadata"]["deletionTimestamp"].is_null() {
            return conflict(&format!(
                "pod {} is being deleted, cannot be assigned to a host",
                call.name()
            ));
        }
        if let Some(present) = pod.value()["spec"]["nodeName"].as_str()
            && !present.is_empty()
        {
            return conflict(&format!(
                "pod {} is already assigned to node {present:?}",
                call.name()
            ));
        }
        let gates = pod.value()["spec"]["schedulingGates"].as_array();
        if gates.is_some_and(|gates| !gates.is_empty()) {
            return conflict(&format!(
                "pod {} has non-empty .spec.schedulingGates",
                call.name()
            ));
        }
        let mut new = pod.value().clone();
        new["spec"]["nodeName"] = json!(node);
        let conditions = &mut new["status"]["conditions"];
        let mut all = conditions.as_array().cloned().unwrap_or_default();
        all.retain(|c| c["type"] != "PodScheduled");
        all.push(json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(call.now),
        }));
        *conditions = json!(all);
        if !options.dry_run {
            self.commit(&call.resource, &call.key(), new);
        }
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(done(201, success))
    }
}
/// The node that a binding names.
fn named<'a>(call: &Call, binding: &'a Value) -> Result<&'a str, Status> {
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        let cause = Cause::new("FieldValueRequired", "Required value", "target.name");
        return Err(Status::invalid("", "Binding", call.name(), vec![cause]));
    }
    Ok(node)
}
