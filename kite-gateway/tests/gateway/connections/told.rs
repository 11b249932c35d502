//! What is told of connections while they come and go.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kite_core::crd::ConnectionKind;
use kite_core::names;
use kite_fake::fault::{Fault, Faults, Plan};
use kite_gateway::kubernetes::ReportLimits;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;
use tower::Layer as _;

use crate::connections::process::{
    NAMESPACE, Process, all, api, cluster, find, until, wish, writes,
};

#[tokio::test(start_paused = true)]
async fn a_short_connection_is_one_write_and_a_long_one_two() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    process.logout(1);
    process.login(2);
    let both = until("both are told of", async || {
        let all = all(&cluster).await;
        (all.len() == 2).then_some(all)
    })
    .await;
    let [short, long] = both.try_into().unwrap();
    assert_eq!(short.metadata.name.as_deref(), Some("c-0000000000000007-1"));
    assert!(!short.is_live() && long.is_live());
    let spec = &long.spec;
    assert_eq!(
        (spec.owner.as_str(), spec.kind),
        ("ann", ConnectionKind::Ssh)
    );
    assert_eq!(spec.peer.as_deref(), Some("192.0.2.7"));
    assert_eq!(spec.client.as_deref(), Some("client 2"));
    assert_eq!(spec.server.as_deref(), Some("gateway-0"));
    let owners = long.metadata.owner_references.unwrap();
    assert_eq!(owners[0].uid, "uid-1");
    assert_eq!(writes(&cluster), 2);
    process.logout(2);
    process.end().await;
    assert_eq!(writes(&cluster), 3);
    let last = all(&cluster).await;
    assert!(last.iter().all(|it| !it.is_live()));
    assert_eq!(last[1].spec.client.as_deref(), Some("client 2"));
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_connections_is_written_at_its_rate_and_not_more() {
    let cluster = cluster().await;
    let limits = ReportLimits {
        per_second: 10,
        burst: 20,
        known: 100,
    };
    let process = Process::new(7, limits, &cluster.client());
    for number in 0..150 {
        process.login(number);
        process.logout(number);
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    let first = writes(&cluster);
    assert!((20..=25).contains(&first), "{first}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = writes(&cluster) - first;
    assert!((15..=25).contains(&later), "{later}");
    let mut registry = prometheus_client::registry::Registry::default();
    process.reporter.register_metrics(&mut registry);
    process.end().await;
    // A hundred are known at a time; the audit log tells of the rest.
    assert_eq!(writes(&cluster), 100);
    let mut told = String::new();
    prometheus_client::encoding::text::encode(&mut told, &registry).unwrap();
    assert!(
        told.contains("kite_connections_unreported_total 50"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_connected_is_seen_however_many_come_and_go() {
    let cluster = cluster().await;
    let limits = ReportLimits {
        per_second: 10,
        burst: 20,
        known: 100,
    };
    let process = Process::new(7, limits, &cluster.client());
    for number in 1..=150 {
        process.login(number);
        process.logout(number);
    }
    process.login(151);
    let name = "c-0000000000000007-151";
    until("it is told of", async || find(&cluster, name).await).await;
    assert!(writes(&cluster) < 60, "most of the others still wait");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_the_latest_state_waits() {
    let cluster = cluster().await;
    let faults = Faults::new(Plan::random(1, 1000, &[Fault::ServerError]));
    let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
    let process = Process::new(7, ReportLimits::default(), &client);
    process.login(1);
    process.login(2);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let tried = faults.count();
    assert!(tried < 400, "{tried} requests while nobody answers");
    process.logout(1);
    assert!(all(&cluster).await.is_empty());
    faults.disarm();
    let both = until("both are told of", async || {
        let all = all(&cluster).await;
        (all.len() == 2).then_some(all)
    })
    .await;
    assert!(!both[0].is_live() && both[1].is_live());
    assert_eq!(writes(&cluster), 2);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_leave_what_is_true() {
    for seed in 0..8 {
        let cluster = cluster().await;
        let lost = [
            Fault::ResetAfterCommit,
            Fault::Timeout,
            Fault::TooManyRequests,
        ];
        let faults = Faults::new(Plan::random(seed, 400, &lost));
        let client = Client::new(faults.layer("gateway").layer(cluster.service()), "default");
        let process = Process::new(7, ReportLimits::default(), &client);
        for number in 0..8 {
            process.login(number);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        for number in 0..4 {
            process.logout(number);
        }
        let live = until("half are over", async || {
            let all = all(&cluster).await;
            let live = all.iter().filter(|it| it.is_live()).count();
            (all.len() == 8 && live == 4).then_some(live)
        })
        .await;
        assert_eq!(live, 4, "seed {seed}");
        faults.disarm();
        process.end().await;
        let all = all(&cluster).await;
        assert!(
            all.len() == 8 && all.iter().all(|it| !it.is_live()),
            "{seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_taken_for_gone_takes_that_back() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    let name = "c-0000000000000007-1";
    until("it is told of", async || {
        api(&cluster).get_opt(name).await.unwrap()
    })
    .await;
    let ended = json!({"at": "2026-01-01T00:00:00Z", "why": "the gateway went away"});
    let patch = Patch::Merge(json!({"spec": {"ended": ended}}));
    let patched = api(&cluster)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert!(!patched.is_live());
    until("it lasts", async || {
        let now = api(&cluster).get(name).await.unwrap();
        now.is_live().then_some(())
    })
    .await;
    process.logout(1);
    until("it is over", async || {
        let now = api(&cluster).get(name).await.unwrap();
        (!now.is_live()).then_some(())
    })
    .await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn wishes_reach_the_process_that_has_the_connection_and_no_other() {
    let cluster = cluster().await;
    let processes = [7, 8].map(|id| Process::new(id, ReportLimits::default(), &cluster.client()));
    for process in &processes {
        process.login(1);
        process.login(2);
    }
    until("all are told of", async || {
        (all(&cluster).await.len() == 4).then_some(())
    })
    .await;
    wish(&cluster, "c-0000000000000008-2", "rebuilt").await;
    let asked = until("it was asked for", async || {
        processes[1].asked.0.lock().first().cloned()
    })
    .await;
    assert_eq!((asked.0, asked.1.reason.as_str()), (2, "rebuilt"));
    assert!(processes[0].asked.0.lock().is_empty());
    // A wish for what has ended meanwhile asks for nothing.
    processes[0].logout(1);
    wish(&cluster, "c-0000000000000007-1", "too late").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(processes[0].asked.0.lock().is_empty());
    let ended = api(&cluster).get("c-0000000000000007-1").await.unwrap();
    assert!(ended.spec.ended.is_some() && ended.spec.end.is_some());
    for process in processes {
        process.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_who_carries_connections_has_a_heartbeat() {
    let cluster = cluster().await;
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    let leases: Api<Lease> = Api::namespaced(cluster.client(), names::PLATFORM_NAMESPACE);
    let beat = async || {
        let lease = leases.get_opt("kite-heartbeat-0000000000000007").await;
        lease.unwrap().map(|it| it.metadata.resource_version)
    };
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(beat().await, None);
    process.login(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = beat().await;
    assert!(first.is_some());
    tokio::time::sleep(Duration::from_secs(21)).await;
    let second = beat().await;
    assert_ne!(first, second);
    process.logout(1);
    tokio::time::sleep(Duration::from_secs(21)).await;
    let last = beat().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(beat().await, last);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_place_any_more_is_left_alone() {
    let cluster = cluster().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let process = Process::new(7, ReportLimits::default(), &cluster.client());
    process.login(1);
    until("it is told of", async || all(&cluster).await.pop()).await;
    let gone = namespaces.delete(NAMESPACE, &DeleteParams::default()).await;
    gone.unwrap();
    let before = cluster.log().mark();
    process.logout(1);
    process.end().await;
    let asked = cluster.log().since(&before).to_string();
    assert!(asked.lines().count() < 4, "{asked}");
}
