//! Processor time of reconciling what is settled.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{KiteUser, KiteVirtualMachine},
};
use kite_reconcile::{Context, user, vm};
use kube::api::ListParams;

use crate::{
    counted::{Requests, total},
    figures::{Table, average, bound, time},
    fleet::{self, Size},
    world::{Controllers, World, furnish, one_thread},
};

const MOST: Duration = Duration::from_micros(50);
const SIZE: Size = Size {
    users: 10,
    vms: 100,
};
const REST: Duration = Duration::from_secs(3);

pub fn measure(table: &mut Table) {
    one_thread().block_on(async {
        let world = World::start();
        let requests = Requests::default();
        let client = requests.client(&world.fake);
        let controllers = Controllers::start(client.clone());
        let people = world.fake.client();
        furnish(&people).await;
        fleet::settle(&people, SIZE).await;
        tokio::time::sleep(REST).await;
        controllers.end().await;

        let cluster = KubeCluster::new(client.clone());
        let all = ListParams::default();
        let vms = cluster
            .list::<KiteVirtualMachine>(None, &all)
            .await
            .unwrap()
            .items;
        let users = cluster.list::<KiteUser>(None, &all).await.unwrap().items;
        let context = Context::new(cluster);
        let before = requests.counts();
        let (of_vm, runs) = average(|i| {
            let (vm, context) = (&vms[i % vms.len()], &context);
            async move { drop(vm::reconcile(vm, context).await.unwrap()) }
        })
        .await;
        let asked = total(&requests.since(&before)) as usize / runs;
        table.row(
            "no-op reconcile of a VM",
            &time(of_vm),
            &bound(&of_vm, &MOST, "50 µs"),
            "requests",
            &asked.to_string(),
        );
        let before = requests.counts();
        let (of_user, runs) = average(|i| {
            let (user, context) = (&users[i % users.len()], &context);
            async move { drop(user::reconcile(user, context).await.unwrap()) }
        })
        .await;
        let asked = total(&requests.since(&before)) as usize / runs;
        table.row(
            "no-op reconcile of a user with 10 VMs",
            &time(of_user),
            &bound(&of_user, &MOST, "50 µs"),
            "requests",
            &asked.to_string(),
        );
    });
}
