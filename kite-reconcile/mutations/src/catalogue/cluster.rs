//! The requests themselves, and conditions.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const KUBE_CLUSTER: &str = "kite-core/cluster/src/kube_cluster.rs";
const CONDITIONS: &str = "kite-core/cluster/src/conditions.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "delete-without-uid",
        what: "deletes whatever has the name, not the object that was seen",
        file: KUBE_CLUSTER,
        edits: &[(
            "uid: Some(uid.to_owned()),",
            "uid: Some(uid.to_owned()).filter(|_| false),",
        )],
        first: (Scenarios, "races::what"),
    },
    Mutation {
        name: "finalizers-without-version",
        what: "writes finalizers over those that were put on meanwhile",
        file: KUBE_CLUSTER,
        edits: &[("\"resourceVersion\": object.resource_version(),", "")],
        first: (Scenarios, "races::a_finalizer"),
    },
    Mutation {
        name: "transition-time-always-now",
        what: "moves lastTransitionTime though the status did not change",
        file: CONDITIONS,
        edits: &[(
            ".map_or(Time(now), |old| old.last_transition_time.clone());",
            ".map_or(Time(now), |_| Time(now));",
        )],
        first: (Scenarios, "life::defect_10"),
    },
];
