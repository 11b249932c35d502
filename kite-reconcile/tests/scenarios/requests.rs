//! What the controllers ask of the API server: little for a new VM or for one that
//! goes, nothing for a settled one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRoleBinding, RoleRef, Subject},
};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, Object, ObjectKey},
    crd::{KiteImage, KiteUser, KiteUserSpec, KiteVirtualMachine, VmPhase},
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake_kubevirt::{demo_rules, everything, operator_definitions, stages};
use kite_reconcile::Context;
use kube::api::{ListParams, PropagationPolicy};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{image, named, platform, vm_named};

/// Who the controllers are to the API server.
const CONTROLLER: &str = "kite-controller";
/// What is rendered for a VM with a domain: two reservations, two Secrets, the
/// disk, the `VirtualMachine`, two Services, the Ingress.
const RENDERED: usize = 9;
/// The same for a user: a reservation, the namespace, three network policies, the quota.
const RENDERED_OF_USER: usize = 6;
/// The same for an image: the disk, and the name by which it is cloned.
const RENDERED_OF_IMAGE: usize = 2;
/// What a look at a user who goes asks for: the user, the namespace, the quota, the network
/// policies, Kite's VMs, `KubeVirt`'s instances and machines, the names.
const LOOK_AT_USER: usize = 8;
/// Long enough for every echo of what was written.
const REST: Duration = Duration::from_secs(30);

/// A cluster in which everything runs by itself, and which knows what the
/// controllers ask for.
struct Counted {
    fake: FakeCluster,
    cluster: KubeCluster,
    stop: CancellationToken,
    controller: JoinHandle<()>,
    _actors: Actors,
}

impl Counted {
    async fn start(rules: Rules) -> Self {
        let fake = FakeCluster::builder()
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .crds(kite_core::gateway_api::crds())
            .crds(operator_definitions())
            .crds(kite_core::cert_manager::crds())
            .crds(crate::world::kinds_of_storage())
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let people = fake.client();
        let actors = Actors::spawn(&people, fake.clock(), &Arc::new(rules), everything(), &stop);
        let cluster = KubeCluster::new(people);
        for name in ["kite", "kite-images"] {
            let namespace = Namespace {
                metadata: named(name),
                ..Namespace::default()
            };
            cluster.create(&namespace).await.unwrap();
        }
        let rights = ClusterRoleBinding {
            metadata: named(CONTROLLER),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: "cluster-admin".to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "User".to_owned(),
                name: CONTROLLER.to_owned(),
                namespace: None,
            }]),
        };
        cluster.create(&rights).await.unwrap();
        cluster.create(&platform()).await.unwrap();
        cluster.create(&image("debian-12")).await.unwrap();

        let client = fake.client_as(CONTROLLER);
        let clock = fake.clone();
        let context =
            Context::new(KubeCluster::new(client.clone())).with_clock(move || clock.now());
        let controller = tokio::spawn(kite_reconcile::run(client, context, stop.clone()));
        tokio::time::sleep(REST).await;
        Self {
            fake,
            cluster,
            stop,
            controller,
            _actors: actors,
        }
    }

    async fn user(&self, name: &str) {
        let user = KiteUser::new(name, KiteUserSpec::new(name));
        self.cluster.create(&user).await.unwrap();
        tokio::time::sleep(REST).await;
    }

    async fn create(&self, user: &str, name: &str) -> ObjectKey {
        let mut vm = vm_named(name);
        vm.metadata.namespace = Some(format!("kite-user-{user}"));
        vm.spec.domain_prefix = Some(name.to_owned());
        vm.spec.cpu = 1;
        vm.spec.memory = "1Gi".parse().unwrap();
        self.cluster.create(&vm).await.unwrap();
        ObjectKey::of(&vm)
    }

    /// Waits, in virtual time, until all VMs run and a while longer.
    async fn settle(&self) {
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let all = ListParams::default();
            let vms = self.cluster.list::<KiteVirtualMachine>(None, &all).await;
            let vms = vms.unwrap().items;
            let runs = |vm: &KiteVirtualMachine| {
                let status = vm.status.as_ref();
                status.is_some_and(|status| status.phase == Some(VmPhase::Running))
            };
            if vms.iter().all(runs) {
                tokio::time::sleep(REST).await;
                return;
            }
        }
        panic!("not all VMs run");
    }

    /// Waits, in virtual time, until the object is gone and a while longer.
    async fn gone<K: Object>(&self, key: &ObjectKey) {
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.cluster.get_opt::<K>(key).await.unwrap().is_none() {
                tokio::time::sleep(REST).await;
                return;
            }
        }
        panic!("{key} does not go");
    }

    /// What the controllers asked for while `work` was done, watches aside.
    async fn asked(&self, work: impl Future<Output = ()>) -> BTreeMap<String, usize> {
        let mark = self.fake.log().mark();
        work.await;
        let mut asked = BTreeMap::new();
        let since = self.fake.log().since(&mark);
        let all: u64 = since.counts.values().sum();
        assert_eq!(all, since.entries.len() as u64, "the log forgot some");
        for entry in since.entries {
            if entry.user == CONTROLLER && entry.verb != "watch" {
                let what = format!("{} {}", entry.verb, entry.resource);
                *asked.entry(what).or_default() += 1;
            }
        }
        asked
    }

    /// What they asked for from the creation of a user's second VM until it is at rest.
    async fn asked_for_a_second(&self) -> BTreeMap<String, usize> {
        self.user("ann").await;
        self.create("ann", "first").await;
        self.settle().await;
        let work = async {
            self.create("ann", "second").await;
            self.settle().await;
        };
        self.asked(work).await
    }

    async fn end(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
    }
}

fn total(asked: &BTreeMap<String, usize>) -> usize {
    asked.values().sum()
}

/// Two of the requests say of the disk that it has its data, once it has.
#[tokio::test(start_paused = true)]
async fn a_vm_costs_its_objects_and_six_requests_more() {
    for rules in [Rules::instant(), demo_rules()] {
        let world = Counted::start(rules).await;
        let asked = world.asked_for_a_second().await;
        // The user's usage among them.
        assert!(total(&asked) <= RENDERED + 6, "{asked:#?}");
        let reads = asked.iter().filter(|(what, _)| what.starts_with("get "));
        assert!(
            reads.map(|(_, times)| times).sum::<usize>() <= 1,
            "{asked:#?}"
        );
        world.end().await;
    }
}

/// As on real storage: each phase of the disk that lasts is told in the VM's status.
#[tokio::test(start_paused = true)]
async fn a_vm_whose_disk_takes_its_time_costs_three_writes_more() {
    let seconds = Duration::from_secs;
    let slow = [
        (stages::DISK_SCHEDULED, seconds(5)),
        (stages::DISK_STEP, seconds(20)),
    ];
    // How far it is within a phase is told from time to time, for as long as that lasts.
    let rules = demo_rules().with_delays(slow);
    let world = Counted::start(rules.with_steps(stages::DISK_STEP, 1)).await;
    let asked = world.asked_for_a_second().await;
    assert!(total(&asked) <= RENDERED + 6 + 3, "{asked:#?}");
    assert!(total(&asked) > RENDERED + 6, "it took no time: {asked:#?}");
    world.end().await;
}

/// Each of its objects is deleted, or its name given back, by one request. What this process
/// saw the end of is not asked for again: before the disk goes only the instance is, which
/// others end, and which snapshots there are; before the names are free only the disk's claim, a route and a certificate,
/// of which there were none here or which others delete, and all names that it holds.
#[tokio::test(start_paused = true)]
async fn a_vm_goes_by_one_request_for_each_object_and_one_look_at_what_is_left() {
    for rules in [Rules::instant(), demo_rules()] {
        let world = Counted::start(rules).await;
        world.user("ann").await;
        world.create("ann", "first").await;
        let key = world.create("ann", "second").await;
        world.settle().await;
        let vm: KiteVirtualMachine = world.cluster.get(&key).await.unwrap();
        let asked = world
            .asked(async {
                let gone = PropagationPolicy::Background;
                world.cluster.delete_by_uid(&vm, gone).await.unwrap();
                world.gone::<KiteVirtualMachine>(&key).await;
            })
            .await;
        let of = |verb: &str| -> usize {
            let asked = asked.iter().filter(|(what, _)| what.starts_with(verb));
            asked.map(|(_, requests)| requests).sum()
        };
        // Its names are kept for its owner.
        let kept = of("patch kitereservations");
        assert_eq!(of("delete ") + kept, RENDERED, "{asked:#?}");
        assert_eq!(kept, 2, "{asked:#?}");
        // The VM before each of three steps; and of the rest each once, but for what
        // could write to the disk.
        assert!(of("get ") <= 2 * RENDERED, "{asked:#?}");
        for (what, requests) in &asked {
            let most = match what.as_str() {
                "get kitevirtualmachines.hy3ons.github.io" | "get secrets" => 3,
                what if what.starts_with("get ") => 2,
                _ => continue,
            };
            assert!(*requests <= most, "{what}: {asked:#?}");
        }
        // There may be disks of restores, and their claims: these are looked for by lists.
        assert!(of("get ") <= 3, "{asked:#?}");
        assert!(of("list ") <= 4, "{asked:#?}");
        // Its finalizer, how far it is, and its owner's usage.
        assert!(of("patch ") <= 7, "{asked:#?}");
        assert!(of("patch ") <= kept + 3, "{asked:#?}");
        // Of everything five requests more than it took to make.
        assert!(total(&asked) <= RENDERED + 10, "{asked:#?}");
        world.end().await;
    }
}

/// The quota is closed and the namespace deleted, the three network policies are let go, and
/// the name is given back. Before the first two and before the third it is looked whether VMs
/// or machines are there, and at the end only what names there are; each network policy is
/// looked at once it is let go.
#[tokio::test(start_paused = true)]
async fn a_user_goes_by_a_look_before_each_step() {
    let world = Counted::start(Rules::instant()).await;
    let made = world.asked(world.user("ann")).await;
    // Its finalizer, and its status as it comes to be ready.
    assert!(total(&made) <= RENDERED_OF_USER + 4, "{made:#?}");
    let key = ObjectKey::cluster("ann");
    let ann: KiteUser = world.cluster.get(&key).await.unwrap();
    let asked = world
        .asked(async {
            let gone = PropagationPolicy::Background;
            world.cluster.delete_by_uid(&ann, gone).await.unwrap();
            world.gone::<KiteUser>(&key).await;
        })
        .await;
    let of = |verb: &str| -> usize {
        let asked = asked.iter().filter(|(what, _)| what.starts_with(verb));
        asked.map(|(_, requests)| requests).sum()
    };
    assert_eq!(of("delete "), 2, "{asked:#?}");
    for shared in ["nodes", "kiteimages.", "kiteplatforms.", "kubevirts."] {
        let shared = |verb: &str| of(&format!("{verb} {shared}"));
        assert_eq!(shared("get") + shared("list"), 0, "{asked:#?}");
    }
    // The user, the namespace and its quota, and the network policies; in one look more than
    // there has to be, should the network policies not be deleted in one breath.
    assert!(of("get ") <= 3 * 3 + 3, "{asked:#?}");
    assert!(total(&asked) <= 34, "{asked:#?}");
    // Three looks, and one at each network policy, more than it took to make.
    let most = total(&made) + 3 * LOOK_AT_USER + 3;
    assert!(total(&asked) <= most, "{made:#?} {asked:#?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_goes_by_a_look_at_what_it_has_and_at_who_clones_it() {
    let world = Counted::start(Rules::instant()).await;
    let made = world
        .asked(async {
            world.cluster.create(&image("debian-13")).await.unwrap();
            tokio::time::sleep(REST).await;
        })
        .await;
    // Its finalizer, and its status as it is imported.
    assert!(total(&made) <= RENDERED_OF_IMAGE + 4, "{made:#?}");
    let key = ObjectKey::cluster("debian-13");
    let image: KiteImage = world.cluster.get(&key).await.unwrap();
    let asked = world
        .asked(async {
            let gone = PropagationPolicy::Background;
            world.cluster.delete_by_uid(&image, gone).await.unwrap();
            world.gone::<KiteImage>(&key).await;
        })
        .await;
    let of = |verb: &str| -> usize {
        let asked = asked.iter().filter(|(what, _)| what.starts_with(verb));
        asked.map(|(_, requests)| requests).sum()
    };
    // Its name and its disk, each looked at once.
    assert_eq!(of("delete "), 2, "{asked:#?}");
    assert!(of("get ") <= 2, "{asked:#?}");
    assert!(total(&asked) <= 10, "{asked:#?}");
    // More than it took to make: what it has and who clones it, before its disk goes and
    // before it is let go, and its status as it goes.
    let most = total(&made) + 2 * (RENDERED_OF_IMAGE + 1);
    assert!(total(&asked) <= most, "{made:#?} {asked:#?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_more_than_there_is_costs_nothing_either() {
    let world = Counted::start(Rules::instant()).await;
    world.user("ann").await;
    for name in ["first", "second"] {
        world.create("ann", name).await;
    }
    world.settle().await;
    let key = ObjectKey::namespaced("kite-user-ann", "first");
    let patch = json!({"spec": {"cpu": 200, "disk": "900Gi"}});
    let person = FieldManager::new("person");
    let edited = world
        .cluster
        .merge_patch::<KiteVirtualMachine>(person, &key, &patch);
    edited.await.unwrap();
    tokio::time::sleep(REST).await;
    let vm: KiteVirtualMachine = world.cluster.get(&key).await.unwrap();
    let ready = vm.status.unwrap().conditions.remove(0);
    assert_eq!(ready.reason, "QuotaExceeded");
    let asked = world
        .asked(tokio::time::sleep(Duration::from_secs(3600)))
        .await;
    assert_eq!(total(&asked), 0, "{asked:#?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_settled_costs_nothing_however_often_it_is_looked_at() {
    let world = Counted::start(Rules::instant()).await;
    for user in 0..10 {
        let name = format!("u{user}");
        world.user(&name).await;
        for vm in 0..5 {
            world.create(&name, &format!("vm-{user}-{vm}")).await;
        }
    }
    world.settle().await;
    // Every object is looked at again several times in an hour.
    let hour = Duration::from_secs(3600);
    let asked = world.asked(tokio::time::sleep(hour)).await;
    assert_eq!(total(&asked), 0, "{asked:#?}");
    world.end().await;
}
