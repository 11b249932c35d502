//! Whole controllers as processes run them: elected, fenced, counted, and what
//! they tell.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1, core::v1::Namespace, events};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, ObjectKey},
    crd::{KitePlatform, KiteUser, KiteUserSpec, KiteVirtualMachine, VmPhase},
    gateway_api::{Gateway, GatewaySpec},
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::everything;
use kite_reconcile::{
    Context,
    leader::{Election, ElectionError, Leadership},
    metrics,
    operator::Operator,
    request_metrics,
};
use kube::{Client, api::ListParams, client::Body};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{image, named, platform, vm_named};

const ANN: &str = "kite-user-ann";

struct Site {
    fake: FakeCluster,
    cluster: KubeCluster,
    actors: CancellationToken,
    _actors: Actors,
}

impl Site {
    async fn new() -> Self {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .build()
            .unwrap();
        let client = fake.client();
        let stop = CancellationToken::new();
        let rules = Arc::new(Rules::instant());
        let actors = Actors::spawn(&client, fake.clock(), &rules, everything(), &stop);
        let cluster = KubeCluster::new(client);
        for name in ["kite", "kite-images"] {
            let namespace = Namespace {
                metadata: named(name),
                ..Namespace::default()
            };
            cluster.create(&namespace).await.unwrap();
        }
        cluster.create(&platform()).await.unwrap();
        cluster.create(&image("debian-12")).await.unwrap();
        let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        cluster.create(&ann).await.unwrap();
        Self {
            fake,
            cluster,
            actors: stop,
            _actors: actors,
        }
    }

    fn start(&self, identity: &str) -> Running {
        let election = Election::new("kite", "kite-controller", identity);
        self.run(Operator::with_election(election))
    }

    fn run(&self, operator: Operator) -> Running {
        self.run_with(self.fake.client(), operator)
    }

    fn run_with(&self, client: Client, operator: Operator) -> Running {
        let (metrics, requests) = (metrics(), request_metrics());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        requests.register(&mut registry);
        operator.register(&mut registry);
        let operator = operator.counted(requests);
        let leadership = operator.leadership().clone();
        let health = operator.health().clone();
        let stop = CancellationToken::new();
        let fake = self.fake.clone();
        let context = move |client| {
            let fake = fake.clone();
            Context::new(KubeCluster::new(client))
                .with_clock(move || fake.now())
                .with_metrics(metrics.clone())
        };
        let task = tokio::spawn(operator.run(client, context, stop.clone()));
        Running {
            leadership,
            health,
            registry,
            stop,
            task,
        }
    }

    async fn create_vm(&self, name: &str) {
        for _ in 0..600 {
            let key = ObjectKey::cluster(ANN);
            if self
                .cluster
                .get_opt::<Namespace>(&key)
                .await
                .unwrap()
                .is_some()
            {
                self.cluster.create(&vm_named(name)).await.unwrap();
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("ann gets no namespace");
    }

    async fn until_phase(&self, name: &str, phase: VmPhase) {
        let mut last = None;
        for _ in 0..9000 {
            let key = ObjectKey::namespaced(ANN, name);
            last = self
                .cluster
                .get_opt::<KiteVirtualMachine>(&key)
                .await
                .unwrap();
            let status = last.as_ref().and_then(|vm| vm.status.as_ref());
            if status.is_some_and(|status| status.phase == Some(phase)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} does not become {phase:?}: {last:#?}");
    }

    /// Type and reason of what was told of a VM.
    async fn told(&self, name: &str) -> Vec<String> {
        // The recorder is a task of its own.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = ListParams::default();
        let listing = self
            .cluster
            .list::<events::v1::Event>(Some(ANN.to_owned()), &all);
        let mut events: Vec<_> = listing
            .await
            .unwrap()
            .items
            .into_iter()
            .filter(|event| {
                let regarding = event.regarding.as_ref().unwrap();
                regarding.kind.as_deref() == Some("KiteVirtualMachine")
                    && regarding.name.as_deref() == Some(name)
            })
            .collect();
        events.sort_by_key(|event| {
            let version = event.metadata.resource_version.as_deref();
            version.map(|version| version.parse::<u64>().unwrap())
        });
        events
            .into_iter()
            .map(|event| format!("{} {}", event.type_.unwrap(), event.reason.unwrap()))
            .collect()
    }

    async fn leader(&self) -> Option<String> {
        let key = ObjectKey::namespaced("kite", "kite-controller");
        let lease = self.cluster.get_opt::<Lease>(&key).await.unwrap()?;
        lease.spec?.holder_identity
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.actors.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_names_what_is_missing_until_it_is_there() {
    let fake = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let (client, rules) = (fake.client(), Arc::new(Rules::instant()));
    let site = Site {
        cluster: KubeCluster::new(fake.client()),
        _actors: Actors::spawn(&client, fake.clock(), &rules, everything(), &stop),
        fake,
        actors: stop,
    };
    let controller = site.run(Operator::without_election());
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    site.cluster.create(&ann).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let check = || controller.health.check(&controller.leadership);
    let lacking = check().unwrap_err();
    for line in [
        "VirtualMachine: ",
        "install KubeVirt",
        "DataVolume: ",
        "install CDI",
    ] {
        assert!(lacking.contains(line), "{lacking}");
    }
    assert!(!lacking.contains("KiteUser"), "{lacking}");
    let key = ObjectKey::cluster(ANN);
    let namespace = site.cluster.get_opt::<Namespace>(&key);
    assert!(
        namespace.await.unwrap().is_some(),
        "users are none the worse"
    );

    let crds = kite_core::kubevirt::crds();
    for crd in crds.into_iter().chain(kite_core::cdi::crds()) {
        site.cluster.create(&crd).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(check(), Ok("ok".to_owned()));
    controller.end().await;
}

struct Running {
    leadership: Leadership,
    health: kite_reconcile::health::Health,
    registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ElectionError>>,
}

impl Running {
    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(13), self.task)
            .await
            .expect("a controller ends when it is told to")
            .unwrap()
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_controller_began_the_next_one_finishes() {
    let site = Site::new().await;
    let first = site.start("first");
    site.create_vm("web").await;
    let second = site.start("second");
    assert_eq!(site.leader().await.as_deref(), Some("first"));
    assert!(!second.leadership.is_held());
    assert_eq!(
        second
            .health
            .check(&second.leadership)
            .unwrap_or_default()
            .get(..13),
        Some("ok: stands by")
    );
    // Killed in the middle of its work.
    site.until_phase("web", VmPhase::Provisioning).await;
    first.task.abort();
    tokio::time::sleep(Duration::from_secs(20)).await;
    site.until_phase("web", VmPhase::Running).await;
    assert_eq!(site.leader().await.as_deref(), Some("second"));
    second.health.check(&second.leadership).unwrap();

    // A third takes over from one that ends, and finds nothing to do.
    let third = site.start("third");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let revision = |site: &Site| {
        let cluster = site.cluster.clone();
        async move {
            let key = ObjectKey::namespaced(ANN, "web");
            let vm = cluster.get::<KiteVirtualMachine>(&key).await.unwrap();
            vm.metadata.resource_version
        }
    };
    let before = revision(&site).await;
    second.end().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(site.leader().await.as_deref(), Some("third"));
    assert!(third.leadership.is_held());
    assert_eq!(revision(&site).await, before, "the VM was settled");
    third.end().await;
    assert_eq!(site.leader().await, None, "the Lease is released");
}

#[tokio::test(start_paused = true)]
async fn the_story_of_a_vm_is_told_once() {
    let site = Site::new().await;
    let controller = site.start("first");
    site.create_vm("web").await;
    site.until_phase("web", VmPhase::Running).await;
    let life = ["Normal DiskReady", "Normal Running"];
    let told = site.told("web").await;
    assert_eq!(told[..2], life, "{told:?}");
    let so_far = told.len();

    // Nothing is told again: not by many passes, nor by the next controller.
    controller.end().await;
    let controller = site.start("second");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(site.told("web").await.len(), so_far);

    let off = json!({"spec": {"powerState": "Off"}});
    let key = ObjectKey::namespaced(ANN, "web");
    let person = FieldManager::new("person");
    let edited = site
        .cluster
        .merge_patch::<KiteVirtualMachine>(person, &key, &off);
    edited.await.unwrap();
    site.until_phase("web", VmPhase::Stopped).await;
    assert_eq!(site.told("web").await.last().unwrap(), "Normal Stopped");

    let mut rival = vm_named("rival");
    rival.spec.ssh_id = "id-web".to_owned();
    site.cluster.create(&rival).await.unwrap();
    site.until_phase("rival", VmPhase::Failed).await;
    assert_eq!(site.told("rival").await, ["Warning SshIdTaken"]);
    let all = ListParams::default();
    let old_form = site.cluster.list::<v1::Event>(Some(ANN.to_owned()), &all);
    let event = old_form
        .await
        .unwrap()
        .items
        .into_iter()
        .find(|event| event.involved_object.name.as_deref() == Some("rival"));
    let event = event.expect("kubectl describe asks for Events of v1");
    let message = event.message.unwrap();
    assert!(
        message.contains("spec.sshId \"id-web\" is taken by"),
        "{message}"
    );
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_have_as_many_lines_for_many_vms_as_for_one() {
    let site = Site::new().await;
    let controller = site.run(Operator::without_election());
    site.create_vm("first").await;
    site.until_phase("first", VmPhase::Running).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lines = |text: &str| text.lines().count();
    let one = controller.metrics();
    for number in 0..3 {
        site.create_vm(&format!("vm-{number}")).await;
    }
    for number in 0..3 {
        site.until_phase(&format!("vm-{number}"), VmPhase::Running)
            .await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let many = controller.metrics();
    // A conflict here or there is a line more of a bounded number.
    assert!(lines(&many) <= lines(&one) + 12, "{one}\n{many}");
    for name in ["first", "vm-0", "ann", "debian-12"] {
        let leaks = many
            .lines()
            .find(|line| line.contains(&format!("\"{name}")));
        assert_eq!(leaks, None);
    }
    assert!(many.contains("kite_leader 1"), "{many}");
    for line in [
        "kite_objects{kind=\"KiteVirtualMachine\",phase=\"Running\"} 4",
        "kite_objects{kind=\"KiteUser\",phase=\"Ready\"} 1",
        "kite_queue_depth{kind=\"KiteVirtualMachine\"} 0",
        "kite_reconciles_running{kind=\"KiteVirtualMachine\"} 0",
    ] {
        assert!(many.contains(line), "{line} is not in\n{many}");
    }
    assert!(many.contains("kite_build_info{version=\""), "{many}");
    let created = many
        .lines()
        .find(|line| line.starts_with("kite_apiserver_requests_total{verb=\"patch\",resource=\"kitevirtualmachines/status\",code=\"2xx\"}"));
    assert!(created.is_some(), "{many}");
    controller.end().await;
}

/// A client of an API server that never answers whoever tells an Event.
fn deaf_to_events(client: Client) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() == http::Method::POST && request.uri().path().ends_with("/events") {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn hand_over_waits_for_no_event() {
    let site = Site::new().await;
    let election = Election::new("kite", "kite-controller", "first");
    let first = site.run_with(
        deaf_to_events(site.fake.client()),
        Operator::with_election(election),
    );
    site.create_vm("web").await;
    site.until_phase("web", VmPhase::Running).await;
    let second = site.start("second");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(site.told("web").await.is_empty(), "all of it is to be told");
    let since = tokio::time::Instant::now();
    first.stop.cancel();
    while !second.leadership.is_held() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = since.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    first.end().await;
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_asked_for_rarely_and_noticed_when_it_comes() {
    let site = Site::new().await;
    let by_gateway =
        json!({"spec": {"exposure": {"gateway": {"namespace": "kite", "name": "front"}}}});
    let key = ObjectKey::cluster("default");
    let person = FieldManager::new("person");
    let edited = site
        .cluster
        .merge_patch::<KitePlatform>(person, &key, &by_gateway);
    edited.await.unwrap();
    let controller = site.run(Operator::without_election());
    tokio::time::sleep(Duration::from_secs(60)).await;

    let asked = || {
        let metrics = controller.metrics();
        let absent = ["httproutes", "gateways"].map(|resource| {
            format!(
                "kite_apiserver_requests_total{{verb=\"list\",resource=\"{resource}\",code=\"404\"}} "
            )
        });
        let counts = absent.map(|line| {
            let count = metrics.lines().find_map(|it| it.strip_prefix(&line));
            count.unwrap_or("0").parse::<usize>().unwrap()
        });
        counts[0] + counts[1]
    };
    let before = asked();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = asked() - before;
    // Each of two kinds every two minutes, more or less.
    assert!((30..=90).contains(&asked), "{asked} requests in an hour");

    for crd in kite_core::gateway_api::crds() {
        site.cluster.create(&crd).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(151)).await;
    let mut front = Gateway::new("front", GatewaySpec::default());
    front.metadata.namespace = Some("kite".to_owned());
    site.cluster.create(&front).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let platform = site.cluster.get::<KitePlatform>(&key).await.unwrap();
    let conditions = platform.status.unwrap().conditions;
    let web = conditions.iter().find(|c| c.type_ == "WebExposed").unwrap();
    assert_eq!(web.reason, "NoListener", "the Gateway is seen: {web:?}");
    controller.end().await;
}
