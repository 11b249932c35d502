//! Permissive CRDs of `KubeVirt` kinds for API servers without `KubeVirt`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::crd::foreign::{Column, ForeignKind};

const COLUMN_AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
const READY: &str = ".status.conditions[?(@.type=='Ready')].status";

const KINDS: &[ForeignKind] = &[
    ForeignKind {
        group: "kubevirt.io",
        version: "v1",
        kind: "VirtualMachine",
        plural: "virtualmachines",
        short_names: &["vm", "vms"],
        columns: &[
            COLUMN_AGE,
            ("Status", "string", ".status.printableStatus"),
            ("Ready", "string", READY),
        ],
    },
    ForeignKind {
        group: "kubevirt.io",
        version: "v1",
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        short_names: &["vmi", "vmis"],
        columns: &[
            COLUMN_AGE,
            ("Phase", "string", ".status.phase"),
            ("IP", "string", ".status.interfaces[0].ipAddress"),
            ("NodeName", "string", ".status.nodeName"),
            ("Ready", "string", READY),
        ],
    },
    ForeignKind {
        group: "kubevirt.io",
        version: "v1",
        kind: "VirtualMachineInstanceMigration",
        plural: "virtualmachineinstancemigrations",
        short_names: &["vmim", "vmims"],
        columns: &[
            ("Phase", "string", ".status.phase"),
            ("VMI", "string", ".spec.vmiName"),
        ],
    },
];

pub(super) fn all() -> Vec<CustomResourceDefinition> {
    KINDS.iter().map(ForeignKind::crd).collect()
}
