//! The kinds that an API server knows without any definition: their schemas,
//! defaults, validation, update rules and allocations.
//!
//! [`kind`] finds one; [`BuiltIn`] says in which order a request uses its parts.
//!
//! # What is checked
//!
//! | Kinds | Schema, defaults | Validation |
//! |---|---|---|
//! | `ConfigMap`, Secret, Service, Namespace, Node, `PersistentVolumeClaim`, `VolumeAttachment`, `LimitRange`, `ResourceQuota`, Ingress, `IngressClass`, `NetworkPolicy`, Lease, RBAC, `StorageClass`, `EndpointSlice`, Endpoints, Event, `CertificateSigningRequest`, admission policies, configurations of webhooks, `APIService`, `FlowSchema`, `PriorityLevelConfiguration` | yes | as a real server, with its messages |
//! | Pod, `PodTemplate`, Deployment, `ReplicaSet`, `ReplicationController`, `StatefulSet`, `DaemonSet`, Job, `CronJob`, `HorizontalPodAutoscaler`, `PersistentVolume`, `PodDisruptionBudget` | yes | names, selectors, containers, ports, volumes, enumerations; not every field |
//! | `DeviceClass`, `ResourceClaim`, `ResourceClaimTemplate`, `ResourceSlice` | yes | all but whether expressions compile, and what capacity, counters and conditions of a slice's devices say |
//! | the rest | yes | types and metadata only |
//!
//! On purpose unlike a real server: `EndpointSlice`s and Endpoints may hold loopback
//! addresses, for what runs in a cluster in one process listens there.

mod check;
mod kinds;
mod overlay;
pub(crate) mod quantity;
mod schemas;
mod shape;
mod table;

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::fields::{Reset, Versions};
use crate::metadata;
use crate::names::{NameRule, join_version};
use crate::schema::{FieldError, Schema, Validation};

use crate::members::{copy, number, object_mut, set, text};
use table::Rules;

/// What allocations need to know of the other objects.
pub trait Env {
    /// Whether a Service has this cluster IP.
    fn cluster_ip_taken(&self, ip: Ipv4Addr) -> bool;
    /// Whether a Service has this node port (for whatever protocol).
    fn node_port_taken(&self, port: u16) -> bool;
}

/// One built-in kind in one version. The order of a request:
///
/// 1. [`BuiltIn::decode`] the body (400 on error), which also sets defaults;
///    again after a patch or an apply (whose result may hold nulls);
/// 2. [`crate::fields::update`] or [`crate::fields::apply`] with
///    [`BuiltIn::empty`] and [`BuiltIn::reset`];
/// 3. [`BuiltIn::prepare_create`] or [`BuiltIn::prepare_update`];
/// 4. [`BuiltIn::validate_create`] or [`BuiltIn::validate_update`] (422), metadata included;
/// 5. [`BuiltIn::allocate`] (422).
pub struct BuiltIn {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    rules: Rules,
    schema: OnceLock<Arc<Schema>>,
    versions: Versions,
    empty: OnceLock<Value>,
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} {}", self.group, self.version, self.kind)
    }
}

impl BuiltIn {
    /// The schema, with descriptions, defaults, merge keys and list types. Built
    /// when it is first asked for.
    pub fn schema(&self) -> &Arc<Schema> {
        self.schema.get_or_init(|| {
            schemas::build(self.group, self.version, self.kind)
                .unwrap_or_else(|| Arc::new(Schema::any()))
        })
    }

    /// What every new object has before anybody sets anything.
    pub fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let mut object = json!({});
            // An empty object has nothing of a wrong type.
            let _ = shape::normalize(self.schema(), &mut object);
            if let Value::Object(members) = &mut object {
                members.remove("apiVersion");
                members.remove("kind");
            }
            object
        })
    }

    /// Fields that the endpoint of a subresource (`""` for the object) does not change.
    pub fn reset(&self, subresource: &str) -> Reset {
        if let Some(reset) = self.rules.reset {
            return reset(subresource);
        }
        match subresource {
            "status" => Reset::Members(&["spec"]),
            _ if self.rules.status => Reset::Members(&["status"]),
            _ => Reset::Nothing,
        }
    }

    /// Brings a body into the form in which the server keeps the kind: checks
    /// types, drops empty members and nulls, makes quantities canonical, sets
    /// defaults. Unknown members are dropped.
    ///
    /// # Errors
    /// The decoder's text, which follows `… cannot be handled as a KIND: `.
    pub fn decode(&self, object: &mut Value) -> Result<(), String> {
        shape::normalize(self.schema(), object)?;
        (self.rules.default)(object);
        Ok(())
    }

    /// Brings an object that was stored in another version, or in another group,
    /// into this one.
    pub fn convert(&self, object: &mut Value) {
        let Some(convert) = self.rules.convert else {
            return;
        };
        let version = self.api_version();
        if text(object, "apiVersion") == version {
            return;
        }
        convert(object);
        set(object, "apiVersion", version);
        // What was read before fits its own schema; only presence differs.
        let _ = shape::normalize(self.schema(), object);
    }

    fn is_service(&self) -> bool {
        self.group.is_empty() && self.kind == "Service"
    }

    fn api_version(&self) -> String {
        join_version(self.group, self.version)
    }

    /// The versions of a kind that has several: managers of fields may have used another.
    pub(crate) fn versions(&self) -> Option<&Versions> {
        self.rules.convert.map(|_| &self.versions)
    }

    /// Sets what only the server sets on a new object, and drops what a client may not (status).
    pub fn prepare_create(&self, object: &mut Value) {
        if self.rules.status && !self.rules.born_with_status {
            copy(object, self.empty(), "status");
        }
        (self.rules.prepare_create)(object);
        if !self.rules.generation.is_empty() {
            set(object_mut(object, "metadata"), "generation", 1);
        }
    }

    /// Keeps of a new state what one of a Pod's subresources may change, and of all else
    /// the old one.
    pub(crate) fn keep_to(&self, new: &mut Value, old: &Value, subresource: &str) {
        if self.group.is_empty() && self.kind == "Pod" {
            kinds::pod_changes::prepare(new, old, subresource);
        }
    }

    /// The same on an update: restores what the endpoint does not change, and counts `generation`.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, subresource: &str) {
        if subresource == "status" {
            let others: Vec<String> = new
                .as_object()
                .into_iter()
                .chain(old.as_object())
                .flat_map(serde_json::Map::keys)
                .filter(|name| {
                    !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")
                })
                .cloned()
                .collect();
            for name in others {
                copy(new, old, &name);
            }
        } else if self.rules.status && subresource != "approval" {
            copy(new, old, "status");
        }
        (self.rules.prepare_update)(new, old, subresource);
        if self.rules.generation.is_empty() {
            return;
        }
        let before = number(&old["metadata"], "generation").unwrap_or(1);
        let changed = self
            .rules
            .generation
            .iter()
            .any(|member| new.get(*member) != old.get(*member));
        // A Deployment counts its annotations, too, but where its controller writes them.
        let (now, was) = (&new["metadata"], &old["metadata"]);
        let changed = changed
            || self.group == "apps"
                && self.kind == "Deployment"
                && subresource != "status"
                && now["annotations"] != was["annotations"];
        let generation = before + i64::from(changed);
        set(object_mut(new, "metadata"), "generation", generation);
    }

    /// Checks a new object, `metadata` included.
    pub fn validate_create(&self, object: &Value) -> Validation {
        let mut found = Validation {
            errors: metadata::validate(object, self.rules.namespaced, self.rules.name),
            ..Validation::default()
        };
        metadata::built_in_finalizers(object, &mut found.errors);
        (self.rules.validate)(object, &mut found);
        (self.rules.validate_new)(object, &mut found);
        settled(found)
    }

    /// Checks a changed object, `metadata` included. The server checks metadata
    /// more than once, and names some problems as often.
    pub fn validate_update(&self, new: &Value, old: &Value, subresource: &str) -> Validation {
        let mut found = Validation::default();
        let errors = &mut found.errors;
        if self.is_service() && subresource.is_empty() {
            errors.extend(kinds::families::refused(new, old));
            if !errors.is_empty() {
                return found;
            }
        }
        errors.extend(metadata::validate(
            new,
            self.rules.namespaced,
            NameRule::PathSegment,
        ));
        errors.extend(metadata::validate_update(new, old));
        errors.extend(metadata::validate_update(new, old));
        if subresource == "status" {
            (self.rules.validate_status)(new, old, &mut found);
        } else {
            errors.extend(metadata::validate(
                new,
                self.rules.namespaced,
                self.rules.name,
            ));
            metadata::built_in_finalizers(new, errors);
            match subresource {
                "ephemeralcontainers" => {
                    kinds::pod_changes::validate_ephemeral(new, old, &mut found);
                }
                "resize" => kinds::pod_changes::validate_resize(new, old, &mut found),
                "approval" => kinds::certificates::validate_approval(new, old, &mut found),
                _ => (self.rules.validate_update)(new, old, &mut found),
            }
            (self.rules.validate)(new, &mut found);
        }
        settled(found)
    }

    /// Sets what must be unique in the cluster: a Service's addresses and ports.
    ///
    /// # Errors
    /// What is wrong with the wanted address or port.
    pub fn allocate(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        env: &dyn Env,
    ) -> Result<(), Vec<FieldError>> {
        if self.is_service() {
            return kinds::allocation::allocate(new, old, env);
        }
        Ok(())
    }

    /// A PUT of a missing object creates it.
    pub fn creates_on_update(&self) -> bool {
        self.rules.create_on_update
    }

    /// A PUT may leave `resourceVersion` out.
    pub fn updates_unconditionally(&self) -> bool {
        self.rules.unconditional
    }
}

/// The JSON schema of a kind for published documents: the type's name, and the
/// schema with what it refers to in `$defs`.
pub fn json_schema(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    schemas::json(group, version, kind)
}

pub(crate) use kinds::certificates::{date_conditions, organizations};

/// Whether a label selector takes an object with these labels.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    kinds::workload::selects(selector, labels)
}

/// Has a new Pod tolerate a lost node for a while.
pub(crate) fn tolerate_lost_nodes(pod: &mut Value) {
    kinds::pod::tolerate_lost_nodes(pod);
}

/// The quality of service of a Pod with this specification.
pub(crate) fn quality(spec: &Value) -> &'static str {
    kinds::pod::quality(spec)
}

/// Warnings are for what is accepted.
fn settled(mut found: Validation) -> Validation {
    if !found.errors.is_empty() {
        found.warnings.clear();
    }
    found
}

/// The rules of a kind in a version; `None` if it is not built in.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static BuiltIn> {
    table::KINDS
        .iter()
        .find(|entry| entry.kind == kind && entry.group == group && entry.version == version)
}

/// The schema of a kind that has several versions in one of them.
fn schema_in(name: &str, api_version: &str) -> Option<&'static Arc<Schema>> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let found = kind(group, version, name)?;
    found.rules.convert?;
    Some(found.schema())
}

/// An object of a built-in kind in another version of it; as it is, if there is none.
pub(crate) fn in_version(object: &Value, api_version: &str) -> Value {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let mut object = object.clone();
    if let Some(found) = kind(group, version, text(&object, "kind")) {
        found.convert(&mut object);
    }
    object
}

/// Brings the `metadata` of a custom resource into the form in which the server
/// keeps it; the rest is left alone.
///
/// # Errors
/// The decoder's text about a member of a wrong type.
pub fn normalize_metadata(object: &mut Value) -> Result<(), String> {
    static ROOT: OnceLock<Schema> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let described = schema("", "v1", "ConfigMap");
        let metadata = described.and_then(|map| map.properties.get("metadata").cloned());
        Schema {
            kind: crate::schema::Kind::Object,
            properties: metadata
                .map(|schema| ("metadata".to_owned(), schema))
                .into_iter()
                .collect(),
            ..Schema::any()
        }
    });
    shape::normalize(root, object)
}

/// Whether a kind is left out, because the types that this is built with lack it.
pub(crate) fn is_later(group: &str, version: &str, name: &str) -> bool {
    name.starts_with("MutatingAdmissionPolicy") && !schemas::has(group, version, name)
}

/// The schema of a kind; `None` if it is not built in.
pub fn schema(group: &str, version: &str, name: &str) -> Option<Arc<Schema>> {
    kind(group, version, name).map(|kind| Arc::clone(kind.schema()))
}

#[cfg(test)]
mod tests;
