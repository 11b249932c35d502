//! The kinds that an API server knows without any definition: their schemas,
//! defaults, validation, update rules and allocations.
//!
//! [`kind`] finds one; [`BuiltIn`] says in which order a request uses its parts.

use std::sync::Arc;

use serde_json::Value;

use crate::fields::Reset;
use crate::schema::{FieldError, Schema, Validation};

/// What allocations need to know of the other objects.
pub trait Env {
    /// Whether a Service has this cluster IP.
    fn cluster_ip_taken(&self, ip: std::net::Ipv4Addr) -> bool;
    /// Whether a Service has this node port (for whatever protocol).
    fn node_port_taken(&self, port: u16) -> bool;
}

/// One built-in kind in one version. The order of a request:
///
/// 1. [`BuiltIn::decode`] the body (400 on error), which also sets defaults;
///    again after a patch or an apply (whose result may hold nulls);
/// 2. `fields::update` or `fields::apply` with [`BuiltIn::empty`] and [`BuiltIn::reset`];
/// 3. [`BuiltIn::prepare_create`] or [`BuiltIn::prepare_update`];
/// 4. [`BuiltIn::validate_create`] or [`BuiltIn::validate_update`] (422), metadata included;
/// 5. [`BuiltIn::allocate`] (422).
pub struct BuiltIn {
    _private: (),
}

impl BuiltIn {
    /// The schema, with descriptions, defaults, merge keys and list types.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::new(Schema::any())
    }

    /// What every new object has before anybody sets anything.
    pub fn empty(&self) -> &Value {
        const EMPTY: &Value = &Value::Null;
        EMPTY
    }

    /// Fields that the endpoint of a subresource (`""` for the object) does not change.
    pub fn reset(&self, subresource: &str) -> Reset {
        let _ = subresource;
        Reset::Nothing
    }

    /// Brings a body into the form in which the server keeps the kind: checks
    /// types, drops empty members and nulls, makes quantities canonical, sets
    /// defaults. The error is what follows `… cannot be handled as a KIND: `.
    pub fn decode(&self, object: &mut Value) -> Result<(), String> {
        let _ = object;
        Ok(())
    }

    /// Sets what only the server sets on a new object, and drops what a client may not (status).
    pub fn prepare_create(&self, object: &mut Value) {
        let _ = object;
    }

    /// The same on an update: restores what the endpoint does not change, and counts `generation`.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, subresource: &str) {
        let _ = (new, old, subresource);
    }

    /// Checks a new object, `metadata` included.
    pub fn validate_create(&self, object: &Value) -> Validation {
        let _ = object;
        Validation::default()
    }

    /// Checks a changed object, `metadata` included.
    pub fn validate_update(&self, new: &Value, old: &Value, subresource: &str) -> Validation {
        let _ = (new, old, subresource);
        Validation::default()
    }

    /// Sets what must be unique in the cluster: a Service's addresses and ports.
    pub fn allocate(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        env: &dyn Env,
    ) -> Result<(), Vec<FieldError>> {
        let _ = (new, old, env);
        Ok(())
    }

    /// A PUT of a missing object creates it.
    pub fn creates_on_update(&self) -> bool {
        false
    }

    /// A PUT may leave `resourceVersion` out.
    pub fn updates_unconditionally(&self) -> bool {
        true
    }
}

/// The rules of a kind, in whichever version; `None` if it is not built in.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static BuiltIn> {
    let _ = (group, version, kind);
    None
}
