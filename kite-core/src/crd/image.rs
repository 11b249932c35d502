//! `KiteImage`: an entry in the catalogue of golden images.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    salvage::salvaged,
    unread_status::{self, UnreadStatus, salvaged_status},
};
use crate::quantity::Bytes;

/// Desired state of an image.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteImage",
    plural = "kiteimages",
    shortname = "kimg",
    category = "kite",
    status = "KiteImageStatus",
    derive = "PartialEq",
    doc = "A golden image from which the disks of VMs are cloned.",
    printcolumn(name = "OS", type_ = "string", json_path = ".spec.osFamily"),
    printcolumn(name = "Min-Disk", type_ = "string", json_path = ".spec.minDisk"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must be at most 63 characters"),
)]
#[x_kube(validation = Rule::new("!has(self.refreshSchedule) || has(self.source.registry)").message("refreshSchedule works with source.registry only"))]
#[x_kube(validation = Rule::new("!has(self.importsToKeep) || has(self.refreshSchedule)").message("importsToKeep is for images with a refreshSchedule"))]
#[x_kube(validation = Rule::new("has(self.refreshSchedule) == has(oldSelf.refreshSchedule) && (!has(self.refreshSchedule) || self.refreshSchedule == oldSelf.refreshSchedule)").message("refreshSchedule cannot be changed, for CDI keeps a schedule as it was made: create another image"))]
#[x_kube(validation = Rule::new("has(self.importsToKeep) == has(oldSelf.importsToKeep) && (!has(self.importsToKeep) || self.importsToKeep == oldSelf.importsToKeep)").message("importsToKeep cannot be changed, for CDI keeps a schedule as it was made: create another image"))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteImageSpec {
    /// Name for people, such as `Debian 12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub display_name: Option<String>,
    /// A sentence for people who choose an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Where the image comes from. Cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("source cannot be changed: create another image"))]
    pub source: ImageSource,
    /// Family of the guest's operating system; cloud-init and the VM's hardware
    /// differ by it. Cannot be changed.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("osFamily cannot be changed: VMs are made for it; create another image"))]
    pub os_family: OsFamily,
    /// The account that the image's maker set up, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub default_user: Option<String>,
    /// Smallest disk that holds the image.
    pub min_disk: Bytes,
    /// When to look for a newer image (cron format, UTC), such as `0 3 * * 0`.
    /// Only with `registry`. VMs that are there keep their disks; new ones are
    /// cloned from the newest. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 6, max = 100),
        regex(
            pattern = r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ ]+( [^ ]+){4})$"
        )
    )]
    pub refresh_schedule: Option<String>,
    /// How many imports are kept where there is a `refreshSchedule`; by default
    /// 2, so that clones of the last but one can end. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub imports_to_keep: Option<i32>,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteImageSpec,
    required: { "source": {}, "minDisk": "1Gi" },
    strict: {}
);

impl KiteImageSpec {
    /// An image of a Debian or its kin, imported once. `min_disk` is the smallest disk that
    /// holds it.
    ///
    /// ```
    /// use kite_core::crd::{ImageSource, KiteImage, KiteImageSpec, OsFamily};
    ///
    /// let source = ImageSource::registry("docker://quay.io/containerdisks/fedora:43");
    /// let spec = KiteImageSpec {
    ///     os_family: OsFamily::RedHat,
    ///     ..KiteImageSpec::new(source, "5Gi".parse()?)
    /// };
    /// let image = KiteImage::new("fedora-43", spec);
    /// assert_eq!(image.least_disk().to_string(), "5Gi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(source: ImageSource, min_disk: Bytes) -> Self {
        Self {
            display_name: None,
            description: None,
            source,
            os_family: OsFamily::default(),
            default_user: None,
            min_disk,
            refresh_schedule: None,
            imports_to_keep: None,
            unreadable: None,
        }
    }
}

impl KiteImage {
    /// The smallest disk that can be cloned from it: what its spec says, or what it
    /// has turned out to be.
    pub fn least_disk(&self) -> &Bytes {
        let size = self.status.as_ref().and_then(|status| status.size.as_ref());
        size.map_or(&self.spec.min_disk, |size| size.max(&self.spec.min_disk))
    }
}

/// Where an image comes from: exactly one of the fields.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("[has(self.http), has(self.registry), has(self.pvc), has(self.snapshot)].filter(x, x).size() == 1").message("source needs exactly one of http, registry, pvc, snapshot"))]
pub struct ImageSource {
    /// A disk image behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// A container disk in an image registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// An existing PVC in the image namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<NamedSource>,
    /// An existing `VolumeSnapshot` in the image namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<NamedSource>,
}

impl ImageSource {
    /// A disk image behind `url`, which begins with `http://` or `https://`.
    pub fn http(url: impl Into<String>) -> Self {
        Self {
            http: Some(HttpSource {
                url: url.into(),
                checksum: None,
            }),
            ..Self::default()
        }
    }

    /// A container disk at `url`, which begins with `docker://`.
    pub fn registry(url: impl Into<String>) -> Self {
        Self {
            registry: Some(RegistrySource { url: url.into() }),
            ..Self::default()
        }
    }
}

/// A disk image behind a URL.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct HttpSource {
    /// `http://` or `https://`.
    #[schemars(length(max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub url: String,
    /// Checksum of the file, such as `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 200),
        regex(pattern = "^(md5|sha1|sha256|sha512):[0-9a-fA-F]+$")
    )]
    pub checksum: Option<String>,
}

/// A container disk.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct RegistrySource {
    /// `docker://` and the image reference.
    #[schemars(length(max = 2048), regex(pattern = r"^docker://[^\s]+$"))]
    pub url: String,
}

/// An existing object in the image namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct NamedSource {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Family of a guest's operating system.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OsFamily {
    /// Debian, Ubuntu and their kin.
    #[default]
    Debian,
    /// Fedora, `CentOS`, RHEL, Rocky, Alma.
    RedHat,
    /// openSUSE and SLES.
    Suse,
    /// Alpine Linux (`OpenRC`, `doas`).
    Alpine,
    /// Arch Linux.
    Arch,
    /// Microsoft Windows 10, 11, Server 2019 and newer, with Cloudbase-Init.
    Windows,
}

impl OsFamily {
    /// All families.
    pub const ALL: [Self; 6] = [
        Self::Debian,
        Self::RedHat,
        Self::Suse,
        Self::Alpine,
        Self::Arch,
        Self::Windows,
    ];

    /// As it is spelled in resources.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debian => "Debian",
            Self::RedHat => "RedHat",
            Self::Suse => "Suse",
            Self::Alpine => "Alpine",
            Self::Arch => "Arch",
            Self::Windows => "Windows",
        }
    }
}

/// That a text names no family.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no family of operating systems")]
pub struct UnknownOsFamily(pub String);

impl std::str::FromStr for OsFamily {
    type Err = UnknownOsFamily;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|family| family.as_str() == text)
            .ok_or_else(|| UnknownOsFamily(text.to_owned()))
    }
}

/// Observed state of an image.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteImageStatus")]
pub struct KiteImageStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the import is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImagePhase>,
    /// Progress of the import as CDI reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Size of the imported disk: a VM's disk is at least as large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Namespace of the `DataSource` from which VM disks are cloned; its name is the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `Ready`; `UpToDate` where there is a refresh schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteImageStatus, kept: ["namespace"]);

impl KiteImage {
    /// What cannot be read of the image: of its spec, and of what only its status tells. Until
    /// that is mended nothing is made of it.
    pub fn unreadable(&self) -> Option<Cow<'_, str>> {
        let status = self.status.as_ref();
        let status = status.and_then(|it| it.unreadable.as_deref());
        unread_status::unreadable(self.spec.unreadable.as_deref(), status)
    }
}

/// Where an image's import is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImagePhase {
    /// The import has not begun.
    Pending,
    /// The image is being fetched.
    Importing,
    /// Disks can be cloned from it.
    Ready,
    /// The image is being removed.
    Deleting,
    /// Something needs a person; the conditions say what.
    Failed,
}
