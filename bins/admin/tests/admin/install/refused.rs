//! What is refused before anything is written.

use kite_admin::{
    backup::require_installed,
    install::{Memory, apply, recall, require_no_field_dropped},
};
use kite_core::crd::KiteUser;
use kite_fake::FakeCluster;
use kite_render::install::{Installation, Manifest, Monitoring, Profile, Recordings, Storage};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::{World, small};

/// What is said, in a dry run and without, of what cannot be applied.
async fn refused(client: &Client, manifests: &[Manifest]) -> String {
    let mut errors = Vec::new();
    for dry_run in [true, false] {
        let done = apply(client, manifests, dry_run, |object, change| {
            panic!("{object}: {change:?}");
        });
        errors.push(done.await.unwrap_err().to_string());
    }
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].starts_with("nothing was written"), "{errors:?}");
    errors.remove(0)
}

fn monitored() -> Installation {
    let mut installation = small();
    installation.monitoring = Some(Monitoring {
        namespace: "monitoring".to_owned(),
    });
    installation
}

#[tokio::test]
async fn kinds_that_nobody_serves() {
    let world = World::new();
    let before = world.specs().await;
    let error = refused(&world.client, &monitored().manifests()).await;
    for words in [
        "PrometheusRule, ServiceMonitor",
        "monitoring.coreos.com/v1",
        "Prometheus operator",
        "--monitoring",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let mut without = small();
    without.crds = false;
    let error = refused(&world.client, &without.manifests()).await;
    assert!(
        error.contains("KitePlatform") && error.contains("--without-crds"),
        "{error}"
    );
    assert_eq!(world.specs().await, before);
    // With the operator it goes on.
    let operator = ["ServiceMonitor", "PrometheusRule"].map(|kind| {
        let plural = format!("{}s", kind.to_lowercase());
        serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        }}))
        .unwrap()
    });
    let fake = FakeCluster::builder().crds(operator).build().unwrap();
    for dry_run in [true, false] {
        let manifests = monitored().manifests();
        let left = apply(&fake.client(), &manifests, dry_run, |_, _| {}).await;
        assert!(left.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_namespace_that_would_not_be_there_fails_a_dry_run_too() {
    let world = World::new();
    let mut manifests = small().manifests();
    manifests.retain(|it| !matches!(it, Manifest::Namespace(_)));
    for dry_run in [true, false] {
        let done = apply(&world.client, &manifests, dry_run, |_, _| {}).await;
        let error = done.unwrap_err().to_string();
        assert!(error.contains(r#"namespaces "kite" not found"#), "{error}");
    }
}

#[tokio::test]
async fn a_class_of_other_parameters() {
    let world = World::new();
    let with_memory = |installation: &Installation, options: &[&str]| {
        let memory = Memory {
            version: "1.0.0".to_owned(),
            options: options.iter().map(|it| (*it).to_owned()).collect(),
        };
        let mut manifests = installation.manifests();
        manifests.insert(2, memory.manifest("kite").unwrap());
        manifests
    };
    let mut large = Profile::HighAvailability.installation();
    large.images.clear();
    let first = with_memory(&small(), &["--profile=single-node"]);
    let left = apply(&world.client, &first, false, |_, _| {}).await;
    assert!(left.unwrap().is_empty());
    let before = world.specs().await;
    let asked = with_memory(&large, &["--profile=high-availability"]);
    let error = refused(&world.client, &asked).await;
    for words in [
        "StorageClass kite-vm-storage",
        r#"parameters.numberOfReplicas "1" and not "3""#,
        "--storage-class kite-vm-storage-2 --longhorn 3",
        "--longhorn 1",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(world.specs().await, before, "nothing was written");
    let memory = recall(&world.client, "kite").await.unwrap().unwrap();
    assert_eq!(memory.options, ["--profile=single-node"]);
    // Both ways out are open.
    let mut kept = large.clone();
    kept.storage = Some(Storage::longhorn(1));
    let mut other = large.clone();
    other.platform.storage_class = Some("kite-vm-storage-2".to_owned());
    for installation in [&kept, &other] {
        world.apply(installation, false).await;
    }
    let mut driver = kept.clone();
    driver.storage = Some(Storage {
        provisioner: "csi.test".to_owned(),
        waits_for_consumer: true,
        parameters: [("pool".to_owned(), "a".to_owned())].into(),
    });
    let error = refused(&world.client, &driver.manifests()).await;
    assert!(
        error.contains(r#"provisioner "driver.longhorn.io" and not "csi.test""#)
            && error.contains("--provisioner csi.test --parameter pool=a"),
        "{error}"
    );
}

#[tokio::test]
async fn volumes_of_recordings_of_another_size() {
    let world = World::new();
    let mut installation = small();
    let of_size = |size: &str| {
        Some(Recordings {
            size: size.parse().unwrap(),
            storage_class: None,
            upload: None,
            credentials: None,
        })
    };
    installation.recordings = of_size("1Gi");
    world.apply(&installation, false).await;
    let before = world.specs().await;
    installation.recordings = of_size("2Gi");
    let error = refused(&world.client, &installation.manifests()).await;
    assert!(
        error.contains("StatefulSet kite/kite-gateway") && error.contains("--record"),
        "{error}"
    );
    assert_eq!(world.specs().await, before);
}

#[tokio::test]
async fn a_restore_where_kite_is_not() {
    let fake = FakeCluster::builder().build().unwrap();
    let error = require_installed(&fake.client()).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("KitePlatform") && error.contains("kite install"),
        "{error}"
    );
    assert!(!error.contains("Status"), "{error}");
    let manifests = small().manifests();
    let left = apply(&fake.client(), &manifests, false, |_, _| {}).await;
    assert!(left.unwrap().is_empty());
    require_installed(&fake.client()).await.unwrap();
}

#[tokio::test]
async fn definitions_that_drop_what_is_written() {
    let world = World::new();
    world.apply(&small(), false).await;
    let mut older = small().manifests();
    for manifest in &mut older {
        if let Manifest::CustomResourceDefinition(it) = manifest
            && it.spec.names.kind == "KiteUser"
        {
            let schema = it.spec.versions[0].schema.as_mut().unwrap();
            let schema = schema.open_api_v3_schema.as_mut().unwrap();
            let all = schema.properties.as_mut().unwrap();
            let spec = all.get_mut("spec").unwrap().properties.as_mut().unwrap();
            spec.remove("email").unwrap();
            // It is there by default.
            spec.remove("accessLevel").unwrap();
            let quota = spec.get_mut("quota").unwrap();
            quota
                .properties
                .as_mut()
                .unwrap()
                .remove("volumes")
                .unwrap();
            let status = all.get_mut("status").unwrap();
            status.properties.as_mut().unwrap().remove("phase").unwrap();
        }
    }
    let check = async |manifests: &[Manifest]| {
        let checked = require_no_field_dropped(&world.client, manifests).await;
        checked.map_err(|error| error.to_string())
    };
    check(&older).await.unwrap();
    let user = |name: &str, spec: serde_json::Value| {
        let mut spec = spec;
        spec["username"] = json!(name);
        let user = json!({"metadata": {"name": name}, "spec": spec});
        serde_json::from_value::<KiteUser>(user).unwrap()
    };
    let users = Api::<KiteUser>::all(world.client.clone());
    let params = PostParams::default();
    for user in [
        user("ann", json!({"email": "ann@example.org"})),
        user(
            "bob",
            json!({"quota": {"vms": 1, "cpu": 1, "memory": "1Gi", "disk": "1Gi", "volumes": 2}}),
        ),
        user("eve", json!({})),
    ] {
        users.create(&params, &user).await.unwrap();
    }
    let error = check(&older).await.unwrap_err();
    for words in [
        "nothing was written",
        "spec.email of KiteUser ann",
        "spec.quota.volumes of KiteUser bob",
        "--allow-downgrade",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(
        !error.contains("eve") && !error.contains("status"),
        "{error}"
    );
    check(&small().manifests()).await.unwrap();
}
