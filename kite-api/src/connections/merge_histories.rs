//! That each session is counted once, whatever goes wrong meanwhile, and whoever is at it
//! besides.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{cluster::Cluster as _, crd};
use kite_fake::{
    FakeCluster,
    fault::{Call, Fault, Faults, Plan},
};
use kube::{Client, api::ListParams};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tower::Layer as _;

use super::*;
use crate::connections::kept::plan_within;

const NAMESPACE: &str = "kite-user-ann";
/// How many sessions in which something was done are kept.
const USED: usize = 6;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Sessions of one VM, of which the n-th ends after n hours.
struct Stage {
    fake: FakeCluster,
    cluster: KubeCluster,
    ended: i64,
}

impl Stage {
    async fn new() -> Self {
        Self::with(crd::all()).await
    }

    async fn with(crds: Vec<CustomResourceDefinition>) -> Self {
        let fake = FakeCluster::builder().crds(crds).build().unwrap();
        let cluster = KubeCluster::new(fake.client());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        cluster.create(&namespace).await.unwrap();
        Self {
            fake,
            cluster,
            ended: 0,
        }
    }

    /// One more ends.
    async fn end(&mut self, peer: &str) {
        self.ended += 1;
        let ended = start() + self.ended.hours();
        let spec = json!({
            "vm": {"name": "web", "uid": "1"}, "owner": "ann", "login": "web", "kind": "Ssh",
            "instance": "a", "number": self.ended, "peer": peer,
            "openedAt": start().to_string(),
            "ended": {"at": ended.to_string(), "why": "over", "bytesUp": 1, "bytesDown": 2},
        });
        let spec = serde_json::from_value(spec).unwrap();
        let mut session = kite_core::connections::object(NAMESPACE, spec);
        // The VM is not there.
        session.metadata.owner_references = None;
        self.cluster.create(&session).await.unwrap();
    }

    async fn end_many(&mut self, count: usize) {
        for _ in 0..count {
            self.end("192.0.2.1").await;
        }
    }

    async fn all(&self) -> Vec<Arc<KiteConnection>> {
        let (namespace, params) = (Some(NAMESPACE.to_owned()), ListParams::default());
        let listed = self.cluster.list::<KiteConnection>(namespace, &params);
        let all = listed.await.unwrap().items.into_iter();
        all.map(Arc::new).collect()
    }

    /// What a replica makes of what is there now.
    async fn look(&self, now: Timestamp) -> Vec<Merge> {
        let plan = plan_within(self.all().await, now, USED);
        assert!(plan.old.is_empty(), "{:?}", plan.old);
        plan.merges
    }

    /// The same for an hour after the last one ended.
    async fn look_soon(&self) -> Vec<Merge> {
        self.look(self.soon()).await
    }

    fn soon(&self) -> Timestamp {
        start() + (self.ended + 1).hours()
    }

    /// Looks until nothing is left to do.
    async fn settle(&self, now: Timestamp) {
        for _ in 0..20 {
            let merges = self.look(now).await;
            if merges.is_empty() {
                return;
            }
            for one in merges {
                merge(&self.cluster, one).await.unwrap();
            }
        }
        let merges = self.look(now).await;
        assert!(merges.is_empty(), "there is no end: {merges:?}");
    }

    /// What goes wrong with a replica.
    fn with_faults(&self, plan: Plan) -> (KubeCluster, Faults) {
        let faults = Faults::new(plan);
        let service = faults.layer("api").layer(self.fake.service());
        (KubeCluster::new(Client::new(service, "default")), faults)
    }

    /// How many sessions are told of, each by itself or by another one.
    async fn told(&self) -> i64 {
        let all = self.all().await;
        let counted = all.iter().filter_map(|it| it.spec.earlier.as_ref());
        let counted: HashSet<_> = counted.flat_map(|it| it.counted.clone()).collect();
        let by_themselves = all.iter().filter(|it| !counted.contains(&it.name_any()));
        by_themselves
            .map(|it| 1 + it.spec.earlier.as_ref().map_or(0, |it| it.count))
            .sum()
    }

    /// The numbers of those that stand for others, and for how many.
    async fn bearers(&self) -> Vec<(i64, i64)> {
        let all = self.all().await;
        let bearers = all
            .iter()
            .filter_map(|it| Some((it.spec.number, it.spec.earlier.as_ref()?.count)));
        let mut bearers: Vec<_> = bearers.collect();
        bearers.sort_unstable();
        bearers
    }
}

fn is_deletion_of(number: i64) -> impl Fn(&Call) -> bool + Send + Sync + 'static {
    move |call| call.verb == "delete" && call.name.ends_with(&format!("-{number}"))
}

fn only(merges: Vec<Merge>) -> Merge {
    assert_eq!(merges.len(), 1, "{merges:?}");
    merges.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_still_there_when_another_one_ends_is_not_counted_again() {
    for failing in [&[1_i64, 2, 3][..], &[2][..]] {
        let mut stage = Stage::new().await;
        stage.end_many(USED + 3).await;
        let mut plan = Plan::none();
        for &number in failing {
            let fault = Fault::ResetBeforeSend;
            plan = plan.and_first("it is deleted", fault, is_deletion_of(number));
        }
        let (cluster, faults) = stage.with_faults(plan);
        let one = only(stage.look_soon().await);
        merge(&cluster, one).await.unwrap_err();
        assert_eq!(faults.injected().len(), failing.len());
        assert_eq!(stage.told().await, 9);
        stage.end_many(1).await;
        stage.settle(stage.soon()).await;
        // The fourth goes on standing for others.
        assert_eq!(stage.bearers().await, [(4, 4)]);
        assert_eq!(stage.all().await.len(), USED);
        assert_eq!(stage.told().await, 10);
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_that_see_different_moments_count_each_once() {
    let mut stage = Stage::new().await;
    stage.end_many(USED + 3).await;
    let early = only(stage.look_soon().await);
    stage.end_many(1).await;
    let late = only(stage.look_soon().await);
    assert_ne!(early.into, late.into, "nobody stands for others yet");
    // The one is about to count them when the other begins.
    let cluster = &stage.cluster;
    let claimed = claim_all(cluster, &early.into, &early.gone).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert_eq!(merge(cluster, late).await.unwrap(), 1);
    let noted = note(cluster, &early.into, &claimed, &[]).await.unwrap();
    assert_eq!(noted, None, "it is counted itself by now");
    assert_eq!(stage.told().await, 10);
    stage.settle(stage.soon()).await;
    assert_eq!(stage.bearers().await, [(5, 4)]);
    assert_eq!(stage.told().await, 10);
}

#[tokio::test(start_paused = true)]
async fn replicas_at_the_same_time_count_each_once() {
    let mut stage = Stage::new().await;
    stage.end_many(USED + 30).await;
    let early = only(stage.look_soon().await);
    stage.end_many(1).await;
    let late = only(stage.look_soon().await);
    let (one, other) = futures::join!(merge(&stage.cluster, early), merge(&stage.cluster, late));
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert_eq!(stage.told().await, 37);
    stage.settle(stage.soon()).await;
    assert_eq!(stage.told().await, 37);
    assert_eq!(stage.all().await.len(), USED);
}

/// Each of them saw what was before any of them began.
#[tokio::test(start_paused = true)]
async fn no_sessions_come_to_wait_for_each_other() {
    for length in [2, 3, 4] {
        let mut stage = Stage::new().await;
        stage.end_many(USED + 4).await;
        let all = stage.all().await;
        let plans = (0..length).map(|place| Merge {
            into: Arc::clone(&all[(place + 1) % length]),
            counted: Vec::new(),
            still: Vec::new(),
            gone: vec![Arc::clone(&all[place])],
        });
        let merging = plans.map(|it| merge(&stage.cluster, it));
        for merged in futures::future::join_all(merging).await {
            merged.unwrap();
        }
        assert_eq!(stage.told().await, 10);
        stage.settle(stage.soon()).await;
        assert_eq!(stage.all().await.len(), USED, "a circle of {length}");
        assert_eq!(stage.told().await, 10);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_about_to_be_too_old_is_counted_by_the_newest() {
    let mut stage = Stage::new().await;
    stage.end_many(USED + 3).await;
    stage.settle(stage.soon()).await;
    assert_eq!(stage.bearers().await, [(4, 3)]);
    // That is 28 days and 23 hours after the fourth ended, and then a little later.
    let month = |hours: i64| start() + (4 + 29 * 24 + hours).hours();
    stage.settle(month(-1)).await;
    assert_eq!(stage.bearers().await, [(4, 3)]);
    let plan = Plan::first("it goes", Fault::ResetBeforeSend, is_deletion_of(4));
    let (cluster, _) = stage.with_faults(plan);
    let one = only(stage.look(month(1)).await);
    merge(&cluster, one).await.unwrap_err();
    assert_eq!(stage.bearers().await, [(4, 3), (9, 4)]);
    assert_eq!(stage.told().await, 9);
    stage.settle(month(1)).await;
    assert_eq!(stage.bearers().await, [(9, 4)]);
    assert_eq!(stage.told().await, 9);
}

/// As one of an earlier version, which knows nothing of earlier sessions.
fn outdated() -> Vec<CustomResourceDefinition> {
    let mut all = crd::all();
    let connections = all
        .iter_mut()
        .find(|it| it.spec.names.kind == "KiteConnection");
    for version in &mut connections.unwrap().spec.versions {
        let schema = version.schema.as_mut().unwrap();
        let schema = schema.open_api_v3_schema.as_mut().unwrap();
        let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
        spec.properties.as_mut().unwrap().remove("earlier").unwrap();
        let rules = spec.x_kubernetes_validations.as_mut().unwrap();
        rules.retain(|it| !it.rule.contains("earlier"));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_where_nothing_can_be_counted() {
    let mut stage = Stage::with(outdated()).await;
    stage.end_many(USED + 3).await;
    for _ in 0..2 {
        let one = only(stage.look_soon().await);
        let error = merge(&stage.cluster, one).await.unwrap_err();
        assert!(
            error.contains("spec.earlier") && error.contains("kite crds"),
            "{error}"
        );
        assert_eq!(stage.all().await.len(), USED + 3);
    }
}

/// Three replicas act on what they saw some time ago, two of them at once now and then, and
/// much goes wrong, while sessions from more addresses end than have a part of their own.
#[tokio::test(start_paused = true)]
async fn whatever_happens_each_is_counted_once() {
    let faults = [
        Fault::ResetBeforeSend,
        Fault::ResetAfterCommit,
        Fault::Conflict,
        Fault::ServerError,
        Fault::RivalEdits,
    ];
    for seed in 0..20_u64 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut stage = Stage::new().await;
        let (cluster, _) = stage.with_faults(Plan::random(seed, 120, &faults));
        // With every other one some are about to be too old.
        let is_late = seed % 2 == 1;
        let now = |stage: &Stage| {
            let late = start() + (29 * 24 + stage.ended / 2).hours();
            if is_late { late } else { stage.soon() }
        };
        let mut seen = [const { Vec::<Merge>::new() }; 3];
        for step in 0..120 {
            let replica = dice.random_range(0..3);
            match dice.random_range(0..6) {
                0 | 1 if stage.ended < 40 => {
                    let peer = format!("192.0.2.{}", dice.random_range(0..5));
                    stage.end(&peer).await;
                }
                0..=2 => seen[replica] = stage.look(now(&stage)).await,
                3 | 4 => {
                    if let Some(one) = seen[replica].pop() {
                        // What came of it is what is there.
                        let _ = merge(&cluster, one).await;
                    }
                }
                _ => {
                    let [first, second, _] = &mut seen;
                    if let (Some(one), Some(other)) = (first.pop(), second.pop()) {
                        let _ = futures::join!(merge(&cluster, one), merge(&cluster, other));
                    }
                }
            }
            assert_eq!(stage.told().await, stage.ended, "seed {seed}, step {step}");
        }
        stage.settle(now(&stage)).await;
        assert_eq!(stage.told().await, stage.ended, "seed {seed}");
        let kept = stage.all().await.len();
        // Those who are too old for it stand for others until somebody younger is there.
        let most = if is_late { 2 * USED } else { USED };
        assert!(kept <= most, "seed {seed}: {kept} are kept");
    }
}
