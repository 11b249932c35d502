//! The row of a Deployment's `ReplicaSet`s: each has a number, and the newest template
//! the highest.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::scale::Sets;
use super::set::{DESIRED, HISTORY, MAXIMUM, REVISION, Set, with_hash};
use super::strategy::Strategy;
use crate::actors::kind::DEPLOYMENT;
use crate::actors::objects::controller_reference;
use crate::actors::workloads::hash;

/// What is a Deployment's own and not copied to its sets.
const OWN: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

/// Parts the sets of a Deployment into the one of its template and the others.
pub(super) fn sets(deployment: &DynamicObject, mut all: Vec<Set>) -> Sets {
    all.sort_by(Set::by_age);
    let template = &deployment.data["spec"]["template"];
    let at = all.iter().position(|set| set.is_of(template));
    let newest = at.map(|at| all.remove(at));
    Sets { newest, old: all }
}

/// The number of the newest set.
pub(super) fn next(sets: &Sets) -> i64 {
    sets.old.iter().map(Set::revision).max().unwrap_or(0) + 1
}

fn copied(deployment: &DynamicObject) -> impl Iterator<Item = (&String, &String)> {
    let annotations = deployment.metadata.annotations.iter().flatten();
    annotations.filter(|(name, _)| !OWN.contains(&name.as_str()))
}

/// What the newest set lacks of its Deployment's annotations, and its number, if it is
/// too low: it served before, and is now gone back to.
pub(super) fn annotations(
    deployment: &DynamicObject,
    set: &Set,
    revision: i64,
) -> Map<String, Value> {
    let mut changes = Map::new();
    for (name, value) in copied(deployment) {
        if set.annotation(name) != Some(value) {
            changes.insert(name.clone(), json!(value));
        }
    }
    if set.revision() < revision {
        if let Some(before) = set.annotation(REVISION) {
            let history = set.annotation(HISTORY).filter(|it| !it.is_empty());
            let history = history.map_or_else(|| before.to_owned(), |it| format!("{it},{before}"));
            changes.insert(HISTORY.to_owned(), json!(history));
        }
        changes.insert(REVISION.to_owned(), json!(revision.to_string()));
    }
    changes
}

/// How many replicas the Deployment asks for, and may have: each set that is scaled
/// remembers it.
pub(super) fn asked(strategy: Strategy) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (DESIRED, strategy.replicas.to_string()),
        (MAXIMUM, strategy.most().to_string()),
    ])
}

/// A new `ReplicaSet` for the Deployment's template, with the number `revision`.
pub(super) fn new_set(
    deployment: &DynamicObject,
    strategy: Strategy,
    replicas: i64,
    revision: i64,
) -> Value {
    let spec = &deployment.data["spec"];
    let collisions = deployment.data["status"]["collisionCount"].as_u64();
    let hash = hash::of(&spec["template"], collisions.unwrap_or_default());
    let mut template = spec["template"].clone();
    template["metadata"]["labels"] = with_hash(&template["metadata"]["labels"], &hash);
    let mut selector = spec["selector"].clone();
    selector["matchLabels"] = with_hash(&selector["matchLabels"], &hash);
    let mut annotations = json!(asked(strategy));
    for (name, value) in copied(deployment) {
        annotations[name] = json!(value);
    }
    annotations[REVISION] = json!(revision.to_string());
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    json!({
        "metadata": {
            "name": format!("{name}-{hash}"),
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [controller_reference(&DEPLOYMENT, deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec["minReadySeconds"].as_i64().unwrap_or_default(),
            "selector": selector,
            "template": template,
        },
    })
}

/// Old sets that the Deployment does not want to remember: the lowest numbers first, as
/// long as nothing of them is there.
pub(super) fn forgotten<'a>(deployment: &DynamicObject, sets: &'a Sets) -> Vec<&'a Set> {
    let Some(limit) = deployment.data["spec"]["revisionHistoryLimit"].as_u64() else {
        return Vec::new();
    };
    let mut old: Vec<&Set> = sets.old.iter().filter(|set| !set.is_deleting()).collect();
    old.sort_by(|a, b| a.revision().cmp(&b.revision()).then(a.by_age(b)));
    let surplus = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    old.truncate(surplus);
    old.retain(|set| set.is_empty());
    old
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::set::HASH;
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn deployment(image: &str) -> DynamicObject {
        object(json!({
            "metadata": {"name": "web", "annotations": {"team": "a", REVISION: "1"}},
            "spec": {
                "replicas": 2, "revisionHistoryLimit": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": image}},
            },
        }))
    }

    fn made(image: &str, revision: i64) -> Set {
        let web = deployment(image);
        let strategy = Strategy::of(&web.data["spec"]);
        let mut body = new_set(&web, strategy, 2, revision);
        body["status"] = json!({});
        Set::of(object(body).into())
    }

    #[test]
    fn a_set_has_the_hash_in_its_labels_and_is_found_by_its_template() {
        let set = made("a", 1);
        let hash = &set.object.metadata.labels.as_ref().unwrap()[HASH];
        assert_eq!(set.name(), format!("web-{hash}"));
        let spec = &set.object.data["spec"];
        assert_eq!(spec["selector"]["matchLabels"][HASH], *hash);
        assert_eq!(spec["template"]["metadata"]["labels"][HASH], *hash);
        assert_eq!(set.annotation("team"), Some("a"));
        assert_eq!(
            (set.number(DESIRED), set.number(MAXIMUM)),
            (Some(2), Some(3))
        );
        let sets = sets(&deployment("a"), vec![made("b", 2), set]);
        assert_eq!(sets.newest.as_ref().unwrap().revision(), 1);
        assert_eq!(next(&sets), 3);
    }

    #[test]
    fn who_is_gone_back_to_has_a_new_number_and_remembers_the_old() {
        let changes = annotations(&deployment("a"), &made("a", 1), 3);
        let expected = json!({REVISION: "3", HISTORY: "1"});
        assert_eq!(Value::Object(changes), expected);
        assert!(annotations(&deployment("a"), &made("a", 3), 3).is_empty());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut empty = made("a", 1);
        empty.replicas = 0;
        let mut later = made("b", 2);
        later.replicas = 0;
        let sets = sets(&deployment("c"), vec![later, empty, made("c", 3)]);
        let gone = forgotten(&deployment("c"), &sets);
        assert_eq!(
            gone.iter().map(|set| set.revision()).collect::<Vec<_>>(),
            [1]
        );
    }
}
