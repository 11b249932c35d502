//! How `KubeVirt` is configured: by the object of that kind, as far as the actors
//! go by it. Where it says nothing, and where there is none, it has its defaults.

use kite_fake::actors::objects::Objects;
use kite_fake::actors::{ActorError, Context};
use serde_json::Value;

use crate::kinds::KUBEVIRT_CR;

/// How many virtual processors share one, by default.
const ALLOCATION_RATIO: u64 = 10;

/// What is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    /// How many virtual processors share one.
    pub(super) allocation_ratio: u64,
    /// A guest's memory in per cent of what its launcher asks for.
    pub(super) memory_overcommit: u64,
    /// Whether instances that were given more move by themselves to a launcher that
    /// has it.
    pub(super) migrates_updates: bool,
    /// Whether instances may be given more than they began with, where their template
    /// leaves that open. Not where there is no such object: nobody knows a cluster then
    /// but by what was seen of one that does not.
    pub(super) updates_live: bool,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            allocation_ratio: ALLOCATION_RATIO,
            memory_overcommit: 100,
            migrates_updates: false,
            updates_live: false,
        }
    }
}

impl Configuration {
    /// What the cluster's object says.
    pub(super) async fn read(context: &Context, objects: Objects<'_>) -> Result<Self, ActorError> {
        if !context.catalog.has(&KUBEVIRT_CR) {
            return Ok(Self::default());
        }
        let all = objects.live().list(&KUBEVIRT_CR, None, "").await?;
        Ok(all
            .first()
            .map(|it| Self {
                updates_live: it.data["spec"]["configuration"]["vmRolloutStrategy"] != "Stage",
                ..Self::of(&it.data["spec"])
            })
            .unwrap_or_default())
    }

    fn of(spec: &Value) -> Self {
        let developer = &spec["configuration"]["developerConfiguration"];
        let positive = |value: &Value| value.as_u64().filter(|it| *it > 0);
        let methods = spec["workloadUpdateStrategy"]["workloadUpdateMethods"].as_array();
        let default = Self::default();
        Self {
            allocation_ratio: positive(&developer["cpuAllocationRatio"])
                .unwrap_or(default.allocation_ratio),
            memory_overcommit: positive(&developer["memoryOvercommit"])
                .unwrap_or(default.memory_overcommit),
            migrates_updates: methods
                .is_some_and(|all| all.iter().any(|method| method == "LiveMigrate")),
            updates_live: default.updates_live,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_moves_to_grow_unless_it_is_configured() {
        assert_eq!(Configuration::of(&json!({})), Configuration::default());
        let spec = json!({
            "configuration": {"developerConfiguration": {"cpuAllocationRatio": 1}},
            "workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]},
        });
        let set = Configuration::of(&spec);
        assert_eq!((set.allocation_ratio, set.memory_overcommit), (1, 100));
        assert!(set.migrates_updates);
    }
}
