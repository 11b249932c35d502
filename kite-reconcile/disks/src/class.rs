//! By which class of snapshots a disk's is taken, and what becomes of it when the disk goes.
//!
//! Storage takes none by a class of another driver, and users of such clusters have been told of
//! snapshots that had no data. So the class is chosen and checked before anything is asked for:
//! of those of the driver that take snapshots the one that CDI has chosen for the disk's storage,
//! else the only one, else the default one. CDI takes the first by name where nobody has said
//! more, which with Longhorn may be one that takes backups.
//!
//! ```
//! use kite_disks::class::{Bond, Class, Storage, choose};
//!
//! let storage = Storage {
//!     class: "fast",
//!     provisioner: "rook-ceph.rbd.csi.ceph.com",
//!     profile: None,
//! };
//! let other = Class {
//!     name: "files",
//!     driver: "nfs.csi.k8s.io",
//!     is_default: true,
//!     kind: None,
//! };
//! let ours = Class {
//!     name: "blocks",
//!     driver: storage.provisioner,
//!     is_default: false,
//!     kind: None,
//! };
//! let chosen = choose(&storage, &[other, ours])?;
//! assert_eq!((chosen.name, Bond::of(chosen.driver)), ("blocks", Bond::Outlives));
//! # Ok::<(), kite_disks::class::NoClass>(())
//! ```

use thiserror::Error;

const LONGHORN: &str = "driver.longhorn.io";

/// What a disk's storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage<'a> {
    /// Name of its `StorageClass`.
    pub class: &'a str,
    /// The provisioner of that class.
    pub provisioner: &'a str,
    /// The class of snapshots that CDI has chosen for it (`status.snapshotClass` of the
    /// `StorageProfile`), if it has.
    pub profile: Option<&'a str>,
}

/// A `VolumeSnapshotClass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// Its name.
    pub name: &'a str,
    /// The driver that takes its snapshots.
    pub driver: &'a str,
    /// Whether it is annotated as its driver's default.
    pub is_default: bool,
    /// Its parameter `type`, which says with Longhorn what is taken.
    pub kind: Option<&'a str>,
}

impl Class<'_> {
    /// With Longhorn a class without a word of it takes backups.
    fn takes_snapshots(&self) -> bool {
        self.driver != LONGHORN || self.kind == Some("snap")
    }
}

/// What a driver's snapshot is to the disk that it was taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// Its data are there when the disk is gone.
    Outlives,
    /// Its data go with the disk, and it is called ready all the same.
    Dies,
    /// Nobody has looked. To be taken for one that dies.
    Unknown,
}

impl Bond {
    /// That of a driver's snapshots, as far as it is known: of Ceph's from ceph-csi, which keeps
    /// images for their snapshots, of Longhorn's from its source.
    #[must_use]
    pub fn of(driver: &str) -> Self {
        // Rook has its namespace before the name.
        let is_ceph = |name: &str| driver == name || driver.ends_with(&format!(".{name}"));
        if is_ceph("rbd.csi.ceph.com") || is_ceph("cephfs.csi.ceph.com") {
            Self::Outlives
        } else if driver == LONGHORN {
            Self::Dies
        } else {
            Self::Unknown
        }
    }
}

/// Why no snapshot can be taken, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {}", self.fault(), self.remedy())]
pub enum NoClass {
    /// The driver has none.
    Missing {
        /// The driver.
        driver: String,
    },
    /// It has some, which take something else.
    NotSnapshots {
        /// The driver.
        driver: String,
        /// Their names.
        names: Vec<String>,
    },
    /// It has several, of which none or more than one is the default.
    Several {
        /// The driver.
        driver: String,
        /// Their names.
        names: Vec<String>,
        /// The storage class.
        storage: String,
    },
}

impl NoClass {
    /// What is wrong.
    #[must_use]
    pub fn fault(&self) -> String {
        match self {
            Self::Missing { driver } => format!("no VolumeSnapshotClass has the driver {driver}"),
            Self::NotSnapshots { driver, names } => format!(
                "the VolumeSnapshotClasses of the driver {driver}, {}, take backups or images",
                names.join(", ")
            ),
            Self::Several { driver, names, .. } => format!(
                "the driver {driver} has the VolumeSnapshotClasses {}, and it is not clear which \
                 to take",
                names.join(", ")
            ),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing { .. } => "make one, if the driver can take snapshots".to_owned(),
            Self::NotSnapshots { .. } => "make one whose parameter \"type\" is \"snap\"".to_owned(),
            Self::Several { storage, .. } => format!(
                "annotate one of them with snapshot.storage.kubernetes.io/is-default-class=true, \
                 or name it in spec.snapshotClass of CDI's StorageProfile {storage}"
            ),
        }
    }
}

/// The class by which snapshots of disks on this storage are taken.
///
/// # Errors
/// [`NoClass`] where none can be taken, or it is not clear by which.
pub fn choose<'a>(storage: &Storage<'_>, classes: &[Class<'a>]) -> Result<Class<'a>, NoClass> {
    let driver = storage.provisioner.to_owned();
    let of = |all: &[&Class<'_>]| all.iter().map(|it| it.name.to_owned()).collect();
    let ours: Vec<&Class<'a>> = classes.iter().filter(|it| it.driver == driver).collect();
    if ours.is_empty() {
        return Err(NoClass::Missing { driver });
    }
    let able = ours.iter().copied().filter(|it| it.takes_snapshots());
    let able: Vec<&Class<'a>> = able.collect();
    let named = able.iter().find(|it| storage.profile == Some(it.name));
    let mut defaults = able.iter().filter(|it| it.is_default);
    match (named, &able[..], defaults.next(), defaults.next()) {
        (_, [], _, _) => Err(NoClass::NotSnapshots {
            driver,
            names: of(&ours),
        }),
        (Some(class), _, _, _) | (None, [class], _, _) | (None, _, Some(class), None) => {
            Ok(**class)
        }
        _ => Err(NoClass::Several {
            driver,
            names: of(&able),
            storage: storage.class.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CSI: &str = "csi.example.org";

    fn class<'a>(name: &'a str, driver: &'a str) -> Class<'a> {
        Class {
            name,
            driver,
            is_default: false,
            kind: None,
        }
    }

    fn storage<'a>(provisioner: &'a str, profile: Option<&'a str>) -> Storage<'a> {
        Storage {
            class: "fast",
            provisioner,
            profile,
        }
    }

    #[test]
    fn the_named_one_comes_first_then_the_only_one_then_the_default() {
        let (a, b) = (class("a", CSI), class("b", CSI));
        let default = |class| Class {
            is_default: true,
            ..class
        };
        let other = default(class("other", "else"));
        let of =
            |profile, all: &[Class<'static>]| choose(&storage(CSI, profile), all).map(|it| it.name);
        assert_eq!(of(None, &[other, a]), Ok("a"));
        assert_eq!(of(Some("b"), &[other, default(a), b]), Ok("b"));
        assert_eq!(of(None, &[a, default(b), other]), Ok("b"));
        // CDI leaves a name where the class has gone.
        assert_eq!(of(Some("gone"), &[a, other]), Ok("a"));
        assert_eq!(of(Some("other"), &[a, default(b), other]), Ok("b"));
        let said = |all: &[Class<'static>]| of(None, all).unwrap_err().to_string();
        assert_eq!(
            said(&[other]),
            "no VolumeSnapshotClass has the driver csi.example.org: make one, if the driver can \
             take snapshots"
        );
        for several in [[a, b], [default(a), default(b)]] {
            assert!(said(&several).contains("a, b, and it is not clear which"));
        }
    }

    #[test]
    fn longhorn_s_says_that_it_takes_snapshots() {
        let longhorn = |name, kind| Class {
            kind,
            ..class(name, LONGHORN)
        };
        let kinds = [None, Some("bak"), Some("bi")];
        for kind in kinds {
            let backups = longhorn("backups", kind);
            let of = |all: &[Class<'static>]| {
                choose(&storage(LONGHORN, Some("backups")), all).map(|it| it.name)
            };
            let why = of(&[backups]).unwrap_err().to_string();
            assert!(
                why.ends_with("whose parameter \"type\" is \"snap\""),
                "{why}"
            );
            // The first by name, which CDI takes, is not it.
            assert_eq!(of(&[backups, longhorn("snaps", Some("snap"))]), Ok("snaps"));
            // Of others the parameter means nothing.
            let other = Class {
                kind,
                ..class("a", CSI)
            };
            assert!(choose(&storage(CSI, None), &[other]).is_ok());
        }
    }

    #[test]
    fn of_which_drivers_it_is_known_what_outlives_what() {
        for driver in ["rbd.csi.ceph.com", "rook-ceph.cephfs.csi.ceph.com"] {
            assert_eq!(Bond::of(driver), Bond::Outlives);
        }
        assert_eq!(Bond::of(LONGHORN), Bond::Dies);
        for driver in [CSI, "notrbd.csi.ceph.com"] {
            assert_eq!(Bond::of(driver), Bond::Unknown);
        }
    }
}
