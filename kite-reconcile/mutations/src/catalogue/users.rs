//! The reconcilers of users and images.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios, Sweep};

const USER: &str = "kite-reconcile/src/user/plan.rs";
const ISOLATION: &str = "kite-reconcile/src/user/isolation.rs";
const DRAFT: &str = "kite-reconcile/src/user/draft.rs";
const IMAGE: &str = "kite-reconcile/src/image/import.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "user-finalizer-skipped",
        what: "makes a user's namespace without the finalizer",
        file: "kite-reconcile/src/stage.rs",
        edits: &[(
            "if self.is_on(draft.meta()) {",
            "if self.is_on(draft.meta()) || self.0 == kite_core::labels::USER_FINALIZER {",
        )],
        first: (Sweep, "user_deletion::crashes"),
    },
    Mutation {
        name: "network-policies-before-vms",
        what: "deletes a user's namespace, and the network policies in it, before the VMs",
        file: "kite-reconcile/src/user/delete.rs",
        edits: &[(
            "if !seen.vms.is_empty() {",
            "if false && !seen.vms.is_empty() {",
        )],
        first: (Sweep, "user_deletion::crashes"),
    },
    Mutation {
        name: "network-policies-let-go-under-machines",
        what: "lets go of network policies that somebody deleted while machines run behind them",
        file: ISOLATION,
        edits: &[("!seen.has_machines && (", "(")],
        first: (Sweep, "namespace_deletion::crashes"),
    },
    Mutation {
        name: "network-policies-held-for-ever",
        what: "holds the network policies of a namespace that goes though nothing runs in it",
        file: ISOLATION,
        edits: &[(
            "(Some(_), Some(held)) if may_fall => {",
            "(Some(_), Some(held)) if may_fall && !is_ending => {",
        )],
        first: (Sweep, "user_deletion::crashes"),
    },
    Mutation {
        name: "network-policies-not-held",
        what: "makes network policies without the finalizer",
        file: "kite-render/src/isolation.rs",
        edits: &[(
            "finalizers: Some(vec![NETWORK_POLICY_FINALIZER.to_owned()]),",
            "finalizers: Some(vec![NETWORK_POLICY_FINALIZER.to_owned()]).filter(|_| false),",
        )],
        first: (Sweep, "namespace_deletion::crashes"),
    },
    Mutation {
        name: "network-policies-not-put-right",
        what: "leaves a network policy open that somebody has opened",
        file: DRAFT,
        edits: &[(
            "if !stored.is_some_and(|stored| is_applied(desired, stored)) {",
            "if !stored.is_some_and(|stored| is_applied(stored, stored)) {",
        )],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "namespace-of-others-deleted",
        what: "deletes a namespace that has a user's name and is somebody else's",
        file: "kite-reconcile/src/user/delete.rs",
        edits: &[
            (
                "matches!(ours, Some(Standing::Ours | Standing::Leaving))",
                "ours.is_some()",
            ),
            (
                "(Some(stored), Some(Standing::Ours)) => {",
                "(Some(stored), _) => {",
            ),
        ],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "user-claims-kept",
        what: "keeps the username and the email of a user who goes",
        file: "kite-reconcile/src/user/delete.rs",
        edits: &[(
            "let mut steps = seen.claims.release();",
            "let mut steps = Vec::new();",
        )],
        first: (Sweep, "user_deletion::crashes"),
    },
    Mutation {
        name: "image-disk-before-its-name",
        what: "deletes an image's disk while clones of it can still begin",
        file: "kite-reconcile/src/image/delete.rs",
        edits: &[(
            "seen.source.clone().map(AnyObject::from),
             seen.disk.clone().map(AnyObject::from)",
            "seen.disk.clone().map(AnyObject::from),
             seen.source.clone().map(AnyObject::from)",
        )],
        first: (Properties, "image_laws::"),
    },
    Mutation {
        name: "suspended-means-deleted",
        what: "deletes the VMs of a user who is only suspended",
        file: USER,
        edits: &[(
            "if object.metadata.deletion_timestamp.is_some() {
                return Ok(delete::plan(&user, seen, settings));",
            "if object.metadata.deletion_timestamp.is_some() || object.spec.suspended {
                return Ok(delete::plan(&user, seen, settings));",
        )],
        first: (Sweep, "suspension::crashes"),
    },
    Mutation {
        name: "namespace-of-others-used",
        what: "builds a user's network policies in a namespace that is somebody else's",
        file: "kite-reconcile/src/user/namespace.rs",
        edits: &[(
            "return draft.wait(\"NameTaken\", message);",
            "drop(message);",
        )],
        first: (Properties, "user_laws::no_tenant"),
    },
    Mutation {
        name: "quota-not-made",
        what: "tells a user of a namespace without a quota",
        file: "kite-reconcile/src/user/quota.rs",
        edits: &[("want(&mut draft.steps, &quota, seen.quota.as_ref());", "drop(quota);")],
        first: (Properties, "user_laws::a_namespace"),
    },
    Mutation {
        name: "failed-image-deleted",
        what: "deletes an image's disk whose import failed, to make it anew",
        file: IMAGE,
        edits: &[(
            "let Some(mut desired) = image::data_volume(image, &seen.platform) else {",
            "if let Some(disk) = seen.disk.clone().filter(|disk| {
                 disk.metadata.deletion_timestamp.is_none()
                     && disk.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(\"Failed\")
             }) {
                 let deletion = crate::plan::Change::Delete(disk.into(), kube::api::PropagationPolicy::Background);
                 draft.steps.push(crate::plan::Step::Change(deletion));
                 return Flow::Stop;
             }
             let Some(mut desired) = image::data_volume(image, &seen.platform) else {",
        )],
        first: (Properties, "image_laws::"),
    },
    Mutation {
        name: "image-elsewhere",
        what: "makes an image's disk in a tenant's namespace",
        file: IMAGE,
        edits: &[(
            "draft.want(&desired, seen.disk.as_ref())",
            "desired.metadata.namespace = Some(\"kite-user-bob\".to_owned());
             draft.want(&desired, seen.disk.as_ref())",
        )],
        first: (Properties, "image_laws::"),
    },
    Mutation {
        name: "image-without-a-name",
        what: "does not make the DataSource that VMs clone an image by",
        file: "kite-reconcile/src/image/source.rs",
        edits: &[(
            "return draft.want(&desired, seen.source.as_ref());",
            "drop(desired); return Flow::Next;",
        )],
        first: (Properties, "image_laws::"),
    },
    Mutation {
        name: "network-policies-applied-for-ever",
        what: "applies a user's network policies and quota though they stand",
        file: DRAFT,
        edits: &[(
            "if !stored.is_some_and(|stored| is_applied(desired, stored)) {",
            "if stored.is_none_or(|stored| is_applied(desired, stored)) {",
        )],
        first: (Properties, "user_laws::no_step"),
    },
    Mutation {
        name: "image-applied-for-ever",
        what: "applies what an image consists of though it is as it should be",
        file: "kite-reconcile/src/image/draft.rs",
        edits: &[(
            "Needed::Nothing => return Flow::Next, Needed::Apply => {",
            "Needed::Nothing | Needed::Apply => {",
        )],
        first: (Properties, "image_laws::every"),
    },
];
