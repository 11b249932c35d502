//! Update.

use serde_json::{Value, json};

use super::conversion::Form;
use super::create::{check_namespace, metadata_mut, text};
use super::rules::{self, Rules};
use super::{ApiServer, Call, Outcome, Produced, body, certificates, hooks, size};
use crate::fields::same_but_for_times;
use crate::metadata;
use crate::registry::Resource;
use crate::rest::options::WriteOptions;
use crate::schema::Held;
use crate::status::{Cause, Status};
use crate::store::{Key, Object, Stored};

/// Members of `metadata` that stay where a client leaves them out.
const KEPT: &[&str] = &["uid", "namespace", "deletionGracePeriodSeconds"];

impl ApiServer {
    /// PUT of an object or a subresource.
    pub(crate) fn put(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("UpdateOptions")?;
        let sent = body::decode(call)?;
        let outline = body::outline(call, &sent);
        body::check_type(call, &sent)?;
        let sent = body::fill_type(&call.resource, sent);
        let mut decoded = rules::decode(&call.resource, sent, &outline, &options, None)?;
        self.warnings.extend(decoded.warnings);
        self.warnings
            .extend(metadata::dedup_owners(&mut decoded.value, false));
        body::check_name(call, &decoded.value)?;
        check_namespace(call, &decoded.value)?;
        let live = self
            .store
            .get(&call.resource.collection(), &call.key())
            .cloned();
        let Some(live) = live else {
            if call.target.subresource.is_some() || !Rules::of(&call.resource).creates_on_update() {
                return Err(call.not_found());
            }
            let object = rules::track(call, &options, None, decoded.value);
            let object = self.create_object(call, object, &options)?;
            return Ok(Outcome {
                body: Produced::Object(object),
                code: 201,
            });
        };
        let uid = decoded.value["metadata"]["uid"]
            .as_str()
            .unwrap_or_default();
        if !uid.is_empty() && uid != live.meta("uid") {
            return Err(Self::uid_conflict(call, uid, live.meta("uid")));
        }
        let old = self.seen(&call.resource, &live)?.fresh();
        let new = rules::track(call, &options, Some(old.value()), decoded.value);
        let object = self.write(call, &old, new, &options)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 200,
        })
    }

    /// The storage layer's words for a uid that does not fit.
    pub(crate) fn uid_conflict(call: &Call, given: &str, live: &str) -> Status {
        let resource = &call.resource;
        let key = call.key();
        let mut path = format!("/registry/{}", prefix(resource));
        if !key.namespace.is_empty() {
            path.push('/');
            path.push_str(&key.namespace);
        }
        Status::conflict(
            &resource.group,
            &resource.plural,
            &key.name,
            &format!(
                "StorageError: invalid object, Code: 4, Key: {path}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {live}",
                key.name
            ),
        )
    }

    /// Stores a new state of an object, if it is one. `new` has been decoded,
    /// defaulted and tracked; the second value is what to warn of.
    pub(crate) fn write(
        &mut self,
        call: &Call,
        old: &Object,
        mut new: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let resource = call.resource.clone();
        let rules = Rules::of(&resource);
        if !call.admitted {
            self.mutate_by_policies(call, "UPDATE", &mut new, Some(old.value()))?;
        }
        let asks = self.has_hooks() && !call.admitted;
        let update = || hooks::Write {
            call,
            operation: "UPDATE",
            name: call.name(),
            options: hooks::Options::Write("UpdateOptions"),
            dry_run: options.dry_run,
            old: Some(old.value()),
        };
        if asks {
            let changed = self.mutate_by_hooks(&update(), Some(new))?;
            new = changed.unwrap_or_default();
            self.warnings.extend(metadata::dedup_owners(&mut new, true));
        }
        check_version(call, &rules, old, &mut new)?;
        let before = &old.value()["metadata"];
        let metadata = metadata_mut(&mut new)?;
        for field in KEPT {
            if !metadata.contains_key(*field)
                && let Some(value) = before.get(*field)
            {
                metadata.insert((*field).into(), value.clone());
            }
        }
        for field in [
            "creationTimestamp",
            "generation",
            "resourceVersion",
            "selfLink",
        ] {
            match before.get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        }
        // Nothing but a deletion sets this, and nothing takes it back.
        if let Some(value) = before.get("deletionTimestamp") {
            metadata.insert("deletionTimestamp".into(), value.clone());
        }
        if !resource.namespaced {
            metadata.remove("namespace");
        }
        let subresource = call.target.subresource.as_deref().unwrap_or_default();
        rules.prepare_update(&resource, &mut new, old.value(), subresource);
        certificates::date(call, &mut new, old.value());
        self.mutate_admission(&resource, &mut new, Some(old.value()))?;
        // Of what was stored under another edition of the schema nothing is known.
        let held = if old.epoch() == resource.epoch {
            old.held()
        } else {
            Held::Unknown
        };
        let found = rules.validate_update(&resource, &new, old.value(), held, subresource);
        if found.errors.is_empty() || resource.is_custom() {
            self.warnings.extend(found.warnings);
        }
        let held = found.held;
        rules::refuse(&resource, call.name(), found.errors)?;
        self.validate_admission(call, &new, Some(old.value()))?;
        // Whoever is asked sees what the Service will have.
        self.allocate(&resource, call.name(), &mut new, Some(old.value()))?;
        if !call.admitted {
            self.ask_policies(call, "UPDATE", Some(&new), Some(old.value()))?;
        }
        if asks {
            self.validate_by_hooks(&update(), Some(&new))?;
        }
        self.ask_webhooks(call, &new, Some(old.value()))?;
        let form = self.form(call, &mut new, old.json().len())?;
        self.charge_quota(&resource, &new, Some(old.value()), options.dry_run)?;
        let released = is_released(&new, old.value());
        let key = call.key();
        if !released
            && same_but_for_times(old.value(), &new)
            && self.is_stored_as(&resource, &key, &new, form.as_ref())
        {
            return Ok(old.clone());
        }
        if options.dry_run || released {
            if !options.dry_run {
                self.remove(&resource, &key);
            }
            let object = Stored::transient(new, old.revision(), resource.epoch);
            return Ok(object);
        }
        let alone = !(asks || self.has_mutations());
        size::check(call, &mut new, alone.then(|| old.json().len()))?;
        let object = match form {
            Some(form) => self.commit_form(&resource, &key, form),
            None => self.commit(&resource, &key, new),
        };
        object.hold(held);
        Ok(object)
    }
}

impl ApiServer {
    /// Whether the store would have the same text after a write of `new`. What
    /// was stored under an older definition lacks its new defaults, or is in
    /// another version, although it is shown as it would be now.
    fn is_stored_as(
        &self,
        resource: &Resource,
        key: &Key,
        new: &Value,
        form: Option<&Form>,
    ) -> bool {
        let collection = resource.collection();
        let Some(stored) = self.store.get(&collection, key) else {
            return false;
        };
        if let Some(form) = form {
            return same_but_for_times(&stored.to_value(), form.stored());
        }
        if stored.epoch() == resource.epoch {
            return true;
        }
        let stored = stored.to_value();
        match self.registry.storage(&collection) {
            Some(storage) if storage.version != resource.version => {
                same_but_for_times(&stored, &super::rules::convert(storage, new.clone()))
            }
            _ => same_but_for_times(&stored, new),
        }
    }
}

/// Where etcd has the objects of a resource, below `/registry/`.
fn prefix(resource: &Resource) -> String {
    let own = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "replicationcontrollers") => "controllers",
        ("", "endpoints") => "services/endpoints",
        ("", "services") => "services/specs",
        ("", "nodes") => "minions",
        ("networking.k8s.io", "ingresses") => "ingress",
        (_, plural) => plural,
    };
    // Custom resources and what other servers registered have their group in it.
    let grouped = resource.is_custom()
        || matches!(
            resource.group.as_str(),
            "apiextensions.k8s.io" | "apiregistration.k8s.io"
        );
    if grouped {
        format!("{}/{own}", resource.group)
    } else {
        own.to_owned()
    }
}

/// Whether the last thing that kept a deleted object is gone with this write.
fn is_released(new: &Value, old: &Value) -> bool {
    let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let held = |v: &Value| {
        !none(&v["metadata"]["finalizers"])
            || (v["kind"] == "Namespace"
                && v["apiVersion"] == "v1"
                && !none(&v["spec"]["finalizers"]))
    };
    let grace = old["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    !old["metadata"]["deletionTimestamp"].is_null() && grace == 0 && !held(new)
}

/// Optimistic concurrency: the resourceVersion must be the live one, where one
/// is given or the kind demands one.
fn check_version(call: &Call, rules: &Rules, old: &Object, new: &mut Value) -> Result<(), Status> {
    let resource = &call.resource;
    let given = text(metadata_mut(new)?, "resourceVersion").to_owned();
    if !given.is_empty() && given.parse::<u64>().is_err() {
        return Err(Status::internal(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            json!(given)
        )));
    }
    if given.is_empty() || given == "0" {
        if rules.updates_unconditionally() || call.method != http::Method::PUT {
            return Ok(());
        }
        return Err(Status::invalid(
            &resource.group,
            &resource.plural,
            call.name(),
            vec![Cause::new(
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                "metadata.resourceVersion",
            )],
        ));
    }
    if given != old.meta("resourceVersion") {
        return Err(Status::modified(
            &resource.group,
            &resource.plural,
            call.name(),
        ));
    }
    Ok(())
}
