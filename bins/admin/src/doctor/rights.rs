//! Whether whoever asks may install Kite.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kite_render::install::Manifest;
use kube::{
    Api, Client,
    api::{ApiResource, ObjectMeta, PostParams},
};

use super::{
    facts::Facts,
    finding::{Finding, State},
};

/// What somebody may do, or not: a verb on a kind, in all namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The verb.
    pub verb: &'static str,
    /// API group; empty for the core one.
    pub group: String,
    /// Plural of the kind.
    pub resource: String,
}

/// What installing Kite takes, and bringing it to another version.
pub fn needed_to_install() -> Vec<Access> {
    let kinds = Manifest::resources();
    // Server-side apply is a patch, and creates what is not there.
    let applied = ["create", "patch", "delete"].into_iter().flat_map(|verb| {
        let access = move |kind: &ApiResource| Access {
            verb,
            group: kind.group.clone(),
            resource: kind.plural.clone(),
        };
        kinds.iter().map(access).collect::<Vec<_>>()
    });
    // The first administrator's token.
    let token = ["create", "get"].map(|verb| Access {
        verb,
        group: String::new(),
        resource: "secrets".to_owned(),
    });
    applied.chain(token).collect()
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
                    group: Some(access.group.clone()),
                    resource: Some(access.resource.clone()),
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
