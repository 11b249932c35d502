//! One thing at a time that is amiss on a cluster that is fit otherwise.

use jiff::SignedDuration;
use kite_admin::doctor::{Facts, Seen, State, judge};
use kite_core::volume_snapshot::VolumeSnapshotClass;
use kube::api::DynamicObject;
use serde_json::json;

use super::{aim, facts, fit, state};

/// A change to the facts, and what is then said of which check.
type Case = (&'static str, fn(&mut Facts), &'static str, State);

#[allow(clippy::too_many_lines, reason = "one list")]
fn cases() -> [Case; 21] {
    [
        (
            "an old API server",
            |it| it.version = Seen::Known("v1.30.4".to_owned()),
            "apiServer",
            State::Unfit,
        ),
        (
            "a clock that is behind",
            |it| it.ahead = Some(SignedDuration::from_secs(-40)),
            "clock",
            State::Warning,
        ),
        (
            "a KubeVirt that comes up",
            |it| set(&mut it.kubevirt, "phase", "Deploying"),
            "kubevirt",
            State::Unfit,
        ),
        (
            "an older KubeVirt",
            |it| set(&mut it.kubevirt, "observedKubeVirtVersion", "v1.8.2"),
            "kubevirt",
            State::Warning,
        ),
        (
            "an operator without its object",
            |it| it.cdi = Seen::Known(Vec::new()),
            "cdi",
            State::Unfit,
        ),
        (
            "no hardware virtualisation",
            |it| node(it, |node| node.status.as_mut().unwrap().allocatable = None),
            "nodes",
            State::Warning,
        ),
        (
            "a node that takes no VMs",
            |it| node(it, |node| node.metadata.labels = None),
            "nodes",
            State::Unfit,
        ),
        (
            "an unknown network plugin",
            |it| {
                node(it, |node| {
                    let info = node.status.as_mut().unwrap().node_info.as_mut().unwrap();
                    "v1.34.1".clone_into(&mut info.kubelet_version);
                });
            },
            "networkPolicies",
            State::Unknown,
        ),
        (
            "disks that cannot grow",
            |it| {
                if let Seen::Known(classes) = &mut it.storage_classes {
                    classes[0].allow_volume_expansion = None;
                }
            },
            "diskGrowth",
            State::Warning,
        ),
        (
            "no snapshots",
            |it| it.snapshot_classes = Seen::Absent,
            "snapshots",
            State::Warning,
        ),
        (
            "snapshots that stay on the storage",
            |it| {
                snapshot_class(it, |class| {
                    class.deletion_policy = Some("Retain".to_owned());
                });
            },
            "snapshots",
            State::Warning,
        ),
        (
            "two classes of snapshots",
            |it| {
                if let Seen::Known(classes) = &mut it.snapshot_classes {
                    let mut other = classes[0].clone();
                    other.metadata.name = Some("other".to_owned());
                    classes.push(other);
                }
            },
            "snapshots",
            State::Warning,
        ),
        (
            "a class of snapshots that CDI takes and that is not the driver's",
            |it| {
                if let Seen::Known(profiles) = &mut it.storage_profiles {
                    profiles[0].data["status"]["snapshotClass"] = json!("backups");
                }
            },
            "snapshots",
            State::Warning,
        ),
        (
            "Longhorn's backups",
            |it| {
                if let Seen::Known(classes) = &mut it.storage_classes {
                    "driver.longhorn.io".clone_into(&mut classes[0].provisioner);
                }
                snapshot_class(it, |class| {
                    "driver.longhorn.io".clone_into(&mut class.driver);
                });
            },
            "snapshots",
            State::Warning,
        ),
        (
            "a profile that says nothing",
            |it| {
                if let Seen::Known(profiles) = &mut it.storage_profiles {
                    profiles[0].data["status"] = json!({});
                }
            },
            "storageProfile",
            State::Unfit,
        ),
        (
            "a profile without access modes",
            |it| {
                if let Seen::Known(profiles) = &mut it.storage_profiles {
                    profiles[0].data["status"] =
                        json!({"claimPropertySets": [{"volumeMode": "Filesystem"}]});
                }
            },
            "storageProfile",
            State::Unfit,
        ),
        (
            // Kite has its VMs migrated then.
            "a KubeVirt that migrates nothing by itself",
            |it| {
                if let Seen::Known(kubevirts) = &mut it.kubevirt {
                    kubevirts[0].data["spec"] = json!({});
                }
            },
            "liveResize",
            State::Fit,
        ),
        (
            "a KubeVirt that runs VMs as root",
            |it| {
                if let Seen::Known(kubevirts) = &mut it.kubevirt {
                    kubevirts[0].data["spec"]["configuration"]["developerConfiguration"] =
                        json!({"featureGates": ["Snapshot", "Root"]});
                }
            },
            "podSecurity",
            State::Warning,
        ),
        (
            "a CDI that clears away",
            |it| {
                if let Seen::Known(cdis) = &mut it.cdi {
                    cdis[0].data["spec"] = json!({"config": {"dataVolumeTTLSeconds": 0}});
                }
            },
            "dataVolumes",
            State::Unfit,
        ),
        (
            "pods with public addresses of no node's range",
            |it| {
                let pod = |name: &str, host_network: bool, ips: &[&str]| {
                    serde_json::from_value(json!({
                        "metadata": {"name": name, "namespace": "shop"},
                        "spec": {"containers": [], "hostNetwork": host_network},
                        "status": {"podIPs": ips.iter().map(|it| json!({"ip": it})).collect::<Vec<_>>()},
                    }))
                    .unwrap()
                };
                it.pods = Seen::Known(vec![
                    pod("inside", false, &["10.1.2.3", "fd00::7"]),
                    pod("node's", true, &["198.51.100.9"]),
                    pod("open", false, &["2600:db8::7"]),
                ]);
            },
            "podAddresses",
            State::Warning,
        ),
        (
            "somebody who may not install",
            |it| it.rights[0].1 = Some(false),
            "rights",
            State::Warning,
        ),
    ]
}

#[tokio::test]
async fn each_thing_that_is_amiss_is_found() {
    let fake = fit().await;
    for (what, change, check, expected) in cases() {
        let mut facts = facts(&fake).await;
        assert_eq!(
            state(&judge(&facts, &aim()), check),
            if check == "clock" {
                // In memory there is no server that says what time it is.
                State::Unknown
            } else {
                State::Fit
            }
        );
        change(&mut facts);
        let report = judge(&facts, &aim());
        assert_eq!(state(&report, check), expected, "{what}: {report}");
    }
}

fn set(seen: &mut Seen<Vec<DynamicObject>>, field: &str, value: &str) {
    let Seen::Known(objects) = seen else {
        panic!("{seen:?}");
    };
    objects[0].data["status"][field] = json!(value);
}

fn node(facts: &mut Facts, change: impl FnOnce(&mut k8s_openapi::api::core::v1::Node)) {
    let Seen::Known(nodes) = &mut facts.nodes else {
        panic!("{:?}", facts.nodes);
    };
    change(&mut nodes[0]);
}

fn snapshot_class(facts: &mut Facts, change: impl FnOnce(&mut VolumeSnapshotClass)) {
    if let Seen::Known(classes) = &mut facts.snapshot_classes {
        change(&mut classes[0]);
    }
}
