//! The wiring: `kube_runtime` controllers, watches and queues, against the
//! in-memory cluster with all of its actors. Nobody calls a reconciler here.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{Namespace, Secret, Service},
    networking::v1::Ingress,
    rbac::v1::RoleBinding,
};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, Object, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteUserSpec, KiteVirtualMachine, PowerState, VmPhase},
    kubevirt::VirtualMachine,
    labels,
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::everything;
use kite_reconcile::{Context, Settings};
use kite_render::{cloud_init::CloudConfig, install::Process};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{image, named, platform, vm_named};

/// A cluster in which everything runs by itself.
struct Live {
    cluster: KubeCluster,
    stop: CancellationToken,
    controller: JoinHandle<()>,
    _actors: Actors,
}

impl Live {
    async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    async fn start_with(settings: Settings) -> Self {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(kite_core::gateway_api::crds())
            .crds(kite_core::cert_manager::crds())
            .build()
            .unwrap();
        let client = fake.client();
        let stop = CancellationToken::new();
        let rules = Arc::new(Rules::instant());
        let actors = Actors::spawn(&client, fake.clock(), &rules, everything(), &stop);
        let cluster = KubeCluster::new(client.clone());
        for name in ["kite", "kite-images"] {
            let namespace = Namespace {
                metadata: named(name),
                ..Namespace::default()
            };
            cluster.create(&namespace).await.unwrap();
        }
        let context = Context::new(cluster.clone())
            .with_clock(move || fake.now())
            .with_settings(settings);
        let controller = tokio::spawn(kite_reconcile::run(client, context, stop.clone()));
        Self {
            cluster,
            stop,
            controller,
            _actors: actors,
        }
    }

    async fn find<K: Object>(&self, namespace: &str, name: &str) -> Option<K> {
        let key = ObjectKey {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: name.to_owned(),
        };
        self.cluster.get_opt(&key).await.unwrap()
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

    async fn until_phase(&self, name: &str, phase: VmPhase) {
        self.until("kite-user-ann", name, |vm: Option<&KiteVirtualMachine>| {
            vm.and_then(|vm| vm.status.as_ref())
                .is_some_and(|status| status.phase == Some(phase))
        })
        .await;
    }

    async fn edit<K: Object>(&self, namespace: &str, name: &str, patch: serde_json::Value) {
        let key = ObjectKey::namespaced(namespace, name);
        let manager = FieldManager::new("person");
        self.cluster
            .merge_patch::<K>(manager, &key, &patch)
            .await
            .unwrap();
    }

    /// Another set of controllers on the same cluster, with keys of its own.
    fn second_controller(&self) -> JoinHandle<()> {
        let client = self.cluster.client().clone();
        let context = Context::new(self.cluster.clone());
        tokio::spawn(kite_reconcile::run(client, context, self.stop.clone()))
    }

    /// Ends the controllers as SIGTERM would.
    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.controller)
            .await
            .expect("the controllers end when they are told to")
            .unwrap();
    }
}

const ANN: &str = "kite-user-ann";

#[tokio::test(start_paused = true)]
async fn a_vm_lives_and_goes_by_events_alone() {
    let live = Live::start().await;
    live.cluster.create(&platform()).await.unwrap();
    live.cluster.create(&image("debian-12")).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    live.cluster.create(&ann).await.unwrap();
    live.until("", "ann", |user: Option<&KiteUser>| {
        user.and_then(|user| user.status.as_ref())
            .is_some_and(|status| status.namespace.is_some())
    })
    .await;
    live.cluster.create(&vm_named("web")).await.unwrap();
    live.until_phase("web", VmPhase::Running).await;

    live.edit::<KiteVirtualMachine>(ANN, "web", json!({"spec": {"powerState": "Off"}}))
        .await;
    live.until_phase("web", VmPhase::Stopped).await;
    live.edit::<KiteVirtualMachine>(ANN, "web", json!({"spec": {"powerState": "On"}}))
        .await;
    live.until_phase("web", VmPhase::Running).await;

    // Drift is repaired without an edit of the VM.
    let service = live.find::<Service>(ANN, "vps-web-web").await.unwrap();
    live.cluster
        .delete_by_uid(&service, PropagationPolicy::Background)
        .await
        .unwrap();
    live.until(ANN, "vps-web-web", |found: Option<&Service>| {
        found.is_some_and(|found| found.metadata.uid != service.metadata.uid)
    })
    .await;

    // The second bearer of a login name gets it as soon as the first has gone.
    let mut second = vm_named("second");
    second.spec.ssh_id = "id-web".to_owned();
    live.cluster.create(&second).await.unwrap();
    live.until_phase("second", VmPhase::Failed).await;
    let web = live.find::<KiteVirtualMachine>(ANN, "web").await.unwrap();
    live.cluster
        .delete_by_uid(&web, PropagationPolicy::Background)
        .await
        .unwrap();
    live.until_phase("second", VmPhase::Running).await;

    let ann = live.find::<KiteUser>("", "ann").await.unwrap();
    live.cluster
        .delete_by_uid(&ann, PropagationPolicy::Background)
        .await
        .unwrap();
    live.until("", "ann", |user: Option<&KiteUser>| user.is_none())
        .await;
    live.until("", ANN, |namespace: Option<&Namespace>| namespace.is_none())
        .await;
    live.until("", "ssh-id.id-web", |claim: Option<&KiteReservation>| {
        claim.is_some_and(|claim| claim.spec.kept.is_some())
    })
    .await;
    live.end().await;
}

/// Takes `labels` off an object of `web`, and waits until they are back.
async fn labels_come_back<K: Object>(live: &Live, name: &str, labels: &[&str]) {
    let none = labels
        .iter()
        .map(|label| ((*label).to_owned(), Value::Null));
    let none = Value::Object(none.collect());
    live.edit::<K>(ANN, name, json!({"metadata": {"labels": none}}))
        .await;
    let has = |object: &K, label: &&str| object.labels().contains_key(*label);
    live.until(ANN, name, |object: Option<&K>| {
        object.is_some_and(|object| labels.iter().all(|label| has(object, label)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_has_lost_its_labels_still_leads_back_to_its_vm() {
    let live = Live::start().await;
    live.cluster.create(&platform()).await.unwrap();
    live.cluster.create(&image("debian-12")).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    live.cluster.create(&ann).await.unwrap();
    live.until("", ANN, |namespace: Option<&Namespace>| namespace.is_some())
        .await;
    let mut web = vm_named("web");
    web.spec.domain_prefix = Some("shop".to_owned());
    live.cluster.create(&web).await.unwrap();
    live.until_phase("web", VmPhase::Running).await;
    for lost in [
        &[labels::MANAGED_BY][..],
        &[labels::VM_NAME],
        &[labels::MANAGED_BY, labels::VM_NAME, labels::VM_NAMESPACE],
    ] {
        labels_come_back::<Secret>(&live, "web-ssh-key", lost).await;
        labels_come_back::<Secret>(&live, "web-cloud-init-userdata", lost).await;
        labels_come_back::<DataVolume>(&live, "web-disk", lost).await;
        labels_come_back::<VirtualMachine>(&live, "web", lost).await;
        labels_come_back::<Service>(&live, "vps-access-web", lost).await;
        labels_come_back::<Ingress>(&live, "web", lost).await;
    }
    live.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_controller_changes_nothing_in_the_outcome() {
    let live = Live::start().await;
    let second = live.second_controller();
    live.cluster.create(&platform()).await.unwrap();
    live.cluster.create(&image("debian-12")).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    live.cluster.create(&ann).await.unwrap();
    live.until("", ANN, |namespace: Option<&Namespace>| namespace.is_some())
        .await;
    let names = ["one", "two", "three"];
    for name in names {
        live.cluster.create(&vm_named(name)).await.unwrap();
    }
    for name in names {
        live.until_phase(name, VmPhase::Running).await;
        // The guest was told of the very keys that the gateway has.
        let secret = |name: String| async { live.find::<Secret>(ANN, &{ name }).await.unwrap() };
        let keys = secret(format!("{name}-ssh-key")).await;
        let user_data = secret(format!("{name}-cloud-init-userdata"))
            .await
            .data
            .unwrap();
        let public = String::from_utf8(keys.data.unwrap()["id_ed25519.pub"].0.clone()).unwrap();
        let user_data = String::from_utf8(user_data["userdata"].0.clone()).unwrap();
        let told: CloudConfig = serde_saphyr::from_str(&user_data).unwrap();
        assert_eq!(told.users[0].ssh_authorized_keys, [public.trim_end()]);
    }
    for name in names {
        let vm = live.find::<KiteVirtualMachine>(ANN, name).await.unwrap();
        let gone = live
            .cluster
            .delete_by_uid(&vm, PropagationPolicy::Background);
        gone.await.unwrap();
    }
    for name in names {
        live.until(ANN, name, |vm: Option<&KiteVirtualMachine>| vm.is_none())
            .await;
        let claim = format!("ssh-id.id-{name}");
        let claim = live.find::<KiteReservation>("", &claim).await.unwrap();
        assert!(claim.spec.kept.is_some(), "{claim:?}");
    }
    live.end().await;
    second.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn defect_9_a_kind_that_is_missing_at_the_start_is_watched_once_it_is_there() {
    let fake = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .build()
        .unwrap();
    let client = fake.client();
    let stop = CancellationToken::new();
    let cluster = KubeCluster::new(client.clone());
    let context = Context::new(cluster.clone());
    let controller = tokio::spawn(kite_reconcile::run(client.clone(), context, stop.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let crds = kite_core::kubevirt::crds()
        .into_iter()
        .chain(kite_core::cdi::crds());
    for crd in crds {
        cluster.create(&crd).await.unwrap();
    }
    let rules = Arc::new(Rules::instant());
    let _actors = Actors::spawn(&client, fake.clock(), &rules, everything(), &stop);
    let namespace = Namespace {
        metadata: named("kite-images"),
        ..Namespace::default()
    };
    cluster.create(&namespace).await.unwrap();
    cluster.create(&image("debian-12")).await.unwrap();
    let key = ObjectKey::cluster("debian-12");
    for _ in 0..600 {
        let image = cluster
            .get::<kite_core::crd::KiteImage>(&key)
            .await
            .unwrap();
        let phase = image.status.and_then(|status| status.phase);
        if phase == Some(kite_core::crd::ImagePhase::Ready) {
            stop.cancel();
            controller.await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the image does not become ready");
}

#[tokio::test(start_paused = true)]
async fn usage_follows_vms_by_events_alone() {
    let live = Live::start().await;
    live.cluster.create(&platform()).await.unwrap();
    live.cluster.create(&image("debian-12")).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    live.cluster.create(&ann).await.unwrap();
    let uses = |count: u32| {
        move |user: Option<&KiteUser>| {
            let status = user.and_then(|user| user.status.as_ref());
            let usage = status.and_then(|status| status.usage.as_ref());
            usage.is_some_and(|usage| usage.vms == count)
        }
    };
    live.until("", "ann", uses(0)).await;
    live.until("", ANN, |namespace: Option<&Namespace>| namespace.is_some())
        .await;
    // It is off: of what it is to have, nobody else hears.
    let mut vm = vm_named("web");
    vm.spec.power_state = PowerState::Off;
    let vm = live.cluster.create(&vm).await.unwrap();
    live.until("", "ann", uses(1)).await;
    live.until_phase("web", VmPhase::Stopped).await;
    live.edit::<KiteVirtualMachine>(ANN, "web", json!({"spec": {"cpu": 3}}))
        .await;
    live.until("", "ann", |user: Option<&KiteUser>| {
        let status = user.and_then(|user| user.status.as_ref());
        let usage = status.and_then(|status| status.usage.as_ref());
        usage.is_some_and(|usage| usage.cpu == 3)
    })
    .await;
    let gone = live
        .cluster
        .delete_by_uid(&vm, PropagationPolicy::Background);
    gone.await.unwrap();
    live.until("", "ann", uses(0)).await;
    live.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_user_goes_as_soon_as_a_vm_has_gone_that_could_not_be_read() {
    let live = Live::start().await;
    live.cluster.create(&platform()).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    let ann = live.cluster.create(&ann).await.unwrap();
    live.until("", ANN, |namespace: Option<&Namespace>| namespace.is_some())
        .await;
    let vms = crate::unreadable::raw_vms(&live.cluster).await;
    crate::unreadable::create_hopeless(&vms).await;
    let gone = live
        .cluster
        .delete_by_uid(&ann, PropagationPolicy::Background);
    gone.await.unwrap();
    live.until("", "ann", |user: Option<&KiteUser>| {
        let status = user.and_then(|user| user.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.reason == "Unreadable")
    })
    .await;
    // Nothing has come of it for long.
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let since = tokio::time::Instant::now();
    crate::unreadable::let_go(&vms, "odd").await;
    live.until("", "ann", |user: Option<&KiteUser>| user.is_none())
        .await;
    assert!(
        since.elapsed() < Duration::from_secs(15),
        "{:?}",
        since.elapsed()
    );
    live.end().await;
}

#[tokio::test(start_paused = true)]
async fn others_get_their_rights_in_users_namespaces_and_keep_them() {
    let grants = Process::ALL.into_iter().filter_map(|it| it.grant("kite"));
    let live = Live::start_with(Settings::default().with_grants(grants)).await;
    let user = KiteUser::new("ann", KiteUserSpec::new("ann"));
    live.cluster.create(&user).await.unwrap();
    live.until("", "ann", |user: Option<&KiteUser>| {
        let status = user.and_then(|user| user.status.as_ref());
        status.is_some_and(|status| status.namespace.is_some())
    })
    .await;
    let home = "kite-user-ann";
    let is_for = |role: &'static str, account: &'static str| {
        move |binding: Option<&RoleBinding>| {
            binding.is_some_and(|binding| {
                let subjects = binding.subjects.as_deref().unwrap_or_default();
                binding.role_ref.name == role
                    && subjects.len() == 1
                    && subjects[0].name == account
                    && subjects[0].namespace.as_deref() == Some("kite")
            })
        }
    };
    let keys = is_for("kite-gateway-users", "kite-gateway");
    // They are there before anybody is told that the namespace is.
    let gateway = live.find::<RoleBinding>(home, "kite-gateway-users").await;
    assert!(keys(gateway.as_ref()));
    let api = live.find::<RoleBinding>(home, "kite-api-users").await;
    assert!(is_for("kite-api-users", "kite-api")(api.as_ref()));

    // Somebody lets another account in.
    let wrong =
        json!({"subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "kite"}]});
    let key = ObjectKey::namespaced(home, "kite-gateway-users");
    live.cluster
        .merge_patch::<RoleBinding>(FieldManager::new("mallory"), &key, &wrong)
        .await
        .unwrap();
    live.until(home, "kite-gateway-users", &keys).await;
    live.cluster
        .delete_by_uid(&gateway.unwrap(), PropagationPolicy::Background)
        .await
        .unwrap();
    live.until(home, "kite-gateway-users", &keys).await;
}
