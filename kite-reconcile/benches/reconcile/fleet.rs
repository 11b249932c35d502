//! Users and their VMs, as people make them, and how far they are.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec, Quota},
    names,
    quantity::Bytes,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, Object},
    runtime::{WatchStreamExt as _, watcher},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::world::IMAGE;

/// How many requests people make at a time.
const AT_ONCE: usize = 16;
/// When a fleet that does not become Running any more is given up.
const STANDSTILL: Duration = Duration::from_secs(120);

/// What is looked at of an object to see how far it is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Progress {
    phase: Option<String>,
    namespace: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Unread {}

type Seen = Object<Unread, Progress>;

fn seen<K: kube::Resource<DynamicType = ()>>(client: &Client) -> Api<Seen> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// How many users and VMs there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub users: usize,
    pub vms: usize,
}

impl Size {
    fn vms_of(self, user: usize) -> usize {
        self.vms / self.users + usize::from(user < self.vms % self.users)
    }
}

/// Makes users, and their VMs as soon as their namespaces are there, and waits
/// until all VMs are Running. Gives how long that took.
pub async fn settle(client: &Client, size: Size) -> Duration {
    let begin = Instant::now();
    let making = tokio::spawn(make(client.clone(), size));
    until_running(client, size.vms).await;
    let took = begin.elapsed();
    making.await.unwrap();
    took
}

/// Waits until that many VMs are Running.
pub async fn until_running(client: &Client, vms: usize) {
    let begin = Instant::now();
    let mut phases = BTreeMap::new();
    let mut running = 0;
    let mut said = begin;
    let mut events = std::pin::pin!(
        watcher(
            seen::<KiteVirtualMachine>(client),
            watcher::Config::default()
        )
        .default_backoff()
        .applied_objects()
    );
    while running < vms {
        let Ok(event) = tokio::time::timeout(STANDSTILL, events.next()).await else {
            let mut counts = BTreeMap::<String, usize>::new();
            for phase in phases.into_values() {
                *counts.entry(phase).or_default() += 1;
            }
            panic!("nothing happens any more: {counts:?}");
        };
        let Some(Ok(vm)) = event else { continue };
        let key = format!("{}/{}", vm.namespace().unwrap_or_default(), vm.name_any());
        let phase = vm.status.and_then(|s| s.phase).unwrap_or_default();
        let is_running = phase == "Running";
        let was_running = phases.insert(key, phase).is_some_and(|p| p == "Running");
        running = running + usize::from(is_running) - usize::from(was_running);
        if said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            let made = phases.len();
            let seconds = begin.elapsed().as_secs();
            println!("  {seconds} s: {made} of {vms} made, {running} Running");
        }
    }
}

async fn make(client: Client, size: Size) {
    let cluster = KubeCluster::new(client.clone());
    let users = {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            stream::iter(0..size.users)
                .for_each_concurrent(AT_ONCE, |i| {
                    let cluster = cluster.clone();
                    async move { drop(cluster.create(&user(i, size)).await.unwrap()) }
                })
                .await;
        })
    };
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut waiting: HashSet<String> = (0..size.users).map(user_name).collect();
    let mut events = std::pin::pin!(
        watcher(seen::<KiteUser>(&client), watcher::Config::default())
            .default_backoff()
            .applied_objects()
    );
    let mut making = Vec::new();
    while !waiting.is_empty() {
        let Some(Ok(user)) = events.next().await else {
            continue;
        };
        let Some(namespace) = user.status.as_ref().and_then(|s| s.namespace.clone()) else {
            continue;
        };
        let name = user.name_any();
        if !waiting.remove(&name) {
            continue;
        }
        let i = name.trim_start_matches("user-").parse().unwrap();
        let (cluster, at_once) = (cluster.clone(), Arc::clone(&at_once));
        making.push(tokio::spawn(async move {
            for number in 0..size.vms_of(i) {
                let _one = at_once.acquire().await.unwrap();
                let vm = vm(&namespace, i, number);
                cluster.create(&vm).await.unwrap();
            }
        }));
    }
    users.await.unwrap();
    for vms in making {
        vms.await.unwrap();
    }
}

pub fn user_name(i: usize) -> String {
    format!("user-{i}")
}

fn user(i: usize, size: Size) -> KiteUser {
    // Room for a few more than there are.
    let vms = u32::try_from(size.vms_of(i)).unwrap() + 2;
    let mut spec = KiteUserSpec::new(user_name(i));
    spec.email = Some(format!("user-{i}@example.org"));
    spec.quota = Some(Quota::new(
        vms,
        vms,
        Bytes::from_gib(vms),
        Bytes::from_gib(vms * 10),
    ));
    KiteUser::new(&user_name(i), spec)
}

/// The VM `number` of user `i`, with a domain, so that it has all that a VM can
/// have.
pub fn vm(namespace: &str, i: usize, number: usize) -> KiteVirtualMachine {
    let mut vm = KiteVirtualMachine::new(
        &format!("vm-{number}"),
        KiteVirtualMachineSpec::new(
            1,
            "1Gi".parse().unwrap(),
            "10Gi".parse().unwrap(),
            IMAGE,
            format!("u{i}-vm{number}"),
        ),
    );
    vm.spec.domain_prefix = Some(format!("u{i}-vm{number}"));
    vm.metadata.namespace = Some(namespace.to_owned());
    vm
}

/// The namespace of user `i`.
pub fn namespace_of(i: usize) -> String {
    names::user_namespace(&user_name(i))
}
