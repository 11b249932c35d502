//! What `KubeVirt`'s webhook demands of VMs.

use std::collections::BTreeSet;

use kite_fake::server::{Review, Webhook};
use kite_fake::status::Cause;
use serde_json::Value;

/// Bytes of user data that may stand in a VM itself.
const LONGEST_USER_DATA: usize = 2048;
const STRATEGIES: [&str; 6] = [
    "Always",
    "Halted",
    "Manual",
    "RerunOnFailure",
    "Once",
    "WaitAsReceiver",
];

/// Refuses VMs that `KubeVirt` would refuse: no template or memory, a run
/// strategy that is unclear, disks without volumes, interfaces without
/// networks, too much user data, an impossible host name.
#[derive(Clone, Copy, Debug, Default)]
pub struct KubeVirtAdmission;

impl Webhook for KubeVirtAdmission {
    fn name(&self) -> &'static str {
        "virtualmachine-validator.kubevirt.io"
    }

    fn review(&self, review: &Review<'_>) -> Vec<Cause> {
        if review.group != "kubevirt.io" || review.kind != "VirtualMachine" {
            return Vec::new();
        }
        // What is on its way out is left alone.
        if !review.object["metadata"]["deletionTimestamp"].is_null() {
            return Vec::new();
        }
        let mut found = Found::default();
        machine(&review.object["spec"], &mut found);
        found.0
    }
}

#[derive(Default)]
struct Found(Vec<Cause>);

impl Found {
    fn add(&mut self, reason: &str, field: &str, message: String) {
        self.0.push(Cause::new(reason, message, field));
    }

    fn invalid(&mut self, field: &str, message: String) {
        self.add("FieldValueInvalid", field, message);
    }

    fn required(&mut self, field: &str, message: &str) {
        self.add("FieldValueRequired", field, message.to_owned());
    }
}

fn machine(spec: &Value, found: &mut Found) {
    let (running, strategy) = (&spec["running"], spec["runStrategy"].as_str());
    match (running.is_null(), strategy) {
        (false, Some(_)) => found.invalid(
            "spec.running",
            "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, \
             please use RunStrategy instead"
                .to_owned(),
        ),
        (true, None) => found.invalid(
            "spec.running",
            "One of Running or RunStrategy must be specified".to_owned(),
        ),
        (_, Some(strategy)) if !STRATEGIES.contains(&strategy) => {
            found.invalid(
                "spec.runStrategy",
                format!("Invalid RunStrategy ({strategy})"),
            );
        }
        _ => {}
    }
    if !spec["template"].is_object() {
        found.required("spec.template", "missing virtual machine template.");
        return;
    }
    let template = &spec["template"]["spec"];
    instance(template, found);
    if spec["instancetype"].is_null() && !has_memory(&template["domain"]) {
        found.required(
            "spec.template.spec.domain.memory",
            "no memory requested, at least one of memory.guest, memory.hugepages.size or \
             resources.memory is required",
        );
    }
    let volumes = members(&template["volumes"]);
    let templates = members(&spec["dataVolumeTemplates"]).enumerate();
    for (place, disk) in templates {
        let name = disk["metadata"]["name"].as_str().unwrap_or_default();
        let used = volumes.clone().any(|v| {
            v["dataVolume"]["name"] == name || v["persistentVolumeClaim"]["claimName"] == name
        });
        if !used {
            let field = format!("spec.dataVolumeTemplate[{place}]");
            found.required(
                &field,
                "DataVolumeTemplate entry spec.dataVolumeTemplate must be referenced in the VMI \
                 template's 'volumes' list",
            );
        }
    }
}

fn has_memory(domain: &Value) -> bool {
    let resources = &domain["resources"];
    let places = [
        &domain["memory"]["guest"],
        &domain["memory"]["hugepages"]["pageSize"],
        &resources["requests"]["memory"],
        &resources["limits"]["memory"],
    ];
    places.iter().any(|place| !place.is_null())
}

fn members(list: &Value) -> impl Iterator<Item = &Value> + Clone {
    list.as_array().map_or(&[][..], Vec::as_slice).iter()
}

fn name(member: &Value) -> &str {
    member["name"].as_str().unwrap_or_default()
}

/// Tells of names that come twice.
fn unique(list: &Value, field: &str, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (place, member) in members(list).enumerate() {
        if !seen.insert(name(member)) {
            let field = format!("{field}[{place}].name");
            let message = format!("{field} is not unique: {:?}", name(member));
            found.add("FieldValueDuplicate", &field, message);
        }
    }
}

fn instance(spec: &Value, found: &mut Found) {
    const AT: &str = "spec.template.spec";
    let devices = &spec["domain"]["devices"];
    unique(&spec["volumes"], &format!("{AT}.volumes"), found);
    unique(
        &devices["disks"],
        &format!("{AT}.domain.devices.disks"),
        found,
    );
    for (place, disk) in members(&devices["disks"]).enumerate() {
        if !members(&spec["volumes"]).any(|v| name(v) == name(disk)) {
            let field = format!("{AT}.domain.devices.disks[{place}].name");
            found.invalid(&field, format!("{field} '{}' not found.", name(disk)));
        }
    }
    let networks = || members(&spec["networks"]).map(name);
    let interfaces = || members(&devices["interfaces"]).map(name);
    for (place, interface) in interfaces().enumerate() {
        if !networks().any(|n| n == interface) {
            let field = format!("{AT}.domain.devices.interfaces[{place}].name");
            found.invalid(&field, format!("{field} '{interface}' not found."));
        }
    }
    for (place, network) in networks().enumerate() {
        if !interfaces().any(|i| i == network) {
            let field = format!("{AT}.networks[{place}].name");
            found.required(&field, &format!("{field} '{network}' not found."));
        }
    }
    for (place, volume) in members(&spec["volumes"]).enumerate() {
        for source in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            let data = volume[source]["userData"].as_str().unwrap_or_default();
            if data.len() > LONGEST_USER_DATA {
                let field = format!("{AT}.volumes[{place}].{source}.userData");
                let message = format!(
                    "{field} userData exceeds {LONGEST_USER_DATA} byte limit. Should use UserDataSecretRef for larger data."
                );
                found.invalid(&field, message);
            }
        }
    }
    if let Some(hostname) = spec["hostname"].as_str()
        && !is_label(hostname)
    {
        let field = format!("{AT}.hostname");
        let message = format!(
            "{field} does not conform to the kubernetes DNS_LABEL rules : a lowercase RFC 1123 \
             label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character"
        );
        found.invalid(&field, message);
    }
}

/// RFC 1123 §2.1, as Kubernetes narrows it: lower case, 63 characters at most.
fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| edge(c) || c == '-')
        && text.starts_with(edge)
        && text.ends_with(edge)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "runStrategy": "Always",
            "template": {"spec": {
                "domain": {
                    "memory": {"guest": "1Gi"},
                    "devices": {
                        "disks": [{"name": "root"}],
                        "interfaces": [{"name": "default", "masquerade": {}}],
                    },
                },
                "hostname": "web-1",
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [{"name": "root", "dataVolume": {"name": "d"}}],
            }},
        })
    }

    fn fields(pointer: &str, value: Value) -> Vec<String> {
        let mut object = json!({"metadata": {}, "spec": good()});
        if let Some(place) = object.pointer_mut(&format!("/spec{pointer}")) {
            *place = value;
        }
        let review = Review {
            group: "kubevirt.io",
            kind: "VirtualMachine",
            object: &object,
            old: None,
            around: None,
        };
        let causes = KubeVirtAdmission.review(&review);
        causes.into_iter().map(|c| c.field).collect()
    }

    #[test]
    fn a_whole_vm_passes_and_what_is_missing_is_named() {
        assert_eq!(fields("/none", Value::Null), Vec::<String>::new());
        assert_eq!(fields("/runStrategy", Value::Null), ["spec.running"]);
        assert_eq!(
            fields("/runStrategy", json!("Sometimes")),
            ["spec.runStrategy"]
        );
        assert_eq!(fields("/template", Value::Null), ["spec.template"]);
        assert_eq!(
            fields("/template/spec/domain/memory", Value::Null),
            ["spec.template.spec.domain.memory"]
        );
        assert_eq!(
            fields("/template/spec/volumes", json!([])),
            ["spec.template.spec.domain.devices.disks[0].name"]
        );
        assert_eq!(
            fields("/template/spec/networks", json!([])),
            ["spec.template.spec.domain.devices.interfaces[0].name"]
        );
        assert_eq!(
            fields("/template/spec/hostname", json!("Web_1")),
            ["spec.template.spec.hostname"]
        );
    }
}
