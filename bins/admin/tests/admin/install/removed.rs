//! Installations that are taken away, with and without what people have.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{Namespace, PersistentVolumeClaim, Secret, Service},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_admin::install::{Change, Data, Removed, first_admin, remove, require_here};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, KubeCluster, ObjectKey},
    crd::{KiteUser, KiteUserSpec, KiteVirtualMachine},
    names,
};
use kite_reconcile::{Context, operator::Operator};
use kite_render::install::{Manifest, Process, Recordings};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{LONG, World, of, small};

/// An installation with a controller that works, a user, and a VM that runs.
async fn with_vm(world: &World) -> KubeCluster {
    world.apply(&small(), false).await;
    // The admission policies let nobody else do its work.
    let client = world.fake.client_as(&Process::Controller.username("kite"));
    let stop = world.stop.child_token();
    let (deployments, ended) = (world.client.clone(), stop.clone());
    // It ends with its Deployment, as its pods do.
    tokio::spawn(async move {
        let deployments = Api::<Deployment>::namespaced(deployments, "kite");
        while let Ok(Some(_)) = deployments.get_opt("kite-controller").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ended.cancel();
    });
    let controller = Operator::without_election().run(
        client,
        |client| Context::new(KubeCluster::new(client)),
        stop,
    );
    tokio::spawn(controller);
    let cluster = KubeCluster::new(world.client.clone());
    let image = json!({"metadata": {"name": "debian"}, "spec": {
        "osFamily": "Debian", "minDisk": "1Gi",
        "source": {"registry": {"url": "docker://registry.test/debian"}}}});
    let image: kite_core::crd::KiteImage = serde_json::from_value(image).unwrap();
    cluster.create(&image).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    cluster.create(&ann).await.unwrap();
    let namespace = names::user_namespace("ann");
    until("ann has a namespace", async || {
        let key = ObjectKey::cluster(namespace.clone());
        cluster.get_opt::<Namespace>(&key).await.unwrap().is_some()
    })
    .await;
    let vm = json!({"metadata": {"name": "web", "namespace": namespace}, "spec": {
        "sshId": "ann-web", "image": "debian", "cpu": 1, "memory": "1Gi", "disk": "2Gi",
        "powerState": "On"}});
    let vm: KiteVirtualMachine = serde_json::from_value(vm).unwrap();
    cluster.create(&vm).await.unwrap();
    let key = ObjectKey::namespaced(namespace, "web");
    until("the VM runs", async || {
        let vm = cluster.get::<KiteVirtualMachine>(&key).await.unwrap();
        let phase = vm.status.and_then(|it| it.phase);
        phase == Some(kite_core::crd::VmPhase::Running)
    })
    .await;
    cluster
}

async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..1200 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn without_kite_vms_and_their_disks_stay() {
    let world = World::new();
    let cluster = with_vm(&world).await;
    let claims = world.count::<PersistentVolumeClaim>().await;
    assert!(claims > 0);
    remove(&world.client, "kite", Data::Keep, true, LONG, |_, _| {})
        .await
        .unwrap();
    assert_eq!(world.count::<Deployment>().await, 3, "a dry run");

    remove(&world.client, "kite", Data::Keep, false, LONG, |_, _| {})
        .await
        .unwrap();
    assert_eq!(world.count::<Deployment>().await, 0);
    let roles = Api::<ClusterRole>::all(world.client.clone());
    let own = roles.list(&ListParams::default()).await.unwrap();
    let own = own
        .items
        .iter()
        .filter(|it| it.metadata.name.as_deref().unwrap().starts_with("kite"));
    assert_eq!(own.count(), 0);
    let services = Api::<Service>::namespaced(world.client.clone(), "kite");
    let services = services.list(&ListParams::default()).await.unwrap();
    assert!(services.items.is_empty(), "no load balancer stays");
    assert_eq!(world.count::<KiteUser>().await, 1);
    assert_eq!(world.count::<PersistentVolumeClaim>().await, claims);
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    assert!(
        cluster
            .get_opt::<KiteVirtualMachine>(&key)
            .await
            .unwrap()
            .is_some()
    );
    // And it can come back.
    let again = world.apply(&small(), false).await;
    let namespace = again.iter().find(of("Namespace", "kite")).unwrap();
    assert_eq!(*namespace.1, Change::Unchanged);
}

#[tokio::test]
async fn asked_for_by_name_everything_goes() {
    let world = World::new();
    let cluster = with_vm(&world).await;
    remove(&world.client, "kite", Data::Delete, false, LONG, |_, _| {})
        .await
        .unwrap();
    assert_eq!(world.count::<KiteUser>().await, 0);
    assert_eq!(world.count::<PersistentVolumeClaim>().await, 0);
    assert_eq!(world.count::<Secret>().await, 0);
    let kinds = Api::<CustomResourceDefinition>::all(world.client.clone());
    until("the kinds are gone", async || {
        let kinds = kinds.list(&ListParams::default()).await.unwrap();
        kinds
            .items
            .iter()
            .all(|it| it.spec.group != "hy3ons.github.io")
    })
    .await;
    for name in ["kite", "kite-images"] {
        let key = ObjectKey::cluster(name);
        assert!(
            cluster.get_opt::<Namespace>(&key).await.unwrap().is_none(),
            "{name}"
        );
    }
    // Nothing is left to do.
    remove(
        &world.client,
        "kite",
        Data::Delete,
        false,
        LONG,
        |object, _| panic!("{object}"),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn what_others_made_is_not_taken_away() {
    let world = World::new();
    let labelled = |kind: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {
            "name": name, "labels": {"app.kubernetes.io/part-of": "kite"}}})
    };
    let namespaces = Api::<Namespace>::all(world.client.clone());
    let params = PatchParams::apply("somebody");
    for name in ["kite-images", "theirs"] {
        let theirs = Patch::Apply(labelled("Namespace", name));
        namespaces.patch(name, &params, &theirs).await.unwrap();
    }
    world.apply(&small(), false).await;
    let refused = require_here(&world.client, "elsewhere").await;
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("kite/kite-") && error.contains("elsewhere"),
        "{error}"
    );
    require_here(&world.client, "kite").await.unwrap();

    remove(&world.client, "kite", Data::Delete, false, LONG, |_, _| {})
        .await
        .unwrap();
    let find = async |name: &str| namespaces.get_opt(name).await.unwrap();
    assert!(find("kite").await.is_none());
    assert!(find("kite-images").await.is_some(), "it was there before");
    assert!(find("theirs").await.is_some());
}

#[tokio::test]
async fn what_another_tool_installed_is_left_to_it() {
    let world = World::new();
    let theirs = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kite-gateway-external", "namespace": "default",
                     "labels": {"hy3ons.github.io/kite-platform-name": "default"}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 22}]}});
    let services = Api::<Service>::namespaced(world.client.clone(), "default");
    let params = PatchParams::apply("kite-controller");
    services
        .patch("kite-gateway-external", &params, &Patch::Apply(theirs))
        .await
        .unwrap();
    for data in [Data::Keep, Data::Delete] {
        remove(&world.client, "kite", data, false, LONG, |object, _| {
            panic!("{object}")
        })
        .await
        .unwrap();
    }
    let found = services.get_opt("kite-gateway-external").await.unwrap();
    assert!(found.is_some());
}

/// As a controller does that runs outside of the cluster, or where nobody looks.
#[tokio::test]
async fn who_makes_again_what_is_deleted_is_named() {
    let world = World::new();
    world.apply(&small(), false).await;
    let holder: Lease = serde_json::from_value(json!({
        "metadata": {"name": "kite-controller", "namespace": "kite"},
        "spec": {"holderIdentity": "laptop_7"},
    }))
    .unwrap();
    let leases = Api::<Lease>::namespaced(world.client.clone(), "kite");
    leases
        .create(&PostParams::default(), &holder)
        .await
        .unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kite-gateway-external", "namespace": "kite",
                     "labels": {"hy3ons.github.io/kite-platform-name": "default"}},
        "spec": {"ports": [{"port": 22}]}});
    let services = Api::<Service>::namespaced(world.client.clone(), "kite");
    let stop = CancellationToken::new();
    let (stopped, client) = (stop.clone(), services.clone());
    let stubborn = tokio::spawn(async move {
        let params = PatchParams::apply("kite-controller");
        while !stopped.is_cancelled() {
            let patch = Patch::Apply(&service);
            let _ = client.patch("kite-gateway-external", &params, &patch).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    until("the Service is there", async || {
        services
            .get_opt("kite-gateway-external")
            .await
            .unwrap()
            .is_some()
    })
    .await;
    let removed = remove(&world.client, "kite", Data::Delete, false, LONG, |_, _| {}).await;
    stop.cancel();
    stubborn.await.unwrap();
    let error = removed.unwrap_err().to_string();
    for part in [
        "Service kite/kite-gateway-external",
        "made by kite-controller",
        "laptop_7 by the Lease kite/kite-controller",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // Ended, it can be repeated.
    let left = remove(&world.client, "kite", Data::Delete, false, LONG, |_, _| {}).await;
    left.unwrap();
}

#[tokio::test]
async fn without_a_controller_users_are_not_given_up_half_way() {
    let world = World::new();
    world.apply(&small(), false).await;
    let cluster = KubeCluster::new(world.client.clone());
    let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    ann.metadata.finalizers = Some(vec!["hy3ons.github.io/kite-user-cleanup".to_owned()]);
    cluster.create(&ann).await.unwrap();
    let roles = world.count::<ClusterRole>().await;
    let short = Duration::from_secs(1);
    let late = remove(&world.client, "kite", Data::Delete, false, short, |_, _| {}).await;
    let error = late.unwrap_err().to_string();
    assert!(error.contains("KiteUser ann is still there"), "{error}");
    let left = Api::<Deployment>::namespaced(world.client.clone(), "kite");
    let left = left.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left
        .items
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .collect();
    assert_eq!(
        left,
        ["kite-controller"],
        "who clears away is not taken away"
    );
    assert_eq!(world.count::<ClusterRole>().await, roles);
}

#[tokio::test]
async fn in_a_namespace_that_was_there_no_key_or_token_of_kites_is_left() {
    let world = World::new();
    let cluster = KubeCluster::new(world.client.clone());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "kite"}})).unwrap();
    cluster.create(&namespace).await.unwrap();
    let mut installation = small();
    installation.recordings = Some(Recordings {
        size: "1Gi".parse().unwrap(),
        storage_class: None,
        upload: None,
        credentials: None,
    });
    world.apply(&installation, false).await;
    let first = first_admin(&world.client, "kite").await.unwrap();
    for name in [
        names::SEAL_SECRET,
        names::GATEWAY_HOST_KEY_SECRET,
        names::UPLOADED_CERTIFICATE,
        names::PLATFORM_CERTIFICATE,
        names::OIDC_SECRET,
        "pull",
    ] {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "kite"}, "data": {"token": "YQ=="}}))
        .unwrap();
        cluster.create(&secret).await.unwrap();
    }
    let claim = |name: &str, labels: serde_json::Value| -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "kite", "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": "1Gi"}}}}))
        .unwrap()
    };
    cluster.create(&claim("theirs", json!({}))).await.unwrap();
    // As the StatefulSet makes them.
    let manifests = installation.manifests();
    let gateway = manifests.iter().find_map(|it| match it {
        Manifest::StatefulSet(it) => it.spec.volume_claim_templates.clone(),
        _ => None,
    });
    let labels = json!(gateway.unwrap()[0].metadata.labels);
    let own = claim("recordings-kite-gateway-7", labels);
    cluster.create(&own).await.unwrap();

    for dry_run in [true, false] {
        let mut deleted = Vec::new();
        let left = remove(
            &world.client,
            "kite",
            Data::Delete,
            dry_run,
            LONG,
            |object, removed| {
                if removed == Removed::Deleted {
                    deleted.push(object.name.clone());
                }
            },
        )
        .await
        .unwrap();
        for name in [
            names::BOOTSTRAP_SECRET,
            names::SEAL_SECRET,
            names::GATEWAY_HOST_KEY_SECRET,
            names::UPLOADED_CERTIFICATE,
            names::PLATFORM_CERTIFICATE,
            "recordings-kite-gateway-7",
        ] {
            assert!(deleted.iter().any(|it| it == name), "{name}: {deleted:?}");
        }
        let left: Vec<_> = left.iter().map(ToString::to_string).collect();
        assert_eq!(
            left,
            [
                "Secret kite/kite-oidc",
                "Secret kite/pull",
                "PersistentVolumeClaim kite/theirs"
            ]
        );
    }
    world.apply(&installation, false).await;
    let again = first_admin(&world.client, "kite").await.unwrap();
    assert_ne!(again, first, "the old token opens nothing");
}
