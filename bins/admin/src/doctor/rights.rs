//! Whether whoever asks may install Kite.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::{
    facts::Facts,
    finding::{Finding, State},
};

/// What somebody may do, or not: a verb on a kind, in all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The verb.
    pub verb: &'static str,
    /// API group; empty for the core one.
    pub group: &'static str,
    /// Plural of the kind.
    pub resource: &'static str,
}

/// What installing Kite takes.
pub fn needed_to_install() -> Vec<Access> {
    let kinds = [
        ("", "namespaces"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("", "secrets"),
        ("apps", "deployments"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("storage.k8s.io", "storageclasses"),
        ("hy3ons.github.io", "kiteplatforms"),
        ("hy3ons.github.io", "kiteimages"),
    ];
    // Server-side apply is a patch, and creates what is not there.
    ["create", "patch"]
        .into_iter()
        .flat_map(|verb| {
            kinds.map(|(group, resource)| Access {
                verb,
                group,
                resource,
            })
        })
        .collect()
}

/// Asks for each of them.
pub(super) async fn ask(client: &Client, needed: Vec<Access>) -> Vec<(Access, Option<bool>)> {
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut answers = Vec::with_capacity(needed.len());
    for access in needed {
        let review = SelfSubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(access.verb.to_owned()),
                    group: Some(access.group.to_owned()),
                    resource: Some(access.resource.to_owned()),
                    ..ResourceAttributes::default()
                }),
                non_resource_attributes: None,
            },
            status: None,
        };
        let answer = reviews.create(&PostParams::default(), &review).await;
        let allowed = answer.ok().and_then(|it| it.status);
        answers.push((access, allowed.map(|status| status.allowed)));
    }
    answers
}

pub(super) fn rights(facts: &Facts) -> Finding {
    let check = "rights";
    let refused: Vec<_> = facts
        .rights
        .iter()
        .filter(|(_, allowed)| *allowed == Some(false))
        .map(|(access, _)| format!("{} {}", access.verb, access.resource))
        .collect();
    if !refused.is_empty() {
        return Finding::of(
            check,
            State::Warning,
            format!("you may not {}", refused.join(", ")),
            "install as somebody who may, such as a cluster administrator; Kite's own processes \
             need less",
        );
    }
    if facts.rights.iter().any(|(_, allowed)| allowed.is_none()) {
        return Finding::of(
            check,
            State::Unknown,
            "it could not be found out what you may do",
            "see kubectl auth can-i --list",
        );
    }
    Finding::fit(check, "you may install Kite here")
}
