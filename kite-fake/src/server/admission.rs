//! Admission: what may be written where, beside what schemas say.

use super::ApiServer;
use super::registry::Resource;
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
        if object.value()["metadata"]["deletionTimestamp"].is_null() {
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
