//! The reconciler of the platform.

use super::Mutation;
use crate::suite::Suite::{Properties, Sweep};

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "platform-left-exposed",
        what: "leaves the gateway's Service though the gateway is not to be exposed",
        file: "kite-reconcile/src/platform/gateway.rs",
        edits: &[("remove(platform, &mut steps, seen.service.as_ref());", "")],
        first: (Sweep, "platform_exposure::crashes"),
    },
    Mutation {
        name: "platform-service-made-anew-for-ever",
        what: "deletes the gateway's Service and makes it anew, again and again",
        file: "kite-reconcile/src/platform/gateway.rs",
        edits: &[(
            "type_ == was && class.as_ref() != Some(&wanted)",
            "type_ == was && (class.as_ref() == Some(&wanted) || class.is_none())",
        )],
        first: (Sweep, "platform_exposure::crashes"),
    },
    Mutation {
        name: "platform-takes-what-is-anothers",
        what: "deletes what has the names of the platform's and is somebody else's",
        file: "kite-reconcile/src/platform/part.rs",
        edits: &[(
            "standing(stored.meta(), &like) == Standing::Ours",
            "standing(stored.meta(), &like) != Standing::Leaving",
        )],
        first: (Properties, "platform_laws::nothing"),
    },
    Mutation {
        name: "old-way-down-first",
        what: "takes the platform's Ingress down before the route stands",
        file: "kite-reconcile/src/platform/web.rs",
        edits: &[(
            "let mut steps = Vec::new();
             let wanted = want(&mut steps, &desired, seen.route.as_ref(), WEB_EXPOSED)",
            "let mut steps = Vec::new();
             remove(platform, &mut steps, seen.ingress.as_ref());
             let wanted = want(&mut steps, &desired, seen.route.as_ref(), WEB_EXPOSED)",
        )],
        first: (Properties, "platform_laws::an_ingress"),
    },
    Mutation {
        name: "platform-elsewhere",
        what: "exposes the platform from another tenant's namespace",
        file: "kite-reconcile/src/platform/web.rs",
        edits: &[(
            "let desired = web::ingress(platform, host);",
            "let mut desired = web::ingress(platform, host);
             desired.metadata.namespace = Some(\"kite-user-bob\".to_owned());",
        )],
        first: (Properties, "platform_laws::nothing"),
    },
    Mutation {
        name: "platform-way-not-made",
        what: "does not make the way in that is asked for",
        file: "kite-reconcile/src/platform/part.rs",
        edits: &[(
            "steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));",
            "if K::kind(&()) != \"Ingress\" { steps.push(Step::Change(Change::Apply(guarded(desired, stored).into()))); }",
        )],
        first: (Properties, "platform_laws::what"),
    },
];
