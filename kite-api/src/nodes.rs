//! [`Capacity`]: what nodes have for VMs.

use std::time::Instant;

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity};
use kite_core::quantity::Bytes;
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

/// Label of nodes on which KubeVirt starts VMs. Its agent there takes it away when
/// it fails.
pub(crate) const SCHEDULABLE: &str = "kubevirt.io/schedulable";
const MEBIBYTE: u64 = 1 << 20;

/// What the nodes on which VMs can start have altogether, used or not.
#[derive(Serialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// How many nodes there are.
    nodes: u32,
    /// Their CPUs, whole ones.
    cpu: u32,
    /// Their memory, such as `262144Mi`.
    memory: String,
}

/// What was read last.
pub(crate) type Seen = Mutex<Option<(Instant, Capacity)>>;

impl Capacity {
    /// What the nodes among `nodes` that take VMs have for pods altogether.
    ///
    /// A node whose quantities cannot be read counts as one without any.
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let (mut count, mut millis, mut bytes) = (0_u32, 0_u64, 0_u64);
        for node in nodes.iter().filter(|node| takes_machines(node)) {
            let allocatable = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
            let of = |name: &str| allocatable.and_then(|it| it.get(name));
            count = count.saturating_add(1);
            millis = millis.saturating_add(of("cpu").and_then(thousandths).unwrap_or_default());
            bytes = bytes.saturating_add(of("memory").and_then(memory).unwrap_or_default());
        }
        Self {
            nodes: count,
            cpu: u32::try_from(millis / 1000).unwrap_or(u32::MAX),
            memory: format!("{}Mi", bytes / MEBIBYTE),
        }
    }
}

fn takes_machines(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let label = node.labels().get(SCHEDULABLE);
    !is_cordoned && label.is_some_and(|value| value == "true")
}

/// A number of CPUs, such as `8`, `7.5` or `7820m`, in thousandths.
fn thousandths(Quantity(text): &Quantity) -> Option<u64> {
    if let Some(millis) = text.strip_suffix('m') {
        return millis.parse().ok();
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.get(..3).unwrap_or(fraction);
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(fraction)
}

fn memory(Quantity(text): &Quantity) -> Option<u64> {
    // Where a kubelet keeps some for the system, bytes can come in thousandths.
    if let Some(millis) = text.strip_suffix('m') {
        return millis.parse::<u64>().ok().map(|millis| millis / 1000);
    }
    text.parse::<Bytes>().ok().map(|size| size.bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn node(label: &str, cordoned: bool, cpu: &str, memory: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": {SCHEDULABLE: label}},
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": {"cpu": cpu, "memory": memory}},
        }))
        .unwrap()
    }

    fn of(nodes: &[Node]) -> (u32, u32, String) {
        let found = Capacity::of(nodes);
        (found.nodes, found.cpu, found.memory)
    }

    #[test]
    fn nodes_that_take_machines_add_up() {
        let nodes = [
            node("true", false, "7820m", "16389288Ki"),
            node("true", false, "1.25", "1Gi"),
            node("true", false, "2", "1073741824"),
            node("true", false, "0", "1073741824000m"),
        ];
        // 7.82 + 1.25 + 2 CPUs: thousandths add up before they are cut off.
        assert_eq!(of(&nodes), (4, 11, format!("{}Mi", 16_005 + 3 * 1024)));
    }

    #[test]
    fn nodes_that_take_none_do_not_count() {
        let other = node("false", false, "8", "8Gi");
        let cordoned = node("true", true, "8", "8Gi");
        let bare: Node = serde_json::from_value(json!({"metadata": {"name": "b"}})).unwrap();
        assert_eq!(of(&[other, cordoned, bare]), (0, 0, "0Mi".to_owned()));
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        let odd = node("true", false, "many", "1e9.5");
        assert_eq!(
            of(&[odd, node("true", false, "1", "1Mi")]),
            (2, 1, "1Mi".to_owned())
        );
        assert_eq!(of(&[]), (0, 0, "0Mi".to_owned()));
    }
}
