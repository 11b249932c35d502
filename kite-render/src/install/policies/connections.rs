//! Who writes the sessions of people in VMs: they are evidence.

use kite_core::crd;

use super::{CLUSTER, Policy, Process, is_administrator, usernames};

/// Sessions in VMs are written by whoever carries them, the gateway and the API. Others
/// may say that one is to end, and nothing else: what tells who was in a VM must not be
/// made up by who was, nor taken away.
pub(super) fn connections(namespace: &str) -> Policy {
    let by = usernames(&[Process::Gateway, Process::Api], namespace);
    let only_end = "dyn(object.spec).all(it, it == 'end' || \
                    (it in dyn(oldObject.spec) && dyn(object.spec)[it] == dyn(oldObject.spec)[it])) \
                    && dyn(oldObject.spec).all(it, it == 'end' || it in dyn(object.spec))";
    Policy {
        name: "kite-connections",
        about: vec![(
            crd::GROUP,
            vec!["kiteconnections"],
            vec!["CREATE", "UPDATE", "DELETE"],
        )],
        when: vec![(
            "by-others",
            format!("!(request.userInfo.username in [{by}])"),
        )],
        rules: vec![
            (
                "request.operation != 'CREATE'".to_owned(),
                "sessions in VMs are written by the SSH gateway and the API, which carry them"
                    .to_owned(),
            ),
            (
                format!("request.operation != 'UPDATE' || ({only_end})"),
                "of a session in a VM others may set spec.end, and nothing else".to_owned(),
            ),
            // It goes with its namespace, too.
            (
                format!(
                    "request.operation != 'DELETE' || {CLUSTER} || {}",
                    is_administrator()
                ),
                "sessions in VMs are evidence: Kite removes them after 30 days, and administrators \
                 of the cluster may"
                    .to_owned(),
            ),
        ],
    }
}
