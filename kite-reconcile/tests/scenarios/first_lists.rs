//! What a process does before it has seen everything: while the first list of a
//! kind hangs, nothing; while it is refused, only what it has asked about.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, Response};
use http_body_util::{Either, Empty};
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    networking::v1::{NetworkPolicy, NetworkPolicyEgressRule},
};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, Object, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteUserSpec, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake::state::Snapshot;
use kite_fake_kubevirt::everything;
use kite_reconcile::Context;
use kube::{
    Client, ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::world::{image, named, platform, vm_named};

const ANN: &str = "kite-user-ann";

/// What becomes of the lists of one kind, for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Hang,
    Refused,
}

/// A client of `fake` whose lists of a kind are in trouble until `is_over`, and
/// what is written by it.
fn troubled(
    fake: &FakeCluster,
    plural: &'static str,
    trouble: Trouble,
    is_over: &watch::Receiver<bool>,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let written = Arc::<Mutex<Vec<String>>>::default();
    let (service, is_over, noted) = (fake.service(), is_over.clone(), Arc::clone(&written));
    let service = service_fn(move |request: Request<Body>| {
        let (service, mut is_over) = (service.clone(), is_over.clone());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default();
        let is_list = method == Method::GET && !query.contains("watch=");
        let is_in_trouble = is_list && path.rsplit('/').next() == Some(plural);
        if method != Method::GET {
            noted.lock().push(format!("{method} {path}"));
        }
        async move {
            if is_in_trouble && !*is_over.borrow() {
                if trouble == Trouble::Refused {
                    let nothing = Either::Right(Empty::new());
                    return Ok(Response::builder().status(500).body(nothing)?);
                }
                // Its sender outlives it, or nobody waits any more.
                let _ = is_over.wait_for(|is_over| *is_over).await;
            }
            let answer = service.oneshot(request).await.map_err(BoxError::from)?;
            Ok::<_, BoxError>(answer.map(Either::Left))
        }
    });
    (Client::new(service, "default"), written)
}

/// A cluster that lives by itself.
struct Place {
    fake: FakeCluster,
    cluster: KubeCluster,
    stop: CancellationToken,
    _actors: Actors,
}

impl Place {
    fn new(snapshot: Option<Snapshot>) -> Self {
        let builder = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(kite_core::gateway_api::crds())
            .crds(kite_core::cert_manager::crds());
        let builder = snapshot
            .into_iter()
            .fold(builder, kite_fake::Builder::snapshot);
        let fake = builder.build().unwrap();
        let (client, stop) = (fake.client(), CancellationToken::new());
        let rules = Arc::new(Rules::instant());
        let actors = Actors::spawn(&client, fake.clock(), &rules, everything(), &stop);
        Self {
            cluster: KubeCluster::new(client),
            fake,
            stop,
            _actors: actors,
        }
    }

    fn controllers(&self, client: Client) -> JoinHandle<()> {
        let fake = self.fake.clone();
        let context = Context::new(KubeCluster::new(client.clone()));
        let context = context.with_clock(move || fake.now());
        tokio::spawn(kite_reconcile::run(client, context, self.stop.clone()))
    }

    async fn find<K: Object>(&self, namespace: &str, name: &str) -> Option<K> {
        let key = ObjectKey::namespaced(namespace, name);
        self.cluster.get_opt(&key).await.unwrap()
    }

    /// The names of all claims.
    async fn claims(&self) -> Vec<String> {
        let all = ListParams::default();
        let found = self.cluster.list::<KiteReservation>(None, &all).await;
        let found = found.unwrap().items.into_iter();
        found.map(|claim| claim.name_any()).collect()
    }

    async fn delete<K: Object>(&self, name: &str) {
        let object = self.find::<K>(ANN, name).await.unwrap();
        let gone = self
            .cluster
            .delete_by_uid(&object, PropagationPolicy::Background);
        gone.await.unwrap();
    }
}

/// A cluster with a running VM, and nobody who looks after it any more.
async fn inhabited() -> Snapshot {
    let place = Place::new(None);
    for name in ["kite", "kite-images"] {
        let namespace = Namespace {
            metadata: named(name),
            ..Namespace::default()
        };
        place.cluster.create(&namespace).await.unwrap();
    }
    let controllers = place.controllers(place.fake.client());
    place.cluster.create(&platform()).await.unwrap();
    place.cluster.create(&image("debian-12")).await.unwrap();
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    place.cluster.create(&ann).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    place.cluster.create(&vm_named("web")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let web = place.find::<KiteVirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(web.status.unwrap().phase, Some(VmPhase::Running));
    place.stop.cancel();
    controllers.await.unwrap();
    place.fake.snapshot()
}

/// Kinds of which everybody lists all, and what is mended of each.
const KINDS: &[&str] = &[
    "kitevirtualmachines",
    "kiteusers",
    "kitereservations",
    "virtualmachines",
    "datavolumes",
    "networkpolicies",
    "services",
    "secrets",
    "nodes",
];

/// What a process writes on a cluster in which something is missing, whose lists
/// of a kind are in trouble: while they are, and in all.
async fn starts_in_trouble(
    snapshot: &Snapshot,
    plural: &'static str,
    trouble: Trouble,
) -> (Vec<String>, Vec<String>) {
    let place = Place::new(Some(snapshot.clone()));
    place.delete::<Service>("vps-access-web").await;
    let policy = ObjectKey::namespaced(ANN, "tenant-isolation-egress");
    let (person, open) = (
        FieldManager::new("person"),
        json!({"spec": {"egress": [{}]}}),
    );
    let opened = place
        .cluster
        .merge_patch::<NetworkPolicy>(person, &policy, &open);
    opened.await.unwrap();
    let claims = place.claims().await;
    let machine = place.find::<VirtualMachine>(ANN, "web").await.unwrap();
    let (over, is_over) = watch::channel(false);
    let (client, written) = troubled(&place.fake, plural, trouble, &is_over);
    let controllers = place.controllers(client);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let early = written.lock().clone();
    over.send_replace(true);
    tokio::time::sleep(Duration::from_secs(300)).await;

    let service = place.find::<Service>(ANN, "vps-access-web").await;
    assert!(service.is_some(), "{plural} {trouble:?}");
    let policy = place.find::<NetworkPolicy>(ANN, "tenant-isolation-egress");
    let open = policy.await.unwrap().spec.unwrap().egress.unwrap();
    let is_closed = |rule: &NetworkPolicyEgressRule| rule.to.is_some();
    assert!(open.iter().all(is_closed), "{plural} {trouble:?}");
    let after = place.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(machine.metadata.uid, after.metadata.uid, "{plural}");
    assert_eq!(place.claims().await, claims, "{plural}");
    let all = written.lock().clone();
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(*written.lock(), all, "{plural} {trouble:?}: it is at rest");
    place.stop.cancel();
    controllers.await.unwrap();
    (early, all)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_the_first_list_of_any_kind_hangs() {
    let snapshot = inhabited().await;
    for plural in KINDS {
        let (early, all) = starts_in_trouble(&snapshot, plural, Trouble::Hang).await;
        assert_eq!(early, Vec::<String>::new(), "{plural}");
        assert!(!all.is_empty());
    }
}

/// Nobody waits for a list that fails: what it would have shown is asked for, or the
/// reconcile fails that depends on it, and says so in a status.
#[tokio::test(start_paused = true)]
async fn what_is_written_while_a_list_is_refused_is_what_is_written_without() {
    let snapshot = inhabited().await;
    let without_status = |all: Vec<String>| {
        let mut all: Vec<String> = all
            .into_iter()
            .filter(|it| !it.ends_with("/status"))
            .collect();
        all.sort();
        all
    };
    let (_, expected) = starts_in_trouble(&snapshot, "none", Trouble::Refused).await;
    let expected = without_status(expected);
    assert_eq!(
        expected.len(),
        2,
        "a Service and a network policy: {expected:?}"
    );
    for plural in KINDS {
        let (_, all) = starts_in_trouble(&snapshot, plural, Trouble::Refused).await;
        assert_eq!(without_status(all), expected, "{plural}");
    }
}
