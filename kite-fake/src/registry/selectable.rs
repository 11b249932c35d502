//! Which fields a `fieldSelector` may ask about, kind by kind, and what each
//! is called (the field label conversions of the API packages).

use crate::registry::Resource;
use crate::rest::options::ListOptions;
use crate::status::Status;

/// Gives the selector's paths the names that the objects have for them.
///
/// # Errors
/// 400 for a field that the kind does not offer.
pub(crate) fn convert(resource: &Resource, options: &mut ListOptions) -> Result<(), Status> {
    options.fields.convert(|path| label(resource, path))
}

/// Fields of built-in kinds, beside name and namespace.
pub(super) fn of(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Secret") => &["type"],
        ("", "Namespace") => &["status.phase"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "source",
            "type",
        ],
        _ => &[],
    }
}

fn label(resource: &Resource, path: &str) -> Result<String, Status> {
    let own = resource.selectable_fields.iter().any(|f| f == path);
    // A kind with a conversion of its own may have no namespaces to offer.
    let namespaces =
        resource.namespaced || (!resource.is_custom() && resource.selectable_fields.is_empty());
    match path {
        "metadata.name" => return Ok(path.to_owned()),
        "metadata.namespace" if namespaces => return Ok(path.to_owned()),
        _ if own => return Ok(path.to_owned()),
        // What old clients send.
        "spec.host" if is(resource, "", "Pod") => return Ok("spec.nodeName".to_owned()),
        _ => {}
    }
    Err(Status::bad_request(if is(resource, "batch", "Job") {
        format!("field label {path:?} not supported for batchv1.Job")
    } else if resource.is_custom() || !resource.selectable_fields.is_empty() {
        format!("field label not supported: {path}")
    } else {
        format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }))
}

fn is(resource: &Resource, group: &str, kind: &str) -> bool {
    !resource.is_custom() && resource.group == group && resource.kind == kind
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn asked(group: &str, kind: &str, path: &str) -> Result<String, String> {
        let registry = Registry::built_in();
        let resource = registry.by_kind(group, "v1", kind).unwrap();
        label(resource, path).map_err(|status| status.message)
    }

    #[test]
    fn each_kind_has_its_fields_and_its_words() {
        assert_eq!(asked("", "Pod", "spec.host").unwrap(), "spec.nodeName");
        assert_eq!(
            asked("", "Node", "metadata.namespace").unwrap_err(),
            "field label not supported: metadata.namespace"
        );
        assert!(asked("storage.k8s.io", "StorageClass", "metadata.namespace").is_ok());
        assert_eq!(
            asked("batch", "Job", "spec.x").unwrap_err(),
            "field label \"spec.x\" not supported for batchv1.Job"
        );
        assert_eq!(
            asked("apps", "Deployment", "spec.replicas").unwrap_err(),
            "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert!(asked("events.k8s.io", "Event", "regarding.name").is_ok());
        assert!(asked("events.k8s.io", "Event", "involvedObject.name").is_err());
    }
}
