//! Roles for people who work with `kubectl`: bound by administrators of the cluster, to
//! nobody by themselves.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kite_core::crd;

use super::metadata;

/// The role for a user's own namespace. Of Kubernetes' own, `edit` reads the keys of VMs
/// and makes pods, and so is none for tenants.
const TENANT: &str = "kite-tenant";
/// The role for the catalogue, which is in no namespace.
const CATALOGUE: &str = "kite-catalogue";

const READ: [&str; 3] = ["get", "list", "watch"];

/// Both of them.
pub(super) fn roles() -> [ClusterRole; 2] {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| {
        let all = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(all(resources)),
            verbs: all(verbs),
            ..PolicyRule::default()
        }
    };
    let cluster_role = |name: &str, rules| ClusterRole {
        metadata: metadata::common(name, None),
        rules: Some(rules),
        aggregation_rule: None,
    };
    let write = [&READ[..], &["create", "update", "patch", "delete"]].concat();
    [
        cluster_role(
            TENANT,
            vec![
                rule(
                    crd::GROUP,
                    &["kitevirtualmachines", "kitesnapshots", "kitevolumes"],
                    &write,
                ),
                rule(crd::GROUP, &["kiteconnections"], &READ),
                rule("", &["resourcequotas", "events"], &READ),
                rule("events.k8s.io", &["events"], &READ),
            ],
        ),
        cluster_role(CATALOGUE, vec![rule(crd::GROUP, &["kiteimages"], &READ)]),
    ]
}
