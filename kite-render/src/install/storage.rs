//! The `StorageClass` of VM disks.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::StorageClass;

use super::{Installation, metadata};

/// Longhorn's CSI driver.
const LONGHORN: &str = "driver.longhorn.io";

/// What provisions VM disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The CSI driver, such as `rook-ceph.rbd.csi.ceph.com`.
    pub provisioner: String,
    /// Whether a disk is made where its VM is going to run, and so not before
    /// that is known. Storage that every node reaches does without.
    pub waits_for_consumer: bool,
    /// Parameters for the driver.
    pub parameters: BTreeMap<String, String>,
}

impl Storage {
    /// Group of Longhorn's recurring jobs that back disks up.
    pub const BACKUP_GROUP: &'static str = "kite-vm-backup";

    /// Longhorn, with so many copies of each disk, one of them on the VM's node where
    /// that is possible, and [`BACKUP_GROUP`](Self::BACKUP_GROUP) for backups.
    pub fn longhorn(copies: u8) -> Self {
        let jobs = format!(r#"[{{"name":"{}","isGroup":true}}]"#, Self::BACKUP_GROUP);
        let parameters = [
            ("numberOfReplicas", copies.to_string()),
            ("dataLocality", "best-effort".to_owned()),
            ("recurringJobSelector", jobs),
        ];
        Self {
            provisioner: LONGHORN.to_owned(),
            // Every node reaches its volumes.
            waits_for_consumer: false,
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        }
    }
}

/// The `StorageClass` that the platform names. Its volumes can grow, and go with
/// their claims, which go only with their VM.
pub(super) fn class(installation: &Installation) -> Option<StorageClass> {
    let storage = installation.storage.as_ref()?;
    let mode = if storage.waits_for_consumer {
        "WaitForFirstConsumer"
    } else {
        "Immediate"
    };
    let parameters = storage.parameters.clone();
    Some(StorageClass {
        metadata: metadata::common(installation.platform.storage_class(), None),
        provisioner: storage.provisioner.clone(),
        parameters: (!parameters.is_empty()).then_some(parameters),
        allow_volume_expansion: Some(true),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some(mode.to_owned()),
        ..StorageClass::default()
    })
}
