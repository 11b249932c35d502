//! What a fleet costs grows with the fleet, not with its square. Counted, not
//! timed: requests of all that is in the cluster, and reconciles of Kite's.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{KiteUser, KiteUserSpec, KiteVirtualMachine, Quota, VmPhase},
    names,
    quantity::Bytes,
};
use kite_fake::FakeCluster;
use kite_fake::actors::Rules;
use kite_fake_kubevirt::play;
use kite_reconcile::{Context, Metrics, metrics};
use kube::api::ListParams;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio_util::sync::CancellationToken;

use crate::world::{image, named, platform, vm_named};

/// More than a fleet takes from nothing to rest, and less than a resync.
const ENOUGH: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
struct Cost {
    requests: u64,
    reconciles: u64,
}

/// What it takes to bring users with that many VMs each to rest.
async fn cost(users: usize, vms: usize) -> Cost {
    let fake = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .crds(kite_core::kubevirt::crds())
        .crds(kite_core::cdi::crds())
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let actors = play(&fake, &Arc::new(Rules::instant()), false, &stop);
    let cluster = KubeCluster::new(fake.client());
    for name in ["kite", "kite-images"] {
        let namespace = Namespace {
            metadata: named(name),
            ..Namespace::default()
        };
        cluster.create(&namespace).await.unwrap();
    }
    cluster.create(&platform()).await.unwrap();
    cluster.create(&image("debian-12")).await.unwrap();

    let metrics = metrics();
    let clock = fake.clone();
    let context = Context::new(cluster.clone())
        .with_clock(move || clock.now())
        .with_metrics(metrics.clone());
    let controller = tokio::spawn(kite_reconcile::run(fake.client(), context, stop.clone()));
    for user in 0..users {
        create_user(&cluster, &format!("user-{user}"), vms).await;
    }
    tokio::time::sleep(ENOUGH).await;
    for user in 0..users {
        for number in 0..vms {
            let mut vm = vm_named(&format!("vm-{number}"));
            vm.spec.ssh_id = format!("u{user}-vm{number}");
            vm.spec.domain_prefix = Some(format!("u{user}-vm{number}"));
            vm.metadata.namespace = Some(names::user_namespace(&format!("user-{user}")));
            cluster.create(&vm).await.unwrap();
        }
    }
    tokio::time::sleep(ENOUGH).await;
    let requests = fake.log().counts().clone();
    let all = cluster
        .list::<KiteVirtualMachine>(None, &ListParams::default())
        .await
        .unwrap();
    assert_eq!(all.items.len(), users * vms);
    for vm in all.items {
        let phase = vm.status.and_then(|status| status.phase);
        assert_eq!(phase, Some(VmPhase::Running), "{:?}", vm.metadata.name);
    }
    stop.cancel();
    controller.await.unwrap();
    actors.ended().await;
    Cost {
        requests: requests
            .iter()
            .filter(|((verb, _), _)| verb != "watch")
            .map(|(_, count)| count)
            .sum(),
        reconciles: reconciles(&metrics),
    }
}

async fn create_user(cluster: &KubeCluster, name: &str, vms: usize) {
    let vms = u32::try_from(vms).unwrap();
    let mut spec = KiteUserSpec::new(name);
    spec.email = Some(format!("{name}@example.org"));
    spec.quota = Some(Quota::new(
        vms,
        vms * 2,
        Bytes::from_gib(vms * 2),
        Bytes::from_gib(vms * 10),
    ));
    cluster.create(&KiteUser::new(name, spec)).await.unwrap();
}

fn reconciles(metrics: &Metrics) -> u64 {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("kite_reconciles_total"));
    let counts: Vec<u64> = lines
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(!counts.is_empty(), "no reconciles are counted: {text}");
    counts.iter().sum()
}

/// Twice as many more cost twice as much more, whatever the rest costs; three
/// times as much would be half way to the square.
fn assert_linear([one, two, four]: [Cost; 3]) {
    let grows = |of: fn(&Cost) -> u64| {
        let first = of(&two) - of(&one);
        let second = of(&four) - of(&two);
        assert!(
            second < first * 3,
            "{one:?}, twice as many {two:?}, four times as many {four:?}"
        );
    };
    grows(|cost| cost.requests);
    grows(|cost| cost.reconciles);
}

#[tokio::test(start_paused = true)]
async fn users_cost_what_they_cost_however_many_others_there_are() {
    assert_linear([cost(3, 1).await, cost(6, 1).await, cost(12, 1).await]);
}

#[tokio::test(start_paused = true)]
async fn vms_cost_what_they_cost_however_many_others_their_user_has() {
    assert_linear([cost(1, 3).await, cost(1, 6).await, cost(1, 12).await]);
}
