//! Delete and deletecollection.

use serde_json::{Value, json};

use super::graceful::{Grace, grace, set_deadline};
use super::{Answer, ApiServer, Call, Outcome, Produced, hooks, respond};
use crate::clock::rfc3339;
use crate::rest::options::{DeleteOptions, ListOptions, Propagation};
use crate::schema::crd::CLEANUP_FINALIZER;
use crate::status::Status;
use crate::store::{Key, Object, Stored};

/// Finalizer that keeps an object until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer that keeps an object until its dependents are let go.
const ORPHAN: &str = "orphan";

/// What a deletion did.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; its last state.
    Gone(Object),
    /// It waits for finalizers.
    Waiting(Object),
}

impl ApiServer {
    /// DELETE of one object.
    pub(crate) fn delete(&mut self, call: &Call) -> Result<Outcome, Status> {
        refuse_immortal(call)?;
        let options = Self::delete_options(call)?;
        let key = call.key();
        self.warn_of_orphans(call, &options);
        let mut code = 200;
        let body = match self.delete_one(call, &key, &options)? {
            Deleted::Waiting(object) => {
                if options.cascades {
                    code = 202;
                }
                Produced::Object(object)
            }
            Deleted::Gone(object) if returns_object(call) => Produced::Object(object),
            Deleted::Gone(object) => Produced::Status(Status::deleted(
                &call.resource.group,
                &call.resource.plural,
                &key.name,
                object.meta("uid"),
            )),
        };
        Ok(Outcome { body, code })
    }

    /// Who deletes a Job without a policy leaves its Pods behind.
    fn warn_of_orphans(&mut self, call: &Call, options: &DeleteOptions) {
        let job = call.resource.group == "batch" && call.resource.kind == "Job";
        if job && options.propagation.is_none() {
            self.warnings.push(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
                    .to_owned(),
            );
        }
    }

    /// DELETE of a collection: a list of what was there.
    pub(crate) fn delete_collection(&mut self, call: &Call) -> Result<Answer, Status> {
        if !call.resource.verbs.contains(&"deletecollection") {
            return Err(Status::method_not_allowed());
        }
        let mut selection = ListOptions::parse(&call.query, false)?;
        crate::registry::selectable::convert(&call.resource, &mut selection)?;
        let options = Self::delete_options(call)?;
        self.warn_of_orphans(call, &options);
        let list = self.list(call, &selection)?;
        self.admit_deletions(call, &list.items, &options)?;
        for object in &list.items {
            let key = Key::new(object.meta("namespace"), object.meta("name"));
            match self.delete_one(call, &key, &options) {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        Ok(Answer::Response(respond::list(call, &list)?))
    }

    pub(crate) fn delete_one(
        &mut self,
        call: &Call,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let resource = &call.resource;
        let collection = resource.collection();
        let live = self
            .store
            .get(&collection, key)
            .ok_or_else(|| Status::not_found(&resource.group, &resource.plural, &key.name))?
            .clone();
        let conflict =
            |why: String| Status::conflict(&resource.group, &resource.kind, &key.name, &why);
        if let Some(uid) = &options.uid
            && uid != live.meta("uid")
        {
            return Err(conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                live.meta("uid")
            )));
        }
        if let Some(version) = &options.resource_version
            && version != live.meta("resourceVersion")
        {
            return Err(conflict(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                live.meta("resourceVersion")
            )));
        }
        let seen = self.seen(resource, &live)?;
        let mut value = seen.to_value();
        let grace = grace(resource, &value, options.grace_seconds);
        // It has been asked about, and goes.
        if grace == Some(Grace::Pending) {
            return Ok(Deleted::Waiting(seen));
        }
        // An eviction was asked about as such.
        if call.target.subresource.is_none() {
            self.admit_deletion(call, &seen, options, true)?;
        }
        let marked = mark(&mut value, options, call, grace);
        let held = is_held(&value);
        if !held {
            let mut last = seen;
            if grace.is_some() {
                // Its end is announced before it comes.
                last = Stored::transient(value.clone(), live.revision(), resource.epoch);
            }
            if !options.dry_run {
                if grace.is_some() {
                    last = self.commit(resource, key, value);
                }
                self.remove(resource, key);
            }
            return Ok(Deleted::Gone(last));
        }
        if !marked {
            return Ok(Deleted::Waiting(seen));
        }
        let object = if options.dry_run {
            Stored::transient(value, live.revision(), resource.epoch)
        } else if let Some(form) = self.form(call, &mut value, live.size())? {
            self.commit_form(resource, key, form)
        } else {
            self.commit(resource, key, value)
        };
        Ok(Deleted::Waiting(object))
    }
}

impl ApiServer {
    /// Asks policies and webhooks about a deletion; where `policies` is false, only those
    /// whose answers take a while.
    fn admit_deletion(
        &mut self,
        call: &Call,
        seen: &Object,
        options: &DeleteOptions,
        policies: bool,
    ) -> Result<(), Status> {
        let hooked = self.has_hooks();
        let seconds = match grace(&call.resource, seen.value(), options.grace_seconds) {
            Some(Grace::Seconds(seconds)) if hooked => Some(seconds),
            _ => None,
        };
        let deletion = hooks::Write {
            call,
            operation: "DELETE",
            name: call.name(),
            options: hooks::Options::Delete(options, seconds),
            dry_run: options.dry_run,
            old: Some(seen.value()),
        };
        if hooked {
            self.mutate_by_hooks(&deletion, None)?;
        }
        if policies {
            self.ask_policies(call, "DELETE", None, Some(seen.value()))?;
        }
        if hooked {
            self.validate_by_hooks(&deletion, None)?;
        }
        Ok(())
    }

    /// Has webhooks asked about all objects of a collection before the first one goes:
    /// a request that asks must have had no effect.
    fn admit_deletions(
        &mut self,
        call: &Call,
        objects: &[Object],
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        if !self.has_hooks() && call.resource.conversion.is_none() {
            return Ok(());
        }
        let warned = self.warnings.len();
        let mut asking = Ok(());
        for object in objects {
            if let Err(status) = self.foresee_deletion(call, object, options) {
                if !self.is_asking() {
                    // Nothing after it is deleted.
                    break;
                }
                asking = Err(status);
            }
        }
        self.warnings.truncate(warned);
        asking
    }

    /// Asks all that is asked when an object is deleted.
    fn foresee_deletion(
        &mut self,
        call: &Call,
        object: &Object,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let key = Key::new(object.meta("namespace"), object.meta("name"));
        let live = self.store.get(&call.resource.collection(), &key).cloned();
        let Some(live) = live else {
            return Ok(());
        };
        let seen = self.seen(&call.resource, &live)?;
        let mut value = seen.to_value();
        if grace(&call.resource, &value, options.grace_seconds) == Some(Grace::Pending) {
            return Ok(());
        }
        self.admit_deletion(call, &seen, options, false)?;
        if call.resource.conversion.is_some()
            && mark(&mut value, options, call, None)
            && is_held(&value)
        {
            self.form(call, &mut value, live.size())?;
        }
        Ok(())
    }
}

/// What the server never gives up: namespaces (`NamespaceLifecycle`), and the priority
/// classes of the system, one by one.
fn refuse_immortal(call: &Call) -> Result<(), Status> {
    let immortal = ["default", "kube-system", "kube-public"];
    if !call.resource.is_custom()
        && call.resource.kind == "Namespace"
        && immortal.contains(&call.name())
    {
        return Err(Status::forbidden(
            "",
            "namespaces",
            call.name(),
            "this namespace may not be deleted",
        ));
    }
    let classes = ["system-node-critical", "system-cluster-critical"];
    if call.resource.group == "scheduling.k8s.io" && classes.contains(&call.name()) {
        return Err(Status::forbidden(
            &call.resource.group,
            &call.resource.plural,
            call.name(),
            "this is a system priority class and cannot be deleted",
        ));
    }
    Ok(())
}

/// Whether finalizers (a namespace's own included), or the time that it has
/// to end, keep the object.
pub(super) fn is_held(value: &Value) -> bool {
    let some = |list: &Value| list.as_array().is_some_and(|l| !l.is_empty());
    let ending = value["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds > 0);
    ending
        || some(&value["metadata"]["finalizers"])
        || (value["kind"] == "Namespace"
            && value["apiVersion"] == "v1"
            && some(&value["spec"]["finalizers"]))
}

/// Sets what a deletion sets; tells whether anything changed.
fn mark(value: &mut Value, options: &DeleteOptions, call: &Call, grace: Option<Grace>) -> bool {
    let namespace = call.resource.kind == "Namespace";
    let before = value.clone();
    let deleting = !value["metadata"]["deletionTimestamp"].is_null();
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
        return false;
    };
    let finalizers = collected(metadata.get("finalizers"), options, call);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
    if let Some(Grace::Seconds(seconds)) = grace {
        set_deadline(metadata, seconds, call.now);
    }
    if !deleting {
        if grace.is_none() {
            metadata.insert("deletionTimestamp".into(), rfc3339(call.now).into());
            if !namespace {
                metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
            }
        }
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
            && generation > 0
        {
            metadata.insert("generation".into(), json!(generation + 1));
        }
    }
    if call.resource.kind == "CustomResourceDefinition" && !call.resource.is_custom() && !deleting {
        mark_definition(value, call);
    }
    if namespace && !deleting {
        value["status"]["phase"] = "Terminating".into();
    }
    *value != before
}

/// The finalizers that an object is deleted with: the policy of the request
/// decides which of the collector's stand, else those that are there already, else
/// what is usual for the kind.
fn collected(present: Option<&Value>, options: &DeleteOptions, call: &Call) -> Vec<Value> {
    let present = present
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let resource = &call.resource;
    let orphaning = matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("", "ReplicationController") | ("batch", "Job")
    );
    let ours = |f: &Value| f == FOREGROUND || f == ORPHAN;
    let wanted = match options.propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Background) => None,
        None if present.iter().any(ours) => return present,
        None => orphaning.then_some(ORPHAN),
    };
    let mut finalizers = present.clone();
    finalizers.retain(|f| !ours(f));
    finalizers.extend(wanted.map(Value::from));
    // The order changes only together with the set.
    if finalizers.len() == present.len() && finalizers.iter().all(|f| present.contains(f)) {
        return present;
    }
    finalizers
}

/// A definition waits for its objects.
fn mark_definition(value: &mut Value, call: &Call) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("deletionGracePeriodSeconds");
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = finalizers.as_array_mut()
            && !list.iter().any(|f| f == CLEANUP_FINALIZER)
        {
            list.push(CLEANUP_FINALIZER.into());
        }
    }
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": rfc3339(call.now),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    if let Some(conditions) = value["status"]["conditions"].as_array_mut() {
        conditions.retain(|c| c["type"] != "Terminating");
        conditions.push(condition);
    }
}

/// Types whose deletion answers the object instead of a `Status`
/// (`ReturnDeletedObject` of their registries).
fn returns_object(call: &Call) -> bool {
    matches!(
        (call.resource.group.as_str(), call.resource.kind.as_str()),
        (
            "",
            "Service"
                | "ServiceAccount"
                | "Pod"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "PodTemplate"
                | "ResourceQuota"
        ) | (
            "storage.k8s.io",
            "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment"
        )
    )
}
