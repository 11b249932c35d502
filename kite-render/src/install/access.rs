//! `ServiceAccount`s, and the roles that give them their rights.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef},
};

use super::{Installation, Manifest, Process, Right, Scope, metadata};
use crate::grant::{RBAC, account};
use kite_core::versions::wrap;

/// Name of the Role, and of its binding, that allows to clone golden images.
const CLONE_ROLE: &str = "kite-clone-images";

/// The accounts under which the processes run. Tokens are given to pods that ask for
/// them, not to whatever pod somebody starts under an account.
pub(super) fn accounts(installation: &Installation) -> Vec<ServiceAccount> {
    Process::ALL
        .into_iter()
        .map(|process| ServiceAccount {
            metadata: metadata::of(process, Some(&installation.namespace)),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        })
        .collect()
}

/// The roles and their bindings.
pub(super) fn roles(installation: &Installation) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    for process in Process::ALL {
        let rights = installation.rights(process);
        for scope in Scope::ALL {
            let scoped: Vec<_> = rights
                .iter()
                .filter(|right| right.scope == scope)
                .cloned()
                .collect();
            if scoped.is_empty() {
                continue;
            }
            let subjects = Some(vec![account(&installation.namespace, process.name())]);
            let namespace = match scope {
                Scope::Cluster => {
                    let metadata = metadata::of(process, None);
                    manifests.push(cluster_role(metadata.clone(), &scoped).into());
                    manifests.push(
                        ClusterRoleBinding {
                            role_ref: role_ref("ClusterRole", process.name()),
                            metadata,
                            subjects,
                        }
                        .into(),
                    );
                    continue;
                }
                // Bound by the controller.
                Scope::Users => {
                    if let Some(name) = process.role_for_users() {
                        let metadata = metadata::named(process, name, None);
                        manifests.push(cluster_role(metadata, &scoped).into());
                    }
                    continue;
                }
                Scope::Kite => &installation.namespace,
                Scope::Images => installation.image_namespace(),
            };
            let name = match scope {
                Scope::Images => CLONE_ROLE,
                Scope::Cluster | Scope::Kite | Scope::Users => process.name(),
            };
            let metadata = metadata::named(process, name, Some(namespace));
            manifests.push(role(metadata.clone(), &scoped).into());
            manifests.push(
                RoleBinding {
                    metadata,
                    role_ref: role_ref("Role", name),
                    subjects,
                }
                .into(),
            );
        }
    }
    manifests
}

/// A role with these rights.
pub(super) fn cluster_role(metadata: kube::api::ObjectMeta, rights: &[Right]) -> ClusterRole {
    ClusterRole {
        metadata,
        rules: Some(rights.iter().map(rule).collect()),
        aggregation_rule: None,
    }
}

/// The same, of one namespace.
pub(super) fn role(metadata: kube::api::ObjectMeta, rights: &[Right]) -> Role {
    Role {
        metadata,
        rules: Some(rights.iter().map(rule).collect()),
    }
}

fn rule(right: &Right) -> PolicyRule {
    let list = |items: &[&str]| items.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![right.group.to_owned()]),
        resources: Some(list(&right.resources)),
        resource_names: (!right.names.is_empty()).then(|| right.names.clone()),
        verbs: list(&right.verbs),
        non_resource_urls: None,
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: wrap(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}
