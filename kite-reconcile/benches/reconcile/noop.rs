//! Processor time of reconciling what is settled.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::{Cluster as _, KubeCluster, Object},
    crd::{KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine},
    gateway_api::HttpRoute,
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_reconcile::{
    Context, Kinds as _,
    cache::{self, CacheWriter, Caches},
    kinds::KiteKinds,
    user, vm,
};
use kube::{api::ListParams, runtime::watcher::Event};

use crate::{
    counted::{Requests, total},
    figures::{Table, average, bound, time},
    fleet::{self, Size},
    world::{Cast, Controllers, World, furnish, one_thread},
};

const MOST: Duration = Duration::from_micros(50);
const SIZE: Size = Size {
    users: 10,
    vms: 100,
};
const REST: Duration = Duration::from_secs(3);

#[allow(clippy::too_many_lines, reason = "one measurement after the other")]
pub fn measure(table: &mut Table) {
    one_thread().block_on(async {
        let world = World::start(Cast::Whole);
        let requests = Requests::default();
        let client = requests.client(&world.fake);
        let controllers = Controllers::start(client.clone());
        let people = world.fake.client();
        furnish(&people).await;
        fleet::settle(&people, SIZE).await;
        tokio::time::sleep(REST).await;
        controllers.end().await;

        let plain = KubeCluster::new(client);
        let vms = all::<KiteVirtualMachine>(&plain).await;
        let users = all::<KiteUser>(&plain).await;
        let live = Context::new(plain.clone());
        let caches = Filled::new(&plain).await;

        // Each time with a context that has nothing noted of earlier reconciles.
        let anew = || live.cached(caches.caches.clone());
        let before = requests.counts();
        let planned = average(vms.len(), || {
            let (context, vms) = (anew(), &vms);
            async move {
                for vm in vms {
                    vm::reconcile(vm, &context).await.unwrap();
                }
            }
        })
        .await;
        let planned_user = average(users.len(), || {
            let (context, users) = (anew(), &users);
            async move {
                for user in users {
                    user::reconcile(user, &context).await.unwrap();
                }
            }
        })
        .await;
        let asked = requests.since(&before);
        println!("requests beside caches: {} {asked:?}", total(&asked));

        let noted = anew();
        for vm in &vms {
            vm::reconcile(vm, &noted).await.unwrap();
        }
        let again = average(vms.len(), || {
            let (noted, vms) = (&noted, &vms);
            async move {
                for vm in vms {
                    vm::reconcile(vm, noted).await.unwrap();
                }
            }
        })
        .await;

        let before = requests.counts();
        let mut runs = 0;
        let of_live = average(vms.len(), || {
            runs += vms.len() as u64;
            let (live, vms) = (&live, &vms);
            async move {
                for vm in vms {
                    vm::reconcile(vm, live).await.unwrap();
                }
            }
        })
        .await;
        let asked = total(&requests.since(&before)) / runs;
        let mut runs = 0;
        let before = requests.counts();
        let of_live_user = average(users.len(), || {
            runs += users.len() as u64;
            let (live, users) = (&live, &users);
            async move {
                for user in users {
                    user::reconcile(user, live).await.unwrap();
                }
            }
        })
        .await;
        let asked_user = total(&requests.since(&before)) / runs;

        let peer = |asked: u64| format!("every read a request ({asked})");
        let mut row = |what: &str, ours: Duration, theirs: Duration, asked: u64| {
            table.row(
                what,
                &time(ours),
                &bound(&ours, &MOST, "50 µs"),
                &peer(asked),
                &time(theirs),
            );
        };
        row(
            "no-op reconcile of a VM, planned in full",
            planned,
            of_live,
            asked,
        );
        row(
            "the same, when nothing that was read has changed",
            again,
            of_live,
            asked,
        );
        row(
            "no-op reconcile of a user with 10 VMs, planned in full",
            planned_user,
            of_live_user,
            asked_user,
        );
    });
}

async fn all<K: Object>(cluster: &KubeCluster) -> Vec<K> {
    let all = ListParams::default();
    cluster.list::<K>(None, &all).await.unwrap().items
}

/// Caches of all that reconcilers read, kept as controllers keep them and filled
/// once: nothing changes any more.
struct Filled {
    caches: Caches,
    _writers: Vec<Box<dyn std::any::Any>>,
}

impl Filled {
    async fn new(cluster: &KubeCluster) -> Self {
        let mut builder = Caches::builder();
        let mut writers = Vec::new();
        macro_rules! fill {
            ($($kind:ty),* $(,)?) => { $(
                writers.push(fill::<$kind>(&mut builder, cluster).await);
            )* };
        }
        fill!(
            KiteVirtualMachine,
            KiteUser,
            KiteImage,
            KitePlatform,
            KiteReservation,
            Namespace,
            Node,
            NetworkPolicy,
            ResourceQuota,
            Secret,
            Service,
            Ingress,
            HttpRoute,
            PersistentVolumeClaim,
            DataVolume,
            DataSource,
            VirtualMachine,
            VirtualMachineInstance,
        );
        Self {
            caches: builder.build(),
            _writers: writers,
        }
    }
}

async fn fill<K: Object>(
    builder: &mut cache::Builder,
    cluster: &KubeCluster,
) -> Box<dyn std::any::Any> {
    let mut writer: CacheWriter<K> = builder.writer_for(&KiteKinds::options::<K>());
    writer.apply(Event::Init, |_| {});
    for object in all::<K>(cluster).await {
        writer.apply(Event::InitApply(object), |_| {});
    }
    writer.apply(Event::InitDone, |_| {});
    Box::new(writer)
}
