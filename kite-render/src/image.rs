//! A golden image in the image namespace.

use std::collections::BTreeMap;

use kite_core::{
    cdi::{
        ADOPTS_CLAIM, BIND_AT_ONCE, DataImportCron, DataImportCronSpec, DataSource,
        DataSourceSource, DataSourceSpec, DataVolume, DataVolumeHttp, DataVolumeRegistry,
        DataVolumeSource, DataVolumeSpec, DataVolumeTemplate, SourceObject,
    },
    crd::{KiteImage, KitePlatformSpec},
};

use crate::{Image, disk};

/// The namespace of an image: where it was made, if it was, else where the
/// platform puts new ones.
pub fn namespace<'a>(image: &'a KiteImage, platform: &'a KitePlatformSpec) -> &'a str {
    image
        .status
        .as_ref()
        .and_then(|status| status.namespace.as_deref())
        .unwrap_or_else(|| platform.image_namespace())
}

/// Imports that are kept where the image does not say.
const IMPORTS_KEPT: i32 = 2;

/// The disk into which an image is imported once; none for an image that is a
/// claim or a snapshot already, or is imported by a schedule.
pub fn data_volume(image: &Image<'_>, platform: &KitePlatformSpec) -> Option<DataVolume> {
    if image.object.spec.refresh_schedule.is_some() {
        return None;
    }
    let mut metadata = image.metadata(platform.image_namespace());
    // Whatever is there already under a name that somebody chose, it is fetched.
    let annotations = [(BIND_AT_ONCE, "true"), (ADOPTS_CLAIM, "false")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    metadata.annotations = Some(BTreeMap::from(annotations));
    Some(DataVolume {
        metadata,
        spec: import(image, platform)?,
        status: None,
    })
}

/// What imports the image again and again, where it has a schedule. CDI keeps
/// the `DataSource` of the image's name by itself then, and deletes that and all
/// imports when the cron goes.
pub fn import_cron(image: &Image<'_>, platform: &KitePlatformSpec) -> Option<DataImportCron> {
    let spec = &image.object.spec;
    let schedule = spec.refresh_schedule.clone()?;
    let metadata = image.metadata(platform.image_namespace());
    Some(DataImportCron {
        spec: DataImportCronSpec {
            schedule,
            managed_data_source: image.name.to_owned(),
            garbage_collect: Some("Outdated".to_owned()),
            imports_to_keep: Some(spec.imports_to_keep.unwrap_or(IMPORTS_KEPT)),
            retention_policy: Some("None".to_owned()),
            template: DataVolumeTemplate {
                spec: import(image, platform)?,
            },
        },
        metadata,
        status: None,
    })
}

/// What is fetched, and the disk that it is fetched to.
fn import(image: &Image<'_>, platform: &KitePlatformSpec) -> Option<DataVolumeSpec> {
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
                url: Some(registry.url.clone()),
            }),
            ..DataVolumeSource::default()
        },
        (None, None) => return None,
    };
    Some(DataVolumeSpec {
        source: Some(source),
        source_ref: None,
        storage: Some(disk::storage(&spec.min_disk, platform)),
    })
}

/// The name under which VM disks are cloned from the image; none where CDI
/// keeps it.
pub fn data_source(image: &Image<'_>, platform: &KitePlatformSpec) -> Option<DataSource> {
    if image.object.spec.refresh_schedule.is_some() {
        return None;
    }
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
    Some(DataSource {
        metadata: image.metadata(namespace),
        spec: DataSourceSpec { source },
        status: None,
    })
}
