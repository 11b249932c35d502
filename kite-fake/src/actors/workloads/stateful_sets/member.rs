//! The Pods of a `StatefulSet`: each has a number, by which it has a name and its claims.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::workloads::owned::Owner;
use crate::actors::workloads::revisions::{HASH, Revision};
use crate::actors::workloads::template::{self, Naming};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The number of a Pod of the set `of`, if it is one by its name.
pub(super) fn ordinal(of: &str, pod: &DynamicObject) -> Option<i64> {
    let name = pod.metadata.name.as_deref()?;
    let (set, number) = name.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    (set == of && is_number).then(|| number.parse().ok())?
}

/// Which revision a Pod is of.
pub(super) fn revision(pod: &DynamicObject) -> &str {
    let label = pod.metadata.labels.as_ref().and_then(|it| it.get(HASH));
    label.map_or("", String::as_str)
}

fn set_name(owner: Owner<'_>) -> &str {
    owner.object.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn name(owner: Owner<'_>, ordinal: i64) -> String {
    format!("{}-{ordinal}", set_name(owner))
}

/// A new Pod of the set.
pub(super) fn pod(owner: Owner<'_>, of: &Revision, ordinal: i64) -> Value {
    let spec = &owner.object.data["spec"];
    let name = name(owner, ordinal);
    let mut pod = template::pod(owner, &of.template(), Naming::Is(&name));
    let labels = &mut pod["metadata"]["labels"];
    labels[POD_NAME] = json!(name);
    labels[POD_INDEX] = json!(ordinal.to_string());
    labels[HASH] = json!(of.name());
    pod["spec"]["hostname"] = json!(name);
    if let Some(service) = spec["serviceName"].as_str().filter(|it| !it.is_empty()) {
        pod["spec"]["subdomain"] = json!(service);
    }
    let claims: Vec<Claim<'_>> = claims(owner, ordinal).collect();
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|it| json!({"name": it.volume(), "persistentVolumeClaim": {"claimName": it.name}}))
        .collect();
    let others = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let others = others.filter(|it| claims.iter().all(|claim| it["name"] != *claim.volume()));
    volumes.extend(others.cloned());
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = json!(volumes);
    }
    pod
}

/// A claim of a Pod of the set.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    template: &'a Value,
    pub(super) name: String,
    ordinal: i64,
}

/// The claims of a Pod of the set.
pub(super) fn claims(owner: Owner<'_>, ordinal: i64) -> impl Iterator<Item = Claim<'_>> {
    let set = set_name(owner);
    let templates = owner.object.data["spec"]["volumeClaimTemplates"].as_array();
    templates.into_iter().flatten().map(move |template| {
        let volume = template["metadata"]["name"].as_str().unwrap_or_default();
        Claim {
            template,
            name: format!("{volume}-{set}-{ordinal}"),
            ordinal,
        }
    })
}

impl Claim<'_> {
    fn volume(&self) -> &Value {
        &self.template["metadata"]["name"]
    }

    /// The claim, to be made.
    pub(super) fn body(&self, owner: Owner<'_>, owners: &[Value]) -> Value {
        let meta = &self.template["metadata"];
        let mut labels = meta["labels"].as_object().cloned().unwrap_or_default();
        let selected = owner.object.data["spec"]["selector"]["matchLabels"].as_object();
        labels.extend(
            selected
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone())),
        );
        labels.insert(POD_INDEX.to_owned(), json!(self.ordinal.to_string()));
        let mut metadata = json!({
            "name": self.name,
            "namespace": owner.object.metadata.namespace,
            "labels": labels,
            "ownerReferences": owners,
        });
        if !meta["annotations"].is_null() {
            metadata["annotations"] = meta["annotations"].clone();
        }
        json!({"metadata": metadata, "spec": self.template["spec"]})
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_pod_has_its_number_by_its_name() {
        let pod = |name: &str| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
        };
        assert_eq!(ordinal("web", &pod("web-10")), Some(10));
        assert_eq!(ordinal("web", &pod("web-a")), None);
        assert_eq!(ordinal("web", &pod("web-")), None);
        assert_eq!(ordinal("web", &pod("webs-1")), None);
        assert_eq!(ordinal("web", &pod("web-1-1")), None);
    }
}
