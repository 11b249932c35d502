//! Admission: what may be written where, beside what schemas say.

use serde_json::Value;

use super::{ApiServer, Call};
use crate::registry::Resource;
use crate::status::{Cause, Status};
use crate::store::{GroupResource, Key};

impl ApiServer {
    /// `NamespaceLifecycle`: nothing is created in a namespace that is not there
    /// or on its way out.
    pub(crate) fn admit_namespace(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        if namespace.is_empty() || !resource.namespaced {
            return Ok(());
        }
        let namespaces = GroupResource::new("", "namespaces");
        let Some(object) = self.store.get(&namespaces, &Key::new("", namespace)) else {
            return Err(Status::not_found("", "namespaces", namespace));
        };
        if !object.is_deleting() {
            return Ok(());
        }
        Err(Status::forbidden(
            &resource.group,
            &resource.plural,
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        )
        .with_causes([Cause::new(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        )]))
    }
}

impl ApiServer {
    /// Admission that changes objects.
    pub(crate) fn mutate_admission(
        &mut self,
        resource: &Resource,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if old.is_none() && !resource.is_custom() {
            self.default_limits(resource, object);
            self.admit_new(resource, object)?;
        }
        Ok(())
    }

    /// Admission that refuses.
    pub(crate) fn validate_admission(
        &mut self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.refuse_escalation(call, new, old)?;
        self.check_owners(call, new, old)?;
        self.admit_certificate(call, new, old)?;
        if call.resource.is_custom() || call.target.subresource.is_some() {
            return Ok(());
        }
        self.check_limits(&call.resource, new, old)?;
        self.check_security(&call.resource, new, old)?;
        self.check_others(&call.resource, new, old)
    }
}
