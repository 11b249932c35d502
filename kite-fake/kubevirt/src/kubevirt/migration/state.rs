//! What is written of a migration: its own status, and the state on the instance.

use kite_fake::actors::objects::{text, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// Whether a migration in this phase has ended.
pub(super) fn is_final(phase: &str) -> bool {
    phase == "Succeeded" || phase == "Failed"
}

/// Whether an instance is on its way, from the moment at which its controller
/// handed it over.
pub(in crate::kubevirt) fn is_active(status: &Value) -> bool {
    let state = &status["migrationState"];
    state["migrationUid"].is_string() && state["completed"] != true && state["failed"] != true
}

/// Whether an instance is being copied.
pub(in crate::kubevirt) fn is_copying(status: &Value) -> bool {
    let state = &status["migrationState"];
    state["startTimestamp"].is_string() && !state["endTimestamp"].is_string()
}

/// Whether the state of `instance` is of `migration`.
pub(super) fn is_of(instance: &DynamicObject, migration: &DynamicObject) -> bool {
    text(instance, "/status/migrationState/migrationUid") == uid(migration)
}

/// The status of a migration that comes to `phase`.
pub(super) fn in_phase(old: &Value, phase: &str, now: &str) -> Value {
    let mut status = if old.is_object() {
        old.clone()
    } else {
        json!({})
    };
    status["phase"] = json!(phase);
    let times = &mut status["phaseTransitionTimestamps"];
    let mut all = times.as_array().cloned().unwrap_or_default();
    if !all.iter().any(|time| time["phase"] == phase) {
        all.push(json!({"phase": phase, "phaseTransitionTimestamp": now}));
    }
    *times = json!(all);
    status
}

/// `status` with a condition that has no reason, unless it has it already.
pub(super) fn with_condition(mut status: Value, type_: &str, now: &str) -> Value {
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    if !all.iter().any(|c| c["type"] == type_) {
        all.push(json!({
            "type": type_,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": Value::Null,
        }));
    }
    status["conditions"] = json!(all);
    status
}

/// What clusters set for migrations by default.
fn configuration() -> Value {
    json!({
        "allowAutoConverge": false,
        "allowPostCopy": false,
        "allowWorkloadDisruption": false,
        "bandwidthPerMigration": "0",
        "completionTimeoutPerGiB": 150,
        "nodeDrainTaintKey": "kubevirt.io/drain",
        "parallelMigrationsPerCluster": 5,
        "parallelOutboundMigrationsPerNode": 2,
        "progressTimeout": 150,
        "unsafeMigrationOverride": false,
    })
}

/// The state that an instance is handed over with.
pub(super) fn handed_over(
    migration: &DynamicObject,
    instance: &DynamicObject,
    target: &DynamicObject,
) -> Value {
    json!({
        "migrationUid": uid(migration),
        "sourceNode": text(instance, "/status/nodeName"),
        "sourcePod": text(migration, "/status/migrationState/sourcePod"),
        "targetNode": text(target, "/spec/nodeName"),
        "targetPod": target.metadata.name,
        "migrationConfiguration": configuration(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_timed_once() {
        let first = in_phase(&Value::Null, "Pending", "T1");
        let again = in_phase(&first, "Pending", "T2");
        assert_eq!(first, again);
        let next = in_phase(&first, "Scheduling", "T3");
        assert_eq!(
            next["phaseTransitionTimestamps"][1],
            json!({"phase": "Scheduling", "phaseTransitionTimestamp": "T3"})
        );
    }

    #[test]
    fn an_instance_migrates_between_its_first_and_its_last_moment() {
        let state = |state: Value| json!({ "migrationState": state });
        assert!(!is_active(&json!({})) && !is_copying(&json!({})));
        assert!(is_active(&state(json!({"migrationUid": "u"}))));
        let copying = state(json!({"migrationUid": "u", "startTimestamp": "T"}));
        assert!(is_copying(&copying));
        let over = state(json!({
            "migrationUid": "u", "startTimestamp": "T", "endTimestamp": "T", "completed": true,
        }));
        assert!(!is_active(&over) && !is_copying(&over));
    }
}
