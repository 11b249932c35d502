//! A small world: the API server, the rest of the cluster, and Kite's
//! reconcilers, called until nothing moves any more.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cdi::DataVolume,
    cluster::{
        Cluster, ClusterError, ClusterExt as _, FieldManager, KubeCluster, Listed, Object,
        ObjectKey,
    },
    crd::{
        ImageSource, KiteImage, KiteImageSpec, KitePlatform, KitePlatformSpec, KiteReservation,
        KiteSnapshot, KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineOffer,
        KiteVirtualMachineSpec, KiteVolume,
    },
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_fake::actors::{
    Actor, Actors, GarbageCollector, NamespaceLifecycle, Rules, route_definitions,
    snapshot_definitions,
};
use kite_fake::{FakeCluster, clock::TokioClock};
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, operator_definitions, play};
use kite_reconcile::{Context, Error, image, offer, platform, snapshot, user, vm, volume};
use kube::api::{ListParams, ObjectMeta, PropagationPolicy};
use kube::core::Status;
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

/// What was sent, by verb, kind and key. Reads are not kept.
#[derive(Clone)]
pub struct Recorder {
    inner: KubeCluster,
    writes: Arc<Mutex<Vec<String>>>,
    reads: Arc<Mutex<Vec<String>>>,
    fault: Arc<Mutex<Option<Fault>>>,
    refuses: Arc<Mutex<Option<Refuses>>>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    edit: Arc<Mutex<Option<LateEdit>>>,
}

/// An edit that a person makes while a reconcile is under way.
struct LateEdit {
    /// How many requests of the reconciler come before it.
    after: usize,
    vm: ObjectKey,
    patch: serde_json::Value,
    /// The VM right after the edit; none if there was none to edit.
    made: Arc<Mutex<Option<KiteVirtualMachine>>>,
}

/// That writes whose line begins like this are refused, in other words each time as some
/// webhooks do, and how often they were.
type Refuses = (String, usize);

/// What somebody else does right before a write whose line has this in it.
type Meanwhile = (String, BoxFuture<'static, ()>);

/// A write that goes wrong: the one after `after` others.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub after: usize,
    pub mode: FaultMode,
}

/// How a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultMode {
    /// It does not arrive: the controller crashed before, or was told 500.
    Lost,
    /// It takes effect, and the answer is lost: the controller crashed after.
    AnswerLost,
    /// Somebody else was faster.
    Conflict,
    /// The API server says that it cannot be.
    Refused,
}

impl Recorder {
    /// Notes a write and carries it out, or has it go wrong.
    async fn write<K: Object, T>(
        &self,
        verb: &str,
        key: &ObjectKey,
        request: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        self.turn().await;
        let line = format!("{verb} {} {key}", K::kind(&()));
        self.writes.lock().unwrap().push(line.clone());
        let is_now = |meanwhile: &mut Meanwhile| line.contains(&meanwhile.0);
        let meanwhile = self.meanwhile.lock().unwrap().take_if(is_now);
        if let Some((_, act)) = meanwhile {
            act.await;
        }
        if let Some((begins, times)) = &mut *self.refuses.lock().unwrap()
            && line.starts_with(begins.as_str())
        {
            *times += 1;
            return Err(ClusterError::Invalid {
                operation: line,
                status: Box::new(Status::failure(
                    &format!("it cannot be ({times})"),
                    "Invalid",
                )),
            });
        }
        let mode = {
            let mut fault = self.fault.lock().unwrap();
            match &mut *fault {
                Some(Fault { after: 0, mode }) => {
                    let mode = *mode;
                    *fault = None;
                    Some(mode)
                }
                Some(fault) => {
                    fault.after -= 1;
                    None
                }
                None => None,
            }
        };
        let unavailable = |operation| ClusterError::Unavailable {
            operation,
            message: "injected".to_owned(),
            retry_after: None,
        };
        match mode {
            None => request.await,
            Some(FaultMode::Lost) => Err(unavailable(line)),
            Some(FaultMode::AnswerLost) => {
                // What came of it is exactly what is not known.
                let _ = request.await;
                Err(unavailable(line))
            }
            Some(FaultMode::Refused) => Err(ClusterError::Invalid {
                operation: line,
                status: Box::new(Status::failure("it cannot be", "Invalid")),
            }),
            Some(FaultMode::Conflict) => Err(ClusterError::Conflict {
                operation: line,
                status: Box::new(Status::failure("injected", "Conflict")),
            }),
        }
    }

    async fn read(&self, what: String) {
        self.reads.lock().unwrap().push(what);
        self.turn().await;
    }

    /// Lets a person act between two requests.
    async fn turn(&self) {
        let due = {
            let mut edit = self.edit.lock().unwrap();
            match edit.take() {
                Some(mut late) if late.after > 0 => {
                    late.after -= 1;
                    *edit = Some(late);
                    None
                }
                due => due,
            }
        };
        if let Some(late) = due {
            let manager = FieldManager::new("person");
            let made = self
                .inner
                .merge_patch(manager, &late.vm, &late.patch)
                .await
                .ok();
            *late.made.lock().unwrap() = made;
        }
    }
}

#[async_trait]
impl Cluster for Recorder {
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError> {
        self.read(format!("get {} {key}", K::kind(&()))).await;
        self.inner.get(key).await
    }
    async fn list<K: Object>(
        &self,
        namespace: Option<String>,
        params: &ListParams,
    ) -> Result<Listed<K>, ClusterError> {
        let (kind, place) = (K::kind(&()), namespace.as_deref().unwrap_or("*"));
        self.read(format!("list {kind} {place}")).await;
        self.inner.list(namespace, params).await
    }
    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        self.write::<K, _>("create", &key, self.inner.create(object))
            .await
    }
    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        self.write::<K, _>("apply", &key, self.inner.apply(manager, object))
            .await
    }
    async fn merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        self.write::<K, _>("edit", key, self.inner.merge_patch(manager, key, patch))
            .await
    }
    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        self.write::<K, _>("status", &key, self.inner.apply_status(manager, object))
            .await
    }
    async fn merge_patch_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        self.write::<K, _>(
            "status",
            key,
            self.inner.merge_patch_status(manager, key, patch),
        )
        .await
    }
    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError> {
        let request = self.inner.delete::<K>(key, uid, propagation);
        self.write::<K, _>("delete", key, request).await
    }
    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let key = ObjectKey::of(object);
        let request = self.inner.delete_unchanged(object, propagation);
        self.write::<K, _>("delete unchanged", &key, request).await
    }
    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let request = self.inner.set_finalizers(object, finalizers);
        self.write::<K, _>("finalizers", &key, request).await
    }
    async fn put_subresource<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &serde_json::Value,
    ) -> Result<(), ClusterError> {
        let request = self
            .inner
            .put_subresource::<K>(group_version, key, action, body);
        self.write::<K, _>(action, key, request).await
    }
}

/// The world. Time is virtual; use it under `#[tokio::test(start_paused = true)]`.
pub struct World {
    pub cluster: KubeCluster,
    pub context: Context<Recorder>,
    pub stage: Stage,
    /// Whether users and images are left as they are, to save time.
    pub only_vms: bool,
    /// Whether the stage plays `KubeVirt` and CDI.
    staged: bool,
    /// How fast and how well the played cluster works.
    pub rules: Arc<Rules>,
    actors: Actors,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A clock that begins at the same time in every run: what happens at whole hours and midnights
/// happens as far into a test each time.
fn same_clock() -> TokioClock {
    TokioClock::starting_at("2031-05-07T10:21:47Z".parse().unwrap())
}

/// Rounds after which a world that still moves will never rest.
const MOST_ROUNDS: usize = 60;

impl World {
    /// A world with an image `debian-12`, and nobody in it.
    pub async fn new() -> Self {
        Self::with_actors(Vec::new()).await
    }

    /// A world in which others play too.
    pub async fn with_actors(others: Vec<Arc<dyn Actor>>) -> Self {
        let fake = FakeCluster::builder()
            .clock(same_clock())
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(route_definitions())
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let rules = Arc::new(Rules::instant());
        let mut playing: Vec<Arc<dyn Actor>> = vec![
            Arc::new(NamespaceLifecycle::default()),
            Arc::new(GarbageCollector::default()),
        ];
        playing.extend(others);
        let actors = Actors::spawn(&fake.client(), fake.clock(), &rules, playing, &stop);
        Self::of(fake, actors, rules, stop, true).await
    }

    /// The same, where the actors of the fake play all of the cluster, `KubeVirt`,
    /// CDI, Gateways and certificates among it, instead of the stage.
    pub async fn played() -> Self {
        Self::played_with(Vec::new()).await
    }

    /// The same, with kinds more.
    pub async fn played_with(more: Vec<CustomResourceDefinition>) -> Self {
        let fake = FakeCluster::builder()
            .clock(same_clock())
            .crds(more)
            .crds(kite_core::crd::all())
            .crds(kubevirt_definitions())
            .crds(cdi_definitions())
            .crds(operator_definitions())
            .crds(route_definitions())
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let rules = Arc::new(Rules::instant());
        let actors = play(&fake, &rules, false, &stop);
        let world = Self::of(fake, actors, rules, stop, false).await;
        world.furnish().await;
        world
    }

    async fn of(
        fake: FakeCluster,
        actors: Actors,
        rules: Arc<Rules>,
        stop: CancellationToken,
        staged: bool,
    ) -> Self {
        let cluster = KubeCluster::new(fake.client());
        let recorder = Recorder {
            inner: cluster.clone(),
            writes: Arc::default(),
            reads: Arc::default(),
            fault: Arc::default(),
            refuses: Arc::default(),
            meanwhile: Arc::default(),
            edit: Arc::default(),
        };
        let world = Self {
            context: Context::new(recorder).with_clock(move || fake.now()),
            stage: Stage::new(cluster.clone()),
            only_vms: false,
            staged,
            rules,
            cluster,
            actors,
            stop,
        };
        for name in ["kite", "kite-images"] {
            world
                .create(Namespace {
                    metadata: named(name),
                    ..Namespace::default()
                })
                .await;
        }
        world
    }

    /// A world with an image and the user `ann`, both ready.
    pub async fn with_ann() -> Self {
        let world = Self::new().await;
        world.furnish().await;
        world
    }

    async fn furnish(&self) {
        self.create(platform()).await;
        self.create(image("debian-12")).await;
        self.create(KiteUser::new("ann", KiteUserSpec::new("ann")))
            .await;
        self.settle().await;
    }

    pub async fn create<K: Object>(&self, object: K) -> K {
        self.cluster.create(&object).await.unwrap()
    }

    pub async fn try_create<K: Object>(&self, object: K) -> Result<K, ClusterError> {
        self.cluster.create(&object).await
    }

    pub async fn find<K: Object>(&self, namespace: &str, name: &str) -> Option<K> {
        let key = ObjectKey {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: name.to_owned(),
        };
        self.cluster.get_opt(&key).await.unwrap()
    }

    pub async fn all<K: Object>(&self) -> Vec<K> {
        let all = self.cluster.list::<K>(None, &ListParams::default()).await;
        all.unwrap().items
    }

    pub async fn delete<K: Object>(&self, object: &K) {
        self.cluster
            .delete_by_uid(object, PropagationPolicy::Background)
            .await
            .unwrap();
    }

    /// Changes single fields, as a person would.
    pub async fn edit<K: Object>(&self, object: &K, patch: serde_json::Value) -> K {
        self.try_edit(object, patch).await.unwrap()
    }

    pub async fn try_edit<K: Object>(
        &self,
        object: &K,
        patch: serde_json::Value,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let manager = FieldManager::new("person");
        self.cluster.merge_patch(manager, &key, &patch).await
    }

    /// The VM `name` of ann as it is now.
    pub async fn vm(&self, name: &str) -> KiteVirtualMachine {
        self.find("kite-user-ann", name)
            .await
            .expect("the VM is there")
    }

    /// Reconciles everything once. The errors, if there were some.
    pub async fn pass(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        if !self.only_vms {
            for object in self.all::<KitePlatform>().await {
                errors.extend(platform::reconcile(&object, &self.context).await.err());
            }
            for object in self.all::<KiteUser>().await {
                errors.extend(user::reconcile(&object, &self.context).await.err());
            }
            for object in self.all::<KiteImage>().await {
                errors.extend(image::reconcile(&object, &self.context).await.err());
            }
        }
        for object in self.all::<KiteVirtualMachineOffer>().await {
            errors.extend(offer::reconcile(&object, &self.context).await.err());
        }
        for object in self.all::<KiteVirtualMachine>().await {
            errors.extend(vm::reconcile(&object, &self.context).await.err());
        }
        for object in self.all::<KiteSnapshot>().await {
            errors.extend(snapshot::reconcile(&object, &self.context).await.err());
        }
        for object in self.all::<KiteVolume>().await {
            errors.extend(volume::reconcile(&object, &self.context).await.err());
        }
        errors
    }

    /// What was written since the last call.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut *self.context.shared.cluster.writes.lock().unwrap())
    }

    /// Has a write of the reconcilers go wrong.
    pub fn inject(&self, fault: Fault) {
        *self.context.shared.cluster.fault.lock().unwrap() = Some(fault);
    }

    /// Has writes refused whose line (verb, kind, key) begins with `write`, until this is
    /// called again; an empty one is none.
    pub fn refuse(&self, write: &str) {
        let refuses = (!write.is_empty()).then(|| (write.to_owned(), 0));
        *self.context.shared.cluster.refuses.lock().unwrap() = refuses;
    }

    /// How often one was since then.
    pub fn times_refused(&self) -> usize {
        let refuses = self.context.shared.cluster.refuses.lock().unwrap();
        refuses.as_ref().map_or(0, |it| it.1)
    }

    /// Has somebody else act right before the reconcilers' next write whose line
    /// (verb, kind, key) contains `write`: after all that they looked at.
    pub fn meanwhile(&self, write: &str, act: impl Future<Output = ()> + Send + 'static) {
        let meanwhile = (write.to_owned(), act.boxed());
        *self.context.shared.cluster.meanwhile.lock().unwrap() = Some(meanwhile);
    }

    /// Whether nobody came to act in the meantime: there was no such write.
    pub fn meanwhile_is_left(&self) -> bool {
        self.context
            .shared
            .cluster
            .meanwhile
            .lock()
            .unwrap()
            .take()
            .is_some()
    }

    /// Has a person edit the VM `name` of ann after so many requests of the
    /// reconcilers. Gives where the VM as it was after the edit will be.
    pub fn edit_later(
        &self,
        after: usize,
        name: &str,
        patch: serde_json::Value,
    ) -> Arc<Mutex<Option<KiteVirtualMachine>>> {
        let made = Arc::default();
        *self.context.shared.cluster.edit.lock().unwrap() = Some(LateEdit {
            after,
            vm: ObjectKey::namespaced("kite-user-ann", name),
            patch,
            made: Arc::clone(&made),
        });
        made
    }

    /// Whether an edit is still to come: there were not that many requests.
    pub fn edit_is_left(&self) -> bool {
        self.context
            .shared
            .cluster
            .edit
            .lock()
            .unwrap()
            .take()
            .is_some()
    }

    /// What time it is in this world, to the second.
    pub fn now(&self) -> jiff::Timestamp {
        let now = (self.context.shared.clock)();
        jiff::Timestamp::from_second(now.as_second()).unwrap()
    }

    /// Whether an injected fault is still to come: there were not that many
    /// writes.
    pub fn fault_is_left(&self) -> bool {
        self.context
            .shared
            .cluster
            .fault
            .lock()
            .unwrap()
            .take()
            .is_some()
    }

    /// How often was read since the last call.
    pub fn reads(&self) -> Vec<String> {
        std::mem::take(&mut *self.context.shared.cluster.reads.lock().unwrap())
    }

    /// Lets everybody act until nobody writes any more. Gives all that was
    /// written by the reconcilers, and fails on errors that stay.
    pub async fn settle(&self) -> Vec<String> {
        let mut written = self.writes();
        let mut quiet = 0;
        let mut errors = Vec::new();
        for _ in 0..MOST_ROUNDS {
            errors = self.pass().await;
            assert!(
                self.actors.settled(Duration::from_secs(600)).await,
                "the actors do not come to rest"
            );
            let moved = self.staged && self.stage.play().await;
            let writes = self.writes();
            if !writes.is_empty() || moved {
                quiet = 0;
                written.extend(writes);
                continue;
            }
            // What the actors did last is seen in one more round.
            quiet += 1;
            if quiet == 2 {
                assert!(errors.is_empty(), "errors that stay: {errors:?}");
                return written;
            }
        }
        panic!("no rest: {written:#?} {errors:#?}");
    }

    /// Fails if anything of a VM is left, wherever it may be.
    pub async fn assert_no_trace_of(&self, name: &str) {
        let names = [
            name.to_owned(),
            format!("{name}-disk"),
            format!("{name}-ssh-key"),
            format!("{name}-cloud-init-userdata"),
            format!("vps-access-{name}"),
            format!("vps-web-{name}"),
            format!("ssh-id.id-{name}"),
            format!("domain.{name}"),
        ];
        let has = |metadata: &ObjectMeta| metadata.name.as_ref().is_some_and(|n| names.contains(n));
        macro_rules! none {
            ($($kind:ty),*) => { $(
                for left in self.all::<$kind>().await {
                    assert!(!has(&left.metadata), "left: {} {:?}", stringify!($kind), left.metadata.name);
                }
            )* };
        }
        none!(
            KiteVirtualMachine,
            VirtualMachine,
            VirtualMachineInstance,
            DataVolume,
            PersistentVolumeClaim,
            k8s_openapi::api::core::v1::Secret,
            k8s_openapi::api::core::v1::Service,
            k8s_openapi::api::networking::v1::Ingress
        );
        for left in self.held().await {
            assert!(!has(&left.metadata), "held: {:?}", left.metadata.name);
        }
    }

    /// The claims that somebody holds: not what is kept for who had it.
    pub async fn held(&self) -> Vec<KiteReservation> {
        let mut all = self.all::<KiteReservation>().await;
        all.retain(|claim| claim.spec.kept.is_none());
        all
    }
}

pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

pub fn platform() -> KitePlatform {
    KitePlatform::new(
        "default",
        KitePlatformSpec {
            base_domain: Some("vm.example.org".to_owned()),
            ..KitePlatformSpec::default()
        },
    )
}

pub fn image(name: &str) -> KiteImage {
    KiteImage::new(
        name,
        KiteImageSpec::new(
            ImageSource::http(format!("https://images.example.org/{name}.qcow2")),
            "5Gi".parse().unwrap(),
        ),
    )
}

/// A VM of ann whose login name is its own.
pub fn vm_named(name: &str) -> KiteVirtualMachine {
    let mut vm = KiteVirtualMachine::new(
        name,
        KiteVirtualMachineSpec::new(
            2,
            "2Gi".parse().unwrap(),
            "10Gi".parse().unwrap(),
            "debian-12",
            format!("id-{name}"),
        ),
    );
    vm.metadata.namespace = Some("kite-user-ann".to_owned());
    vm
}

/// Kinds by which snapshots are taken.
pub fn kinds_of_storage() -> Vec<CustomResourceDefinition> {
    let profiles = cdi_definitions().into_iter();
    let profiles = profiles.filter(|it| it.spec.names.kind == "StorageProfile");
    profiles.chain(snapshot_definitions()).collect()
}
