//! Who may install Kite, and who is told before anything is done that they may not.

use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kite_admin::{
    doctor::{Finding, State, may_install},
    install::{apply, first_admin, prune, require_here},
};
use kite_fake::FakeCluster;
use kite_render::install::{Installation, Manifest, Profile};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

/// The namespace in which Kite is.
const KITE: &str = "kite";
/// What is done to objects of whatever kind.
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

/// A cluster, and somebody on it who may do what these rules allow, everywhere.
async fn operator(rules: &[Value]) -> (FakeCluster, Client) {
    let cluster = FakeCluster::builder().rbac(true).build().unwrap();
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "operator"}, "rules": rules,
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
    }))
    .unwrap();
    let params = PostParams::default();
    let all = Api::<ClusterRole>::all(cluster.client());
    all.create(&params, &role).await.unwrap();
    let all = Api::<ClusterRoleBinding>::all(cluster.client());
    all.create(&params, &binding).await.unwrap();
    let operator = cluster.client_as("system:serviceaccount:default:operator");
    (cluster, operator)
}

fn on_everything(verbs: &[&str]) -> Value {
    json!({"apiGroups": ["*"], "resources": ["*"], "verbs": verbs})
}

fn manifests() -> Vec<Manifest> {
    let mut installation: Installation = Profile::SingleNode.installation();
    KITE.clone_into(&mut installation.namespace);
    installation.manifests()
}

/// All that the roles among these allow.
fn given_by(manifests: &[Manifest]) -> Vec<Value> {
    let rules = manifests.iter().filter_map(|manifest| match manifest {
        Manifest::ClusterRole(role) => role.rules.clone(),
        Manifest::Role(role) => role.rules.clone(),
        _ => None,
    });
    rules.flatten().map(|rule| json!(rule)).collect()
}

/// What is told, and what comes of it.
async fn told_and_tried(rules: &[Value]) -> (Finding, Result<(), String>) {
    let (_cluster, operator) = operator(rules).await;
    let manifests = manifests();
    let told = may_install(&operator, KITE, &manifests).await;
    let all = async {
        require_here(&operator, KITE).await?;
        let done = apply(&operator, &manifests, false, |_, _| {}).await?;
        done.finish(&operator, |_, _| {}).await?;
        prune(&operator, &manifests, false, |_, _| {}).await?;
        first_admin(&operator, KITE).await?;
        Ok::<_, kite_admin::install::Error>(())
    };
    (told, all.await.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn who_may_not_give_rights_away_is_told_before_anything_is_done() {
    let (cluster, operator) = operator(&[on_everything(&VERBS)]).await;
    let manifests = manifests();
    let told = may_install(&operator, KITE, &manifests).await;
    assert_eq!(told.state, State::Warning, "{told:?}");
    let rbac = "rbac.authorization.k8s.io";
    let words =
        format!("you may not bind/escalate clusterroles.{rbac}, bind/escalate roles.{rbac}");
    assert_eq!(told.message, words);
    let namespaces = Api::<Namespace>::all(cluster.client());
    let namespaces = namespaces.list(&ListParams::default()).await.unwrap();
    let names = namespaces
        .items
        .iter()
        .map(|it| it.metadata.name.as_deref());
    assert!(
        !names.clone().any(|it| it == Some(KITE)),
        "it is asked only"
    );
    // It is so, and is told in one line, once.
    let refused = apply(&operator, &manifests, false, |_, _| {}).await;
    let error = refused.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("cluster administrator"), "{text}");
    assert!(!text.contains("Status {"), "{text}");
    assert_eq!(text.matches("forbidden").count(), 1, "{text}");
    assert!(std::error::Error::source(&error).is_none(), "{text}");
}

async fn told_fit_and_is(rules: &[Value]) {
    let (told, tried) = told_and_tried(rules).await;
    assert_eq!(
        (told.state, tried),
        (State::Fit, Ok(())),
        "{}",
        told.message
    );
}

#[tokio::test]
async fn who_is_trusted_to_give_rights_away_may_install() {
    let trusted = json!({"apiGroups": ["rbac.authorization.k8s.io"],
                         "resources": ["clusterroles", "roles"], "verbs": ["escalate", "bind"]});
    told_fit_and_is(&[on_everything(&VERBS), trusted]).await;
}

#[tokio::test]
async fn who_holds_what_is_given_away_may_install() {
    let mut held = given_by(&manifests());
    held.push(on_everything(&VERBS));
    told_fit_and_is(&held).await;
}

/// Without one verb that somebody has to hold, of those that are given away.
#[tokio::test]
async fn who_holds_all_but_one_right_may_not() {
    let mut held = given_by(&manifests());
    held.retain_mut(|rule| {
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|it| it != "update");
        !verbs.is_empty()
    });
    held.push(on_everything(&VERBS));
    let (told, tried) = told_and_tried(&held).await;
    assert_eq!(told.state, State::Warning, "{}", told.message);
    assert!(tried.is_err());
}

#[tokio::test]
async fn who_lacks_one_verb_is_told() {
    for lacks in VERBS {
        let mut verbs = VERBS.to_vec();
        verbs.retain(|it| *it != lacks);
        verbs.extend(["escalate", "bind"]);
        let (_cluster, operator) = operator(&[on_everything(&verbs)]).await;
        let told = may_install(&operator, KITE, &manifests()).await;
        assert_eq!(told.state, State::Warning, "{lacks}: {}", told.message);
        let lacking = told
            .message
            .strip_prefix("you may not ")
            .unwrap()
            .split(", ");
        for kind in lacking {
            assert_eq!(kind.split(' ').next(), Some(lacks), "{}", told.message);
        }
    }
}
