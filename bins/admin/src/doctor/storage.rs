//! Where the disks of VMs are.

use k8s_openapi::api::storage::v1::StorageClass;
use kite_core::{names, volume_snapshot::VolumeSnapshotClass};
use kite_disks::class::{Bond, Class, NoClass, Storage, choose};
use kube::ResourceExt as _;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

const CLASS: &str = "storageClass";
const EXPANSION: &str = "diskGrowth";
const PROFILE: &str = "storageProfile";
const SNAPSHOTS: &str = "snapshots";

pub(super) fn storage(facts: &Facts, aim: &Aim) -> Vec<Finding> {
    let wanted = match (&aim.storage_class, &facts.platform) {
        (Some(wanted), _) => wanted,
        (None, Seen::Known(platform)) => platform.spec.storage_class(),
        (None, Seen::Absent) => names::STORAGE_CLASS,
        (None, seen @ (Seen::Refused | Seen::Failed(_))) => {
            return vec![unseen(
                CLASS,
                "the KitePlatform, which names the class",
                seen,
            )];
        }
    };
    let Seen::Known(classes) = &facts.storage_classes else {
        return vec![unseen(CLASS, "StorageClasses", &facts.storage_classes)];
    };
    let Some(class) = classes.iter().find(|class| class.name_any() == wanted) else {
        let names: Vec<_> = classes.iter().map(kube::ResourceExt::name_any).collect();
        return vec![missing(wanted, &names, aim, facts)];
    };
    let mut findings = vec![
        Finding::fit(CLASS, format!("{wanted}, by {}", class.provisioner)),
        expansion(class),
    ];
    findings.extend(profile(facts, class));
    findings.push(snapshots(facts, class));
    findings
}

/// That there is no class of the name that is wanted.
fn missing(wanted: &str, there: &[String], aim: &Aim, facts: &Facts) -> Finding {
    let others = match there {
        [] => "there is none at all".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    let message = format!("there is no StorageClass {wanted:?}; {others}");
    let brought = "--profile k3s, with Longhorn, or with --provisioner DRIVER";
    match there {
        // Nobody has chosen one yet.
        [first, ..] if aim.storage_class.is_none() && facts.platform == Seen::Absent => {
            Finding::of(
                CLASS,
                State::Warning,
                message,
                format!(
                    "have kite install take one that is there, such as with --storage-class \
                     {first}, or make this one, with {brought}"
                ),
            )
        }
        _ => Finding::of(
            CLASS,
            State::Unfit,
            message,
            format!(
                "have kite install make it, with {brought}, or take one that is there, with \
                 --storage-class NAME (spec.storageClass of the KitePlatform {})",
                names::PLATFORM
            ),
        ),
    }
}

fn expansion(class: &StorageClass) -> Finding {
    if class.allow_volume_expansion == Some(true) {
        return Finding::fit(EXPANSION, "its volumes can grow");
    }
    Finding::of(
        EXPANSION,
        State::Warning,
        "its volumes cannot grow, and so no VM's disk can",
        format!(
            "if its driver can, kubectl patch storageclass {} -p \
             '{{\"allowVolumeExpansion\":true}}'",
            class.name_any()
        ),
    )
}

/// Whether CDI knows how volumes of the class are used: without that it makes no disk.
/// Nothing while there is no profile, which CDI makes for every class.
fn profile(facts: &Facts, class: &StorageClass) -> Option<Finding> {
    let name = class.name_any();
    if let seen @ (Seen::Refused | Seen::Failed(_)) = &facts.storage_profiles {
        return Some(unseen(PROFILE, "CDI's StorageProfiles", seen));
    }
    let profiles = facts.storage_profiles.known().into_iter().flatten();
    let profile = profiles.into_iter().find(|it| it.name_any() == name)?;
    let sets = profile.data["status"]["claimPropertySets"].as_array();
    let modes = sets.into_iter().flatten().find_map(|set| {
        let modes = set["accessModes"].as_array()?;
        let modes: Vec<_> = modes.iter().filter_map(|it| it.as_str()).collect();
        (!modes.is_empty()).then(|| modes.join(", "))
    });
    Some(match modes {
        Some(modes) if modes.contains("ReadWriteMany") => {
            Finding::fit(PROFILE, format!("CDI knows its access modes: {modes}"))
        }
        Some(modes) => Finding::fit(
            PROFILE,
            format!(
                "CDI knows its access modes: {modes}. Without ReadWriteMany no VM moves while it \
                 runs: a node that is emptied waits until its VMs are switched off, and a VM is \
                 given more at its next start"
            ),
        ),
        None => Finding::of(
            PROFILE,
            State::Unfit,
            format!(
                "CDI does not know the access modes of volumes of {name}: it makes no disk \
                 (ErrClaimNotValid), and VMs wait for theirs"
            ),
            format!(
                "tell it what the driver can: kubectl patch storageprofile {name} --type merge -p \
                 '{{\"spec\":{{\"claimPropertySets\":[{{\"accessModes\":[\"ReadWriteOnce\"],\
                 \"volumeMode\":\"Filesystem\"}}]}}}}'"
            ),
        ),
    })
}

/// Whether snapshots of disks can be taken: CDI copies golden images by them, which takes
/// seconds.
fn snapshots(facts: &Facts, class: &StorageClass) -> Finding {
    if let seen @ (Seen::Refused | Seen::Failed(_)) = &facts.snapshot_classes {
        return unseen(SNAPSHOTS, "VolumeSnapshotClasses", seen);
    }
    let profiles = facts.storage_profiles.known().into_iter().flatten();
    let name = class.name_any();
    let profile = profiles.into_iter().find(|it| it.name_any() == name);
    let storage = Storage {
        class: &name,
        provisioner: &class.provisioner,
        profile: profile.and_then(|it| it.data["status"]["snapshotClass"].as_str()),
    };
    let classes: Vec<&VolumeSnapshotClass> = facts
        .snapshot_classes
        .known()
        .into_iter()
        .flatten()
        .collect();
    let found: Vec<Class<'_>> = classes.iter().map(|it| class_of(it)).collect();
    let chosen = match choose(&storage, &found) {
        Ok(chosen) => chosen,
        Err(why) => {
            let until = match why {
                NoClass::Missing { .. } => {
                    "; without it each new disk is a copy of its whole image"
                }
                NoClass::NotSnapshots { .. } => "; until then disks are not made from images",
                NoClass::Several { .. } => "",
            };
            let remedy = format!("{}{until}", why.remedy());
            return Finding::of(SNAPSHOTS, State::Warning, why.fault(), remedy);
        }
    };
    let name = chosen.name;
    if let Some(taken) = storage.profile.filter(|taken| *taken != name) {
        return Finding::of(
            SNAPSHOTS,
            State::Warning,
            format!(
                "CDI takes snapshots by the VolumeSnapshotClass {taken}, which is not there, is \
                 of another driver, or takes backups: disks are not made from images"
            ),
            format!(
                "kubectl patch storageprofile {} --type merge -p \
                 '{{\"spec\":{{\"snapshotClass\":\"{name}\"}}}}'",
                storage.class
            ),
        );
    }
    let retains = |it: &&VolumeSnapshotClass| it.deletion_policy.as_deref() == Some("Retain");
    if classes
        .into_iter()
        .filter(retains)
        .any(|it| it.name_any() == name)
    {
        return Finding::of(
            SNAPSHOTS,
            State::Warning,
            format!(
                "the VolumeSnapshotClass {name} has the deletionPolicy Retain: what snapshots \
                     have on the storage stays there when they are deleted"
            ),
            "let it be Delete, or look after the storage",
        );
    }
    let bond = match Bond::of(chosen.driver) {
        Bond::Outlives => "they outlive the disk that they are of",
        Bond::Dies => "their data go with the disk that they are of",
        Bond::Unknown => {
            "whether they outlive the disk that they are of is not known of its driver"
        }
    };
    Finding::fit(
        SNAPSHOTS,
        format!("disks come from images by snapshots ({name}); {bond}"),
    )
}

fn class_of(class: &VolumeSnapshotClass) -> Class<'_> {
    Class {
        name: class.metadata.name.as_deref().unwrap_or_default(),
        driver: &class.driver,
        is_default: class.is_default(),
        kind: class.parameters.get("type").map(String::as_str),
    }
}
