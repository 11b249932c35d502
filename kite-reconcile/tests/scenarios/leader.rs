//! Leader election: who may write, at every moment, whatever happens to the
//! processes, to the line and to the clocks.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use http::Request;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kite_core::cluster::{
    Cluster as _, ClusterError, ClusterExt as _, KubeCluster, NotLeader, ObjectKey,
};
use kite_fake::FakeCluster;
use kite_reconcile::{
    leader::{Election, ElectionError, LeaderState, Leadership, lead},
    wire::ClientLayer,
};
use kube::{
    Client,
    api::{ListParams, PropagationPolicy},
    client::Body,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use crate::world::named;

/// How the line between a process and the API server is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Line {
    Up,
    /// Requests vanish, and nobody answers.
    Silent,
    /// Requests arrive, and the answers are lost.
    AnswersLost,
    /// Requests arrive, and the answers take seven seconds.
    Late,
    /// Requests are refused at once.
    Down,
}

/// A process that stands for election.
struct Process {
    name: &'static str,
    leadership: Leadership,
    cluster: KubeCluster,
    line: Arc<Mutex<Line>>,
    /// How much this process's system clock is off, in seconds.
    skew: Arc<AtomicI64>,
    terms: Arc<AtomicU32>,
    working: Arc<AtomicU32>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ElectionError>>,
}

/// Counts who works, also when the work is dropped.
struct Working(Arc<AtomicU32>);

impl Working {
    fn begin(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Process {
    fn start(fake: &FakeCluster, name: &'static str) -> Self {
        let line = Arc::new(Mutex::new(Line::Up));
        let client = connect(fake, &line);
        let skew = Arc::new(AtomicI64::new(0));
        let clock: kite_reconcile::Clock = {
            let (fake, skew) = (fake.clone(), Arc::clone(&skew));
            Arc::new(move || -> Timestamp {
                fake.now() + SignedDuration::from_secs(skew.load(Ordering::SeqCst))
            })
        };
        let leadership = Leadership::candidate();
        let fenced = ClientLayer::default()
            .fenced_by(leadership.clone())
            .wrap(client.clone());
        let (terms, working) = (Arc::default(), Arc::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(lead(
            Arc::new(KubeCluster::new(client)),
            Election::new("kite", "kite-controller", name),
            leadership.clone(),
            clock,
            stop.clone(),
            {
                let (terms, working) = (Arc::clone(&terms), Arc::clone(&working));
                move |stop: CancellationToken| {
                    AtomicU32::fetch_add(&terms, 1, Ordering::SeqCst);
                    let working = Working::begin(&working);
                    async move {
                        stop.cancelled().await;
                        drop(working);
                    }
                }
            },
        ));
        Self {
            name,
            leadership,
            cluster: KubeCluster::new(fenced),
            line,
            skew,
            terms,
            working,
            stop,
            task,
        }
    }

    fn set(&self, line: Line) {
        *self.line.lock().unwrap() = line;
    }

    fn leads(&self) -> bool {
        self.leadership.is_held()
    }

    async fn write(&self, name: &str) -> Result<ConfigMap, ClusterError> {
        let mut map = ConfigMap {
            metadata: named(name),
            ..ConfigMap::default()
        };
        map.metadata.namespace = Some("kite".to_owned());
        // Nobody answers a line that is silent: then it is broken off.
        let answer = timeout(Duration::from_secs(60), self.cluster.create(&map));
        answer.await.expect("a write comes to an end")
    }
}

fn connect(fake: &FakeCluster, line: &Arc<Mutex<Line>>) -> Client {
    let service = fake.service();
    let line = Arc::clone(line);
    let service = service_fn(move |request: Request<Body>| {
        let service = service.clone();
        let line = *line.lock().unwrap();
        async move {
            match line {
                Line::Up => Ok(service.answer(request).await),
                Line::Silent => std::future::pending().await,
                Line::Down => Err(BoxError::from("connection refused")),
                Line::Late => {
                    let answer = service.answer(request).await;
                    sleep(Duration::from_secs(7)).await;
                    Ok(answer)
                }
                Line::AnswersLost => {
                    service.answer(request).await;
                    Err(BoxError::from("connection reset"))
                }
            }
        }
    });
    Client::new(service, "default")
}

async fn cluster() -> FakeCluster {
    let fake = FakeCluster::builder().build().unwrap();
    let namespace = Namespace {
        metadata: named("kite"),
        ..Namespace::default()
    };
    KubeCluster::new(fake.client())
        .create(&namespace)
        .await
        .unwrap();
    fake
}

/// Waits until one of `processes` leads.
async fn leader(processes: &[Process]) -> &Process {
    for _ in 0..1000 {
        if let Some(leader) = processes.iter().find(|process| process.leads()) {
            return leader;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody leads");
}

async fn two(fake: &FakeCluster) -> (Process, Process) {
    let first = Process::start(fake, "first");
    let ones = [first];
    leader(&ones).await;
    let [first] = ones;
    let second = Process::start(fake, "second");
    sleep(Duration::from_secs(3)).await;
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_knows_who() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(first.leadership.state(), LeaderState::Leader);
    let waits = LeaderState::Candidate(Some("first".to_owned()));
    assert_eq!(second.leadership.state(), waits);
    assert_eq!(first.terms.load(Ordering::SeqCst), 1, "renewals are enough");
    first.write("by-the-leader").await.unwrap();

    let refused = second.write("by-the-other").await.unwrap_err();
    let reason = NotLeader::NotSent;
    assert!(
        matches!(&refused, ClusterError::NotLeader { reason: found, .. } if *found == reason),
        "{refused}"
    );
    let all = ListParams::default();
    let maps = second
        .cluster
        .list::<ConfigMap>(Some("kite".to_owned()), &all);
    let names: Vec<_> = maps
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    assert_eq!(names, ["by-the-leader"], "and reading is free to all");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_hands_over_within_two_seconds() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    let told = Instant::now();
    first.stop.cancel();
    first.task.await.unwrap().unwrap();
    assert!(!first.leadership.is_held());
    let others = [second];
    leader(&others).await;
    assert!(
        told.elapsed() < Duration::from_secs(2),
        "{:?}",
        told.elapsed()
    );
    let lease = lease(&fake).await.spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("second"));
    assert_eq!(lease.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_crashes_is_replaced_when_its_lease_ends() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    first.task.abort();
    let crashed = Instant::now();
    let others = [second];
    leader(&others).await;
    let waited = crashed.elapsed();
    assert!(
        waited >= Duration::from_secs(12),
        "{waited:?}: it may have been alive"
    );
    assert!(waited <= Duration::from_secs(18), "{waited:?}");
}

/// Seldom looks put off no take-over: the Lease is looked at when it ends, too.
#[tokio::test(start_paused = true)]
async fn who_stands_by_asks_seldom_and_takes_over_when_the_lease_ends() {
    // At several moments between two renewals.
    for moment in [0, 300, 700, 1100, 1500, 1900] {
        let fake = cluster().await;
        let (first, second) = two(&fake).await;
        let mark = fake.log().mark();
        sleep(Duration::from_secs(600)).await;
        let looks = fake
            .log()
            .since(&mark)
            .count("get", "leases.coordination.k8s.io");
        // One in 1.5 to 1.9 s.
        assert!((310..=401).contains(&looks), "{looks}");

        sleep(Duration::from_millis(moment)).await;
        first.task.abort();
        let renewed = lease(&fake).await.spec.unwrap().renew_time.unwrap().0;
        let others = [second];
        leader(&others).await;
        let waited = fake.now().duration_since(renewed);
        let least = SignedDuration::from_secs(15);
        let most = SignedDuration::from_millis(17_500);
        assert!((least..=most).contains(&waited), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_reaches_nobody_steps_down_before_another_takes_over() {
    for line in [Line::Silent, Line::Down] {
        let fake = cluster().await;
        let (first, second) = two(&fake).await;
        first.set(line);
        let cut = Instant::now();
        while first.leads() {
            assert!(!second.leads());
            sleep(Duration::from_millis(10)).await;
        }
        assert!(
            cut.elapsed() <= Duration::from_secs(10),
            "{:?}",
            cut.elapsed()
        );
        sleep(Duration::from_millis(1)).await;
        assert_eq!(
            first.working.load(Ordering::SeqCst),
            0,
            "its work is dropped"
        );
        assert!(!second.leads(), "there is a pause between two leaders");
        let others = [second];
        leader(&others).await;

        first.set(Line::Up);
        sleep(Duration::from_secs(60)).await;
        assert!(
            !first.leads() && others[0].leads(),
            "and it waits like any other"
        );
    }
}

/// The others count from when the Lease changed, and not from when the leader
/// heard of that.
#[tokio::test(start_paused = true)]
async fn a_late_answer_prolongs_a_term_by_no_more_than_its_question() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    first.set(Line::Late);
    // One renewal is sent in this time.
    sleep(Duration::from_secs(3)).await;
    first.set(Line::Silent);
    for _ in 0..3000 {
        assert!(!first.leads() || !second.leads());
        sleep(Duration::from_millis(10)).await;
    }
    assert!(second.leads());
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_for_a_while_cost_no_leadership() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    for _ in 0..5 {
        first.set(Line::AnswersLost);
        sleep(Duration::from_secs(6)).await;
        first.set(Line::Up);
        sleep(Duration::from_secs(6)).await;
        assert!(first.leads() && !second.leads());
    }
    assert_eq!(first.terms.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_hangs_costs_no_leadership() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    for _ in 0..3 {
        first.set(Line::Silent);
        // One renewal is sent in this time, and never answered.
        sleep(Duration::from_millis(2500)).await;
        first.set(Line::Up);
        for _ in 0..200 {
            assert!(first.leads() && !second.leads());
            sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(first.terms.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_makes_no_second_leader() {
    let fake = cluster().await;
    let (first, second) = two(&fake).await;
    for line in [Line::Up, Line::Silent] {
        let key = ObjectKey::namespaced("kite", "kite-controller");
        let lease: Lease = KubeCluster::new(fake.client()).get(&key).await.unwrap();
        first.set(line);
        let gone = KubeCluster::new(fake.client());
        let gone = gone.delete_by_uid(&lease, PropagationPolicy::Background);
        gone.await.unwrap();
        for _ in 0..3000 {
            assert!(!first.leads() || !second.leads(), "{line:?}");
            sleep(Duration::from_millis(10)).await;
        }
        assert!(first.leads() || second.leads(), "{line:?}");
        if !first.leads() {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_under_way_is_broken_off_when_leadership_ends() {
    let fake = cluster().await;
    let (first, _second) = two(&fake).await;
    first.set(Line::Silent);
    let begun = Instant::now();
    let broken_off = first.write("never").await.unwrap_err();
    assert!(
        matches!(
            &broken_off,
            ClusterError::NotLeader {
                reason: NotLeader::LeadershipLost,
                ..
            }
        ),
        "{broken_off}"
    );
    assert!(begun.elapsed() <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_writes_nothing_when_it_wakes() {
    // By the monotonic clock: nothing of the process ran meanwhile.
    let fake = cluster().await;
    let (first, _second) = two(&fake).await;
    first.set(Line::Silent);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(!first.leads());
    let refused = first.write("late").await.unwrap_err();
    assert!(
        matches!(refused, ClusterError::NotLeader { .. }),
        "{refused}"
    );

    // By the system's alone, as after a machine was suspended.
    let fake = cluster().await;
    let (first, _second) = two(&fake).await;
    first.write("before").await.unwrap();
    first.skew.store(60, Ordering::SeqCst);
    let refused = first.write("late").await.unwrap_err();
    assert!(
        matches!(refused, ClusterError::NotLeader { .. }),
        "{refused}"
    );
    // Being set forward is all that happened: it leads again, by a new term.
    sleep(Duration::from_secs(5)).await;
    assert!(first.leads());
    assert_eq!(first.terms.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_believes_the_clock_of_another() {
    for skew in [-86_400, 86_400] {
        let fake = cluster().await;
        let first = Process::start(&fake, "first");
        first.skew.store(skew, Ordering::SeqCst);
        sleep(Duration::from_secs(30)).await;
        assert!(first.leads());
        let second = Process::start(&fake, "second");
        sleep(Duration::from_secs(120)).await;
        assert!(
            first.leads() && !second.leads(),
            "a clock is off by {skew} s"
        );
        first.task.abort();
        sleep(Duration::from_secs(18)).await;
        assert!(second.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_or_taken_away_ends_a_term_at_once() {
    let fake = cluster().await;
    let first = Process::start(&fake, "first");
    sleep(Duration::from_secs(3)).await;
    let found = lease(&fake).await;
    let admin = KubeCluster::new(fake.client());
    admin
        .delete_by_uid(&found, PropagationPolicy::Background)
        .await
        .unwrap();
    sleep(Duration::from_secs(6)).await;
    assert!(first.leads());
    assert_eq!(first.terms.load(Ordering::SeqCst), 2, "it had to win anew");

    let taken =
        serde_json::json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 40}});
    let manager = kite_core::cluster::FieldManager::new("person");
    let key = kite_core::cluster::ObjectKey::namespaced("kite", "kite-controller");
    admin
        .merge_patch::<Lease>(manager, &key, &taken)
        .await
        .unwrap();
    sleep(Duration::from_secs(4)).await;
    assert!(!first.leads());
    let waits = LeaderState::Candidate(Some("somebody".to_owned()));
    assert_eq!(first.leadership.state(), waits);
    sleep(Duration::from_secs(30)).await;
    assert!(!first.leads(), "the Lease says how long it lasts");
    sleep(Duration::from_secs(12)).await;
    assert!(first.leads());
}

/// Of three processes at most one leads, at every moment of a day of crashes,
/// dead lines, lost answers and clocks that are set.
#[tokio::test(start_paused = true)]
async fn there_is_never_more_than_one_leader() {
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        let fake = cluster().await;
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let mut fresh = names.iter();
        let mut processes: Vec<Process> = (0..3)
            .map(|_| Process::start(&fake, fresh.next().unwrap()))
            .collect();
        let mut led = 0;
        for _ in 0..40 {
            let chosen = random.random_range(0..processes.len());
            match random.random_range(0..8) {
                0 => processes[chosen].set(Line::Silent),
                1 => processes[chosen].set(Line::AnswersLost),
                2 => processes[chosen].set(Line::Down),
                3 => {
                    let skew = random.random_range(-100..100);
                    processes[chosen].skew.store(skew, Ordering::SeqCst);
                }
                4 => {
                    if let Some(name) = fresh.next() {
                        let gone =
                            std::mem::replace(&mut processes[chosen], Process::start(&fake, name));
                        // Crash or end: what it had in memory is gone either way.
                        gone.stop.cancel();
                        if random.random_bool(0.5) {
                            gone.task.abort();
                        }
                        gone.leadership.lost().await;
                    }
                }
                _ => processes.iter().for_each(|process| process.set(Line::Up)),
            }
            for _ in 0..random.random_range(1..200) {
                sleep(Duration::from_millis(100)).await;
                let leaders: Vec<_> = processes.iter().filter(|process| process.leads()).collect();
                let names: Vec<_> = leaders.iter().map(|process| process.name).collect();
                assert!(leaders.len() <= 1, "seed {seed}: {names:?}");
                led += leaders.len();
            }
        }
        assert!(led > 500, "seed {seed}: hardly anybody ever led");
        for process in &processes {
            process.set(Line::Up);
        }
        leader(&processes).await;
    }
}

#[test]
fn durations_that_make_no_safe_election_are_refused_with_a_remedy() {
    let good = Election::new("kite", "kite-controller", "me");
    good.validate().unwrap();
    let seconds = Duration::from_secs;
    let with = |change: &dyn Fn(&mut Election)| {
        let mut election = good.clone();
        change(&mut election);
        election
    };
    for (bad, field) in [
        (
            with(&|it| it.lease_duration = Duration::from_millis(1500)),
            "lease duration",
        ),
        (
            with(&|it| it.lease_duration = seconds(10)),
            "renew deadline",
        ),
        (with(&|it| it.retry_period = seconds(4)), "retry period"),
        (with(&|it| it.retry_period = seconds(0)), "retry period"),
    ] {
        let error = bad.validate().unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

async fn lease(fake: &FakeCluster) -> Lease {
    let key = kite_core::cluster::ObjectKey::namespaced("kite", "kite-controller");
    KubeCluster::new(fake.client()).get(&key).await.unwrap()
}
