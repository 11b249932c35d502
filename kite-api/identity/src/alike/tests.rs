#![allow(clippy::unwrap_used)]
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kite_core::{cluster::KubeCluster, crd};
use kite_fake::FakeCluster;
use kite_rest::{Store, audit::Audited};
use kube::client::Body;
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tower::ServiceExt as _;

use super::*;
use crate::{copies::Copies, state::Settings};

const AGE: Duration = Duration::from_secs(600);
/// How long anything may take before a test gives up: long, for a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn only_looks_without_a_gap_show_that_all_are_alike() {
    let begun = Instant::now();
    let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
    let mut known = Known::default();
    known.note(Some(true), begun);
    assert!(known.has_older);
    for minute in 1..=11 {
        known.note(Some(false), after(minute));
        assert_eq!(known.are_alike(AGE, after(minute)), minute == 11);
    }
    // Nobody knows what was there meanwhile.
    known.note(Some(false), after(30));
    assert!(!known.are_alike(AGE, after(30)));
    known.note(Some(false), after(35));
    known.note(Some(false), after(40));
    assert!(known.are_alike(AGE, after(40)));
    known.note(None, after(41));
    assert!(!known.are_alike(AGE, after(41)));
}

#[test]
fn a_look_that_fails_neither_proves_nor_disproves() {
    let begun = Instant::now();
    let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
    let mut known = Known::default();
    for minute in 0..10 {
        known.note(Some(false), after(minute));
    }
    known.note(None, after(10));
    assert!(!known.are_alike(AGE, after(10)), "nobody can say");
    known.note(Some(false), after(11));
    assert!(known.are_alike(AGE, after(11)), "as before");
    // For longer than what was seen says something.
    for minute in 12..=17 {
        known.note(None, after(minute));
    }
    known.note(Some(false), after(18));
    assert!(!known.are_alike(AGE, after(18)));
    known.note(Some(true), after(19));
    known.note(None, after(20));
    known.note(Some(false), after(21));
    assert!(!known.are_alike(AGE, after(21)));
}

#[test]
fn what_could_never_be_seen_may_be_there() {
    let mut known = Known::default();
    known.note(None, Instant::now());
    assert!(known.has_older);
    // It was seen before: then a look that fails is no reason to show hashes.
    let mut known = Known::default();
    known.note(Some(false), Instant::now());
    known.note(None, Instant::now());
    assert!(!known.has_older);
}

fn pod(revision: Option<(&str, &str)>, images: &[&str]) -> Pod {
    let containers = images.iter().map(|image| {
        serde_json::json!({
            "name": "kite-api", "image": "registry.test/kite-api:latest",
            "imageID": image, "ready": true, "restartCount": 0,
        })
    });
    let containers: Vec<_> = containers.collect();
    let labels = revision.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels: std::collections::BTreeMap<_, _> = labels.into_iter().collect();
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "kite-api", "labels": labels},
        "status": {"containerStatuses": containers},
    }))
    .unwrap()
}

#[test]
fn a_pod_that_is_made_as_this_one_is_of_its_version() {
    for label in REVISIONS {
        let own = pod(Some((label, "a")), &["sha256:1"]);
        assert!(is_same(&own, &own));
        // It has not begun.
        assert!(is_same(&pod(Some((label, "a")), &[]), &own));
        assert!(is_same(&pod(Some((label, "a")), &[""]), &own));
        // The tag was moved between the two.
        assert!(!is_same(&pod(Some((label, "a")), &["sha256:0"]), &own));
        assert!(!is_same(&pod(Some((label, "b")), &["sha256:1"]), &own));
        assert!(!is_same(&pod(None, &["sha256:1"]), &own));
    }
    // How these were made, and what they run, nobody knows.
    let unknown = pod(None, &["sha256:1"]);
    assert!(!is_same(&unknown, &unknown));
    let begins = pod(Some((REVISIONS[0], "a")), &[]);
    assert!(!is_same(&begins, &begins));
}

/// A replica whose looks at pods are held until a test lets them on, and those who ask.
struct Stage {
    state: Accounts,
    /// Looks that have begun.
    looks: Arc<AtomicUsize>,
    let_on: Arc<Semaphore>,
    /// Those who ask and have to wait.
    waiting: Arc<AtomicUsize>,
    _watches: JoinSet<()>,
    _fake: FakeCluster,
}

impl Stage {
    async fn new() -> Self {
        let fake = FakeCluster::builder().crds(crd::all()).build().unwrap();
        let looks: Arc<AtomicUsize> = Arc::default();
        let let_on = Arc::new(Semaphore::new(0));
        let (begun, gate) = (Arc::clone(&looks), Arc::clone(&let_on));
        let service = fake.service();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_look = request.uri().path().ends_with("/pods");
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            let service = service.clone();
            async move {
                if is_look {
                    begun.fetch_add(1, Ordering::SeqCst);
                    gate.acquire().await.unwrap().forget();
                }
                service.oneshot(request).await
            }
        });
        let client = kube::Client::new(service, "default");
        let mut watches = JoinSet::new();
        let cluster = KubeCluster::new(client.clone());
        let store = Store::new(
            Audited::new(cluster, Arc::new(())),
            kite_core::managers::API,
        );
        let copies = Copies::start(&client, &mut watches);
        let state = Accounts::new(Arc::new(store), copies, Settings::default());
        Self {
            state: state.await.unwrap(),
            _watches: watches,
            looks,
            let_on,
            waiting: Arc::default(),
            _fake: fake,
        }
    }

    /// Asks, in a task of its own.
    fn ask(&self) -> JoinHandle<Known> {
        let (state, waiting) = (self.state.clone(), Arc::clone(&self.waiting));
        tokio::spawn(async move {
            let mut looking = pin!(look(&state));
            let mut has_waited = false;
            poll_fn(|context| {
                let polled = looking.as_mut().poll(context);
                if polled.is_pending() && !has_waited {
                    has_waited = true;
                    waiting.fetch_add(1, Ordering::SeqCst);
                }
                polled
            })
            .await
        })
    }

    /// One who looks, and three who wait for what is found.
    async fn four(&self) -> (JoinHandle<Known>, [JoinHandle<Known>; 3]) {
        let first = self.ask();
        until("one looks", || self.looks() == 1).await;
        let others = [(); 3].map(|()| self.ask());
        until("all wait", || self.waiting.load(Ordering::SeqCst) == 4).await;
        assert!(others.iter().all(|it| !it.is_finished()));
        (first, others)
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let waiting = async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}

async fn is_told(one: JoinHandle<Known>) {
    let known = timeout(PATIENCE, one).await.unwrap().unwrap();
    assert!(known.has_seen && !known.has_failed, "{known:?}");
}

#[tokio::test]
async fn who_comes_while_somebody_looks_waits_for_what_is_found() {
    let stage = Stage::new().await;
    let (first, others) = stage.four().await;
    stage.let_on.add_permits(9);
    is_told(first).await;
    for one in others {
        is_told(one).await;
    }
    assert_eq!(stage.looks(), 1);
}

#[tokio::test]
async fn where_who_looks_has_gone_another_one_looks() {
    let stage = Stage::new().await;
    let (first, others) = stage.four().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    until("another one looks", || stage.looks() == 2).await;
    stage.let_on.add_permits(9);
    for one in others {
        is_told(one).await;
    }
    assert_eq!(stage.looks(), 2);
}
