//! What nobody gets by asking twice, or by asking in the right moment.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios};

const QUOTA: &str = "kite-reconcile/src/vm/quota.rs";
const JUDGE: &str = "kite-reconcile/src/vm/quota/judge.rs";
const OFFER: &str = "kite-reconcile/src/offer.rs";
const IMAGE: &str = "kite-reconcile/src/image/mod.rs";
const USER: &str = "kite-reconcile/src/user/mod.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "former-domain-shared",
        what: "gives a former domain back while something still leads from it",
        file: "kite-reconcile/src/vm/reserved.rs",
        edits: &[(
            "!exposed::leads_from(vm, seen, claim)",
            "!exposed::leads_from(vm, seen, claim) || true",
        )],
        first: (Scenarios, "exposure::a_"),
    },
    Mutation {
        name: "machine-grown-over-quota",
        what: "gives a VM that is there more than its owner may have",
        file: "kite-reconcile/src/vm/machine.rs",
        edits: &[(
            "let fitted = draft.fitted();",
            "let fitted = std::borrow::Cow::Borrowed(draft.vm.object);",
        )],
        first: (Scenarios, "quotas::"),
    },
    Mutation {
        name: "disk-grown-over-quota",
        what: "grows a disk beyond its owner's quota",
        file: "kite-reconcile/src/vm/disk.rs",
        edits: &[(
            "let wanted = wanted_disk(vm, &draft.share);",
            "let wanted = &vm.object.spec.disk;",
        )],
        first: (Scenarios, "quotas::"),
    },
    Mutation {
        name: "quota-counts-itself-only",
        what: "forgets the owner's other VMs when one is to have more",
        file: JUDGE,
        edits: &[(
            "if other.metadata.uid.as_deref() == Some(vm.uid) {",
            "if other.metadata.uid.as_deref() == Some(vm.uid) || true {",
        )],
        first: (Scenarios, "quotas::"),
    },
    Mutation {
        name: "quota-by-an-old-view",
        what: "gives what it asked for without having seen who else has",
        file: JUDGE,
        edits: &[(
            "if self.is_current && fits(&self.others) {",
            "if fits(&self.others) {",
        )],
        first: (Properties, "quota_laws::"),
    },
    Mutation {
        name: "quota-asked-in-silence",
        what: "gives what nobody was told that it is asked for",
        file: QUOTA,
        edits: &[(
            "let has_asked = amount == field.in_size(&asked);",
            "let has_asked = { let _ = &asked; true };",
        )],
        first: (Properties, "quota_laws::"),
    },
    Mutation {
        name: "quota-less-than-asked-in-silence",
        what: "gives less than the status says is asked for",
        file: QUOTA,
        edits: &[(
            "let has_asked = amount == field.in_size(&asked);",
            "let has_asked = amount <= field.in_size(&asked);",
        )],
        first: (Properties, "quota_laws::a_disk"),
    },
    Mutation {
        name: "rivals-asks-overlooked",
        what: "charges other VMs with nothing that they are about to have",
        file: JUDGE,
        edits: &[(
            "others = others.plus(other.charge());",
            "others = others.plus(other.granted_charge());",
        )],
        first: (Properties, "quota_laws::"),
    },
    Mutation {
        name: "grant-taken-away",
        what: "gives a VM less than it was granted when the quota has become smaller",
        file: QUOTA,
        edits: &[(
            "let answer = if amount <= field.in_size(&held) {",
            "let answer = if false && amount <= field.in_size(&held) {",
        )],
        first: (Properties, "quota_laws::"),
    },
    Mutation {
        name: "running-cpus-given-away",
        what: "gives others what an instance still has",
        file: QUOTA,
        edits: &[(
            "let granted = in_use(&size, &held, seen, has_disk.as_ref());",
            "let granted = size.clone(); let _ = in_use;",
        )],
        first: (Scenarios, "quotas::what_still"),
    },
    Mutation {
        name: "used-up-offer-free-again",
        what: "frees a used-up offer when its VM has gone unnoticed",
        file: OFFER,
        edits: &[(
            "(Some(claim), None) if claim.spec.fulfilled",
            "(Some(claim), None) if false && claim.spec.fulfilled",
        )],
        first: (Scenarios, "offers::a_"),
    },
    Mutation {
        name: "offer-not-noted",
        what: "does not note in the claim that the offer is used up",
        file: "kite-reconcile/src/vm/offer.rs",
        edits: &[(
            "draft.steps.extend(note(vm, seen));",
            "draft.steps.extend(note(vm, seen).filter(|_| false));",
        )],
        first: (Scenarios, "offers::"),
    },
    Mutation {
        name: "family-of-a-later-image",
        what: "makes a guest what a later image of the same name is",
        file: "kite-reconcile/src/vm/image.rs",
        edits: &[("of_disk.or_else(", "of_disk.filter(|_| false).or_else(")],
        first: (Scenarios, "images::a_later"),
    },
    Mutation {
        name: "early-clone-overlooked",
        what: "deletes an image that a disk of a new VM is cloned from",
        file: IMAGE,
        edits: &[(
            "refers_to(disk, source) ||",
            "false && refers_to(disk, source) ||",
        )],
        first: (Scenarios, "images::an_image_waits"),
    },
    Mutation {
        name: "api-server-reached",
        what: "lets VMs reach an API server that is on no node",
        file: USER,
        edits: &[(".chain(kite_render::isolation::endpoints(&servers))", "")],
        first: (Scenarios, "users::vms_are"),
    },
    Mutation {
        name: "vm-without-network-policies",
        what: "makes a VM in a user's namespace without a user",
        file: "kite-reconcile/src/vm/isolation.rs",
        edits: &[(
            "let Some(owner) = &seen.owner else {",
            "let Some(owner) = &seen.owner else { return None };
             let Some(owner) = Some(owner) else {",
        )],
        first: (Scenarios, "quotas::nothing"),
    },
];
