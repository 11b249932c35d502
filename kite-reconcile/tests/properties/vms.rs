//! Worlds around one VM: as they may be found, and how they go on.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kite_core::{
    cdi::DataVolumeStatus,
    cluster::Object,
    crd::{
        ExpiryStatus, GatewayReference, Kept, KiteImage, KitePlatformSpec, KiteUser, KiteUserSpec,
        KiteUserStatus, KiteVirtualMachine, KiteVirtualMachineSpec, KiteVirtualMachineStatus,
        OsFamily, PowerState, Quota, VmSize,
    },
    kubevirt::{
        VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineStatus,
    },
    labels, names,
};
use kite_reconcile::{
    claims::{ClaimState, WantedClaim},
    objects::AnyObject,
    plan::{Change, Outcome, Plan, Step},
    siblings::Siblings,
    vm::{ImageSeen, Made, Observed, plan},
};
use kite_render::{Vm, cloud_init, disk, exposure, keys, machine, reservation, service};
use kube::{Resource as _, api::ObjectMeta};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::found::{Found, claimed, claims, found, now, place};

pub const ANN: &str = "kite-user-ann";
/// Rounds of planning after which a world that still moves never rests.
const MOST_ROUNDS: usize = 24;

/// A VM and all that its plan depends on.
#[derive(Clone)]
pub struct World {
    pub object: KiteVirtualMachine,
    pub seen: Observed,
    /// Whether what is deleted stays for a while.
    pub slow: bool,
    /// Whether the VM's own finalizer was taken off.
    pub gone: bool,
}

/// What a person needs of a world in which a law is broken.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = &self.seen;
        let mut world = f.debug_struct("World");
        world
            .field("deleting", &self.is_deleting())
            .field("finalizers", &self.object.metadata.finalizers)
            .field("slow", &self.slow)
            .field("gone", &self.gone)
            .field("image", &matches!(seen.image, ImageSeen::Found(_)));
        for claim in &seen.claims.wanted {
            let state = match &claim.state {
                ClaimState::Free => "free",
                ClaimState::Mine(_) => "mine",
                ClaimState::Held { alive: true, .. } => "held",
                ClaimState::Held { alive: false, .. } => "left behind",
                ClaimState::Kept(_) => "kept",
                ClaimState::Reserved(_) => "reserved",
            };
            world.field("claim", &state);
        }
        macro_rules! slot {
            ($($slot:ident),*) => { $(
                if let Some(it) = &seen.$slot {
                    world.field(stringify!($slot), &summary(&it.metadata));
                }
            )* };
        }
        slot!(
            key_secret,
            cloud_init,
            disk,
            claim,
            machine,
            instance,
            access_service,
            web_service,
            ingress,
            route
        );
        world.finish_non_exhaustive()
    }
}

fn summary(meta: &ObjectMeta) -> String {
    let owner = meta.owner_references.iter().flatten().next();
    format!(
        "uid {:?}, owner {:?}, {} labels{}",
        meta.uid.as_deref().unwrap_or_default(),
        owner.map(|owner| owner.uid.as_str()).unwrap_or_default(),
        meta.labels.iter().flatten().count(),
        if meta.deletion_timestamp.is_some() {
            ", leaving"
        } else {
            ""
        }
    )
}

/// What an object of the VM is called, and how it was found.
#[derive(Clone, Debug)]
pub struct Places {
    pub disk: Found,
    pub keys: Found,
    pub user_data: Found,
    pub machine: Found,
    pub access: Found,
    pub web: Found,
    pub ingress: Found,
    pub route: Found,
}

fn places(found: fn() -> BoxedStrategy<Found>) -> impl Strategy<Value = Places> {
    (
        found(),
        found(),
        found(),
        found(),
        found(),
        found(),
        found(),
        found(),
    )
        .prop_map(
            |(disk, keys, user_data, machine, access, web, ingress, route)| Places {
                disk,
                keys,
                user_data,
                machine,
                access,
                web,
                ingress,
                route,
            },
        )
}

/// What can be wrong with the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    Unknown,
    NotReady,
    TooLarge,
    Ready,
}

fn an_image() -> impl Strategy<Value = Image> {
    prop_oneof![
        1 => Just(Image::Unknown),
        1 => Just(Image::NotReady),
        1 => Just(Image::TooLarge),
        6 => Just(Image::Ready),
    ]
}

fn image(how: Image) -> ImageSeen {
    let image: KiteImage = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KiteImage",
        "metadata": {"name": "debian-12", "uid": "uid-image"},
        "spec": {
            "source": {"http": {"url": "https://example.org/i"}},
            "osFamily": "Debian",
            "minDisk": if how == Image::TooLarge { "900Gi" } else { "5Gi" },
        },
        "status": {
            "phase": if how == Image::NotReady { "Importing" } else { "Ready" },
            "namespace": "kite-images",
            "conditions": [],
        },
    }))
    .unwrap();
    match how {
        Image::Unknown => ImageSeen::default(),
        Image::NotReady | Image::TooLarge | Image::Ready => ImageSeen::Found(Box::new(image)),
    }
}

/// The claim of the disk, however it came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskClaim {
    Not,
    OfTheDisk { bound: bool, small: bool },
    OfAnotherDisk,
    WithoutOwner,
    Nobodys,
}

fn disk_claim() -> impl Strategy<Value = DiskClaim> {
    prop_oneof![
        2 => Just(DiskClaim::Not),
        4 => (any::<bool>(), any::<bool>())
            .prop_map(|(bound, small)| DiskClaim::OfTheDisk { bound, small }),
        1 => Just(DiskClaim::OfAnotherDisk),
        1 => Just(DiskClaim::WithoutOwner),
        1 => Just(DiskClaim::Nobodys),
    ]
}

fn claim(vm: &Vm<'_>, disk: Found, how: DiskClaim) -> Option<PersistentVolumeClaim> {
    let mut claim = disk::grown_claim(vm.namespace, &names::disk(vm.name), &vm.object.spec.disk);
    let owner = |uid: String| {
        Some(vec![OwnerReference {
            controller: Some(true),
            kind: "DataVolume".to_owned(),
            name: "web-disk".to_owned(),
            uid,
            ..OwnerReference::default()
        }])
    };
    let uid_of_disk = || {
        let whose = if disk.is_ours() { "ours" } else { "theirs" };
        format!("{whose}-web-disk")
    };
    // What is another's would be grown, too, if nobody looked whose it is.
    let (mut is_bound, mut is_small) = (true, true);
    claim.metadata.uid = Some("theirs-web-disk".to_owned());
    match how {
        DiskClaim::Not => return None,
        DiskClaim::OfTheDisk { bound, small } => {
            claim.metadata.owner_references = owner(uid_of_disk());
            if disk.is_ours() {
                claim.metadata.uid = Some("ours-web-disk".to_owned());
            }
            is_bound = bound;
            is_small = small;
        }
        DiskClaim::OfAnotherDisk => {
            claim.metadata.owner_references = owner("uid-other-disk".to_owned());
        }
        DiskClaim::WithoutOwner => {
            claim.metadata.labels = Some(labels::for_vm(ANN, "web"));
            claim.metadata.uid = Some("ours-web-disk".to_owned());
        }
        DiskClaim::Nobodys => {}
    }
    if is_small {
        let resources = claim.spec.as_mut().unwrap().resources.as_mut();
        let requests = resources.unwrap().requests.as_mut().unwrap();
        "5Gi".clone_into(&mut requests.get_mut("storage").unwrap().0);
    }
    claim.status = Some(PersistentVolumeClaimStatus {
        phase: Some(if is_bound { "Bound" } else { "Pending" }.to_owned()),
        ..PersistentVolumeClaimStatus::default()
    });
    Some(claim)
}

pub fn some_keys() -> keys::VmKeys {
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n";
    keys::VmKeys {
        client_private: private.to_owned(),
        client_public: "ssh-ed25519 AAAA c\n".to_owned(),
        host_private: private.to_owned(),
        host_public: "ssh-ed25519 AAAA h\n".to_owned(),
    }
}

/// A VM of which nothing special is asked.
pub fn plain_spec(ssh_id: &str) -> KiteVirtualMachineSpec {
    KiteVirtualMachineSpec::new(
        2,
        "4Gi".parse().unwrap(),
        "20Gi".parse().unwrap(),
        "debian-12",
        ssh_id,
    )
}

fn object(domain: bool, power: PowerState, deleting: bool, held: bool) -> KiteVirtualMachine {
    let spec = plain_spec("annweb");
    let mut vm = KiteVirtualMachine::new(
        "web",
        KiteVirtualMachineSpec {
            power_state: power,
            domain_prefix: domain.then(|| "shop".to_owned()),
            ..spec
        },
    );
    vm.metadata.namespace = Some(ANN.to_owned());
    vm.metadata.uid = Some("uid-web".to_owned());
    vm.metadata.generation = Some(3);
    let held = held.then(|| labels::VM_FINALIZER.to_owned());
    let finalizers = held.into_iter().chain(["example.org/backup".to_owned()]);
    vm.metadata.finalizers = Some(finalizers.collect());
    vm.metadata.deletion_timestamp = deleting.then(now);
    vm
}

/// What `KubeVirt` and CDI may say, known or not.
fn said() -> impl Strategy<Value = (Option<&'static str>, Option<&'static str>)> {
    let of_disk = prop_oneof![
        Just(None),
        Just(Some("Succeeded")),
        Just(Some("Failed")),
        Just(Some("CloneInProgress")),
        Just(Some("WaitForFirstConsumer")),
        Just(Some("Unknown")),
        Just(Some("SomethingNew")),
    ];
    let of_machine = prop_oneof![
        Just(None),
        Just(Some("Running")),
        Just(Some("Stopped")),
        Just(Some("DataVolumeError")),
        Just(Some("ErrorPvcNotFound")),
        Just(Some("CrashLoopBackOff")),
        Just(Some("SomethingNew")),
    ];
    (of_disk, of_machine)
}

/// When the VM expires, if it does, and what was said of it: now is the first
/// of January, and the default grace a matter of days.
fn expiry() -> impl Strategy<Value = Option<(Timestamp, Option<Timestamp>)>> {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    prop_oneof![
        5 => Just(None),
        1 => Just(Some((at("2026-02-01T00:00:00Z"), None))),
        1 => Just(Some((at("2025-06-01T00:00:00Z"), None))),
        1 => Just(Some((at("2025-06-01T00:00:00Z"), Some(at("2025-07-01T00:00:00Z"))))),
    ]
}

/// Of another VM of the user: whether it is older, what it was granted, and what
/// it asks for.
#[derive(Clone, Debug)]
pub struct Sibling {
    older: bool,
    granted: u32,
    asking: u32,
    wants: u32,
}

fn sibling() -> impl Strategy<Value = Sibling> {
    (any::<bool>(), 0..4_u32, 0..4_u32, 1..6_u32).prop_map(|(older, granted, asking, wants)| {
        Sibling {
            older,
            granted,
            asking,
            wants,
        }
    })
}

/// So many CPUs, and memory and disk in the same proportion as [`plain_spec`]'s.
pub fn size(of: u32) -> Option<VmSize> {
    (of > 0).then(|| VmSize {
        cpu: Some(of),
        memory: Some(format!("{}Gi", 2 * of).parse().unwrap()),
        disk: Some(format!("{}Gi", 10 * of).parse().unwrap()),
    })
}

/// A VM of Ann's that wants such a size.
pub fn sized(name: &str, wants: u32) -> KiteVirtualMachine {
    let size = size(wants).unwrap();
    let mut spec = plain_spec(name);
    spec.cpu = size.cpu.unwrap();
    (spec.memory, spec.disk) = (size.memory.unwrap(), size.disk.unwrap());
    let mut vm = KiteVirtualMachine::new(name, spec);
    vm.metadata.namespace = Some(ANN.to_owned());
    vm.metadata.uid = Some(format!("uid-{name}"));
    vm
}

fn siblings(of: &[Sibling]) -> Vec<KiteVirtualMachine> {
    let siblings = of.iter().enumerate().map(|(number, it)| {
        // The VM itself is called web, and of the same age.
        let name = format!("{}{number}", if it.older { "old" } else { "young" });
        let mut vm = sized(&name, it.wants);
        let status = vm.status.get_or_insert_default();
        status.granted = size(it.granted);
        status.asking = size(it.asking).filter(|_| it.asking > it.granted);
        vm
    });
    siblings.collect()
}

/// Ann's quota: there is often just so much, or just too little.
pub fn quota(of: u32) -> Quota {
    let size = size(of).unwrap();
    Quota::new(5, of, size.memory.unwrap(), size.disk.unwrap())
}

#[derive(Clone, Copy, Debug)]
enum Instance {
    Not,
    Ours,
    Nobodys,
}

fn instance(how: Instance, machine: Option<&VirtualMachine>) -> Option<VirtualMachineInstance> {
    let mut instance = VirtualMachineInstance::new("web", VirtualMachineInstanceSpec::default());
    instance.metadata.namespace = Some(ANN.to_owned());
    match how {
        Instance::Not => return None,
        Instance::Nobodys => {}
        Instance::Ours => {
            let machine = machine.cloned().unwrap_or_else(|| {
                let mut former = VirtualMachine::new(
                    "web",
                    serde_json::from_value(json!({"template": {"spec": {}}})).unwrap(),
                );
                former.metadata.uid = Some("uid-former".to_owned());
                former
            });
            let owner = machine.controller_owner_ref(&());
            instance.metadata.owner_references = owner.map(|owner| vec![owner]);
        }
    }
    Some(instance)
}

prop_compose! {
    /// A world whose VM is `deleting` and in which things are `found`.
    pub fn world_of(deleting: BoxedStrategy<bool>, found: fn() -> BoxedStrategy<Found>)(
        (domain, off, held, slow, stale, platform_known) in any::<(bool, bool, bool, bool, bool, bool)>(),
        held_anyway in any::<bool>(),
        deleting in deleting,
        at in places(found),
        how in proptest::collection::vec(claimed(), 2),
        of_image in an_image(),
        of_claim in disk_claim(),
        owner in proptest::option::of((any::<(bool, bool)>(), proptest::option::of(1..9_u32))),
        others in proptest::collection::vec(sibling(), 0..3),
        (granted, asking, current) in (0..3_u32, 0..3_u32, any::<bool>()),
        (disk_says, machine_says) in said(),
        of_instance in prop_oneof![3 => Just(Instance::Not), 3 => Just(Instance::Ours), 1 => Just(Instance::Nobodys)],
        (reported, by_gateway) in any::<(bool, bool)>(),
        expiry in expiry(),
    ) -> (World, Places) {
        let power = if off { PowerState::Off } else { PowerState::On };
        let mut object = object(domain, power, deleting, held || held_anyway);
        if reported {
            object.status = Some(KiteVirtualMachineStatus {
                observed_generation: Some(2),
                ..KiteVirtualMachineStatus::default()
            });
        }
        if granted + asking > 0 {
            let status = object.status.get_or_insert_default();
            (status.granted, status.asking) = (size(granted), size(asking));
        }
        if let Some((expires_at, told)) = expiry {
            object.spec.expires_at = Some(Time(expires_at));
            let told = told.map(|delete_at| ExpiryStatus {
                expired_at: Time(expires_at),
                delete_at: Time(delete_at),
            });
            object.status.get_or_insert_default().expiry = told;
        }
        let seen = {
            let vm = Vm::of(&object).unwrap();
            let gateway = GatewayReference {
                namespace: "edge".to_owned(),
                name: "public".to_owned(),
            };
            let route = exposure::route(&vm, &gateway, "shop.vm.example.org");
            let mut platform = KitePlatformSpec {
                base_domain: platform_known.then(|| "vm.example.org".to_owned()),
                ..KitePlatformSpec::default()
            };
            platform.exposure.gateway = by_gateway.then_some(gateway);
            let mut root = place(disk::data_volume(&vm, &platform, "kite-images"), at.disk);
            if let Some(root) = &mut root {
                root.status = disk_says.map(|phase| DataVolumeStatus {
                    phase: Some(phase.to_owned()),
                    ..DataVolumeStatus::default()
                });
            }
            let mut machine = place(machine::virtual_machine(&vm, PowerState::On), at.machine);
            if let Some(machine) = &mut machine {
                machine.status = machine_says.map(|says| VirtualMachineStatus {
                    printable_status: Some(says.to_owned()),
                    ..VirtualMachineStatus::default()
                });
            }
            Observed {
                owner: owner.map(|((suspended, stands), quota)| user(suspended, stands, quota)),
                siblings: Siblings {
                    all: siblings(&others),
                    are_current: current,
                    ..Siblings::default()
                },
                image: image(of_image),
                claims: claims(reservation::of_vm(&vm), &how, stale),
                instance: instance(of_instance, machine.as_ref()),
                snapshots: Some(Vec::new()),
                claim: claim(&vm, at.disk, of_claim),
                disk: root,
                made: Made {
                    key_secret: place(keys::secret(&vm, &some_keys()), at.keys),
                    cloud_init: place(cloud_init::secret(&vm, &some_keys(), OsFamily::Debian).unwrap(), at.user_data),
                    machine,
                    access_service: place(service::access(&vm), at.access),
                    web_service: place(service::web(&vm), at.web),
                    ingress: place(exposure::ingress(&vm, &platform, "shop.vm.example.org"), at.ingress),
                    route: place(route, at.route),
                    certificate: None,
                },
                platform,
                now: now().0,
                ..Observed::default()
            }
        };
        (World { object, seen, slow, gone: false }, at)
    }
}

/// Any world.
pub fn world() -> impl Strategy<Value = (World, Places)> {
    world_of(any::<bool>().boxed(), found)
}

/// Ann, whose network policies stand or not.
pub fn user(suspended: bool, stands: bool, at_most: Option<u32>) -> KiteUser {
    let mut spec = KiteUserSpec::new("ann");
    spec.suspended = suspended;
    spec.quota = at_most.map(quota);
    let mut user = KiteUser::new("ann", spec);
    user.status = stands.then(|| KiteUserStatus {
        namespace: Some(ANN.to_owned()),
        ..KiteUserStatus::default()
    });
    user
}

impl World {
    /// A VM of which nothing is made yet, and nothing is in its way.
    pub fn unmade(object: KiteVirtualMachine, owner: KiteUser) -> Self {
        let mut object = object;
        object.metadata.generation = Some(1);
        object.metadata.finalizers = Some(vec![labels::VM_FINALIZER.to_owned()]);
        let wanted = reservation::of_vm(&Vm::of(&object).unwrap());
        let how = vec![crate::found::Claimed::Mine; wanted.len()];
        let seen = Observed {
            owner: Some(owner),
            image: image(Image::Ready),
            claims: claims(wanted, &how, false),
            now: now().0,
            snapshots: Some(Vec::new()),
            ..Observed::default()
        };
        Self {
            object,
            seen,
            slow: false,
            gone: false,
        }
    }

    /// Has the status say what is planned to be said.
    pub fn report(&mut self) {
        let plan = self.plan();
        self.object.status = Some(plan.status);
    }

    pub fn plan(&self) -> Plan<KiteVirtualMachineStatus> {
        plan(&self.object, &self.seen).unwrap()
    }

    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn take(&mut self, outcome: Outcome) {
        self.seen.absorb(&self.object, outcome);
    }

    /// Carries a step out as a cluster would in which nothing goes wrong.
    pub fn carry_out(&mut self, step: Step) {
        let finalizers = self.object.metadata.finalizers.get_or_insert_default();
        match step {
            Step::AddFinalizer(name) => finalizers.push(name.to_owned()),
            Step::RemoveFinalizer(name) => {
                finalizers.retain(|finalizer| finalizer != name);
                self.gone = true;
            }
            Step::Change(Change::Claim(claim)) => self.take(Outcome::Claimed(
                Box::new(claim.clone()),
                Box::new(ClaimState::Mine(claim)),
            )),
            Step::Change(Change::Unclaim(claim)) => self.take(Outcome::Claimed(
                Box::new(claim),
                Box::new(ClaimState::Free),
            )),
            Step::Change(Change::Keep(claim, user_uid)) => {
                let mut kept = claim.clone();
                kept.spec.kept = Some(Kept {
                    until: now(),
                    user_uid,
                });
                self.take(Outcome::Claimed(
                    Box::new(claim),
                    Box::new(ClaimState::Kept(kept)),
                ));
            }
            Step::Change(Change::TakeBack(_, claim)) => self.take(Outcome::Claimed(
                claim.clone(),
                Box::new(ClaimState::Mine(*claim)),
            )),
            Step::Change(Change::Fulfil(mut claim)) => {
                claim.spec.fulfilled = true;
                self.take(Outcome::Claimed(
                    Box::new(claim.clone()),
                    Box::new(ClaimState::Mine(claim)),
                ));
            }
            Step::Change(Change::CreateKeys(template)) => {
                let secret = keys::fill(*template, &some_keys());
                self.take(Outcome::Stored(secret.into()));
            }
            Step::Change(Change::Apply(object) | Change::Expose(object)) => {
                let applied = self.applied(object);
                self.take(Outcome::Stored(applied));
            }
            // Over what CDI made: it stays what it was, and grows.
            Step::Change(Change::Grow(grown)) => {
                if let Some(claim) = &mut self.seen.claim {
                    claim.spec = grown.spec;
                }
            }
            Step::Change(Change::Delete(object, _) | Change::DeleteUnchanged(object))
                if self.slow =>
            {
                let object = leaving(object);
                self.take(Outcome::Stored(object));
            }
            Step::Change(Change::Delete(object, _) | Change::DeleteUnchanged(object)) => {
                self.take(Outcome::Gone(object));
            }
            Step::Change(Change::Clear(_)) => unreachable!("VMs have no schedule"),
            Step::Change(Change::Take(object)) => self.take(Outcome::Stored(object)),
            Step::Change(Change::Freeze { .. } | Change::Thaw { .. }) => {
                unreachable!("VMs take no snapshots")
            }
            Step::DeleteSelf => self.object.metadata.deletion_timestamp = Some(now()),
            Step::WriteStatus => {
                self.report();
                self.seen.siblings.are_current = true;
            }
            Step::Change(Change::Restart { .. }) => self.take(Outcome::RestartAsked),
            Step::Change(Change::Move(order)) => self.take(Outcome::Stored((*order).into())),
            Step::Change(Change::CallOff(order, _)) => {
                self.take(Outcome::Gone((*order).into()));
            }
            other @ Step::Change(Change::RemoveFinalizerFrom(..)) => {
                panic!("{} is nothing that is done for a VM", other.describe())
            }
        }
    }

    /// What there is after an apply: with what was there and is not spoken of.
    fn applied(&self, object: AnyObject) -> AnyObject {
        let seen = &self.seen;
        macro_rules! over {
            ($it:expr, $there:expr) => {
                match $there {
                    Some(there) => merged(there, &*$it).into(),
                    None => (*$it).into(),
                }
            };
        }
        let name = object.key().name;
        match object {
            AnyObject::Secret(it) if name.ends_with("-ssh-key") => over!(it, &seen.key_secret),
            AnyObject::Secret(it) => over!(it, &seen.cloud_init),
            AnyObject::DataVolume(it) => over!(it, &seen.disk),
            AnyObject::VirtualMachine(it) => over!(it, &seen.machine),
            AnyObject::Service(it) if name.starts_with("vps-access-") => {
                over!(it, &seen.access_service)
            }
            AnyObject::Service(it) => over!(it, &seen.web_service),
            AnyObject::Ingress(it) => over!(it, &seen.ingress),
            AnyObject::HttpRoute(it) => over!(it, &seen.route),
            other => panic!("{} {} is no object of a VM", other.kind(), other.key()),
        }
    }

    /// What the rest of the cluster does by itself: what is on its way out goes,
    /// an instance after its machine, a claim after its disk. Whether anything
    /// went.
    pub fn let_go(&mut self) -> bool {
        let seen = &mut self.seen;
        let mut went = false;
        let orphan = seen.instance.as_ref().is_some_and(|it| {
            let owners = it.metadata.owner_references.iter().flatten();
            let machine = seen
                .machine
                .as_ref()
                .and_then(|machine| machine.metadata.uid.clone());
            owners
                .into_iter()
                .any(|owner| machine.as_deref() != Some(owner.uid.as_str()))
        });
        if orphan {
            seen.instance = None;
            went = true;
        }
        let orphan = seen.claim.as_ref().is_some_and(|it| {
            let owners = it.metadata.owner_references.iter().flatten();
            let disk = seen
                .disk
                .as_ref()
                .and_then(|disk| disk.metadata.uid.clone());
            owners
                .into_iter()
                .any(|owner| disk.as_deref() != Some(owner.uid.as_str()))
        });
        if orphan {
            seen.claim = None;
            went = true;
        }
        macro_rules! go {
            ($($($slot:ident).+),*) => { $(
                let slot = &mut seen.$($slot).+;
                if slot.as_ref().is_some_and(|it| it.metadata.deletion_timestamp.is_some()) {
                    *slot = None;
                    went = true;
                }
            )* };
        }
        go!(
            made.key_secret,
            made.cloud_init,
            disk,
            claim,
            made.machine,
            made.access_service,
            made.web_service,
            made.ingress,
            made.route
        );
        went
    }

    /// Plans and carries out until nothing moves any more; `judge` is asked of
    /// each step before it is taken. What was done.
    pub fn to_rest(
        &mut self,
        mut judge: impl FnMut(&Self, &Step) -> Result<(), String>,
    ) -> Result<Vec<Step>, TestCaseError> {
        let mut done = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let planned = self.plan();
            if planned.steps.is_empty() && !self.let_go() {
                return Ok(done);
            }
            for step in planned.steps {
                judge(self, &step)
                    .map_err(|why| TestCaseError::fail(format!("{}: {why}", step.describe())))?;
                done.push(step.clone());
                self.carry_out(step);
                if self.gone {
                    return Ok(done);
                }
            }
        }
        let steps = done.iter().map(Step::describe).collect::<Vec<_>>();
        Err(TestCaseError::fail(format!("it never rests: {steps:#?}")))
    }

    /// Whether anything that the VM made is still there.
    pub fn left_behind(&self) -> Vec<&'static str> {
        let seen = &self.seen;
        let mut left = Vec::new();
        macro_rules! look {
            ($($slot:ident),*) => { $(
                let uid = seen.$slot.as_ref().and_then(|it| it.metadata.uid.as_deref());
                // What was made by a step has no uid here.
                if seen.$slot.is_some() && uid.is_none_or(|uid| uid.starts_with("ours-")) {
                    left.push(stringify!($slot));
                }
            )* };
        }
        look!(
            key_secret,
            cloud_init,
            disk,
            claim,
            machine,
            access_service,
            web_service,
            ingress,
            route
        );
        // As long as there is another's disk of this name, it is that one's.
        let disk = seen
            .disk
            .as_ref()
            .and_then(|disk| disk.metadata.uid.as_deref());
        if disk.is_some_and(|uid| uid.starts_with("theirs-")) {
            left.retain(|slot| *slot != "claim");
        }
        left
    }

    /// Whether it has a claim, wanted or not.
    pub fn has_names(&self) -> bool {
        let claims = &self.seen.claims;
        !claims.stale.is_empty() || claims.wanted.iter().any(WantedClaim::is_mine)
    }

    /// Whether all claims are won.
    pub fn has_its_names(&self) -> bool {
        self.seen
            .claims
            .wanted
            .iter()
            .all(|claim| matches!(claim.state, ClaimState::Mine(_)))
    }
}

/// `there` with all that `desired` says, as a server-side apply leaves it.
fn merged<K: Object>(there: &K, desired: &K) -> K {
    fn merge(there: &mut Value, desired: Value) {
        match (there, desired) {
            (Value::Object(there), Value::Object(desired)) => {
                for (key, value) in desired {
                    merge(there.entry(key).or_insert(Value::Null), value);
                }
            }
            (_, Value::Null) => {}
            (there, desired) => *there = desired,
        }
    }
    let mut json = serde_json::to_value(there).unwrap();
    merge(&mut json, serde_json::to_value(desired).unwrap());
    serde_json::from_value(json).unwrap()
}

fn leaving(object: AnyObject) -> AnyObject {
    macro_rules! mark {
        ($($kind:ident),*) => {
            match object {
                $( AnyObject::$kind(mut it) => { it.metadata.deletion_timestamp = Some(now()); AnyObject::$kind(it) } )*
                other => other,
            }
        };
    }
    mark!(
        DataVolume,
        HttpRoute,
        Ingress,
        PersistentVolumeClaim,
        Secret,
        Service,
        VirtualMachine,
        KiteVirtualMachine,
        Namespace
    )
}
