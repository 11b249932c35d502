//! How far a disk that is to grow has come.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::quantity::Bytes;

/// How far a claim has come that is to have a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It has it, or nothing is known of it.
    Done,
    /// It is on its way; the text says what is missing.
    Going(&'static str),
    /// Storage says that it cannot, in its words.
    Failed(String),
}

/// Reads it off the claim's status.
pub(crate) fn growth(claim: &PersistentVolumeClaim, size: &Bytes) -> Growth {
    let Some(status) = &claim.status else {
        return Growth::Done;
    };
    let capacity = status.capacity.as_ref().and_then(|all| all.get("storage"));
    let capacity = capacity.and_then(|capacity| capacity.0.parse::<Bytes>().ok());
    if capacity.is_none_or(|capacity| capacity >= *size) {
        return Growth::Done;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let told = |type_: &str| {
        let holds = |found: &&_| {
            let found: &k8s_openapi::api::core::v1::PersistentVolumeClaimCondition = found;
            found.type_ == type_ && found.status == "True"
        };
        conditions.iter().find(holds)
    };
    let failed = ["ControllerResizeError", "NodeResizeError"];
    if let Some(failure) = failed.into_iter().find_map(told) {
        let words = failure.message.clone().filter(|words| !words.is_empty());
        return Growth::Failed(words.unwrap_or_else(|| "it gives no reason".to_owned()));
    }
    let stage = status
        .allocated_resource_statuses
        .as_ref()
        .and_then(|all| all.get("storage"));
    match stage.map(String::as_str) {
        Some(stage @ ("ControllerResizeInfeasible" | "NodeResizeInfeasible")) => {
            Growth::Failed(stage.to_owned())
        }
        _ if told("FileSystemResizePending").is_some() => {
            Growth::Going("its file system grows when the node of the VM sees to it")
        }
        _ => Growth::Going("storage is giving it more"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> Growth {
        let claim = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
        growth(&claim, &"12Gi".parse().unwrap())
    }

    #[test]
    fn what_storage_says_is_understood() {
        let small = json!({"storage": "10Gi"});
        assert_eq!(of(json!({"capacity": {"storage": "12Gi"}})), Growth::Done);
        assert_eq!(of(json!({})), Growth::Done);
        assert!(matches!(of(json!({"capacity": small})), Growth::Going(_)));
        let pending = json!([{"type": "FileSystemResizePending", "status": "True"}]);
        let Growth::Going(why) = of(json!({"capacity": small, "conditions": pending})) else {
            unreachable!()
        };
        assert!(why.contains("file system"));
        let error = json!([{"type": "NodeResizeError", "status": "True", "message": "pool full"}]);
        let failed = of(json!({"capacity": small, "conditions": error}));
        assert_eq!(failed, Growth::Failed("pool full".to_owned()));
        let infeasible = json!({"storage": "ControllerResizeInfeasible"});
        let failed = of(json!({"capacity": small, "allocatedResourceStatuses": infeasible}));
        assert_eq!(
            failed,
            Growth::Failed("ControllerResizeInfeasible".to_owned())
        );
    }
}
