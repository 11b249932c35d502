//! `KubeVirt`'s own configuration, as far as it decides about Kite's VMs.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// How `KubeVirt` is installed and configured. A cluster has one.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "KubeVirt",
    plural = "kubevirts",
    shortname = "kv",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtSpec {
    /// What it does, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<KubeVirtConfiguration>,
    /// What becomes of instances that run when something about them changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_update_strategy: Option<WorkloadUpdateStrategy>,
}

/// What `KubeVirt` does, and how.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtConfiguration {
    /// How much launchers ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_configuration: Option<DeveloperConfiguration>,
    /// A factor, as text, on the memory that a launcher needs beside its guest's.
    #[serde(
        default,
        rename = "additionalGuestMemoryOverheadRatio",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory_overhead_ratio: Option<String>,
}

/// How much launchers ask for.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DeveloperConfiguration {
    /// How many virtual CPUs share one that is requested; 10 if it does not say.
    #[serde(default, rename = "cpuAllocationRatio")]
    pub cpu_allocation_ratio: Option<i64>,
    /// The guest's memory in per cent of what is requested for it; 100 if it does
    /// not say.
    #[serde(default, rename = "memoryOvercommit")]
    pub memory_overcommit: Option<i64>,
}

/// What becomes of instances that run when something about them changes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadUpdateStrategy {
    /// `LiveMigrate` and `Evict`; nothing is done by itself where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_update_methods: Vec<String>,
}

impl KubeVirt {
    /// How many virtual CPUs share one that is requested, if it says so.
    pub fn cpu_allocation_ratio(&self) -> Option<u32> {
        let ratio = self.developer()?.cpu_allocation_ratio?;
        u32::try_from(ratio).ok().filter(|ratio| *ratio > 0)
    }

    /// The guest's memory in per cent of what is requested for it, if it says so.
    pub fn memory_overcommit(&self) -> Option<u32> {
        let percent = self.developer()?.memory_overcommit?;
        u32::try_from(percent).ok().filter(|percent| *percent > 0)
    }

    /// The factor on what a launcher needs beside its guest's memory, in per mille,
    /// if it says so.
    pub fn memory_overhead_per_mille(&self) -> Option<u32> {
        let configuration = self.spec.configuration.as_ref()?;
        let ratio = configuration.memory_overhead_ratio.as_ref()?;
        let ratio: f64 = ratio.parse().ok()?;
        // Whoever writes more than a thousandfold means something else.
        let per_mille = (ratio * 1000.0).ceil();
        (1.0..=1_000_000.0)
            .contains(&per_mille)
            .then_some(per_mille)
            .and_then(|it| format!("{it:.0}").parse().ok())
    }

    /// Whether running instances are migrated by themselves to a launcher that has
    /// what they have been given more.
    pub fn migrates_updates(&self) -> bool {
        let strategy = self.spec.workload_update_strategy.as_ref();
        let mut methods = strategy
            .into_iter()
            .flat_map(|it| &it.workload_update_methods);
        methods.any(|method| method == "LiveMigrate")
    }

    fn developer(&self) -> Option<&DeveloperConfiguration> {
        let configuration = self.spec.configuration.as_ref()?;
        configuration.developer_configuration.as_ref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn of(spec: &serde_json::Value) -> KubeVirt {
        serde_json::from_value(json!({"metadata": {"name": "kubevirt"}, "spec": spec})).unwrap()
    }

    #[test]
    fn what_is_configured_is_read_and_nonsense_is_nothing() {
        let plain = of(&json!({}));
        assert_eq!(plain.cpu_allocation_ratio(), None);
        assert_eq!(plain.memory_overhead_per_mille(), None);
        assert!(!plain.migrates_updates());
        let set = of(&json!({
            "configuration": {
                "developerConfiguration": {"cpuAllocationRatio": 1, "memoryOvercommit": 50},
                "additionalGuestMemoryOverheadRatio": "1.2345",
            },
            "workloadUpdateStrategy": {"workloadUpdateMethods": ["Evict", "LiveMigrate"]},
        }));
        assert_eq!(set.cpu_allocation_ratio(), Some(1));
        assert_eq!(set.memory_overcommit(), Some(50));
        assert_eq!(set.memory_overhead_per_mille(), Some(1235));
        assert!(set.migrates_updates());
        for (ratio, factor) in [(0, "much"), (-1, "-1"), (i64::MAX, "1e300")] {
            let odd = of(&json!({"configuration": {
                "developerConfiguration": {"cpuAllocationRatio": ratio, "memoryOvercommit": ratio},
                "additionalGuestMemoryOverheadRatio": factor,
            }}));
            assert_eq!(odd.cpu_allocation_ratio(), None, "{ratio}");
            assert_eq!(odd.memory_overcommit(), None, "{ratio}");
            assert_eq!(odd.memory_overhead_per_mille(), None, "{factor}");
        }
    }
}
