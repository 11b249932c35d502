//! Clone rights, asked of the fake's CDI and RBAC.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kite_core::cdi::{
    DataSource, DataSourceSource, DataSourceSpec, DataVolume, DataVolumeSourceRef, DataVolumeSpec,
    SourceObject, StorageSpec,
};
use kite_fake::{
    FakeCluster,
    actors::{CdiAdmission, cdi_definitions},
};
use kite_render::install::{Install, Storage};
use kube::{
    Api, Resource,
    api::{ObjectMeta, PostParams},
};
use serde::Serialize;
use serde_json::{Value, json};

fn install() -> Install {
    Install {
        storage: Some(Storage {
            provisioner: "csi.example.org".to_owned(),
            waits_for_consumer: true,
            parameters: [("pool".to_owned(), "vms".to_owned())].into(),
        }),
        ..Install::default()
    }
}

fn json_of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    value["apiVersion"] = json!(K::api_version(&()));
    value["kind"] = json!(K::kind(&()));
    value
}

/// A cluster that judges rights, with what is installed, and a namespace for
/// each tenant in which the controller may make disks.
fn cluster() -> FakeCluster {
    let cluster = FakeCluster::builder()
        .crds(cdi_definitions())
        .rbac(true)
        .build()
        .unwrap();
    cluster.admit_by(Arc::new(CdiAdmission));
    let install = install();
    let [kite, images] = install.namespaces();
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let rbac = "rbac.authorization.k8s.io";
    for object in [
        json_of(&kite),
        json_of(&images),
        namespace("ann"),
        namespace("bob"),
        json_of(&install.storage_class().unwrap()),
        json_of(&install.controller_account()),
        json_of(&install.api_service()),
        json_of(&install.clone_role()),
        json_of(&install.clone_binding()),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "disks"},
            "rules": [{"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "disks"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "disks"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "kite-controller", "namespace": "kite"},
                {"apiGroup": rbac, "kind": "User", "name": "ann"},
            ],
        }),
    ] {
        cluster.create(&object).unwrap();
    }
    for home in ["kite-images", "bob"] {
        let mut source = DataSource::new(
            "golden",
            DataSourceSpec {
                source: DataSourceSource {
                    pvc: Some(SourceObject {
                        namespace: home.to_owned(),
                        name: "golden".to_owned(),
                    }),
                    snapshot: None,
                },
            },
        );
        source.metadata.namespace = Some(home.to_owned());
        cluster.create(json_of(&source)).unwrap();
    }
    cluster
}

async fn clone_as(cluster: &FakeCluster, who: &str, from: &str) -> Result<(), String> {
    let disk = DataVolume {
        metadata: ObjectMeta {
            name: Some(format!("of-{from}")),
            ..ObjectMeta::default()
        },
        spec: DataVolumeSpec {
            source: None,
            source_ref: Some(DataVolumeSourceRef {
                kind: "DataSource".to_owned(),
                namespace: Some(from.to_owned()),
                name: "golden".to_owned(),
            }),
            storage: Some(StorageSpec::default()),
        },
        status: None,
    };
    let api = Api::<DataVolume>::namespaced(cluster.client_as(who), "ann");
    let made = api.create(&PostParams::default(), &disk).await;
    made.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn defect_1_disks_are_cloned_from_golden_images_and_from_nowhere_else() {
    let cluster = cluster();
    let controller = "system:serviceaccount:kite:kite-controller";
    clone_as(&cluster, controller, "kite-images").await.unwrap();
    let error = clone_as(&cluster, controller, "bob").await.unwrap_err();
    assert!(
        error.contains("insufficient permissions in clone source namespace bob"),
        "{error}"
    );
    // Who may make disks may not for that reason clone images.
    let error = clone_as(&cluster, "ann", "kite-images").await.unwrap_err();
    assert!(error.contains("insufficient permissions"), "{error}");
}

#[test]
fn what_is_installed() {
    let install = install();
    insta::assert_yaml_snapshot!("install_storage_class", install.storage_class());
    insta::assert_yaml_snapshot!("install_clone_role", install.clone_role());
    insta::assert_yaml_snapshot!("install_clone_binding", install.clone_binding());
    insta::assert_yaml_snapshot!("install_api_service", install.api_service());
    assert_eq!(Install::default().storage_class(), None);
}
