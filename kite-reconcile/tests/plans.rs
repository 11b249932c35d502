//! Plans as pure functions: what holds for whatever is observed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Secret},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kite_core::{
    cdi::DataVolumeStatus,
    cluster::Object,
    crd::{
        Holder, HolderKind, HttpSource, ImagePhase, ImageSource, KiteImage, KiteImageSpec,
        KiteImageStatus, KitePlatformSpec, KiteReservation, KiteVirtualMachine,
        KiteVirtualMachineSpec, OsFamily, PowerState,
    },
    labels,
};
use kite_reconcile::{
    claims::{ClaimState, Claims, WantedClaim},
    plan::{Outcome, Plan, Step},
    vm::{ImageSeen, Observed, plan},
};
use kite_render::{Vm, cloud_init, disk, exposure, keys, machine, reservation, service};
use proptest::prelude::*;

const NAMESPACE: &str = "kite-user-ann";
const MOST_ROUNDS: usize = 8;

fn vm(domain: bool, power: PowerState, deleting: bool, held: bool) -> KiteVirtualMachine {
    let mut vm = KiteVirtualMachine::new(
        "web",
        KiteVirtualMachineSpec {
            power_state: power,
            domain_prefix: domain.then(|| "shop".to_owned()),
            ..KiteVirtualMachineSpec::new(
                2,
                "4Gi".parse().unwrap(),
                "20Gi".parse().unwrap(),
                "debian-12",
                "annweb",
            )
        },
    );
    vm.metadata.namespace = Some(NAMESPACE.to_owned());
    vm.metadata.uid = Some("uid-web".to_owned());
    vm.metadata.finalizers = held.then(|| vec![labels::VM_FINALIZER.to_owned()]);
    vm.metadata.deletion_timestamp = deleting.then(now);
    vm
}

fn now() -> Time {
    Time("2026-01-01T00:00:00Z".parse().unwrap())
}

fn image() -> ImageSeen {
    let mut image = KiteImage::new(
        "debian-12",
        KiteImageSpec {
            display_name: None,
            description: None,
            source: ImageSource {
                http: Some(HttpSource {
                    url: "https://example.org/i".to_owned(),
                    checksum: None,
                }),
                ..ImageSource::default()
            },
            os_family: OsFamily::Debian,
            default_user: None,
            min_disk: "5Gi".parse().unwrap(),
            refresh_schedule: None,
        },
    );
    image.status = Some(KiteImageStatus {
        phase: Some(ImagePhase::Ready),
        ..KiteImageStatus::default()
    });
    ImageSeen::Found(Box::new(image))
}

fn some_keys() -> keys::VmKeys {
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n";
    keys::VmKeys {
        client_private: private.to_owned(),
        client_public: "ssh-ed25519 AAAA c\n".to_owned(),
        host_private: private.to_owned(),
        host_public: "ssh-ed25519 AAAA h\n".to_owned(),
    }
}

/// The claim of the disk, as CDI makes it: owned by the disk.
fn claim(vm: &Vm<'_>) -> PersistentVolumeClaim {
    let mut claim = disk::grown_claim(vm);
    claim.metadata.owner_references = Some(vec![OwnerReference {
        controller: Some(true),
        kind: "DataVolume".to_owned(),
        name: "web-disk".to_owned(),
        uid: "uid-web-disk".to_owned(),
        ..OwnerReference::default()
    }]);
    claim
}

/// How an object that the VM needs is found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    Not,
    AsWanted,
    WithoutLabels,
    OfAnEarlierLife,
    Leaving,
    SomebodyElses,
}

fn found() -> impl Strategy<Value = Found> {
    prop_oneof![
        Just(Found::Not),
        Just(Found::AsWanted),
        Just(Found::WithoutLabels),
        Just(Found::OfAnEarlierLife),
        Just(Found::Leaving),
        Just(Found::SomebodyElses),
    ]
}

fn place<K: Object>(wanted: K, found: Found) -> Option<K> {
    let mut object = wanted;
    object.meta_mut().uid = Some(format!("uid-{}", object.meta().name.clone().unwrap()));
    let meta = object.meta_mut();
    match found {
        Found::Not => return None,
        Found::AsWanted => {}
        Found::WithoutLabels => meta.labels = None,
        Found::OfAnEarlierLife => {
            for owner in meta.owner_references.iter_mut().flatten() {
                "uid-earlier".clone_into(&mut owner.uid);
            }
        }
        Found::Leaving => meta.deletion_timestamp = Some(now()),
        Found::SomebodyElses => {
            meta.labels = None;
            meta.owner_references = Some(vec![OwnerReference {
                controller: Some(true),
                kind: "Other".to_owned(),
                uid: "uid-other".to_owned(),
                ..OwnerReference::default()
            }]);
        }
    }
    Some(object)
}

#[derive(Clone, Copy, Debug)]
enum Claimed {
    Free,
    Mine,
    Theirs { alive: bool },
}

fn claimed() -> impl Strategy<Value = Claimed> {
    prop_oneof![
        Just(Claimed::Free),
        Just(Claimed::Mine),
        any::<bool>().prop_map(|alive| Claimed::Theirs { alive }),
    ]
}

fn claims(vm: &Vm<'_>, how: Claimed) -> Claims {
    let state = |wanted: &KiteReservation| match how {
        Claimed::Free => ClaimState::Free,
        Claimed::Mine => ClaimState::Mine(wanted.clone()),
        Claimed::Theirs { alive } => {
            let mut reservation = wanted.clone();
            reservation.spec.holder = Holder {
                kind: HolderKind::KiteVirtualMachine,
                namespace: Some("kite-user-bob".to_owned()),
                name: "other".to_owned(),
                uid: "uid-bob".to_owned(),
            };
            ClaimState::Held { reservation, alive }
        }
    };
    Claims {
        wanted: reservation::of_vm(vm)
            .into_iter()
            .map(|wanted| WantedClaim {
                state: state(&wanted),
                wanted,
            })
            .collect(),
        stale: Vec::new(),
    }
}

prop_compose! {
    fn world()(
        domain in any::<bool>(), off in any::<bool>(), deleting in any::<bool>(), held in any::<bool>(),
        claimed in claimed(), has_image in any::<bool>(), filled in any::<bool>(),
        at in proptest::collection::vec(found(), 8),
    ) -> (KiteVirtualMachine, Observed, Vec<Found>) {
        let power = if off { PowerState::Off } else { PowerState::On };
        let object = vm(domain, power, deleting, held);
        let vm = Vm::of(&object).unwrap();
        let platform = KitePlatformSpec {
            base_domain: Some("vm.example.org".to_owned()),
            ..KitePlatformSpec::default()
        };
        let mut root = place(disk::data_volume(&vm, &platform, "kite-images"), at[0]);
        if let Some(root) = &mut root {
            root.status = filled.then(|| DataVolumeStatus {
                phase: Some("Succeeded".to_owned()),
                ..DataVolumeStatus::default()
            });
        }
        let observed = Observed {
            owner: None,
            siblings: Vec::new(),
            image: if has_image { image() } else { ImageSeen::default() },
            claims: claims(&vm, claimed),
            key_secret: place(keys::secret(&vm, &some_keys()), at[1]),
            cloud_init: place(cloud_init::secret(&vm, &some_keys(), OsFamily::Debian).unwrap(), at[2]),
            disk: root,
            claim: place(claim(&vm), at[7]),
            growth_refused: None,
            machine: place(machine::virtual_machine(&vm, PowerState::On), at[3]),
            instance: None,
            access_service: place(service::access(&vm), at[4]),
            web_service: place(service::web(&vm), at[5]),
            ingress: place(exposure::ingress(&vm, &platform, "shop.vm.example.org").unwrap(), at[6]),
            platform,
        };
        (object, observed, at)
    }
}

/// Carries a step out as a cluster would in which nothing goes wrong.
fn carry_out(object: &mut KiteVirtualMachine, seen: &mut Observed, step: Step) {
    match step {
        Step::AddFinalizer(name) => object.metadata.finalizers = Some(vec![name.to_owned()]),
        Step::RemoveFinalizer(_) => object.metadata.finalizers = None,
        Step::Claim(claim) => seen.absorb(Outcome::Claimed(
            Box::new(claim.clone()),
            Box::new(ClaimState::Mine(claim)),
        )),
        Step::Unclaim(claim) => {
            seen.absorb(Outcome::Claimed(
                Box::new(claim),
                Box::new(ClaimState::Free),
            ));
        }
        Step::CreateKeys(template) => {
            let secret: Secret = keys::fill(*template, &some_keys());
            seen.absorb(Outcome::Stored(secret.into()));
        }
        Step::Apply(object) => seen.absorb(Outcome::Stored(object)),
        Step::Grow(claim) => seen.absorb(Outcome::Stored((*claim).into())),
        Step::Delete(object, _) => seen.absorb(Outcome::Gone(object)),
    }
}

/// Plans and carries out until nothing is left to do.
fn to_rest(
    mut object: KiteVirtualMachine,
    mut seen: Observed,
) -> (Vec<Step>, Plan<kite_core::crd::KiteVirtualMachineStatus>) {
    let mut done = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let planned = plan(&object, &seen).unwrap();
        if planned.steps.is_empty() {
            return (done, planned);
        }
        for step in planned.steps {
            let last = matches!(step, Step::RemoveFinalizer(_));
            done.push(step.clone());
            carry_out(&mut object, &mut seen, step);
            if last {
                return (done, plan(&object, &seen).unwrap());
            }
        }
    }
    panic!(
        "no end: {:#?}",
        done.iter().map(Step::describe).collect::<Vec<_>>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_the_same_for_the_same_world((object, seen, _) in world()) {
        prop_assert_eq!(plan(&object, &seen).unwrap(), plan(&object, &seen).unwrap());
    }

    #[test]
    fn every_world_comes_to_rest((object, seen, _) in world()) {
        to_rest(object, seen);
    }

    #[test]
    fn a_disk_and_a_machine_are_deleted_on_request_only((object, seen, _) in world()) {
        let deleting = object.metadata.deletion_timestamp.is_some();
        let (done, _) = to_rest(object, seen);
        for step in done {
            if let Step::Delete(object, _) = step {
                prop_assert!(deleting || object.kind() == "Ingress", "deletes {} unasked", object.kind());
            }
        }
    }

    #[test]
    fn nothing_of_another_is_touched((object, seen, at) in world()) {
        let slots = [
            "web-disk", "web-ssh-key", "web-cloud-init-userdata", "web", "vps-access-web", "vps-web-web", "web", "web-disk",
        ];
        let kinds = ["DataVolume", "Secret", "Secret", "VirtualMachine", "Service", "Service", "Ingress", "PersistentVolumeClaim"];
        let (done, _) = to_rest(object, seen);
        for step in done {
            match step {
                Step::Grow(_) => prop_assert!(matches!(at[0], Found::AsWanted | Found::WithoutLabels)),
                Step::Apply(object) | Step::Delete(object, _) => {
                    // The claim of a disk is whose the disk is.
                    prop_assert!(
                        object.kind() != "PersistentVolumeClaim"
                            || !matches!(at[0], Found::OfAnEarlierLife | Found::SomebodyElses)
                    );
                    let key = object.key();
                    prop_assert_eq!(key.namespace.as_deref(), Some(NAMESPACE));
                    for (index, found) in at.iter().enumerate() {
                        let hit = object.kind() == kinds[index] && key.name == slots[index];
                        let foreign = matches!(found, Found::OfAnEarlierLife | Found::SomebodyElses);
                        prop_assert!(!(hit && foreign), "{} {} is touched", object.kind(), object.key());
                    }
                }
                Step::Unclaim(claim) => prop_assert!(
                    // Its own, or one whose holder is gone: the living keep theirs.
                    claim.spec.holder.uid == "uid-web" || claim.spec.holder.uid == "uid-bob"
                ),
                Step::Claim(claim) => prop_assert_eq!(claim.spec.holder.uid, "uid-web"),
                Step::AddFinalizer(_) | Step::RemoveFinalizer(_) | Step::CreateKeys(_) => {}
            }
        }
    }

    #[test]
    fn the_claims_of_the_living_are_safe(off in any::<bool>(), domain in any::<bool>()) {
        let power = if off { PowerState::Off } else { PowerState::On };
        let object = vm(domain, power, false, true);
        let seen = Observed {
            image: image(),
            claims: claims(&Vm::of(&object).unwrap(), Claimed::Theirs { alive: true }),
            ..Observed::default()
        };
        let (done, at_rest) = to_rest(object, seen);
        prop_assert!(done.is_empty(), "a loser does nothing: {done:?}");
        prop_assert!(at_rest.status.access.is_none());
    }

    #[test]
    fn a_machine_comes_after_what_it_needs((object, seen, _) in world()) {
        // One that is there is kept as it should be, and can always be switched off.
        let seen = Observed { machine: None, ..seen };
        let (had_disk, had_user_data) = (seen.disk.is_some(), seen.cloud_init.is_some());
        let (done, _) = to_rest(object, seen);
        let at = |wanted: &str| done.iter().position(|step| step.describe().starts_with(wanted));
        if let Some(machine) = at("apply VirtualMachine") {
            prop_assert!(had_disk || at("apply DataVolume").is_some_and(|disk| disk < machine));
            prop_assert!(had_user_data
                || at("apply Secret kite-user-ann/web-cloud-init-userdata").is_some_and(|it| it < machine));
        }
    }

    #[test]
    fn names_are_freed_and_the_finalizer_goes_last((object, seen, _) in world()) {
        let (done, _) = to_rest(object, seen);
        let last = done.iter().position(|step| matches!(step, Step::RemoveFinalizer(_)));
        if let Some(last) = last {
            prop_assert_eq!(last, done.len() - 1);
        }
    }

    #[test]
    fn whoever_is_let_in_has_the_name((object, seen, _) in world()) {
        let mine = seen.claims.wanted.iter().any(WantedClaim::is_mine);
        let planned = plan(&object, &seen).unwrap();
        if planned.status.access.is_some() {
            prop_assert!(mine);
            prop_assert!(object.metadata.deletion_timestamp.is_none());
        }
    }
}
