//! `OwnerReferencesPermissionEnforcement`: who names owners needs rights on the object and
//! on its owners (`plugin/pkg/admission/gc`).

use serde_json::Value;

use super::{ApiServer, Call};
use crate::auth::Attributes;
use crate::status::Status;

/// The owners of an object.
fn owners(object: &Value) -> &[Value] {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.map(Vec::as_slice).unwrap_or_default()
}

/// The owners that cannot go before this object, where they go in the foreground.
fn blocked(object: &Value) -> impl Iterator<Item = &Value> {
    let all = owners(object).iter();
    all.filter(|owner| owner["blockOwnerDeletion"] == true)
}

fn text<'a>(owner: &'a Value, member: &str) -> &'a str {
    owner[member].as_str().unwrap_or_default()
}

impl ApiServer {
    /// Whether that admission plugin is on.
    pub(crate) fn enforce_owner_references(&mut self, on: bool) {
        self.owner_references_enforced = on;
    }

    /// Refuses owners that the user may not name.
    pub(crate) fn check_owners(
        &self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let before = old.map(owners).unwrap_or_default();
        if !self.owner_references_enforced || owners(new) == before {
            return Ok(());
        }
        let of_pod = call.resource.group.is_empty() && call.resource.plural == "pods";
        if of_pod && call.target.subresource.as_deref() == Some("status") {
            return Ok(());
        }
        let refused = |why: String| {
            let name = text(&new["metadata"], "name");
            Status::forbidden(&call.resource.group, &call.resource.plural, name, &why)
        };
        // Who may create something may say whose it is.
        if old.is_some() {
            let delete = call.without_subresource().wish("delete");
            let decision = self.decide(&call.identity, &delete);
            if !decision.allowed {
                let reason = decision.reason;
                return Err(refused(format!(
                    "cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"
                )));
            }
        }
        let known: Vec<_> = old.into_iter().flat_map(blocked).collect();
        let is_known = |owner: &Value| known.iter().any(|it| it["uid"] == owner["uid"]);
        for owner in blocked(new).filter(|owner| !is_known(owner)) {
            let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let Some(resource) = self.registry.by_kind(group, version, kind) else {
                return Err(refused(format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping \
                     for APIVersion {api_version} Kind {kind}: no matches for kind {kind:?} in \
                     version {api_version:?}"
                )));
            };
            let namespace = if resource.namespaced {
                call.namespace()
            } else {
                ""
            };
            let finalize = Attributes {
                verb: "update".to_owned(),
                group: group.to_owned(),
                resource: resource.plural.clone(),
                subresource: "finalizers".to_owned(),
                name: text(owner, "name").to_owned(),
                namespace: namespace.to_owned(),
                path: String::new(),
            };
            let decision = self.decide(&call.identity, &finalize);
            if !decision.allowed {
                let reason = decision.reason;
                return Err(refused(format!(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                     can't set finalizers on: {reason}, <nil>"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api,
        api::{Patch, PatchParams, PostParams},
    };
    use serde_json::{Value, json};

    use crate::FakeCluster;

    fn map(name: &str, owners: &Value) -> ConfigMap {
        let metadata = json!({"name": name, "ownerReferences": owners});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// Alice may write config maps, and do this with those that own some.
    fn cluster(is_enforced: bool, more: &[(&str, &str, &str)]) -> (FakeCluster, Value) {
        let rule = |resource: &str, verbs: &Value, names: &Value| {
            let group = if resource.starts_with("configmaps") {
                ""
            } else {
                "apps"
            };
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": names})
        };
        let mut rules = vec![rule(
            "configmaps",
            &json!(["create", "patch", "get"]),
            &json!([]),
        )];
        rules.extend(
            more.iter()
                .map(|(resource, verb, name)| rule(resource, &json!([verb]), &json!([name]))),
        );
        let rbac = "rbac.authorization.k8s.io";
        let fake = FakeCluster::builder()
            .rbac(true)
            .owner_references_permission_enforcement(is_enforced)
            .object(json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "Role", "rules": rules,
                "metadata": {"name": "writer", "namespace": "default"},
            }))
            .object(json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
                "metadata": {"name": "writer", "namespace": "default"},
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "writer"},
                "subjects": [{"kind": "User", "name": "alice"}],
            }))
            .object(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "owner", "namespace": "default"},
            }))
            .build()
            .unwrap();
        (
            fake,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "an-owner"}),
        )
    }

    fn blocking(owner: &Value) -> Value {
        let mut owner = owner.clone();
        owner["blockOwnerDeletion"] = true.into();
        json!([owner])
    }

    fn told<T>(answer: Result<T, kube::Error>) -> String {
        match answer {
            Ok(_) => "fine".to_owned(),
            Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
            Err(error) => error.to_string(),
        }
    }

    async fn create(fake: &FakeCluster, name: &str, owners: &Value) -> String {
        let maps: Api<ConfigMap> = Api::namespaced(fake.client_as("alice"), "default");
        told(
            maps.create(&PostParams::default(), &map(name, owners))
                .await,
        )
    }

    #[tokio::test]
    async fn who_holds_an_owner_up_may_set_its_finalizers() {
        let refusal = "403 configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an \
                       ownerReference refers to a resource you can't set finalizers on: , <nil>";
        let (fake, owner) = cluster(true, &[]);
        assert_eq!(create(&fake, "a", &blocking(&owner)).await, refusal);
        assert_eq!(create(&fake, "b", &json!([owner])).await, "fine");

        let of_other = [("configmaps/finalizers", "update", "other")];
        let (fake, owner) = cluster(true, &of_other);
        assert_eq!(create(&fake, "a", &blocking(&owner)).await, refusal);

        let of_owner = [("configmaps/finalizers", "update", "owner")];
        let (fake, owner) = cluster(true, &of_owner);
        assert_eq!(create(&fake, "a", &blocking(&owner)).await, "fine");

        let (fake, owner) = cluster(false, &[]);
        assert_eq!(create(&fake, "a", &blocking(&owner)).await, "fine");
    }

    #[tokio::test]
    async fn an_owner_of_a_kind_that_is_not_served_holds_nothing_up() {
        let (fake, _) = cluster(true, &[]);
        let owner =
            json!({"apiVersion": "example.com/v1", "kind": "Kettle", "name": "k", "uid": "k"});
        let told = create(&fake, "a", &blocking(&owner)).await;
        assert!(
            told.contains("cannot find RESTMapping for APIVersion example.com/v1 Kind Kettle"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn who_changes_owners_may_delete_what_they_own() {
        let refusal = "403 configmaps \"a\" is forbidden: cannot set an ownerRef on a resource \
                       you can't delete: , <nil>";
        for (more, expected) in [
            (&[][..], refusal),
            (&[("configmaps", "delete", "a")], "fine"),
        ] {
            let (fake, owner) = cluster(true, more);
            assert_eq!(create(&fake, "a", &json!([])).await, "fine");
            let maps: Api<ConfigMap> = Api::namespaced(fake.client_as("alice"), "default");
            let edit = async |edit: Value| {
                told(
                    maps.patch("a", &PatchParams::default(), &Patch::Merge(&edit))
                        .await,
                )
            };
            assert_eq!(edit(json!({"data": {"a": "b"}})).await, "fine");
            let owners = json!({"metadata": {"ownerReferences": [owner]}});
            assert_eq!(edit(owners).await, expected);
        }
    }
}
