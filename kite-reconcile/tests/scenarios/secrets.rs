//! The controllers under the rights with which Kite is installed: Secrets in users'
//! namespaces only, where they themselves bind the role that gives them these.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    rbac::v1::RoleBinding,
};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, Object, ObjectKey},
    conditions::find,
    crd::{KitePlatform, KiteUser, KiteUserSpec, KiteVirtualMachine, VmPhase},
    labels::VM_FINALIZER,
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::{everything, operator_definitions};
use kite_reconcile::{Context, Settings};
use kite_render::install::{Installation, Process};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{image, platform, vm_named};

/// The role by which the controller has Secrets, and its binding.
const ROLE: &str = "kite-controller-users";
/// Of an installation, what says who may do what.
const RIGHTS: &[&str] = &[
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
];
/// Long enough for every echo of what was written.
const REST: Duration = Duration::from_secs(30);
const ANN: &str = "kite-user-ann";
const ISSUER: &str = "https://login.example.org";

/// An installation in which everything runs by itself.
struct Installed {
    fake: FakeCluster,
    cluster: KubeCluster,
    stop: CancellationToken,
    controller: JoinHandle<()>,
    _actors: Actors,
}

fn settings() -> Settings {
    let grants = Process::ALL.into_iter().filter_map(|it| it.grant("kite"));
    let settings = Settings::default().with_grants(grants);
    settings.with_own_role(ROLE)
}

impl Installed {
    async fn start() -> Self {
        let fake = FakeCluster::builder()
            .rbac(true)
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(kite_core::gateway_api::crds())
            .crds(operator_definitions())
            .crds(kite_core::cert_manager::crds())
            .crds(crate::world::kinds_of_storage())
            .build()
            .unwrap();
        for manifest in Installation::default().manifests() {
            let object = serde_json::to_value(&manifest).unwrap();
            if RIGHTS.iter().any(|kind| object["kind"] == *kind) {
                fake.create(object).unwrap();
            }
        }
        let (people, stop) = (fake.client(), CancellationToken::new());
        let rules = Arc::new(Rules::instant());
        let actors = Actors::spawn(&people, fake.clock(), &rules, everything(), &stop);
        let cluster = KubeCluster::new(people);
        cluster.create(&platform()).await.unwrap();
        cluster.create(&image("debian-12")).await.unwrap();
        let controller = Self::controller(&fake, settings(), &stop);
        tokio::time::sleep(REST).await;
        Self {
            fake,
            cluster,
            stop,
            controller,
            _actors: actors,
        }
    }

    /// The controllers, under their account.
    fn controller(
        fake: &FakeCluster,
        settings: Settings,
        stop: &CancellationToken,
    ) -> JoinHandle<()> {
        let client = fake.client_as(&Process::Controller.username("kite"));
        let clock = fake.clone();
        let context = Context::new(KubeCluster::new(client.clone()))
            .with_clock(move || clock.now())
            .with_settings(settings);
        tokio::spawn(kite_reconcile::run(client, context, stop.clone()))
    }

    async fn find<K: Object>(&self, namespace: &str, name: &str) -> Option<K> {
        let key = ObjectKey {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: name.to_owned(),
        };
        self.cluster.get_opt(&key).await.unwrap()
    }

    async fn delete<K: Object>(&self, namespace: &str, name: &str) -> K {
        let object = self.find::<K>(namespace, name).await.unwrap();
        let gone = self
            .cluster
            .delete_by_uid(&object, PropagationPolicy::Background);
        gone.await.unwrap();
        object
    }

    /// Waits, in virtual time, until the object is as `wanted`.
    async fn until<K: Object>(
        &self,
        namespace: &str,
        name: &str,
        wanted: impl Fn(Option<&K>) -> bool,
    ) {
        let mut last = None;
        for _ in 0..600 {
            last = self.find::<K>(namespace, name).await;
            if wanted(last.as_ref()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{namespace}/{name} does not become as wanted: {last:#?}");
    }

    async fn gone<K: Object>(&self, namespace: &str, name: &str) {
        self.until(namespace, name, |it: Option<&K>| it.is_none())
            .await;
    }

    async fn user(&self, name: &str) {
        let user = KiteUser::new(name, KiteUserSpec::new(name));
        self.cluster.create(&user).await.unwrap();
        self.until("", name, |user: Option<&KiteUser>| {
            let status = user.and_then(|user| user.status.as_ref());
            status.is_some_and(|status| status.namespace.is_some())
        })
        .await;
    }

    async fn vm(&self, user: &str, name: &str) {
        let mut vm = vm_named(name);
        let namespace = format!("kite-user-{user}");
        vm.metadata.namespace = Some(namespace.clone());
        self.cluster.create(&vm).await.unwrap();
        self.runs(&namespace, name).await;
    }

    async fn runs(&self, namespace: &str, name: &str) {
        self.until(namespace, name, |vm: Option<&KiteVirtualMachine>| {
            let status = vm.and_then(|vm| vm.status.as_ref());
            status.is_some_and(|status| status.phase == Some(VmPhase::Running))
        })
        .await;
    }

    /// What the controllers asked for while `work` was done, watches aside, and what they
    /// were refused.
    async fn asked(&self, work: impl Future<Output = ()>) -> (BTreeMap<String, usize>, usize) {
        let mark = self.fake.log().mark();
        work.await;
        let me = Process::Controller.username("kite");
        let (mut asked, mut refused) = (BTreeMap::new(), 0);
        for entry in self.fake.log().since(&mark).entries {
            if entry.user == me && entry.verb != "watch" {
                let what = format!("{} {}", entry.verb, entry.resource);
                *asked.entry(what).or_default() += 1;
                refused += usize::from(entry.code == 403);
            }
        }
        (asked, refused)
    }

    async fn end(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_settled_costs_nothing_and_nothing_is_refused() {
    let it = Installed::start().await;
    let (asked, refused) = it
        .asked(async {
            for user in ["ann", "bob", "eve"] {
                it.user(user).await;
                for vm in ["first", "second"] {
                    it.vm(user, &format!("{user}-{vm}")).await;
                }
            }
        })
        .await;
    assert_eq!(refused, 0, "{asked:#?}");
    tokio::time::sleep(REST).await;
    let hour = Duration::from_secs(3600);
    let (asked, _) = it.asked(tokio::time::sleep(hour)).await;
    assert_eq!(asked, BTreeMap::new());
    it.end().await;
}

/// Of a Secret that the controller may not read it is not said that it is there.
#[tokio::test(start_paused = true)]
async fn what_nobody_may_look_at_is_told_of_as_that() {
    let it = Installed::start().await;
    let key = ObjectKey::cluster("default");
    let edit = async |spec: serde_json::Value| {
        let (person, patch) = (FieldManager::new("person"), json!({ "spec": spec }));
        let edited = it
            .cluster
            .merge_patch::<KitePlatform>(person, &key, &patch)
            .await;
        edited.unwrap();
    };
    let says = async |status: &str, reason: &str, part: &str| {
        it.until("", "default", |platform: Option<&KitePlatform>| {
            let status_of = platform.and_then(|it| it.status.as_ref());
            let all = status_of.map(|it| it.conditions.as_slice());
            let found = find(all.unwrap_or_default(), "ResolvedRefs");
            found.is_some_and(|it| {
                it.status == status && it.reason == reason && it.message.contains(part)
            })
        })
        .await;
    };
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "gold"}, "provisioner": "csi.example.org",
    });
    it.fake.create(class).unwrap();
    edit(json!({"storageClass": "gold"})).await;
    says("True", "ResolvedRefs", "").await;
    for (name, remedy) in [
        ("my-tls", "kite upgrade --certificate-secret my-tls"),
        ("kite-seal", "a Secret of its own"),
    ] {
        let exposure = json!({"certificate": {"secretName": name}});
        edit(json!({"exposure": exposure})).await;
        says("Unknown", "NotLookedAt", remedy).await;
        let named = format!("spec.exposure.certificate.secretName names Secret kite/{name}");
        says("Unknown", "NotLookedAt", &named).await;
    }
    // What is known not to be there is told beside it.
    edit(json!({"storageClass": "silver"})).await;
    says("False", "RefNotFound", "a Secret of its own").await;
    says(
        "False",
        "RefNotFound",
        "StorageClass silver, which is not there",
    )
    .await;
    edit(json!({"storageClass": "gold"})).await;

    // These it may look at.
    edit(json!({"exposure": {"certificate": {"secretName": "kite-certificate"}}})).await;
    says(
        "False",
        "RefNotFound",
        "kite-certificate, which is not there",
    )
    .await;
    let provider = json!({
        "name": "staff", "issuer": ISSUER, "clientId": "kite", "clientSecretKey": "staff",
    });
    edit(json!({
        "exposure": {"certificate": {"secretName": null}}, "signInProviders": [provider],
    }))
    .await;
    says("False", "RefNotFound", "kite-oidc, which is not there").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kite-oidc", "namespace": "kite"},
        "stringData": {"guests": "s3cret"},
    });
    it.fake.create(secret).unwrap();
    says(
        "False",
        "RefNotFound",
        "which has no key staff, staff.issuer",
    )
    .await;
    let data = json!({"stringData": {"staff": "s3cret", "staff.issuer": ISSUER}});
    let (person, key) = (
        FieldManager::new("person"),
        ObjectKey::namespaced("kite", "kite-oidc"),
    );
    let edited = it.cluster.merge_patch::<Secret>(person, &key, &data).await;
    edited.unwrap();
    says("True", "ResolvedRefs", "").await;
    it.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_removed_is_made_again_at_once() {
    let it = Installed::start().await;
    it.user("ann").await;
    it.vm("ann", "web").await;
    tokio::time::sleep(REST).await;
    let name = "web-cloud-init-userdata";
    let old: Secret = it.delete(ANN, name).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let new: Option<Secret> = it.find(ANN, name).await;
    assert!(new.is_some_and(|new| new.uid() != old.uid()));
    it.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_taken_away_comes_back() {
    let it = Installed::start().await;
    it.user("ann").await;
    it.vm("ann", "web").await;
    let _: RoleBinding = it.delete(ANN, ROLE).await;
    it.vm("ann", "next").await;
    // Also while the user goes.
    let _: KiteUser = it.delete("", "ann").await;
    let _: RoleBinding = it.delete(ANN, ROLE).await;
    it.gone::<KiteUser>("", "ann").await;
    it.gone::<Namespace>("", ANN).await;
    it.end().await;
}

/// Kubernetes deletes what is in a namespace in any order: here the binding goes before
/// the VM, which a finalizer holds.
#[tokio::test(start_paused = true)]
async fn vms_go_from_a_namespace_that_ends_without_a_right_over_their_secrets() {
    let it = Installed::start().await;
    it.user("ann").await;
    it.vm("ann", "web").await;
    let old: Namespace = it.delete("", ANN).await;
    it.gone::<KiteVirtualMachine>(ANN, "web").await;
    // The user is there, and so their namespace is made anew.
    it.until("", ANN, |namespace: Option<&Namespace>| {
        namespace.is_some_and(|namespace| namespace.uid() != old.uid())
    })
    .await;
    it.until(ANN, ROLE, |binding: Option<&RoleBinding>| binding.is_some())
        .await;
    it.vm("ann", "web").await;
    let _: KiteUser = it.delete("", "ann").await;
    it.gone::<KiteUser>("", "ann").await;
    it.gone::<Namespace>("", ANN).await;
    it.end().await;
}

/// As from a version, or an installation, that let VMs be anywhere: nobody gives the
/// controller a right over Secrets there.
#[tokio::test(start_paused = true)]
async fn a_vm_in_a_namespace_that_is_no_users_goes_and_says_what_it_leaves() {
    let it = Installed::start().await;
    let elsewhere = "elsewhere";
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(elsewhere.to_owned());
    it.cluster.create(&namespace).await.unwrap();
    let mut vm = vm_named("web");
    vm.metadata.namespace = Some(elsewhere.to_owned());
    // The last is somebody's who wants to see how it goes.
    vm.metadata.finalizers = Some(vec![VM_FINALIZER.to_owned(), "test/last".to_owned()]);
    it.cluster.create(&vm).await.unwrap();
    let _: KiteVirtualMachine = it.delete(elsewhere, "web").await;
    it.until(elsewhere, "web", |vm: Option<&KiteVirtualMachine>| {
        vm.is_some_and(|vm| vm.finalizers() == ["test/last"])
    })
    .await;
    let vm: KiteVirtualMachine = it.find(elsewhere, "web").await.unwrap();
    let status = vm.status.unwrap();
    let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
    let ready = ready.unwrap();
    assert_eq!(ready.reason, "SecretsLeft");
    assert!(ready.message.contains("web-ssh-key"), "{}", ready.message);
    it.end().await;
}

/// After an upgrade from a version that bound no role for itself.
#[tokio::test(start_paused = true)]
async fn what_was_there_before_gets_its_binding() {
    let it = Installed::start().await;
    it.user("ann").await;
    it.vm("ann", "web").await;
    it.stop.cancel();
    it.controller.await.unwrap();
    let key = ObjectKey::namespaced(ANN, ROLE);
    let binding: RoleBinding = it.cluster.get(&key).await.unwrap();
    let gone = it
        .cluster
        .delete_by_uid(&binding, PropagationPolicy::Background);
    gone.await.unwrap();

    let stop = CancellationToken::new();
    let controller = Installed::controller(&it.fake, settings(), &stop);
    tokio::time::sleep(REST).await;
    let key = ObjectKey::namespaced(ANN, "web");
    let vm: KiteVirtualMachine = it.cluster.get(&key).await.unwrap();
    let status = vm.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Running));
    assert!(status.conditions.iter().all(|it| it.reason != "Refused"));
    stop.cancel();
    controller.await.unwrap();
}
