//! What a running instance can be given without a restart: processors and
//! memory, by a migration to a launcher that has them.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::conditions::find;

/// Conditions of an instance that waits for such a migration.
const CHANGES: [&str; 2] = ["HotVCPUChange", "HotMemoryChange"];

/// Sockets of an instance's spec.
pub(super) fn sockets(spec: &Value) -> u64 {
    spec["domain"]["cpu"]["sockets"].as_u64().unwrap_or(1)
}

/// Bytes of a quantity; none where there is no such quantity.
pub(super) fn bytes(value: &Value) -> Option<u64> {
    let quantity: kite_core::quantity::Bytes = value.as_str()?.parse().ok()?;
    Some(quantity.bytes())
}

/// How many times of what an instance begins with it may get, by default.
const RATIO: u64 = 4;
/// The least memory of an instance that may get more.
const LEAST: u64 = 1 << 30;
/// What memory is plugged in by.
const BLOCK: u64 = 2 << 20;

/// Says up to how much an instance may get while it runs, where its template leaves that
/// open.
pub(super) fn bound(spec: &mut Value) {
    if let Some(cpu) = spec.pointer_mut("/domain/cpu")
        && cpu["maxSockets"].is_null()
        && let Some(has) = cpu["sockets"].as_u64()
    {
        cpu["maxSockets"] = json!(has * RATIO);
    }
    if let Some(memory) = spec.pointer_mut("/domain/memory")
        && memory["maxGuest"].is_null()
        && let Some(has) = bytes(&memory["guest"])
        && has >= LEAST
        && has.is_multiple_of(BLOCK)
    {
        let mib = has / (1 << 20) * RATIO;
        memory["maxGuest"] = json!(match mib % 1024 {
            0 => format!("{}Gi", mib / 1024),
            _ => format!("{mib}Mi"),
        });
    }
}

/// Why a template's processors or memory cannot be given to the instance as it
/// runs; none where they can, or are as they were.
pub(super) fn obstacle(template: &Value, instance: &DynamicObject) -> Option<&'static str> {
    let spec = &instance.data["spec"];
    let (wanted, has) = (sockets(template), sockets(spec));
    let most = spec["domain"]["cpu"]["maxSockets"].as_u64().unwrap_or(has);
    if wanted > most {
        return Some(
            "CPU sockets updated in template spec to a value higher than what's available",
        );
    }
    if wanted < has {
        return Some("Reduction of CPU socket count requires a restart");
    }
    let memory = |spec: &Value| bytes(&spec["domain"]["memory"]["guest"]);
    let (wanted_memory, has_memory) = (memory(template), memory(spec));
    if let (Some(wanted), Some(has)) = (wanted_memory, has_memory) {
        let at_boot = bytes(&instance.data["status"]["memory"]["guestAtBoot"]).unwrap_or(has);
        let most = bytes(&spec["domain"]["memory"]["maxGuest"]).unwrap_or(has);
        if wanted < at_boot {
            return Some(
                "memory updated in template spec to a value lower than what the VM started with",
            );
        }
        if wanted > most {
            return Some("memory updated in template spec to a value higher than what's available");
        }
    }
    let changed = wanted != has || wanted_memory != has_memory;
    let migratable =
        find(&instance.data["status"], "LiveMigratable").is_some_and(|c| c["status"] == "True");
    (changed && !migratable)
        .then_some("a non-live-updatable field was changed in the template spec")
}

/// The patch that gives an instance what its template asks for; none where
/// there is nothing to give, or it cannot take it now.
pub(super) fn patch(template: &Value, instance: &DynamicObject) -> Option<Value> {
    let (spec, status) = (&instance.data["spec"], &instance.data["status"]);
    let running = status["phase"] == "Running";
    if !running || obstacle(template, instance).is_some() || is_wanted(status) {
        return None;
    }
    if super::migration::is_active(status) {
        return None;
    }
    let mut domain = json!({});
    if sockets(template) != sockets(spec) {
        domain["cpu"]["sockets"] = json!(sockets(template));
    }
    let memory = |spec: &Value| bytes(&spec["domain"]["memory"]["guest"]);
    if memory(template).is_some() && memory(template) != memory(spec) {
        domain["memory"]["guest"] = template["domain"]["memory"]["guest"].clone();
    }
    let some = domain.as_object().is_some_and(|d| !d.is_empty());
    some.then(|| json!({"spec": {"domain": domain}}))
}

/// What an instance has at its boot, where it may get more later.
pub(super) fn at_boot(spec: &Value, status: &mut Value) {
    let cpu = &spec["domain"]["cpu"];
    if cpu["maxSockets"].is_u64() {
        let count = |field: &str| cpu[field].as_u64().unwrap_or(1);
        status["currentCPUTopology"] = json!({
            "sockets": count("sockets"), "cores": count("cores"), "threads": count("threads"),
        });
    }
    let memory = &spec["domain"]["memory"];
    if !memory["maxGuest"].is_null() && !memory["guest"].is_null() {
        for field in ["guestAtBoot", "guestCurrent", "guestRequested"] {
            status["memory"][field] = memory["guest"].clone();
        }
    }
}

/// Tells in the status of a running instance what it asks for and has not got: since when,
/// these conditions do not say.
pub(super) fn tell(spec: &Value, status: &mut Value) {
    let has = status["currentCPUTopology"]["sockets"].as_u64();
    let more_sockets = has.is_some_and(|has| has != sockets(spec));
    let wanted = &spec["domain"]["memory"]["guest"];
    let current = status["memory"]["guestCurrent"].clone();
    let more_memory = current.is_string() && bytes(&current) != bytes(wanted);
    if more_memory {
        status["memory"]["guestRequested"] = wanted.clone();
    }
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    for (type_, holds) in CHANGES.into_iter().zip([more_sockets, more_memory]) {
        let told = all.iter().any(|c| c["type"] == type_);
        if holds && !told {
            all.push(json!({"type": type_, "status": "True"}));
        }
    }
    if status["conditions"].is_array() || !all.is_empty() {
        status["conditions"] = json!(all);
    }
}

/// Whether an instance waits for a migration to get what it asks for.
pub(super) fn is_wanted(status: &Value) -> bool {
    CHANGES
        .iter()
        .any(|type_| find(status, type_).is_some_and(|c| c["status"] == "True"))
}

/// The migration is through: it has what it asked for.
pub(super) fn settle(spec: &Value, status: &mut Value) {
    if status["currentCPUTopology"].is_object() {
        status["currentCPUTopology"]["sockets"] = json!(sockets(spec));
    }
    if status["memory"]["guestCurrent"].is_string() {
        status["memory"]["guestCurrent"] = spec["domain"]["memory"]["guest"].clone();
        status["memory"]["guestRequested"] = spec["domain"]["memory"]["guest"].clone();
    }
    if let Some(all) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        all.retain(|c| !CHANGES.iter().any(|type_| c["type"] == *type_));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn spec(sockets: u64, memory: &str) -> Value {
        json!({"domain": {
            "cpu": {"sockets": sockets, "maxSockets": 4},
            "memory": {"guest": memory, "maxGuest": "4Gi"},
        }})
    }

    fn instance(migratable: &str) -> DynamicObject {
        let mut status = json!({
            "phase": "Running",
            "conditions": [{"type": "LiveMigratable", "status": migratable}],
        });
        at_boot(&spec(2, "2Gi"), &mut status);
        let object = json!({
            "metadata": {"name": "a"}, "spec": spec(2, "2Gi"), "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn within_its_bounds_an_instance_grows() {
        let instance = instance("True");
        assert_eq!(obstacle(&spec(4, "4Gi"), &instance), None);
        let patch = patch(&spec(4, "4Gi"), &instance).unwrap();
        let domain = &patch["spec"]["domain"];
        assert_eq!(
            *domain,
            json!({"cpu": {"sockets": 4}, "memory": {"guest": "4Gi"}})
        );
        let mut status = instance.data["status"].clone();
        tell(&spec(4, "4Gi"), &mut status);
        assert!(is_wanted(&status));
        let asks = find(&status, "HotVCPUChange").unwrap();
        assert_eq!(*asks, json!({"type": "HotVCPUChange", "status": "True"}));
        assert_eq!(status["memory"]["guestRequested"], "4Gi");
        settle(&spec(4, "4Gi"), &mut status);
        assert!(!is_wanted(&status));
        assert_eq!(status["currentCPUTopology"]["sockets"], 4);
        assert_eq!(status["memory"]["guestCurrent"], "4Gi");
    }

    #[test]
    fn what_a_template_leaves_open_is_four_times_what_there_is() {
        let of = |domain: Value| {
            let mut spec = json!({ "domain": domain });
            bound(&mut spec);
            spec["domain"].clone()
        };
        let open = json!({"cpu": {"sockets": 2}, "memory": {"guest": "1536Mi"}});
        let bounded = of(open);
        assert_eq!(bounded["cpu"]["maxSockets"], 8);
        assert_eq!(bounded["memory"]["maxGuest"], "6Gi");
        let small = json!({"cpu": {"sockets": 2, "maxSockets": 2}, "memory": {"guest": "512Mi"}});
        assert_eq!(of(small.clone()), small);
    }

    #[test]
    fn what_is_out_of_bounds_needs_a_restart() {
        let growing = instance("True");
        let why = |sockets, memory| obstacle(&spec(sockets, memory), &growing).unwrap();
        assert!(why(5, "2Gi").contains("higher than what's available"));
        assert!(why(1, "2Gi").contains("Reduction of CPU"));
        assert!(why(2, "1Gi").contains("lower than what the VM started with"));
        assert!(why(2, "5Gi").contains("memory updated in template spec to a value higher"));
        let fixed = instance("False");
        assert!(
            obstacle(&spec(4, "2Gi"), &fixed)
                .unwrap()
                .contains("non-live-updatable")
        );
        assert_eq!(patch(&spec(4, "2Gi"), &fixed), None);
    }
}
