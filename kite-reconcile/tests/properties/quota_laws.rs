//! Laws for quotas: whatever several VMs of a user ask for, in whatever order their
//! workers look and act, all of them together never have more than there is, and
//! nothing that would fit stays refused.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    crd::{Charge, KiteVirtualMachine, VmSize},
    quantity::Bytes,
};
use kite_reconcile::plan::Step;
use kite_render::{Vm, disk};
use proptest::prelude::*;

use crate::vms::{World, quota, size, sized, user};

/// Rounds after which workers that still move never rest.
const MOST_ROUNDS: usize = 60;

/// All VMs of a user, in the order of their age.
struct Fleet {
    vms: Vec<Worker>,
    /// All states in which the API server had them.
    history: Vec<Arc<Vec<KiteVirtualMachine>>>,
    quota: Charge,
}

/// A VM, and the worker that has it.
struct Worker {
    /// What there is of it. `seen.siblings` is the worker's view.
    world: World,
    /// When it was last written, as a place in the history.
    written: usize,
    /// Whether the worker has looked, and the VM was not written since.
    looked: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// A worker looks at the VMs as they were so many writes ago.
    Look { at: usize, behind: usize },
    /// A worker does the first thing of what it has planned.
    Act(usize),
    /// Somebody asks for another size of one.
    Ask { at: usize, cpu: u32, disk: u32 },
    /// Somebody deletes a machine.
    Smash(usize),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..3_usize, 0..6_usize).prop_map(|(at, behind)| Move::Look { at, behind }),
        9 => (0..3_usize).prop_map(Move::Act),
        2 => (0..3_usize, 1..6_u32, 1..6_u32).prop_map(|(at, cpu, disk)| Move::Ask { at, cpu, disk }),
        1 => (0..3_usize).prop_map(Move::Smash),
    ]
}

impl Fleet {
    fn new(wants: &[u32], at_most: u32) -> Self {
        let owner = user(false, true, Some(at_most));
        let vms = wants.iter().enumerate();
        let vms: Vec<_> = vms
            .map(|(number, wants)| Worker {
                world: World::unmade(sized(&format!("vm{number}"), *wants), owner.clone()),
                written: 0,
                looked: false,
            })
            .collect();
        let now = vms.iter().map(|vm| vm.world.object.clone()).collect();
        Self {
            vms,
            history: vec![Arc::new(now)],
            quota: Charge::from(&quota(at_most)),
        }
    }

    fn wrote(&mut self, at: usize) {
        let now = self.vms.iter().map(|vm| vm.world.object.clone()).collect();
        self.history.push(Arc::new(now));
        let place = self.history.len() - 1;
        let worker = &mut self.vms[at];
        (worker.written, worker.looked) = (place, false);
        worker.world.seen.siblings.are_current = false;
    }

    fn look(&mut self, at: usize, behind: usize) {
        let last = self.history.len() - 1;
        let worker = &mut self.vms[at];
        let place = last.saturating_sub(behind);
        let seen = &mut worker.world.seen;
        seen.siblings.all.clone_from(&self.history[place]);
        // A view that has not reached the VM's own last write.
        seen.siblings.are_current = place >= worker.written;
        worker.looked = true;
    }

    /// Whether there was anything to do.
    fn act(&mut self, at: usize) -> bool {
        let worker = &mut self.vms[at];
        let world = &mut worker.world;
        let planned = world.plan();
        match planned.steps.into_iter().next() {
            None | Some(Step::WriteStatus) => {
                let before = world.object.status.clone();
                if before.as_ref() == Some(&planned.status) {
                    return false;
                }
                // Refused, if the VM was written since.
                if worker.looked {
                    world.object.status = Some(planned.status);
                    self.wrote(at);
                }
                true
            }
            // Before the first of these the VM itself is looked at.
            Some(step) => {
                world.carry_out(step);
                provide(world);
                true
            }
        }
    }

    /// An edit, if the API server takes it.
    fn ask(&mut self, at: usize, cpu: u32, disk: u32) {
        let object = &mut self.vms[at].world.object;
        let asked = size(cpu).unwrap();
        let disk = size(disk).unwrap().disk.unwrap();
        let made = object.status.as_ref().and_then(|it| it.disk.as_ref());
        let floor = made.and_then(|disk| disk.size.clone());
        let may_shrink = made.is_none() || floor.is_some_and(|floor| disk >= floor);
        if disk < object.spec.disk && !may_shrink {
            return;
        }
        object.spec.cpu = cpu;
        (object.spec.memory, object.spec.disk) = (asked.memory.unwrap(), disk);
        object.metadata.generation = object.metadata.generation.map(|it| it + 1);
        self.wrote(at);
    }

    fn make(&mut self, step: Move) {
        match step {
            Move::Look { at, behind } => self.look(at, behind),
            Move::Act(at) => {
                self.act(at);
            }
            Move::Ask { at, cpu, disk } => self.ask(at, cpu, disk),
            Move::Smash(at) => self.vms[at].world.seen.made.machine = None,
        }
    }

    /// What all have together.
    fn had(&self) -> Charge {
        let vms = self.vms.iter().map(|vm| Charge::from(&has(&vm.world)));
        vms.fold(Charge::default(), Charge::plus)
    }

    fn is_within(&self, charge: Charge) -> bool {
        charge.or_more(self.quota) == self.quota
    }

    /// What a person needs of a fleet in which a law is broken.
    fn summary(&self) -> String {
        let vms = self.vms.iter().map(|vm| {
            let (object, has) = (&vm.world.object, Charge::from(&has(&vm.world)));
            let conditions = vm.world.plan().conditions;
            let why = conditions.into_iter().next().map(|it| it.message);
            let (wish, charge) = (Charge::from(&object.spec), object.charge());
            format!("wants {wish:?}\n has {has:?}\n charged {charge:?}\n {why:?}\n")
        });
        format!("quota {:?}\n{}", self.quota, vms.collect::<String>())
    }

    /// Lets all look and act in turn until nothing moves.
    fn to_rest(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..MOST_ROUNDS {
            let mut moved = false;
            for at in 0..self.vms.len() {
                self.look(at, 0);
                moved |= self.act(at);
                prop_assert!(self.is_within(self.had()), "{:?}", self.had());
            }
            if !moved {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("they never rest"))
    }
}

/// CDI and storage: a claim for the disk, somewhat larger than it.
fn provide(world: &mut World) {
    let Some(root) = &mut world.seen.disk else {
        return;
    };
    if root.metadata.uid.is_none() {
        root.metadata.uid = Some("uid-of-the-disk".to_owned());
    }
    if world.seen.claim.is_none() {
        let vm = Vm::of(&world.object).unwrap();
        let mut claim = disk::grown_claim(
            vm.namespace,
            &kite_core::names::disk(vm.name),
            &vm.object.spec.disk,
        );
        let size = root.spec.storage.clone().unwrap().resources.unwrap();
        let size: Bytes = size.requests.unwrap()["storage"].0.parse().unwrap();
        let spec = claim.spec.as_mut().unwrap().resources.as_mut().unwrap();
        let storage = spec.requests.as_mut().unwrap().get_mut("storage").unwrap();
        storage.0 = format!("{}Mi", (size.bytes() >> 20) * 106 / 100);
        claim.metadata.owner_references = Some(vec![
            k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                uid: "uid-of-the-disk".to_owned(),
                controller: Some(true),
                ..Default::default()
            },
        ]);
        claim.status = Some(k8s_openapi::api::core::v1::PersistentVolumeClaimStatus {
            phase: Some("Bound".to_owned()),
            ..Default::default()
        });
        world.seen.claim = Some(claim);
    }
}

fn claimed(claim: &PersistentVolumeClaim) -> Option<Bytes> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")?.0.parse().ok()
}

/// What there is of a VM. Of the claim as much as was asked of it: whole tens of
/// gibibytes.
fn has(world: &World) -> VmSize {
    let machine = world.seen.machine.as_ref();
    let domain = machine.map(|machine| &machine.spec.template.spec.domain);
    let memory = domain.and_then(|domain| domain.memory.as_ref()?.guest.clone());
    let disk = world.seen.claim.as_ref().and_then(claimed);
    VmSize {
        cpu: domain.and_then(|domain| domain.cpu.as_ref()?.sockets),
        memory: memory.map(|memory| memory.0.parse().unwrap()),
        disk: disk.map(|disk| {
            format!("{}Gi", (disk.bytes() >> 30) / 10 * 10)
                .parse()
                .unwrap()
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn all_vms_of_a_user_keep_within_the_quota(
        wants in proptest::collection::vec(1..5_u32, 3),
        at_most in 1..9_u32,
        moves in proptest::collection::vec(a_move(), 0..160),
    ) {
        let mut fleet = Fleet::new(&wants, at_most);
        for step in moves {
            fleet.make(step);
            prop_assert!(fleet.is_within(fleet.had()), "after {:?}: {:?}", step, fleet.had());
        }
        fleet.to_rest()?;
        // Nobody waits for what there is room for.
        let vms: Vec<_> = fleet.vms.iter().map(|vm| &vm.world).collect();
        for world in &vms {
            let vm = &world.object;
            prop_assert_eq!(&vm.status.as_ref().unwrap().asking, &None);
            let (has, wish) = (Charge::from(&has(world)), Charge::from(&vm.spec));
            let all = vms.iter().fold(Charge::default(), |all, it| all.plus(it.object.charge()));
            let is_new = has == Charge::default();
            let mut lacks = Vec::new();
            for (has, wish, all, most) in [
                (has.cpu, wish.cpu, all.cpu, fleet.quota.cpu),
                (has.memory, wish.memory, all.memory, fleet.quota.memory),
                (has.disk, wish.disk, all.disk, fleet.quota.disk),
            ] {
                if has < wish {
                    lacks.push(all - has + wish <= most);
                }
            }
            let all_fit = lacks.iter().all(|fits| *fits);
            let any_fits = lacks.contains(&true);
            let is_passed_over = if is_new { all_fit } else { any_fits };
            prop_assert!(lacks.is_empty() || !is_passed_over, "{} is passed over: {}", vm.spec.ssh_id, fleet.summary());
        }
    }

    /// Whatever becomes of the quota, what was granted is kept and made anew.
    #[test]
    fn what_was_granted_is_kept(
        wants in proptest::collection::vec(1..5_u32, 3),
        at_most in 1..9_u32,
        then in 1..9_u32,
    ) {
        let mut fleet = Fleet::new(&wants, at_most);
        fleet.to_rest()?;
        let before: Vec<_> = fleet.vms.iter().map(|vm| has(&vm.world)).collect();
        fleet.quota = fleet.quota.or_more(Charge::from(&quota(then)));
        for vm in &mut fleet.vms {
            vm.world.seen.owner = Some(user(false, true, Some(then)));
            vm.world.seen.made.machine = None;
        }
        fleet.to_rest()?;
        for (vm, before) in fleet.vms.iter().zip(before) {
            let now = Charge::from(&has(&vm.world));
            prop_assert_eq!(now.or_more(Charge::from(&before)), now);
            if then <= at_most {
                prop_assert_eq!(now, Charge::from(&before));
            }
        }
    }
}

/// A disk grows to less than it was once to have, and its VM is edited before its
/// status tells of that.
#[test]
fn a_disk_that_grew_unsaid_is_charged() {
    let mut fleet = Fleet::new(&[1, 3, 1], 8);
    fleet.look(0, 0);
    while fleet.act(0) {
        fleet.look(0, 0);
    }
    for disk in [3, 2] {
        fleet.ask(0, 1, disk);
        fleet.look(0, 0);
        // Told that it asks for 30Gi; and told, or given, that it is 20Gi.
        fleet.act(0);
    }
    fleet.ask(0, 1, 1);
    fleet.ask(1, 1, 4);
    fleet.ask(2, 1, 3);
    fleet.to_rest().unwrap();
}
