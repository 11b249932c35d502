//! Instance types and preferences: where a VM's processors and memory come from.

use kite_fake::actors::kind::{CONTROLLER_REVISION, Kind};
use kite_fake::actors::objects::{Objects, controller_reference, uid};
use kite_fake::actors::{ActorError, Context};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::kinds::{
    CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE, INSTANCETYPE, PREFERENCE, VIRTUAL_MACHINE,
};

/// What the instance type and the preference of a VM come to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolved {
    /// It names none.
    Plain,
    /// The template's spec with what they add, and what the status says of them.
    As {
        /// The spec.
        template: Value,
        /// Fields of the VM's status.
        told: Value,
    },
    /// One is not there.
    Missing(String),
}

/// Looks up what `vm` names. What it finds is kept as a revision, by which the
/// VM goes from then on.
pub(super) async fn resolve(
    context: &Context,
    objects: Objects<'_>,
    vm: &DynamicObject,
) -> Result<Resolved, ActorError> {
    let spec = &vm.data["spec"];
    if !spec["instancetype"].is_object() && !spec["preference"].is_object() {
        return Ok(Resolved::Plain);
    }
    let mut told = json!({});
    let mut found = [Value::Null, Value::Null];
    let matchers = [
        (
            "instancetype",
            "instancetypeRef",
            [CLUSTER_INSTANCETYPE, INSTANCETYPE],
        ),
        (
            "preference",
            "preferenceRef",
            [CLUSTER_PREFERENCE, PREFERENCE],
        ),
    ];
    for (place, (field, status, kinds)) in matchers.iter().enumerate() {
        let wanted = &spec[*field];
        let Some(name) = wanted["name"].as_str() else {
            continue;
        };
        let kind = kind_of(wanted, kinds);
        let before = &vm.data["status"][*status];
        match keep(context, objects, vm, kind, name, before).await? {
            Ok((spec, revision)) => {
                told[*status] = json!({
                    "name": name,
                    "kind": kind.kind,
                    "controllerRevisionRef": {"name": revision},
                });
                found[place] = spec;
            }
            Err(why) => return Ok(Resolved::Missing(why)),
        }
    }
    let [instancetype, preference] = found;
    let template = expand(&spec["template"]["spec"], &instancetype, &preference);
    Ok(Resolved::As { template, told })
}

/// The kind that a matcher means: cluster-wide where it does not say.
fn kind_of<'a>(wanted: &Value, [cluster, namespaced]: &'a [Kind; 2]) -> &'a Kind {
    let word = wanted["kind"].as_str().unwrap_or_default().to_lowercase();
    let same = |kind: &Kind| word == kind.kind.to_lowercase() || word == *kind.plural;
    if same(namespaced) {
        namespaced
    } else {
        cluster
    }
}

/// The spec of what is named, and the revision that it is kept in.
async fn keep(
    context: &Context,
    objects: Objects<'_>,
    vm: &DynamicObject,
    kind: &Kind,
    name: &str,
    before: &Value,
) -> Result<Result<(Value, String), String>, ActorError> {
    let namespace = vm.metadata.namespace.as_deref();
    if before["name"] == name
        && let Some(revision) = before["controllerRevisionRef"]["name"].as_str()
        && let Some(kept) = objects
            .find(&CONTROLLER_REVISION, namespace, revision)
            .await?
    {
        return Ok(Ok((kept.data["data"]["spec"].clone(), revision.to_owned())));
    }
    let found = if context.catalog.has(kind) {
        objects.find(kind, namespace, name).await?
    } else {
        None
    };
    let Some(found) = found else {
        let (plural, group) = (&kind.plural, &kind.group);
        return Ok(Err(format!("{plural}.{group} \"{name}\" not found")));
    };
    let vm_name = vm.metadata.name.as_deref().unwrap_or_default();
    let generation = found.metadata.generation.unwrap_or(1);
    let revision = format!(
        "{vm_name}-{name}-{}-{}-{generation}",
        kind.version,
        uid(&found)
    );
    let body = json!({
        "metadata": {
            "name": revision,
            "namespace": namespace,
            "labels": {
                "instancetype.kubevirt.io/object-name": name,
                "instancetype.kubevirt.io/object-kind": kind.kind,
                "instancetype.kubevirt.io/object-version": kind.version,
                "instancetype.kubevirt.io/object-uid": uid(&found),
                "instancetype.kubevirt.io/object-generation": generation.to_string(),
            },
            "ownerReferences": [controller_reference(&VIRTUAL_MACHINE, vm)],
        },
        "data": {
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": found.data["spec"],
        },
        "revision": 0,
    });
    objects
        .create(&CONTROLLER_REVISION, namespace, body)
        .await?;
    Ok(Ok((found.data["spec"].clone(), revision)))
}

/// A template's spec with the processors and the memory of an instance type,
/// laid out as the preference has it.
fn expand(template: &Value, instancetype: &Value, preference: &Value) -> Value {
    let mut spec = template.clone();
    if let Some(count) = instancetype["cpu"]["guest"].as_u64() {
        let topology = preference["cpu"]["preferredCPUTopology"].as_str();
        let (sockets, cores, threads) = match topology.unwrap_or("sockets") {
            "cores" | "preferCores" => (1, count, 1),
            "threads" | "preferThreads" => (1, 1, count),
            _ => (count, 1, 1),
        };
        let cpu = &mut spec["domain"]["cpu"];
        cpu["sockets"] = json!(sockets);
        cpu["cores"] = json!(cores);
        cpu["threads"] = json!(threads);
        if let Some(most) = instancetype["cpu"]["maxSockets"].as_u64() {
            cpu["maxSockets"] = json!(most);
        }
    }
    let memory = &instancetype["memory"];
    if memory["guest"].is_string() {
        spec["domain"]["memory"]["guest"] = memory["guest"].clone();
        if memory["maxGuest"].is_string() {
            spec["domain"]["memory"]["maxGuest"] = memory["maxGuest"].clone();
        }
    }
    let machine = &preference["machine"]["preferredMachineType"];
    if machine.is_string() && spec["domain"]["machine"]["type"].is_null() {
        spec["domain"]["machine"]["type"] = machine.clone();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_laid_out_as_preferred() {
        let instancetype = json!({"cpu": {"guest": 4}, "memory": {"guest": "8Gi"}});
        let template = json!({"domain": {"devices": {}}});
        let plain = expand(&template, &instancetype, &Value::Null);
        let domain = &plain["domain"];
        assert_eq!(
            domain["cpu"],
            json!({"sockets": 4, "cores": 1, "threads": 1})
        );
        assert_eq!(domain["memory"]["guest"], "8Gi");
        let preference = json!({"cpu": {"preferredCPUTopology": "cores"}});
        let cores = expand(&template, &instancetype, &preference);
        assert_eq!(cores["domain"]["cpu"]["cores"], 4);
    }

    #[test]
    fn a_kind_is_cluster_wide_unless_it_says_otherwise() {
        let kinds = [CLUSTER_INSTANCETYPE, INSTANCETYPE];
        assert_eq!(kind_of(&json!({}), &kinds), &CLUSTER_INSTANCETYPE);
        let own = json!({"kind": "VirtualMachineInstancetype"});
        assert_eq!(kind_of(&own, &kinds), &INSTANCETYPE);
    }
}
