//! Clusters that are fit for Kite, and clusters that are not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Service,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_admin::doctor::{Aim, Facts, Report, Seen, State, examine, judge};
use kite_core::crd::{self, KiteImage, KitePlatform};
use kite_core::volume_snapshot::VolumeSnapshotClass;
use kite_fake::FakeCluster;
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions};
use kite_render::install::{Installation, Manifest};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

fn aim() -> Aim {
    Aim {
        namespace: "kite".to_owned(),
        storage_class: None,
        planned: None,
        proxied: false,
    }
}

/// A kind that somebody else's program defines, of any shape.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                      "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))
    .unwrap()
}

fn others() -> Vec<CustomResourceDefinition> {
    vec![
        definition("kubevirt.io", "v1", "KubeVirt", "kubevirts"),
        definition("cdi.kubevirt.io", "v1beta1", "CDI", "cdis"),
        definition(
            "cdi.kubevirt.io",
            "v1beta1",
            "StorageProfile",
            "storageprofiles",
        ),
        definition(
            "snapshot.storage.k8s.io",
            "v1",
            "VolumeSnapshotClass",
            "volumesnapshotclasses",
        ),
    ]
}

async fn make(client: &Client, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", "v1"));
    let mut kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    let plurals = [
        ("KubeVirt", "kubevirts"),
        ("CDI", "cdis"),
        ("Ingress", "ingresses"),
    ];
    if let Some((_, plural)) = plurals.iter().find(|(of, _)| *of == types.kind) {
        (*plural).clone_into(&mut kind.plural);
    }
    let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let status = object.data.get("status").cloned();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    if let Some(status) = status {
        let name = made.metadata.name.unwrap();
        let patch = Patch::Merge(json!({ "status": status }));
        let written = api
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
        // Kinds of any shape keep it without a subresource.
        if let Err(kube::Error::Api(answer)) = written {
            assert_eq!(answer.code, 404, "{answer:?}");
        }
    }
}

/// A cluster on which nothing is amiss, before Kite is installed.
async fn fit() -> FakeCluster {
    let definitions = kubevirt_definitions().into_iter().chain(cdi_definitions());
    let has = |name: &str| {
        others()
            .iter()
            .any(|it| it.metadata.name.as_deref() == Some(name))
    };
    let definitions =
        definitions.filter(|it| !has(it.metadata.name.as_deref().unwrap_or_default()));
    let fake = FakeCluster::builder()
        .crds(definitions)
        .crds(others())
        .build()
        .unwrap();
    let client = fake.client();
    for object in [
        json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"},
               "spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]}},
               "status": {"phase": "Deployed", "observedKubeVirtVersion": "v1.9.0"}}),
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "metadata": {"name": "cdi"},
               "status": {"phase": "Deployed", "observedVersion": "1.66.1"}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
               "metadata": {"name": "kite-vm-storage"}, "provisioner": "csi.test",
               "allowVolumeExpansion": true}),
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "StorageProfile",
               "metadata": {"name": "kite-vm-storage"},
               "status": {"claimPropertySets": [{"accessModes": ["ReadWriteOnce"]}]}}),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
               "metadata": {"name": "snaps"}, "driver": "csi.test", "deletionPolicy": "Delete"}),
        json!({"apiVersion": "v1", "kind": "Node",
               "metadata": {"name": "one", "labels": {"kubevirt.io/schedulable": "true"}},
               "status": {"allocatable": {"devices.kubevirt.io/kvm": "1k"},
                          "nodeInfo": {"kubeletVersion": "v1.34.1+k3s1", "architecture": "amd64",
                            "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                            "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux",
                            "osImage": "", "systemUUID": ""}}}),
    ] {
        make(&client, object).await;
    }
    fake
}

fn windows() -> KiteImage {
    let spec = json!({
        "osFamily": "Windows", "minDisk": "64Gi",
        "source": {"http": {"url": "https://images.test/windows.qcow2"}},
    });
    serde_json::from_value(json!({"metadata": {"name": "windows-11"}, "spec": spec})).unwrap()
}

fn snapshot_class(facts: &mut Facts, change: impl FnOnce(&mut VolumeSnapshotClass)) {
    if let Seen::Known(classes) = &mut facts.snapshot_classes {
        change(&mut classes[0]);
    }
}

#[tokio::test]
async fn what_windows_vms_keep_has_a_class_by_name_or_by_default() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    assert!(judge(&facts, &aim()).find("vmState").is_none());
    facts.images = Seen::Known(vec![windows()]);
    let told = judge(&facts, &aim());
    assert_eq!(state(&told, "vmState"), State::Warning, "{told}");
    assert!(told.find("vmState").unwrap().message.contains("windows-11"));
    if let Seen::Known(kubevirts) = &mut facts.kubevirt {
        kubevirts[0].data["spec"]["configuration"]["vmStateStorageClass"] =
            json!("kite-vm-storage");
    }
    assert_eq!(state(&judge(&facts, &aim()), "vmState"), State::Fit);
    if let Seen::Known(kubevirts) = &mut facts.kubevirt {
        kubevirts[0].data["spec"]["configuration"]["vmStateStorageClass"] = json!("gone");
    }
    let told = judge(&facts, &aim());
    assert_eq!(state(&told, "vmState"), State::Warning, "{told}");
    if let Seen::Known(kubevirts) = &mut facts.kubevirt {
        kubevirts[0].data["spec"] = json!({});
    }
    if let Seen::Known(classes) = &mut facts.storage_classes {
        let default = "storageclass.kubernetes.io/is-default-class";
        classes[0].metadata.annotations = Some([(default.to_owned(), "true".to_owned())].into());
    }
    assert_eq!(state(&judge(&facts, &aim()), "vmState"), State::Fit);
}

fn state(report: &Report, check: &str) -> State {
    let found = report.find(check);
    found
        .unwrap_or_else(|| panic!("nothing of {check} in {report}"))
        .state
}

async fn facts(fake: &FakeCluster) -> Facts {
    Facts::gather(&fake.client(), &aim(), Timestamp::now).await
}

#[tokio::test]
async fn a_bare_cluster_is_told_what_it_lacks() {
    let fake = FakeCluster::builder().build().unwrap();
    let report = examine(&fake.client(), &aim()).await;
    assert!(!report.is_fit(), "{report}");
    for check in ["kubevirt", "cdi", "nodes", "storageClass"] {
        assert_eq!(state(&report, check), State::Unfit, "{report}");
    }
    assert_eq!(state(&report, "apiServer"), State::Fit);
    assert_eq!(state(&report, "customResources"), State::Unknown);
    for finding in &report.findings {
        let has_remedy = finding.remedy.is_some();
        assert_eq!(has_remedy, finding.state != State::Fit, "{finding:?}");
    }
}

#[tokio::test]
async fn a_cluster_that_is_ready_for_kite_is_fit() {
    let fake = fit().await;
    let report = examine(&fake.client(), &aim()).await;
    assert!(report.is_fit(), "{report}");
    for check in [
        "apiServer",
        "kubevirt",
        "cdi",
        "nodes",
        "networkPolicies",
        "storageClass",
        "diskGrowth",
        "storageProfile",
        "snapshots",
        "liveResize",
        "podSecurity",
        "dataVolumes",
        "podAddresses",
        "rights",
    ] {
        assert_eq!(state(&report, check), State::Fit, "{report}");
    }
}

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

#[tokio::test]
async fn a_certificate_that_the_controller_may_not_look_at_is_told_with_what_gives_the_right() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let mut installation = Installation::default();
    let role = |installation: &Installation| {
        let manifests = installation.manifests().into_iter();
        let mut roles = manifests.filter_map(|it| match it {
            Manifest::Role(role) => Some(role),
            _ => None,
        });
        roles.find(|it| it.metadata.name.as_deref() == Some("kite-controller"))
    };
    let named = |name: &str| -> KitePlatform {
        serde_json::from_value(json!({
            "metadata": {"name": "default"},
            "spec": {"exposure": {"certificate": {"secretName": name}}},
        }))
        .unwrap()
    };
    facts.own_role = Seen::Known(*role(&installation).unwrap());
    assert!(judge(&facts, &aim()).find("certificateSecret").is_none());
    for (name, expected, remedy) in [
        ("kite-certificate", State::Fit, ""),
        ("mine", State::Warning, "--certificate-secret mine"),
        ("kite-seal", State::Warning, "a Secret of its own"),
    ] {
        facts.platform = Seen::Known(named(name));
        let told = judge(&facts, &aim());
        assert_eq!(state(&told, "certificateSecret"), expected, "{told}");
        let found = told.find("certificateSecret").unwrap();
        let shown = found.remedy.as_deref().unwrap_or_default();
        assert!(shown.contains(remedy), "{shown}");
    }
    installation.certificate_secrets = vec!["mine".to_owned()];
    facts.own_role = Seen::Known(*role(&installation).unwrap());
    facts.platform = Seen::Known(named("mine"));
    assert_eq!(
        state(&judge(&facts, &aim()), "certificateSecret"),
        State::Fit
    );
    // Whoever asks may not know.
    facts.own_role = Seen::Refused;
    assert!(judge(&facts, &aim()).find("certificateSecret").is_none());
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

async fn with_kite(spec: &Value, status: &Value) -> FakeCluster {
    let fake = fit().await;
    let client = fake.client();
    for definition in crd::all() {
        make(&client, serde_json::to_value(definition).unwrap()).await;
    }
    let platform = json!({"apiVersion": "hy3ons.github.io/v1", "kind": "KitePlatform",
                          "metadata": {"name": "default"}, "spec": spec, "status": status});
    make(&client, platform).await;
    fake
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_told_of_and_not_judged() {
    let fake = fit().await;
    let client = fake.client();
    for definition in crd::all() {
        let mut definition = serde_json::to_value(definition).unwrap();
        if definition["spec"]["names"]["kind"] == "KitePlatform" {
            // As a later version may have it.
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        make(&client, definition).await;
    }
    make(
        &client,
        json!({"apiVersion": "hy3ons.github.io/v1", "kind": "KitePlatform",
               "metadata": {"name": "default"}, "spec": {"signUp": "Sometimes"}}),
    )
    .await;
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "platform"), State::Unfit, "{report}");
    let message = &report.find("platform").unwrap().message;
    assert!(message.contains("spec.signUp"), "{message}");
    assert_eq!(state(&report, "exposure"), State::Unknown, "{report}");
}

#[tokio::test]
async fn how_people_get_in_is_looked_at_once_kite_is_there() {
    let spec = json!({
        "baseDomain": "localhost",
        "exposure": {"ingressClassName": "nginx", "certificate": {"clusterIssuer": "acme"}},
    });
    let fake = with_kite(&spec, &json!({"addresses": ["192.0.2.7"]})).await;
    let report = examine(&fake.client(), &aim()).await;
    assert_eq!(state(&report, "customResources"), State::Fit, "{report}");
    assert_eq!(state(&report, "exposure"), State::Unfit, "{report}");
    assert_eq!(state(&report, "certificate"), State::Unfit, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unknown, "{report}");
    let elsewhere = |it: &kite_admin::doctor::Finding| {
        it.check == "dns" && it.message.ends_with("and Kite is at 192.0.2.7")
    };
    assert!(report.findings.iter().any(elsewhere), "{report}");

    let client = fake.client();
    make(
        &client,
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
               "metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}}),
    )
    .await;
    make(
        &client,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}}),
    )
    .await;
    make(
        &client,
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "kite-gateway-external", "namespace": "kite"},
               "spec": {"type": "LoadBalancer", "ports": [{"port": 22}]}}),
    )
    .await;
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Fit, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unfit, "{report}");
}

#[tokio::test]
async fn how_people_would_get_in_is_looked_at_before_there_are_settings() {
    let fake = fit().await;
    let client = fake.client();
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Warning, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unknown, "{report}");
    for object in [
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
               "metadata": {"name": "nginx", "annotations": {
                   "ingressclass.kubernetes.io/is-default-class": "true"}},
               "spec": {"controller": "k8s.io/ingress-nginx"}}),
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "web", "namespace": "default"},
               "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "inner", "namespace": "default"},
               "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}),
    ] {
        make(&client, object).await;
    }
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Fit, "{report}");
    let balancer = report.find("loadBalancer").unwrap();
    assert_eq!(balancer.state, State::Warning);
    assert!(balancer.message.contains("default/web"), "{balancer:?}");

    let served =
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8", "ipMode": "VIP"}]}}});
    Api::<Service>::namespaced(client.clone(), "default")
        .patch_status("web", &PatchParams::default(), &Patch::Merge(served))
        .await
        .unwrap();
    let report = examine(&client, &aim()).await;
    let balancer = report.find("loadBalancer").unwrap();
    assert_eq!(balancer.state, State::Fit);
    assert!(balancer.message.ends_with("192.0.2.8"), "{balancer:?}");
}

#[tokio::test]
async fn gateways_are_ways_in_too() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let exposure = |facts: &Facts, aim: &Aim| judge(facts, aim).find("exposure").unwrap().clone();
    let none = exposure(&facts, &aim());
    assert!(none.message.contains("nor a Gateway"), "{none:?}");
    let gateway = |name: &str, programmed: &str| {
        serde_json::from_value(json!({
            "metadata": {"namespace": "edge", "name": name},
            "status": {"conditions": [{"type": "Programmed", "status": programmed}]}}))
        .unwrap()
    };
    facts.gateways = Seen::Known(vec![gateway("broken", "False"), gateway("public", "True")]);
    let named = exposure(&facts, &aim());
    assert_eq!(named.state, State::Warning, "{named:?}");
    assert!(!named.message.contains("neither"), "{named:?}");
    assert!(
        named.message.contains("edge/public, edge/broken"),
        "{named:?}"
    );
    let remedy = named.remedy.unwrap();
    assert!(
        remedy.contains("--gateway-api edge/public of kite install"),
        "{remedy}"
    );
    // Settings that leave it to a default class, of which there is none.
    let planned = Aim {
        planned: Some(serde_json::from_value(json!({"baseDomain": "localhost"})).unwrap()),
        ..aim()
    };
    let remedy = exposure(&facts, &planned).remedy.unwrap();
    assert!(remedy.contains("edge/public"), "{remedy}");
    // Beside classes, one of which is used by itself or not.
    for (is_default, state, words) in [
        (
            "false",
            State::Warning,
            "--ingress-class nginx or --gateway-api edge/public",
        ),
        ("true", State::Fit, "--gateway-api edge/public"),
    ] {
        let class = json!({"metadata": {"name": "nginx", "annotations": {
            "ingressclass.kubernetes.io/is-default-class": is_default}}});
        facts.ingress_classes = Seen::Known(vec![serde_json::from_value(class).unwrap()]);
        let found = exposure(&facts, &aim());
        assert_eq!(found.state, state, "{found:?}");
        let told = format!("{} {}", found.message, found.remedy.unwrap_or_default());
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test]
async fn whether_the_web_page_sees_clients_is_told() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let platform = |gateway: Value| {
        let platform = json!({"metadata": {"name": "default"},
            "spec": {"baseDomain": "vm.test", "gateway": gateway},
            "status": {"addresses": ["192.0.2.8"]}});
        Seen::Known(serde_json::from_value(platform).unwrap())
    };
    let found = |facts: &Facts| judge(facts, &aim()).find("clientAddresses").cloned();
    let api = |proxies: &str| {
        let deployment = json!({"metadata": {"name": "kite-api"}, "spec": {
            "selector": {}, "template": {"spec": {"containers": [{"name": "kite-api",
                "env": [{"name": "KITE_TRUSTED_PROXIES", "value": proxies}]}]}}}});
        Seen::Known(vec![serde_json::from_value(deployment).unwrap()])
    };
    let service = |namespace: &str, policy: &str| {
        let service = json!({"metadata": {"name": "ingress", "namespace": namespace},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}}});
        Seen::Known(vec![serde_json::from_value(service).unwrap()])
    };
    facts.platform = platform(json!({}));
    facts.deployments = api("1");
    for (namespace, policy, state) in [
        ("ingress", "Local", State::Fit),
        ("ingress", "Cluster", State::Warning),
        // The gateway's own, which shares the address.
        ("kite", "Cluster", State::Fit),
    ] {
        facts.balanced = service(namespace, policy);
        let found = found(&facts).unwrap();
        assert_eq!(found.state, state, "{namespace} {policy}: {found:?}");
    }
    facts.deployments = api("0");
    facts.platform = platform(json!({"trafficPolicy": "Cluster"}));
    let both = found(&facts).unwrap();
    assert_eq!(both.state, State::Warning, "{both:?}");
    let remedy = both.remedy.unwrap();
    for words in ["spec.gateway.trafficPolicy", "--trusted-proxies"] {
        assert!(remedy.contains(words), "{remedy}");
    }
    facts.platform = platform(json!({"enabled": false}));
    let web = found(&facts).unwrap();
    assert!(web.message.contains("the API"), "{web:?}");
}

#[tokio::test]
async fn whether_the_gateway_sees_clients_is_told() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let planned = |gateway: Value| Aim {
        planned: Some(serde_json::from_value(json!({ "gateway": gateway })).unwrap()),
        ..aim()
    };
    let found = |facts: &Facts, aim: &Aim| judge(facts, aim).find("clientAddresses").cloned();
    let hidden = planned(json!({"trafficPolicy": "Cluster"}));
    assert_eq!(found(&facts, &aim()), None, "nobody has said how yet");
    assert_eq!(found(&facts, &planned(json!({"enabled": false}))), None);
    let seen = found(&facts, &planned(json!({}))).unwrap();
    assert_eq!(seen.state, State::Fit, "{seen:?}");
    let not_seen = found(&facts, &hidden).unwrap();
    assert_eq!(not_seen.state, State::Warning, "{not_seen:?}");
    let remedy = not_seen.remedy.unwrap();
    for words in ["trafficPolicy", "Local", "--proxy-protocol-from"] {
        assert!(remedy.contains(words), "{remedy}");
    }
    let report = judge(&facts, &hidden);
    assert!(report.to_look_at().any(|it| it.check == "clientAddresses"));
    let told = Aim {
        proxied: true,
        ..hidden.clone()
    };
    assert_eq!(found(&facts, &told).unwrap().state, State::Fit);
    // A gateway that is there says so itself.
    for (name, variable, value, state) in [
        (
            "kite-gateway",
            "KITE_PROXY_PROTOCOL_FROM",
            "10.0.0.1",
            State::Fit,
        ),
        (
            "kite-gateway",
            "KITE_PROXY_PROTOCOL_FROM",
            "",
            State::Warning,
        ),
        ("kite-gateway", "KITE_NEVER_BAN", "10.0.0.1", State::Warning),
        (
            "other",
            "KITE_PROXY_PROTOCOL_FROM",
            "10.0.0.1",
            State::Warning,
        ),
    ] {
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "selector": {}, "template": {"spec": {"containers": [
                {"name": name, "env": [{"name": variable, "value": value}]}]}}}});
        facts.deployments = Seen::Known(vec![serde_json::from_value(deployment).unwrap()]);
        let found = found(&facts, &hidden).unwrap();
        assert_eq!(found.state, state, "{name} {variable}={value}");
    }
}

#[tokio::test]
async fn settings_that_are_to_be_written_are_held_against_the_cluster() {
    let fake = fit().await;
    let planned = |settings: Value| Aim {
        planned: Some(serde_json::from_value(settings).unwrap()),
        ..aim()
    };
    let by_gateway = planned(json!({
        "baseDomain": "localhost",
        "exposure": {
            "gateway": {"namespace": "infra", "name": "front"},
            "certificate": {"clusterIssuer": "acme"},
        },
    }));
    let report = examine(&fake.client(), &by_gateway).await;
    let gateway = report.find("exposure").unwrap();
    assert_eq!(gateway.message, "there is no Gateway infra/front");
    assert_eq!(state(&report, "certificate"), State::Unfit, "{report}");
    assert!(report.find("dns").is_some(), "{report}");
    let told: Vec<_> = report.to_look_at().map(|it| it.check).collect();
    assert!(told.starts_with(&["exposure", "certificate"]), "{told:?}");
    // It can be installed all the same, before what stands in front of it.
    assert_eq!(report.before_install(false).count(), 0);

    // What there is counts, and not what somebody would like to write.
    let fake = with_kite(&json!({}), &json!({})).await;
    let report = examine(&fake.client(), &by_gateway).await;
    let none = report.find("exposure").unwrap();
    assert!(none.message.contains("without a base domain"), "{none:?}");
}

#[tokio::test]
async fn whom_vms_ask_for_names_is_told() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    let dns = |namespace: &str, app: &str| {
        json!({"metadata": {"name": "dns", "namespace": namespace, "labels": {"k8s-app": app}},
               "spec": {"containers": []}, "status": {"podIPs": [{"ip": "203.0.113.53"}]}})
    };
    for (named, pod, expected) in [
        (json!([]), dns("kube-system", "kube-dns"), State::Warning),
        (
            json!(["198.51.100.53"]),
            dns("kube-system", "kube-dns"),
            State::Fit,
        ),
        (
            json!(["198.51.100.53", "203.0.113.53"]),
            dns("kube-system", "kube-dns"),
            State::Warning,
        ),
        (
            json!(["203.0.113.53"]),
            dns("resolvers", "unbound"),
            State::Fit,
        ),
        (
            json!(["10.96.0.10"]),
            dns("resolvers", "unbound"),
            State::Warning,
        ),
        (
            json!(["169.254.20.10"]),
            dns("resolvers", "unbound"),
            State::Warning,
        ),
    ] {
        let service = json!({"metadata": {"name": "kube-dns"},
                             "spec": {"clusterIPs": ["10.96.0.10"]}});
        facts.dns_services = Seen::Known(vec![serde_json::from_value(service).unwrap()]);
        if let Seen::Known(platform) = &mut facts.platform {
            platform.spec.nameservers = serde_json::from_value(named.clone()).unwrap();
        }
        facts.pods = Seen::Known(vec![serde_json::from_value(pod).unwrap()]);
        let report = judge(&facts, &aim());
        assert_eq!(state(&report, "nameservers"), expected, "{named} {report}");
        assert!(report.is_fit(), "it keeps nobody from anything: {report}");
    }
    // Before there is a platform.
    let report = examine(&fit().await.client(), &aim()).await;
    assert_eq!(state(&report, "nameservers"), State::Warning, "{report}");
}

#[tokio::test]
async fn vms_that_nobody_may_keep_in_order_are_named_with_what_to_do() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    assert!(judge(&facts, &aim()).find("vmsElsewhere").is_none());
    let vm = |namespace: &str| -> DynamicObject {
        let metadata = json!({"name": "web", "namespace": namespace});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    facts.vms = Seen::Known(vec![vm("kite-user-ann"), vm("elsewhere"), vm("bound")]);
    let binding = json!({
        "metadata": {"name": "kite-controller-users", "namespace": "bound"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "kite-controller-users"},
    });
    facts.own_bindings = Seen::Known(vec![serde_json::from_value(binding).unwrap()]);
    let report = judge(&facts, &aim());
    let finding = report.find("vmsElsewhere").unwrap();
    assert_eq!(finding.state, State::Warning);
    assert!(finding.message.contains("elsewhere/web"), "{finding:?}");
    for other in ["kite-user-ann", "bound/"] {
        assert!(!finding.message.contains(other), "{finding:?}");
    }
    let remedy = finding.remedy.as_deref().unwrap();
    let bind = "kubectl -n elsewhere create rolebinding kite-controller-users";
    assert!(remedy.contains(bind), "{remedy}");
}

#[tokio::test]
async fn what_is_lost_or_not_kept_is_named() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    for check in ["lostData", "snapshotSchedules"] {
        assert!(judge(&facts, &aim()).find(check).is_none(), "{check}");
    }
    let object = |name: &str, status: Value| -> DynamicObject {
        let metadata = json!({"name": name, "namespace": "kite-user-ann"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    let vm = |name: &str, kind: &str, status: &str, reason: &str| {
        let told = json!([{"type": kind, "status": status, "reason": reason}]);
        object(name, json!({ "conditions": told }))
    };
    facts.vms = Seen::Known(vec![
        vm("gone", "DiskReady", "False", "DiskLost"),
        vm("going", "DiskReady", "False", "DiskLeaving"),
        vm("whole", "DiskReady", "True", "DiskUnmanaged"),
        vm("made", "DiskReady", "False", "Cloning"),
        vm("stuck", "SnapshotsScheduled", "False", "ScheduleSuspended"),
        vm("waits", "SnapshotsScheduled", "False", "ScheduleWaits"),
        vm("follows", "SnapshotsScheduled", "True", "ScheduleFollowed"),
    ]);
    facts.volumes = Seen::Known(vec![
        object("data", json!({"phase": "Lost"})),
        object("logs", json!({"phase": "Attached"})),
    ]);
    let report = judge(&facts, &aim());
    assert!(report.is_fit(), "it keeps nobody from anything: {report}");
    for (check, told, others) in [
        (
            "lostData",
            &["ann/gone", "ann/going", "ann/data"][..],
            &["whole", "made", "logs", "stuck"][..],
        ),
        (
            "snapshotSchedules",
            &["ann/stuck"],
            &["waits", "follows", "gone"],
        ),
    ] {
        let finding = report.find(check).unwrap();
        assert_eq!(finding.state, State::Warning);
        let message = &finding.message;
        let names = |name: &&str| message.contains(*name);
        assert!(told.iter().all(names), "{message}");
        assert!(!others.iter().any(names), "{message}");
    }
}

#[tokio::test]
async fn kinds_of_another_version_are_told() {
    let fake = with_kite(&json!({}), &json!({})).await;
    let mut facts = facts(&fake).await;
    if let Seen::Known(definitions) = &mut facts.definitions {
        let user = |it: &&mut CustomResourceDefinition| it.spec.names.kind == "KiteUser";
        let user = definitions.iter_mut().find(user).unwrap();
        user.spec.versions[0].schema = None;
    }
    let report = judge(&facts, &aim());
    let finding = report.find("customResources").unwrap();
    assert_eq!(finding.state, State::Warning);
    assert!(finding.message.contains("KiteUser"), "{finding:?}");
    if let Seen::Known(definitions) = &mut facts.definitions {
        definitions.retain(|it| it.spec.names.kind != "KiteUser");
    }
    assert_eq!(
        state(&judge(&facts, &aim()), "customResources"),
        State::Unfit
    );
}

#[tokio::test]
async fn what_one_may_not_see_is_not_called_missing() {
    let fake = FakeCluster::builder().rbac(true).build().unwrap();
    let nobody = fake.client_as("system:serviceaccount:default:nobody");
    let report = examine(&nobody, &aim()).await;
    for check in [
        "kubevirt",
        "cdi",
        "nodes",
        "storageClass",
        "customResources",
    ] {
        assert_eq!(state(&report, check), State::Unknown, "{report}");
    }
    assert!(report.was_looked_at());
    assert_eq!(state(&report, "rights"), State::Warning, "{report}");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_not_fit() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let gone = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let refused = std::io::Error::other("no route");
        std::future::ready(Err::<http::Response<kube::client::Body>, _>(refused))
    });
    let report = examine(&Client::new(gone, "default"), &aim()).await;
    assert!(!report.is_fit() && !report.was_looked_at());
    assert_eq!(report.findings.len(), 1, "{report}");
    assert!(report.findings[0].message.contains("no route"), "{report}");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "asked on in vain");
}
