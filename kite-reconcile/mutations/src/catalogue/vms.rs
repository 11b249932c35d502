//! The reconciler of VMs.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios, Sweep};

const HOLDING: &str = "kite-reconcile/src/vm/quota/holding.rs";
const STAGE: &str = "kite-reconcile/src/stage.rs";
const DRAFT: &str = "kite-reconcile/src/vm/draft.rs";
const DELETE: &str = "kite-reconcile/src/vm/delete.rs";
const ACCESS: &str = "kite-reconcile/src/vm/access.rs";
const DISK: &str = "kite-reconcile/src/vm/disk.rs";
const LOST: &str = "kite-reconcile/src/vm/lost.rs";
const EXPOSED: &str = "kite-reconcile/src/vm/exposed.rs";
const IMAGE: &str = "kite-reconcile/src/vm/image.rs";
const STANDING: &str = "kite-reconcile/src/standing.rs";
const MATCHES: &str = "kite-reconcile/src/matches.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "vm-finalizer-skipped",
        what: "makes a VM without its finalizer",
        file: STAGE,
        edits: &[(
            "if self.is_on(draft.meta()) {",
            "if self.is_on(draft.meta()) || self.0 == kite_core::labels::VM_FINALIZER {",
        )],
        first: (Sweep, "vm_deletion::crashes"),
    },
    Mutation {
        name: "machine-before-its-needs",
        what: "makes the VirtualMachine before its Secrets and its disk",
        file: "kite-reconcile/src/vm/machine.rs",
        edits: &[(
            "let may_start = draft.is_prepared && draft.has_disk();",
            "let may_start = draft.obstacles.is_empty() && (draft.is_entitled || !draft.is_new());",
        )],
        first: (Sweep, "vm_life::crashes"),
    },
    Mutation {
        name: "loser-served",
        what: "makes a VM though another has its login name",
        file: DRAFT,
        edits: &[("is_entitled: has_ssh_id(seen),", "is_entitled: true,")],
        first: (Sweep, "one_name_for_two::crashes"),
    },
    Mutation {
        name: "failed-disk-deleted",
        what: "deletes a disk that is in an unexpected state, to make it anew",
        file: DISK,
        edits: &[(
            "let mut desired = origin::disk(vm, seen);",
            "let mut desired = origin::disk(vm, seen);
             if let Some(stored) = seen.disk.clone().filter(|disk| {
                 disk.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(\"Failed\")
             }) {
                 draft.steps.push(Step::Change(Change::Delete(stored.into(), kube::api::PropagationPolicy::Background)));
                 return false;
             }",
        )],
        first: (Properties, "vm_laws::"),
    },
    Mutation {
        name: "lost-disk-made-anew",
        what: "makes a disk with data anew from the image when it is gone",
        file: LOST,
        edits: &[(
            "let lost = whatever_lost(vm, seen)?;",
            "let lost = whatever_lost(vm, seen).filter(|_| false)?;",
        )],
        first: (Scenarios, "lost::"),
    },
    Mutation {
        name: "disk-said-to-have-its-data-early",
        what: "says of a disk that it has its data before it has",
        file: LOST,
        edits: &[(
            "DiskState::of(Some(disk)) == DiskState::Filled\n        && !leaves(&disk.metadata)\n        && (notes.mark.is_some() || is_told(vm, disk))",
            "!leaves(&disk.metadata)",
        )],
        first: (Scenarios, "lost::"),
    },
    Mutation {
        name: "disk-not-said-to-have-its-data",
        what: "has CDI make a claim anew that is gone with all data",
        file: LOST,
        edits: &[(
            "&& (notes.mark.is_some() || is_told(vm, disk))",
            "&& notes.mark.is_some()",
        )],
        first: (Scenarios, "lost::"),
    },
    Mutation {
        name: "remade-claim-taken-for-the-disk",
        what: "tells nobody that CDI has made another claim in the place of the VM's",
        file: LOST,
        edits: &[(
            "&& claim.uid.as_deref() != Some(&had);",
            "&& claim.uid.as_deref() != Some(&had)\n        && false;",
        )],
        first: (Scenarios, "lost::a_claim_that_cdi"),
    },
    Mutation {
        name: "guest-started-on-another-claim",
        what: "starts a VM from a claim that CDI has made in the place of its own",
        file: LOST,
        edits: &[(
            "condition(vm, seen, None).filter(|_| !runs)",
            "condition(vm, seen, None).filter(|_| !runs && false)",
        )],
        first: (Scenarios, "lost::a_claim_that_cdi"),
    },
    Mutation {
        name: "stuck-disk-with-data-made-anew",
        what: "deletes a disk with data that CDI says something bad of, to make a larger one",
        file: "kite-reconcile/src/vm/remake.rs",
        edits: &[(
            "&& !had_data\n        && !lost::had_its_data(disk)\n        && !is_used",
            "&& (!had_data || !lost::had_its_data(disk) || !is_used)",
        )],
        first: (Scenarios, "blocked::"),
    },
    Mutation {
        name: "no-room-for-a-move",
        what: "leaves no room in the quota for a VM that moves",
        file: "kite-render/src/quota.rs",
        edits: &[("most: sum.most.or_more(charge)", "most: sum.most")],
        first: (Scenarios, "moves::"),
    },
    Mutation {
        name: "clone-source-of-another-tenant",
        what: "clones the disk from another tenant's namespace",
        file: "kite-reconcile/src/vm/origin.rs",
        edits: &[(
            "ImageSeen::Found(image) => images::namespace(image, &seen.platform),",
            "ImageSeen::Found(_) => \"kite-user-bob\",",
        )],
        first: (Sweep, "vm_life::crashes"),
    },
    Mutation {
        name: "disk-spec-rewritten",
        what: "applies a changed size to the DataVolume, whose spec is immutable",
        file: DISK,
        edits: &[("desired.spec = stored.spec.clone();", "let _ = stored;")],
        first: (Sweep, "vm_edits::crashes"),
    },
    Mutation {
        name: "exposure-of-others-deleted",
        what: "deletes an Ingress that has the VM's name without looking whose it is",
        file: EXPOSED,
        edits: &[(
            "if standing(stored.meta(), &like) == Standing::Ours {",
            "if standing(stored.meta(), &like) != Standing::Leaving {",
        )],
        first: (Properties, "vm_laws::what_belongs"),
    },
    Mutation {
        name: "claim-of-another-disk-grown",
        what: "grows a claim without looking whose disk it is",
        file: HOLDING,
        edits: &[(
            "owners.any(|owner| Some(&owner.uid) == disk)",
            "owners.next().is_some() || disk.is_some()",
        )],
        first: (Properties, "vm_laws::"),
    },
    Mutation {
        name: "image-used-unready",
        what: "clones from an image that is not imported yet",
        file: IMAGE,
        edits: &[("if !is_ready(image) {", "if false && !is_ready(image) {")],
        first: (Scenarios, "images::"),
    },
    Mutation {
        name: "access-without-name",
        what: "lets people in by a login name that another VM has",
        file: ACCESS,
        edits: &[(
            "if !has_ssh_id(seen) {",
            "if seen.access_service.is_none() {",
        )],
        first: (Properties, "vm_laws::whoever"),
    },
    Mutation {
        name: "kept-without-finalizer",
        what: "leaves a VM running whose finalizer somebody took off before they deleted it",
        file: DELETE,
        edits: &[(
            "let (steps, waiting_for) = next(vm, seen);",
            "let (mut steps, waiting_for) = next(vm, seen);
             if vm.object.metadata.finalizers.iter().flatten().all(|it| it != VM_FINALIZER) {
                 steps.clear();
             }",
        )],
        first: (Scenarios, "races::a_vm_goes_also"),
    },
    Mutation {
        name: "led-to-what-is-anothers",
        what: "leads a domain to a Service that is not the VM's",
        file: EXPOSED,
        edits: &[(
            "host.filter(|_| may_lead && has_domain(seen))",
            "host.filter(|_| has_domain(seen))",
        )],
        first: (Scenarios, "exposure::nothing_leads"),
    },
    Mutation {
        name: "closed-while-made-anew",
        what: "takes an Ingress away while the Service that it leads to is made anew",
        file: EXPOSED,
        edits: &[(
            "is_led || former.is_some_and(|it| is_applied(&service::web(vm), it))",
            "is_led || former.is_some_and(|_| false)",
        )],
        first: (Scenarios, "exposure::what_leads_to_the_vm_stays"),
    },
    Mutation {
        name: "disk-before-machine",
        what: "deletes the disk before the VirtualMachine that writes to it",
        file: DELETE,
        edits: &[
            ("Self::Machine,\nSelf::Copies,\nSelf::Snapshots,\nSelf::Disk,", "Self::Disk, /**/"),
            ("/**/\nSelf::Claim,", "Self::Machine,\nSelf::Copies,\nSelf::Snapshots,\nSelf::Claim,"),
        ],
        first: (Sweep, "vm_deletion::crashes"),
    },
    Mutation {
        name: "disk-before-instance",
        what: "deletes the disk while the instance still writes to it",
        file: DELETE,
        edits: &[(
            "if part == Teardown::Machine && instance_is_ours(vm, seen) {",
            "if false && part == Teardown::Machine && instance_is_ours(vm, seen) {",
        )],
        first: (Properties, "vm_laws::"),
    },
    Mutation {
        name: "reachable-while-it-goes",
        what: "keeps the way in open while a VM is being deleted",
        file: DELETE,
        edits: &[("// Nobody is to be let in any more.\naccess: None,", "")],
        first: (Scenarios, "deletion::nobody"),
    },
    Mutation {
        name: "finalizer-off-too-early",
        what: "takes the finalizer off while something is still on its way out",
        file: DELETE,
        edits: &[(
            "!matches!(self, Self::Nothing)",
            "matches!(self, Self::Delete(_))",
        )],
        first: (Sweep, "vm_deletion::crashes"),
    },
    Mutation {
        name: "things-of-others-deleted",
        what: "deletes with a VM what has its names and is somebody else's",
        file: DELETE,
        edits: &[(
            "Standing::Foreign => Left::Nothing",
            "Standing::Foreign => Left::Delete(stored.clone().into())",
        )],
        first: (Scenarios, "deletion::what"),
    },
    Mutation {
        name: "disk-claim-not-awaited",
        what: "lets a VM go before the claim of its disk has gone",
        file: DELETE,
        edits: &[(
            "if was_of_a_disk { return Left::Leaving; }",
            "if was_of_a_disk { return Left::Nothing; }",
        )],
        first: (Properties, "vm_laws::"),
    },
    Mutation {
        name: "vm-claims-kept",
        what: "keeps the names of a VM that goes",
        file: DELETE,
        edits: &[(
            "let mut steps = seen.claims.release();",
            "let mut steps = Vec::new();",
        )],
        first: (Sweep, "vm_deletion::crashes"),
    },
    Mutation {
        name: "vm-claims-freed-first",
        what: "frees the names of a VM while it is still there",
        file: DELETE,
        edits: &[(
            "for part in Teardown::ALL {",
            "let names = seen.claims.release();
             if !names.is_empty() { return (names, Some(\"its names\")); }
             for part in Teardown::ALL {",
        )],
        first: (Sweep, "vm_deletion::crashes"),
    },
    Mutation {
        name: "owner-by-name",
        what: "takes what an earlier VM of its name left for its own",
        file: STANDING,
        edits: &[("controller.uid == ours.uid", "controller.name == ours.name")],
        first: (Properties, "vm_laws::what_belongs"),
    },
    Mutation {
        name: "dying-put-right",
        what: "writes to what is on its way out instead of waiting",
        file: STANDING,
        edits: &[(
            "(true, true) => Standing::Leaving,",
            "(true, true) => Standing::Ours,",
        )],
        first: (Properties, "vm_laws::"),
    },
    Mutation {
        name: "drift-unseen",
        what: "does not look whether what is there is as it should be",
        file: MATCHES,
        edits: &[(
            "covers(observed, desired, &mut Vec::new()) && !leftovers::any(observed, desired)",
            "covers(observed, desired, &mut Vec::new()) || !leftovers::any(observed, desired)",
        )],
        first: (Sweep, "drift::crashes"),
    },
    Mutation {
        name: "leftovers-unseen",
        what: "leaves fields behind that are not wanted any more",
        file: MATCHES,
        edits: &[(
            "covers(observed, desired, &mut Vec::new()) && !leftovers::any(observed, desired)",
            "covers(observed, desired, &mut Vec::new()) || leftovers::any(Tape::default().root(), desired)",
        )],
        first: (Scenarios, "life::what_is platform::an_annotation"),
    },
    Mutation {
        name: "apply-at-every-pass",
        what: "applies what is as it should be already",
        file: MATCHES,
        edits: &[(
            "covers(observed, desired, &mut Vec::new()) && !leftovers::any(observed, desired)",
            "!covers(observed, desired, &mut Vec::new()) && leftovers::any(observed, desired)",
        )],
        first: (Sweep, "sign_up::crashes"),
    },
    Mutation {
        name: "way-in-not-made",
        what: "does not make the Service that a VM's domain leads to",
        file: EXPOSED,
        edits: &[(
            "let is_led = draft.wanted(&service::web(draft.vm), stored);",
            "let is_led = stored.is_some() || true;",
        )],
        first: (Properties, "vm_laws::a_vm_that_was_made"),
    },
];
