//! Clusters that are fit for Kite, and clusters that are not.

mod amiss;
mod data;
mod ways_in;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_admin::doctor::{Aim, Facts, Report, Seen, State, examine, judge};
use kite_core::crd::{self, KiteImage, KitePlatform};
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
