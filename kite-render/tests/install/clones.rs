//! Clone rights, asked of the fake's CDI and RBAC.

use std::sync::Arc;

use kite_core::cdi::{
    DataSource, DataSourceSource, DataSourceSpec, DataVolume, DataVolumeSourceRef, DataVolumeSpec,
    SourceObject, StorageSpec,
};
use kite_fake::FakeCluster;
use kite_fake_kubevirt::cdi::CdiAdmission;
use kite_fake_kubevirt::cdi_definitions;
use kite_render::install::{Process, Profile};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use serde_json::json;

use crate::stage::apply_all;

/// A cluster that judges rights, with what is installed, and a namespace for
/// each tenant.
async fn cluster() -> FakeCluster {
    let cluster = FakeCluster::builder()
        .crds(cdi_definitions())
        .rbac(true)
        .build()
        .unwrap();
    cluster.admit_by(Arc::new(CdiAdmission));
    apply_all(&cluster.client(), &Profile::SingleNode.installation()).await;
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let rbac = "rbac.authorization.k8s.io";
    for object in [
        namespace("ann"),
        namespace("bob"),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "disks"},
            "rules": [{"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "disks"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "disks"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "ann"}],
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
        cluster.create(json!(source)).unwrap();
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
    let cluster = cluster().await;
    let controller = Process::Controller.username("kite");
    let controller = controller.as_str();
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

#[tokio::test]
async fn the_controller_changes_no_disk_that_is_not_kites() {
    let cluster = cluster().await;
    let disk = |namespace: &str, labels: serde_json::Value| {
        json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": {"name": "disk", "namespace": namespace, "labels": labels},
            "spec": {"source": {"blank": {}}, "storage": {}},
        })
    };
    let own = json!({"hy3ons.github.io/managed-by": "kite-controller"});
    cluster.create(disk("bob", json!({}))).unwrap();
    cluster.create(disk("kite-images", own)).unwrap();
    let controller = Process::Controller.username("kite");
    let delete = async |namespace: &str| {
        let disks = Api::<DataVolume>::namespaced(cluster.client_as(&controller), namespace);
        disks.delete("disk", &DeleteParams::default()).await
    };
    let error = delete("bob").await.unwrap_err().to_string();
    assert!(
        error.contains("ValidatingAdmissionPolicy 'kite-writes'"),
        "{error}"
    );
    delete("kite-images").await.unwrap();
}
