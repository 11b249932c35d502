//! In which order groups and versions are named: the first is preferred.

use std::cmp::Reverse;

use crate::registry::Registry;

/// Groups of Kubernetes itself, most important first; all others follow by name.
const KNOWN: [&str; 19] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The named groups that are served.
pub(crate) fn groups(registry: &Registry) -> Vec<String> {
    let mut groups: Vec<String> = registry
        .iter()
        .map(|r| r.group.clone())
        .filter(|g| !g.is_empty())
        .collect();
    groups.sort_by_key(|group| {
        (
            KNOWN.iter().position(|k| k == group).unwrap_or(KNOWN.len()),
            group.clone(),
        )
    });
    groups.dedup();
    groups
}

/// The served versions of a group.
pub(crate) fn versions(registry: &Registry, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = registry.group(group).map(|r| r.version.clone()).collect();
    versions.sort_by_key(|version| priority(version));
    versions.dedup();
    versions
}

/// Kubernetes' order of versions: `v10, v2, v1, v2beta1, v1beta2, v1alpha1`, then others by name.
fn priority(version: &str) -> (u8, Reverse<u64>, Reverse<u64>, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let major = rest[..digits].parse::<u64>().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (0, "0"),
            tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                (Some(minor), _) => (1, minor),
                (_, Some(minor)) => (2, minor),
                _ => return None,
            },
        };
        Some((stage, Reverse(major), Reverse(minor.parse().ok()?)))
    });
    let (stage, major, minor) = parsed.unwrap_or((3, Reverse(0), Reverse(0)));
    (stage, major, minor, version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_greater_ones_before_smaller() {
        let mut versions = [
            "foo10", "v1alpha1", "v2", "v11beta2", "v10", "foo1", "v3beta1", "v1",
        ];
        versions.sort_by_key(|v| priority(v));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v11beta2", "v3beta1", "v1alpha1", "foo1", "foo10"
            ]
        );
    }
}
