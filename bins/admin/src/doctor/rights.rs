//! Whether whoever asks may install Kite.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kite_core::crd::KiteUser;
use kite_render::install::{Installation, Manifest};
use kube::{
    Api, Client,
    api::{ApiResource, ObjectMeta, PostParams},
};

use super::{
    facts::Facts,
    finding::{Finding, State},
};
use crate::install::may_be_pruned;

/// Questions that are under way at a time.
const AT_ONCE: usize = 16;
const RBAC: &str = "rbac.authorization.k8s.io";

/// What somebody may do, or not: a verb on a kind, or on one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// API group; empty for the core one.
    pub group: String,
    /// Plural of the kind, with a subresource behind `/`.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The namespace; none for all of them, and for kinds that are in none.
    pub namespace: Option<String>,
    /// The object; none for all of them.
    pub name: Option<String>,
}

impl Access {
    fn to(verb: &str, kind: &ApiResource, namespace: Option<&str>) -> Self {
        Self {
            group: kind.group.clone(),
            resource: kind.plural.clone(),
            verb: verb.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    /// All that a rule of a role allows.
    fn of_rule(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Self> {
        let names = rule.resource_names.iter().flatten().cloned().map(Some);
        let mut names: Vec<_> = names.collect();
        if names.is_empty() {
            names.push(None);
        }
        let mut all = Vec::new();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    all.extend(names.iter().map(|name| Self {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        namespace: namespace.map(str::to_owned),
                        name: name.clone(),
                    }));
                }
            }
        }
        all
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let (resource, below) = match self.resource.split_once('/') {
            Some((resource, below)) => (resource, Some(below.to_owned())),
            None => (&*self.resource, None),
        };
        SelfSubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(self.verb.clone()),
                    group: Some(self.group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: below,
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                    ..ResourceAttributes::default()
                }),
                non_resource_attributes: None,
            },
            status: None,
        }
    }
}

/// Rights, and whether whoever asks has them; `None` where that could not be found out.
pub type Answers = Vec<(Access, Option<bool>)>;

/// What installing these takes, and bringing them to another version, but for the
/// rights that are given away by roles.
pub fn needed_to_install(namespace: &str, manifests: &[Manifest]) -> Vec<Access> {
    let mut needed = BTreeSet::new();
    for manifest in manifests {
        let kind = manifest.resource();
        let there = manifest.metadata().namespace.as_deref();
        // Server-side apply is a patch, and creates what is not there.
        needed.extend(["get", "create", "patch"].map(|verb| Access::to(verb, &kind, there)));
    }
    // What an earlier version installed, wherever that is.
    for kind in may_be_pruned() {
        needed.extend(["list", "delete"].map(|verb| Access::to(verb, &kind, None)));
    }
    // Whether there is an administrator; the token of the first one.
    let users = ApiResource::erase::<KiteUser>(&());
    needed.insert(Access::to("list", &users, None));
    let secrets = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
    needed.extend(["create", "get"].map(|verb| Access::to(verb, &secrets, Some(namespace))));
    needed.into_iter().collect()
}

/// Asks for what any installation may take.
pub(super) async fn of_any(client: &Client, namespace: &str) -> Answers {
    let mut installation = Installation::default();
    namespace.clone_into(&mut installation.namespace);
    let manifests = installation.manifests();
    let mut needed: BTreeSet<_> = needed_to_install(namespace, &manifests)
        .into_iter()
        .collect();
    // Those of options, too.
    for kind in Manifest::resources() {
        let applied = |it: &Access| it.verb == "patch" && it.resource == kind.plural;
        if !needed.iter().any(applied) {
            needed.extend(["get", "create", "patch"].map(|verb| Access::to(verb, &kind, None)));
        }
    }
    ask_all(client, needed.into_iter().collect(), &manifests).await
}

/// Whether whoever asks may install these in `namespace`.
pub async fn may_install(client: &Client, namespace: &str, manifests: &[Manifest]) -> Finding {
    let needed = needed_to_install(namespace, manifests);
    judge(&ask_all(client, needed, manifests).await)
}

async fn ask_all(client: &Client, needed: Vec<Access>, manifests: &[Manifest]) -> Answers {
    let mut answers = ask(client, needed).await;
    answers.extend(to_give(client, manifests).await);
    answers
}

/// Whether whoever asks may give the rights away that these roles allow: those who hold
/// all of them may, and those who may `escalate` and `bind` whatever they hold.
async fn to_give(client: &Client, manifests: &[Manifest]) -> Answers {
    let trusted = ["clusterroles", "roles"].map(|resource| {
        ["escalate", "bind"].map(|verb| Access {
            group: RBAC.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            namespace: None,
            name: None,
        })
    });
    let mut answers = ask(client, trusted.into_iter().flatten().collect()).await;
    let is_trusted = answers.iter().all(|(_, allowed)| *allowed == Some(true));
    if !is_trusted && holds(client, given_by(manifests)).await {
        for (_, allowed) in &mut answers {
            *allowed = Some(true);
        }
    }
    answers
}

/// All that the roles among these allow.
fn given_by(manifests: &[Manifest]) -> Vec<Access> {
    let rules = manifests.iter().filter_map(|manifest| match manifest {
        Manifest::ClusterRole(role) => Some((role.rules.as_ref()?, None)),
        Manifest::Role(role) => Some((role.rules.as_ref()?, role.metadata.namespace.as_deref())),
        _ => None,
    });
    let all: BTreeSet<_> = rules
        .flat_map(|(rules, namespace)| rules.iter().map(move |rule| (rule, namespace)))
        .flat_map(|(rule, namespace)| Access::of_rule(rule, namespace))
        .collect();
    all.into_iter().collect()
}

/// Whether whoever asks has all of these. The first that is missing is the last that is
/// asked for, but for those that are under way.
async fn holds(client: &Client, rights: Vec<Access>) -> bool {
    answers(client, rights)
        .all(|(_, allowed)| std::future::ready(allowed == Some(true)))
        .await
}

/// Asks for each of them.
async fn ask(client: &Client, needed: Vec<Access>) -> Answers {
    answers(client, needed).collect().await
}

fn answers(
    client: &Client,
    needed: Vec<Access>,
) -> impl stream::Stream<Item = (Access, Option<bool>)> {
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let asked = stream::iter(needed).map(move |access| {
        let reviews = reviews.clone();
        async move {
            let answer = reviews
                .create(&PostParams::default(), &access.review())
                .await;
            let status = answer.ok().and_then(|it| it.status);
            (access, status.map(|status| status.allowed))
        }
    });
    asked.buffered(AT_ONCE)
}

pub(super) fn rights(facts: &Facts) -> Finding {
    judge(&facts.rights)
}

fn judge(answers: &[(Access, Option<bool>)]) -> Finding {
    let check = "rights";
    let refused = answers
        .iter()
        .filter(|(_, allowed)| *allowed == Some(false))
        .map(|(access, _)| access);
    let refused = told(refused);
    if !refused.is_empty() {
        return Finding::of(
            check,
            State::Warning,
            format!("you may not {refused}"),
            "install as somebody who may, such as a cluster administrator; Kite's own processes \
             need less",
        );
    }
    if answers.iter().any(|(_, allowed)| allowed.is_none()) {
        return Finding::of(
            check,
            State::Unknown,
            "it could not be found out what you may do",
            "see kubectl auth can-i --list",
        );
    }
    Finding::fit(check, "you may install Kite here")
}

/// The verbs of each kind.
fn told<'a>(rights: impl Iterator<Item = &'a Access>) -> String {
    let mut kinds: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for access in rights {
        let kind = (&*access.resource, &*access.group);
        kinds.entry(kind).or_default().insert(&*access.verb);
    }
    let kinds = kinds.into_iter().map(|((resource, group), verbs)| {
        let dot = if group.is_empty() { "" } else { "." };
        let verbs: Vec<_> = verbs.into_iter().collect();
        format!("{} {resource}{dot}{group}", verbs.join("/"))
    });
    kinds.collect::<Vec<_>>().join(", ")
}
