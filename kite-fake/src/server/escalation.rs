//! Nobody writes roles or bindings that give more than they hold
//! (`pkg/registry/rbac/*/policybased`).

use serde_json::{Value, json};

use super::{ApiServer, Call};
use crate::auth::{self, Attributes};
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{GroupResource, Key};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether an update touches only what a garbage collector changes.
fn is_collection(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for member in [
                "finalizers",
                "managedFields",
                "ownerReferences",
                "resourceVersion",
            ] {
                metadata.remove(member);
            }
        }
        object
    };
    rest(new) == rest(old)
}

impl ApiServer {
    /// Refuses to give away rights that the user does not hold.
    pub(crate) fn refuse_escalation(
        &self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = &call.resource;
        if !self.rbac || resource.group != RBAC || call.identity.is_master() {
            return Ok(());
        }
        if old.is_some_and(|old| is_collection(new, old)) {
            return Ok(());
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let rules = if resource.kind.ends_with("Binding") {
            if self.may_bind(call, new) {
                return Ok(());
            }
            self.rules_of_role(call, new)?
        } else {
            let escalate = Self::own_wish(call, resource, "escalate");
            if self.decide(&call.identity, &escalate).allowed {
                return Ok(());
            }
            new["rules"].as_array().cloned().unwrap_or_default()
        };
        self.refuse_more(call, name, &rules)?;
        if new["aggregationRule"].is_object() {
            // What it will gather cannot be told.
            let everything = [
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            ];
            if self.refuse_more(call, name, &everything).is_err() {
                return Err(Status::forbidden(
                    RBAC,
                    &resource.plural,
                    name,
                    "must have cluster-admin privileges to use an aggregationRule",
                ));
            }
        }
        Ok(())
    }

    fn refuse_more(&self, call: &Call, name: &str, rules: &[Value]) -> Result<(), Status> {
        let missing = auth::missing_rights(&self.store, &call.identity, call.namespace(), rules);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = call
            .identity
            .groups
            .iter()
            .map(|g| format!("{g:?}"))
            .collect();
        let mut lines: Vec<String> = missing.iter().map(auth::rule_text).collect();
        lines.sort();
        lines.dedup();
        Err(Status::forbidden(
            RBAC,
            &call.resource.plural,
            name,
            &format!(
                "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
                call.identity.name,
                groups.join(" "),
                lines.join("\n")
            ),
        ))
    }

    /// A right on what the path names: a new object has no name there.
    fn own_wish(call: &Call, resource: &Resource, verb: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            group: RBAC.into(),
            resource: resource.plural.clone(),
            name: call.name().into(),
            namespace: call.namespace().into(),
            ..Attributes::default()
        }
    }

    fn may_bind(&self, call: &Call, binding: &Value) -> bool {
        let role = &binding["roleRef"];
        let cluster = role["kind"] == "ClusterRole";
        let wanted = Attributes {
            verb: "bind".into(),
            group: RBAC.into(),
            resource: if cluster { "clusterroles" } else { "roles" }.into(),
            name: role["name"].as_str().unwrap_or_default().into(),
            namespace: call.namespace().into(),
            ..Attributes::default()
        };
        self.decide(&call.identity, &wanted).allowed
    }

    /// The rules that a binding would give.
    fn rules_of_role(&self, call: &Call, binding: &Value) -> Result<Vec<Value>, Status> {
        let role = &binding["roleRef"];
        let name = role["name"].as_str().unwrap_or_default();
        let (plural, namespace) = if role["kind"] == "ClusterRole" {
            ("clusterroles", "")
        } else {
            ("roles", call.namespace())
        };
        self.store
            .get(
                &GroupResource::new(RBAC, plural),
                &Key::new(namespace, name),
            )
            .map(|o| o.value()["rules"].as_array().cloned().unwrap_or_default())
            .ok_or_else(|| Status::not_found(RBAC, &call.resource.plural, name))
    }
}
