//! Installations on the in-memory cluster: applied, applied again, and taken away.

mod evidence;
mod refused;
mod removed;
mod settings;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret},
    rbac::v1::{ClusterRole, PolicyRule},
};
use kite_admin::install::{
    Change, Data, FirstAdmin, Memory, ObjectName, apply, first_admin, prune, recall, remove,
    wait_until_ready,
};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, KubeCluster},
    crd::{AccessLevel, KitePlatform, KiteUser, KiteUserSpec},
    names,
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, play};
use kite_render::install::{Installation, Manifest, Process, Profile, Replicas};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(60);

struct World {
    fake: FakeCluster,
    client: Client,
    stop: CancellationToken,
    _actors: Actors,
}

impl World {
    fn new() -> Self {
        let fake = FakeCluster::builder()
            .crds(kubevirt_definitions())
            .crds(cdi_definitions())
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let actors = play(&fake, &Arc::new(Rules::instant()), false, &stop);
        Self {
            client: fake.client(),
            fake,
            stop,
            _actors: actors,
        }
    }

    async fn apply(
        &self,
        installation: &Installation,
        dry_run: bool,
    ) -> BTreeMap<ObjectName, Change> {
        let mut changes = BTreeMap::new();
        let manifests = installation.manifests();
        let left = apply(&self.client, &manifests, dry_run, |object, change| {
            assert!(
                changes.insert(object.clone(), change).is_none(),
                "{object} twice"
            );
        })
        .await
        .unwrap();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(changes.len(), manifests.len());
        changes
    }

    /// What is installed, as far as nobody else changes it.
    async fn specs(&self) -> String {
        let all = ListParams::default();
        let deployments = Api::<Deployment>::all(self.client.clone());
        let deployments = deployments.list(&all).await.unwrap().items;
        let deployments: Vec<_> = deployments.into_iter().map(|it| it.spec).collect();
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let namespaces = namespaces.list(&all).await.unwrap().items;
        let namespaces: Vec<_> = namespaces.into_iter().map(|it| it.metadata.name).collect();
        let kept = Api::<ConfigMap>::all(self.client.clone());
        let kept = kept.list(&all).await.unwrap().items;
        let kept = kept
            .into_iter()
            .filter(|it| it.name_any() == "kite-installation");
        let kept: Vec<_> = kept.map(|it| it.data).collect();
        let roles = self.count::<ClusterRole>().await;
        format!("{deployments:?} {namespaces:?} {kept:?} {roles}")
    }

    async fn count<K>(&self) -> usize
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let list = Api::<K>::all(self.client.clone());
        match list.list(&ListParams::default()).await {
            Ok(list) => list.items.len(),
            Err(kube::Error::Api(status)) if status.code == 404 => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn small() -> Installation {
    let mut installation = Profile::SingleNode.installation();
    // What is imported takes its time, also where it is only played.
    installation.images.clear();
    installation
}

fn of(kind: &str, name: &str) -> impl Fn(&(&ObjectName, &Change)) -> bool {
    move |(object, _)| object.kind == kind && object.name == name
}

#[tokio::test]
async fn what_is_applied_twice_changes_once() {
    let world = World::new();
    let installation = Profile::HighAvailability.installation();
    let first = world.apply(&installation, false).await;
    let made = first.values().filter(|it| **it == Change::Created).count();
    assert!(made > 40, "{first:?}");
    let second = world.apply(&installation, false).await;
    assert!(
        second.values().all(|it| *it == Change::Unchanged),
        "{second:?}"
    );
    let mut other = installation.clone();
    other.replicas = Replicas::all(5);
    let third = world.apply(&other, false).await;
    let changed: Vec<_> = third
        .iter()
        .filter(|(_, it)| **it == Change::Changed)
        .collect();
    assert!(
        changed.iter().any(|it| of("Deployment", "kite-api")(it)),
        "{changed:?}"
    );
    assert!(
        changed.iter().all(|(it, _)| it.kind != "ClusterRole"),
        "{changed:?}"
    );
}

#[tokio::test]
async fn a_dry_run_stores_nothing_and_says_what_would_be() {
    let world = World::new();
    let installation = small();
    // Every cluster has some.
    let roles = world.count::<ClusterRole>().await;
    let told = world.apply(&installation, true).await;
    assert!(told.values().all(|it| *it == Change::Created), "{told:?}");
    assert_eq!(world.count::<Deployment>().await, 0);
    assert_eq!(world.count::<ClusterRole>().await, roles);
    assert_eq!(world.count::<KitePlatform>().await, 0);
    world.apply(&installation, false).await;
    let told = world.apply(&installation, true).await;
    assert!(told.values().all(|it| *it == Change::Unchanged), "{told:?}");
}

#[tokio::test]
async fn what_a_version_was_allowed_it_is_until_the_next_one_is_up() {
    let world = World::new();
    let now = small().manifests();
    // The version before could do one thing more.
    let mut before = now.clone();
    let role_of = |manifests: &mut [Manifest]| {
        let position = manifests.iter().position(
            |it| matches!(it, Manifest::ClusterRole(role) if role.name_any() == "kite-controller"),
        );
        position.unwrap()
    };
    let at = role_of(&mut before);
    let Manifest::ClusterRole(role) = &mut before[at] else {
        unreachable!()
    };
    let wanted = role.rules.clone().unwrap();
    let more: PolicyRule = serde_json::from_value(json!({
        "apiGroups": ["moon.example.org"], "resources": ["phases"], "verbs": ["get"]}))
    .unwrap();
    role.rules.as_mut().unwrap().push(more.clone());
    let done = apply(&world.client, &before, false, |_, _| {})
        .await
        .unwrap();
    done.finish(&world.client, |object, _| panic!("{object}"))
        .await
        .unwrap();

    let roles = Api::<ClusterRole>::all(world.client.clone());
    let allowed = async || roles.get("kite-controller").await.unwrap().rules.unwrap();
    // A dry run says what comes of it in the end.
    for (dry_run, told_first) in [(true, true), (false, false), (false, false)] {
        let mut told = Vec::new();
        let left = apply(&world.client, &now, dry_run, |object, change| {
            if object.name == "kite-controller" && object.kind == "ClusterRole" {
                told.push(change);
            }
        });
        let left = left.await.unwrap();
        assert_eq!(told == [Change::Changed], told_first, "{told:?}");
        assert_eq!(left.is_empty(), dry_run);
        assert!(
            allowed().await.contains(&more),
            "the pods before still work"
        );
        // Broken off here, the next one finds it again.
    }
    let left = apply(&world.client, &now, false, |_, _| {}).await.unwrap();
    let mut told = Vec::new();
    left.finish(&world.client, |object, change| {
        told.push((object.name.clone(), change));
    })
    .await
    .unwrap();
    assert_eq!(told, [("kite-controller".to_owned(), Change::Changed)]);
    assert_eq!(allowed().await, wanted);
}

#[tokio::test]
async fn what_it_was_made_with_is_remembered_and_goes_with_it() {
    let world = World::new();
    assert_eq!(recall(&world.client, "kite").await.unwrap(), None);
    let memory = Memory {
        version: "1.0.0".to_owned(),
        options: vec!["--profile=k3s".to_owned(), "--env=api:A=b\nc".to_owned()],
    };
    let mut manifests = small().manifests();
    manifests.push(memory.manifest("kite").unwrap());
    let left = apply(&world.client, &manifests, false, |_, _| {}).await;
    assert!(left.unwrap().is_empty());
    assert_eq!(recall(&world.client, "kite").await.unwrap(), Some(memory));
    let kept = Api::<ConfigMap>::namespaced(world.client.clone(), "kite");
    let patch = Patch::Merge(json!({"data": {"options": "none"}}));
    let params = PatchParams::default();
    kept.patch("kite-installation", &params, &patch)
        .await
        .unwrap();
    let error = recall(&world.client, "kite").await.unwrap_err().to_string();
    assert!(
        error.contains("kite/kite-installation") && error.contains("\"options\""),
        "{error}"
    );
    remove(&world.client, "kite", Data::Keep, false, LONG, |_, _| {})
        .await
        .unwrap();
    assert_eq!(recall(&world.client, "kite").await.unwrap(), None);
}

#[tokio::test]
async fn it_is_waited_until_all_pods_are_ready() {
    let world = World::new();
    let manifests = small().manifests();
    let left = apply(&world.client, &manifests, false, |_, _| {}).await;
    assert!(left.unwrap().is_empty());
    let mut last = Vec::new();
    wait_until_ready(&world.client, &manifests, LONG, |now| last = now.to_vec())
        .await
        .unwrap();
    assert_eq!(last.len(), 3);
    assert!(last.iter().all(|it| it.ready == it.wanted), "{last:?}");
    // Where nobody makes pods it is told, with what to look at.
    let bare = FakeCluster::builder().build().unwrap().client();
    let left = apply(&bare, &manifests, false, |_, _| {}).await;
    assert!(left.unwrap().is_empty());
    let late = wait_until_ready(&bare, &manifests, Duration::from_secs(1), |_| {}).await;
    let error = late.unwrap_err().to_string();
    assert!(
        error.contains("kite-controller has 0 of 1") && error.contains("kubectl -n kite"),
        "{error}"
    );
}

#[tokio::test]
async fn the_first_administrator_gets_one_token() {
    let world = World::new();
    world.apply(&small(), false).await;
    let first = first_admin(&world.client, "kite").await.unwrap();
    let FirstAdmin::Token(token) = &first else {
        panic!("{first:?}");
    };
    assert_eq!(token.len(), 64);
    assert_eq!(first_admin(&world.client, "kite").await.unwrap(), first);
    let mut root = KiteUserSpec::new("root");
    root.access_level = AccessLevel::Admin;
    let cluster = KubeCluster::new(world.client.clone());
    cluster.create(&KiteUser::new("root", root)).await.unwrap();
    let now = first_admin(&world.client, "kite").await.unwrap();
    assert_eq!(now, FirstAdmin::IsThere);
}

#[tokio::test]
async fn what_an_upgrade_has_no_more_goes() {
    let world = World::new();
    let mut installation = small();
    installation.replicas = Replicas::all(2);
    world.apply(&installation, false).await;
    // Of another tool, under the same label.
    let params = PatchParams::apply("argocd");
    let theirs = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
        "metadata": {"name": "kite-extra", "labels": {"app.kubernetes.io/part-of": "kite"}},
    });
    let roles = Api::<ClusterRole>::all(world.client.clone());
    roles
        .patch("kite-extra", &params, &Patch::Apply(theirs))
        .await
        .unwrap();

    let fewer = small();
    world.apply(&fewer, false).await;
    let mut gone = Vec::new();
    let wanted = fewer.manifests();
    let pruned = prune(&world.client, &wanted, false, |object, _| {
        gone.push(object.clone());
    });
    pruned.await.unwrap();
    assert!(!gone.is_empty());
    assert!(
        gone.iter().all(|it| it.kind == "PodDisruptionBudget"),
        "{gone:?}"
    );
    assert!(roles.get_opt("kite-extra").await.unwrap().is_some());
}

/// A Secret that Kubernetes fills in with the token of an account.
fn token_of(account: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
           "metadata": {"name": "kite-bootstrap", "namespace": "kite",
                        "annotations": {"kubernetes.io/service-account.name": account}}})
}

#[tokio::test]
async fn no_process_becomes_another_or_takes_the_lead() {
    let world = World::new();
    world.apply(&small(), false).await;
    for process in Process::ALL {
        let client = world.fake.client_as(&process.username("kite"));
        let cluster = KubeCluster::new(client);
        let token: Secret = serde_json::from_value(token_of("kite-controller")).unwrap();
        let refused = cluster.create(&token).await.unwrap_err().to_string();
        assert!(refused.contains("kite-secrets"), "{process:?}: {refused}");
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {"name": "kite-controller", "namespace": "kite"}}))
        .unwrap();
        let written = cluster.create(&lease).await;
        if process == Process::Controller {
            cluster
                .delete_by_uid(&written.unwrap(), kube::api::PropagationPolicy::Background)
                .await
                .unwrap();
        } else {
            let refused = written.unwrap_err().to_string();
            assert!(refused.contains("kite-leases"), "{process:?}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_process_writes_no_secret_that_is_another_ones() {
    let world = World::new();
    world.apply(&small(), false).await;
    let own = [
        (Process::Gateway, vec![names::GATEWAY_HOST_KEY_SECRET]),
        (
            Process::Api,
            vec![
                names::BOOTSTRAP_SECRET,
                names::UPLOADED_CERTIFICATE,
                names::SEAL_SECRET,
            ],
        ),
    ];
    for (process, own) in own {
        let cluster = KubeCluster::new(world.fake.client_as(&process.username("kite")));
        for name in [
            names::GATEWAY_HOST_KEY_SECRET,
            names::BOOTSTRAP_SECRET,
            names::UPLOADED_CERTIFICATE,
            names::SEAL_SECRET,
            names::OIDC_SECRET,
            names::PLATFORM_CERTIFICATE,
            "somebody-elses",
        ] {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "kite"}, "data": {"token": "YQ=="}}))
            .unwrap();
            let written = cluster.create(&secret).await;
            if own.contains(&name) {
                KubeCluster::new(world.client.clone())
                    .delete_by_uid(&written.unwrap(), kube::api::PropagationPolicy::Background)
                    .await
                    .unwrap();
            } else {
                let refused = written.unwrap_err().to_string();
                assert!(
                    refused.contains("kite-secrets") && refused.contains("metadata.name"),
                    "{process:?} {name}: {refused}"
                );
            }
        }
    }
}
