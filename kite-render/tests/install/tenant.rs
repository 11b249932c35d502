//! What the `ClusterRole` for people with `kubectl` lets them do, asked of the fake's RBAC.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Secret,
};
use kite_core::crd::{self, KiteUser, KiteUserSpec, KiteVirtualMachine};
use kite_fake::FakeCluster;
use kite_render::{User, install::Profile, namespace};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    policies::{HOME, merge, text, vm},
    stage::{apply_all, builder},
};

const RBAC: &str = "rbac.authorization.k8s.io";
const VERBS: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];
const READ: [&str; 3] = ["get", "list", "watch"];

/// What somebody may want to have in a namespace: group, resource and subresource.
const WANTED: [(&str, &str, &str); 20] = [
    (crd::GROUP, "kitevirtualmachines", ""),
    (crd::GROUP, "kitevirtualmachines", "status"),
    (crd::GROUP, "kiteconnections", ""),
    (crd::GROUP, "kiteusers", ""),
    (crd::GROUP, "kitepasswords", ""),
    (crd::GROUP, "kiteplatforms", ""),
    ("", "events", ""),
    ("", "resourcequotas", ""),
    ("", "secrets", ""),
    ("", "configmaps", ""),
    ("", "pods", ""),
    ("", "pods", "exec"),
    ("", "pods", "portforward"),
    ("", "services", ""),
    ("apps", "deployments", ""),
    ("networking.k8s.io", "networkpolicies", ""),
    ("networking.k8s.io", "ingresses", ""),
    ("kubevirt.io", "virtualmachines", ""),
    ("kubevirt.io", "virtualmachineinstances", ""),
    (RBAC, "rolebindings", ""),
];

/// A cluster that judges rights, in which Ann has the role in her namespace.
async fn cluster() -> FakeCluster {
    let cluster = builder().rbac(true).build().unwrap();
    apply_all(&cluster.client(), &Profile::Plain.installation()).await;
    let users: Api<KiteUser> = Api::all(cluster.client());
    let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    let ann = users.create(&PostParams::default(), &ann).await.unwrap();
    let user = User::of(&ann).unwrap();
    let home = namespace::namespace(&user, namespace::PodSecurity::default());
    cluster.create(home).unwrap();
    cluster
        .create(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "ann", "namespace": HOME},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kite-tenant"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ann"}],
        }))
        .unwrap();
    cluster
}

/// All of it that she may have in a namespace.
async fn allowed(cluster: &FakeCluster, namespace: &str) -> BTreeSet<String> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client_as("ann"));
    let mut allowed = BTreeSet::new();
    for (group, resource, subresource) in WANTED {
        for verb in VERBS {
            let asked = ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: (!subresource.is_empty()).then(|| subresource.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(asked),
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            let review = reviews.create(&PostParams::default(), &review).await;
            if review.unwrap().status.unwrap().allowed {
                allowed.insert(format!("{verb} {resource} {subresource}"));
            }
        }
    }
    allowed
}

#[tokio::test]
async fn a_tenant_has_their_vms_and_sees_what_is_theirs() {
    let cluster = cluster().await;
    let all = |verbs: &[&str], resource: &str| -> Vec<String> {
        let verbs = verbs.iter();
        verbs.map(|verb| format!("{verb} {resource} ")).collect()
    };
    let mut expected: BTreeSet<_> = all(&VERBS, "kitevirtualmachines").into_iter().collect();
    for resource in ["kiteconnections", "events", "resourcequotas"] {
        expected.extend(all(&READ, resource));
    }
    assert_eq!(allowed(&cluster, HOME).await, expected);
    for elsewhere in ["kite", "default"] {
        let there = allowed(&cluster, elsewhere).await;
        assert!(there.is_empty(), "{elsewhere}: {there:?}");
    }
}

#[tokio::test]
async fn a_tenant_makes_changes_and_deletes_a_vm_and_reads_no_secret() {
    let cluster = cluster().await;
    let vms: Api<KiteVirtualMachine> = Api::namespaced(cluster.client_as("ann"), HOME);
    let mut web = vm();
    web.metadata.finalizers = None;
    vms.create(&PostParams::default(), &web).await.unwrap();
    let off = json!({"spec": {"powerState": "Off"}});
    merge(&vms, "web", &off).await.unwrap();
    vms.delete("web", &DeleteParams::default()).await.unwrap();
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "web-ssh-key", "namespace": HOME},
        }))
        .unwrap();
    let secrets: Api<Secret> = Api::namespaced(cluster.client_as("ann"), HOME);
    let refused = text(secrets.get("web-ssh-key").await).unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");
}
