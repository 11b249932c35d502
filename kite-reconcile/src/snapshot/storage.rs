//! By which class of snapshots a disk's is taken: the facts, and the choice.

use k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::StorageClass};
use kite_core::{
    cdi::StorageProfile,
    cluster::{Cluster, ClusterError, Object},
    volume_snapshot::VolumeSnapshotClass,
};
use kite_disks::class::{Bond, Class, Storage, choose};
use kube::{ResourceExt as _, api::ListParams};

/// What is known of the storage that a disk is on.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StorageSeen {
    /// Name of its class.
    pub class: String,
    /// The provisioner of that class, if there is one.
    pub provisioner: Option<String>,
    /// The class of snapshots that CDI has chosen for it.
    pub profile: Option<String>,
    /// All classes of snapshots; none where the cluster has no such kind.
    pub classes: Option<Vec<VolumeSnapshotClass>>,
}

/// By what snapshots are taken, and whether they outlive the disk.
pub(super) struct Chosen<'a> {
    pub(super) class: &'a str,
    pub(super) outlives_disk: bool,
}

impl StorageSeen {
    pub(super) async fn read<C: Cluster>(
        claim: &PersistentVolumeClaim,
        cluster: &C,
    ) -> Result<Self, ClusterError> {
        let spec = claim.spec.as_ref();
        let class = spec.and_then(|it| it.storage_class_name.clone());
        let class = class.unwrap_or_default();
        let of_name = |name: &str| name == class;
        // Kinds of which there are few, and which may be listed and not read.
        let found = all::<StorageClass, C>(cluster).await?.unwrap_or_default();
        let found = found.into_iter().find(|it| of_name(&it.name_any()));
        let profiles = all::<StorageProfile, C>(cluster).await?.unwrap_or_default();
        let profile = profiles.into_iter().find(|it| of_name(&it.name_any()));
        Ok(Self {
            provisioner: found.map(|it| it.provisioner),
            profile: profile.and_then(|it| it.status?.snapshot_class),
            classes: all(cluster).await?,
            class,
        })
    }

    /// The class of snapshots, or why there is none and what to do about it.
    pub(super) fn choose(&self) -> Result<Chosen<'_>, String> {
        let (Some(provisioner), Some(classes)) = (&self.provisioner, &self.classes) else {
            return Err(match &self.provisioner {
                None => format!("there is no StorageClass {:?}", self.class),
                Some(_) => "the cluster has no VolumeSnapshotClasses: an administrator must \
                            install the CSI external-snapshotter"
                    .to_owned(),
            });
        };
        let storage = Storage {
            class: &self.class,
            provisioner,
            profile: self.profile.as_deref(),
        };
        let known: Vec<Class<'_>> = classes.iter().map(class_of).collect();
        match choose(&storage, &known) {
            Ok(class) => Ok(Chosen {
                class: class.name,
                outlives_disk: Bond::of(class.driver) == Bond::Outlives,
            }),
            Err(why) => Err(format!(
                "{}: an administrator must {}",
                why.fault(),
                why.remedy()
            )),
        }
    }
}

/// All of a kind; none where there is no such kind.
async fn all<K: Object, C: Cluster>(cluster: &C) -> Result<Option<Vec<K>>, ClusterError> {
    match cluster.list::<K>(None, &ListParams::default()).await {
        Ok(found) => Ok(Some(found.items)),
        Err(ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn class_of(class: &VolumeSnapshotClass) -> Class<'_> {
    Class {
        name: class.metadata.name.as_deref().unwrap_or_default(),
        driver: &class.driver,
        is_default: class.is_default(),
        kind: class.parameters.get("type").map(String::as_str),
    }
}
