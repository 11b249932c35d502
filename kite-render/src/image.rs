//! A golden image in the image namespace.

use std::collections::BTreeMap;

use kite_core::{
    cdi::{
        DataSource, DataSourceSource, DataSourceSpec, DataVolume, DataVolumeHttp,
        DataVolumeRegistry, DataVolumeSource, DataVolumeSpec, SourceObject,
    },
    crd::{KiteImage, KitePlatformSpec},
};

use crate::{Image, disk};

/// Annotation that tells CDI to fill a disk at once, though nobody uses it yet:
/// a golden image never has a consumer of its own.
const BIND_IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

/// The namespace of an image: where it was made, if it was, else where the
/// platform puts new ones.
pub fn namespace<'a>(image: &'a KiteImage, platform: &'a KitePlatformSpec) -> &'a str {
    image
        .status
        .as_ref()
        .and_then(|status| status.namespace.as_deref())
        .unwrap_or_else(|| platform.image_namespace())
}

/// The disk into which an image is imported; none for an image that is a claim
/// or a snapshot already.
pub fn data_volume(image: &Image<'_>, platform: &KitePlatformSpec) -> Option<DataVolume> {
    let spec = &image.object.spec;
    let source = match (&spec.source.http, &spec.source.registry) {
        (Some(http), _) => DataVolumeSource {
            http: Some(DataVolumeHttp {
                url: http.url.clone(),
                checksum: http.checksum.clone(),
            }),
            ..DataVolumeSource::default()
        },
        (None, Some(registry)) => DataVolumeSource {
            registry: Some(DataVolumeRegistry {
                url: registry.url.clone(),
            }),
            ..DataVolumeSource::default()
        },
        (None, None) => return None,
    };
    let mut metadata = image.metadata(platform.image_namespace());
    metadata.annotations = Some(BTreeMap::from([(
        BIND_IMMEDIATE.to_owned(),
        "true".to_owned(),
    )]));
    Some(DataVolume {
        metadata,
        spec: DataVolumeSpec {
            source: Some(source),
            source_ref: None,
            storage: Some(disk::storage(&spec.min_disk, platform)),
        },
        status: None,
    })
}

/// The name under which VM disks are cloned from the image.
pub fn data_source(image: &Image<'_>, platform: &KitePlatformSpec) -> DataSource {
    let namespace = platform.image_namespace();
    let object = |name: &str| SourceObject {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let source = &image.object.spec.source;
    let source = match (&source.pvc, &source.snapshot) {
        (Some(pvc), _) => DataSourceSource {
            pvc: Some(object(&pvc.name)),
            snapshot: None,
        },
        (None, Some(snapshot)) => DataSourceSource {
            pvc: None,
            snapshot: Some(object(&snapshot.name)),
        },
        (None, None) => DataSourceSource {
            pvc: Some(object(image.name)),
            snapshot: None,
        },
    };
    DataSource {
        metadata: image.metadata(namespace),
        spec: DataSourceSpec { source },
        status: None,
    }
}
