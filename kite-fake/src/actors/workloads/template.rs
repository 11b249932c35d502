//! Pods from templates.

use serde_json::{Value, json};

use super::owned::Owner;
use crate::actors::objects::controller_reference;

/// How a Pod gets its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Naming<'a> {
    /// It has this one.
    Is(&'a str),
    /// The server makes one that begins with the name of the owner.
    OfOwner,
}

/// A new Pod of `owner` from a template, as a body to create.
pub(super) fn pod(owner: Owner<'_>, template: &Value, naming: Naming<'_>) -> Value {
    let meta = &template["metadata"];
    let mut metadata = json!({
        "namespace": owner.object.metadata.namespace,
        "ownerReferences": [controller_reference(owner.kind, owner.object)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if !meta[field].is_null() {
            metadata[field] = meta[field].clone();
        }
    }
    match naming {
        Naming::Is(name) => metadata["name"] = json!(name),
        Naming::OfOwner => {
            let name = owner.object.metadata.name.as_deref().unwrap_or_default();
            metadata["generateName"] = json!(format!("{name}-"));
        }
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}
