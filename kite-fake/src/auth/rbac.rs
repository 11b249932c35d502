//! Role-based access control over the stored roles and bindings.

use serde_json::Value;

use super::identity::Identity;
use crate::status::{Details, Status};
use crate::store::{GroupResource, Key, Store};

/// API group of roles and bindings.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// What somebody wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `create` and so on.
    pub verb: String,
    /// API group of the resource.
    pub group: String,
    /// Plural of the resource; empty for a path.
    pub resource: String,
    /// Subresource, if any.
    pub subresource: String,
    /// Name of the object, if the path has one.
    pub name: String,
    /// Namespace, empty at cluster scope.
    pub namespace: String,
    /// Path of what is no resource.
    pub path: String,
}

impl Attributes {
    /// 403 for a user who may not; `reason` may say why.
    pub fn refusal(&self, identity: &Identity, reason: &str) -> Status {
        let tail = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        if self.resource.is_empty() {
            let message = format!(
                "forbidden: User \"{}\" cannot {} path \"{}\"{tail}",
                identity.name, self.verb, self.path
            );
            return Status::new(403, "Forbidden", message).with_details(Details::default());
        }
        let mut resource = self.resource.clone();
        if !self.subresource.is_empty() {
            resource = format!("{resource}/{}", self.subresource);
        }
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        Status::forbidden(
            &self.group,
            &self.resource,
            &self.name,
            &format!(
                "User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}{tail}",
                identity.name, self.verb, self.group
            ),
        )
    }
}

/// Whether somebody may, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether.
    pub allowed: bool,
    /// Which binding says so; if not allowed, which roles were not found. Empty
    /// if there is nothing to say.
    pub reason: String,
}

fn has(list: &Value, wanted: &str) -> bool {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .any(|x| x == "*" || x == wanted)
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// Whether one rule of a role covers a request.
pub(super) fn covers(rule: &Value, wanted: &Attributes) -> bool {
    if !has(&rule["verbs"], &wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        return rule["nonResourceURLs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|url| {
                url == wanted.path
                    || url
                        .strip_suffix('*')
                        .is_some_and(|prefix| wanted.path.starts_with(prefix))
            });
    }
    let combined = if wanted.subresource.is_empty() {
        wanted.resource.clone()
    } else {
        format!("{}/{}", wanted.resource, wanted.subresource)
    };
    let any_of_subresource = format!("*/{}", wanted.subresource);
    let resource = has(&rule["resources"], &combined)
        || (!wanted.subresource.is_empty() && has(&rule["resources"], &any_of_subresource));
    let name = is_empty(&rule["resourceNames"])
        || rule["resourceNames"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|n| n == wanted.name.as_str());
    has(&rule["apiGroups"], &wanted.group) && resource && name
}

/// How a subject of a binding names the user, if it does.
pub(super) fn subject_of(subjects: &Value, identity: &Identity, namespace: &str) -> Option<String> {
    subjects.as_array().into_iter().flatten().find_map(|s| {
        let text = |f: &str| s[f].as_str().unwrap_or_default();
        let name = text("name");
        match text("kind") {
            "User" if name == identity.name => Some(format!("User \"{name}\"")),
            "Group" if identity.groups.iter().any(|g| g == name) => {
                Some(format!("Group \"{name}\""))
            }
            "ServiceAccount" => {
                let given = text("namespace");
                let home = if given.is_empty() { namespace } else { given };
                (identity.name == format!("system:serviceaccount:{home}:{name}"))
                    .then(|| format!("ServiceAccount \"{name}/{home}\""))
            }
            _ => None,
        }
    })
}

/// The rules of the role that a binding refers to.
///
/// # Errors
/// That there is no such role.
fn role_rules(store: &Store, binding: &Value, namespace: &str) -> Result<Vec<Value>, String> {
    let text = |f: &str| binding["roleRef"][f].as_str().unwrap_or_default();
    let (plural, kind, namespace) = if text("kind") == "Role" {
        ("roles", "role", namespace)
    } else {
        ("clusterroles", "clusterrole", "")
    };
    let collection = GroupResource::new(GROUP, plural);
    let Some(role) = store.get(&collection, &Key::new(namespace, text("name"))) else {
        return Err(format!("{kind}.{GROUP} {:?} not found", text("name")));
    };
    Ok(role.value()["rules"]
        .as_array()
        .cloned()
        .unwrap_or_default())
}

/// Walks over the rules that apply to a user in a namespace (and those of the
/// whole cluster), with the words of the reason; stops when `visit` says so.
/// Gives the roles that were not found.
fn visit_rules(
    store: &Store,
    identity: &Identity,
    namespace: &str,
    mut visit: impl FnMut(&Value, &dyn Fn() -> String) -> bool,
) -> Vec<String> {
    let mut missing = Vec::new();
    let cluster = GroupResource::new(GROUP, "clusterrolebindings");
    let local = GroupResource::new(GROUP, "rolebindings");
    let of_namespace = (!namespace.is_empty())
        .then(|| store.range(&local, Some(namespace), None))
        .into_iter()
        .flatten();
    for (key, binding) in store.range(&cluster, None, None).chain(of_namespace) {
        let binding = binding.value();
        let Some(subject) = subject_of(&binding["subjects"], identity, &key.namespace) else {
            continue;
        };
        let reason = || {
            let role = &binding["roleRef"];
            let name = if key.namespace.is_empty() {
                format!("ClusterRoleBinding \"{}\"", key.name)
            } else {
                format!("RoleBinding \"{}/{}\"", key.name, key.namespace)
            };
            format!(
                "RBAC: allowed by {name} of {} {} to {subject}",
                role["kind"].as_str().unwrap_or_default(),
                role["name"]
            )
        };
        match role_rules(store, binding, &key.namespace) {
            Ok(rules) => {
                if rules.iter().any(|rule| visit(rule, &reason)) {
                    return missing;
                }
            }
            Err(why) => {
                if !missing.contains(&why) {
                    missing.push(why);
                }
            }
        }
    }
    missing
}

/// Decides one request.
pub fn authorize(store: &Store, identity: &Identity, wanted: &Attributes) -> Decision {
    if identity.is_master() {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let mut decision = Decision::default();
    let missing = visit_rules(store, identity, &wanted.namespace, |rule, reason| {
        if covers(rule, wanted) {
            decision = Decision {
                allowed: true,
                reason: reason(),
            };
        }
        decision.allowed
    });
    if !decision.allowed {
        decision.reason = match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
    }
    decision
}

/// All rules that apply to a user in a namespace.
pub fn rules_for(store: &Store, identity: &Identity, namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    visit_rules(store, identity, namespace, |rule, _| {
        rules.push(rule.clone());
        false
    });
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wants(verb: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_cover_what_they_name() {
        let rule = json!({"apiGroups": [""], "resources": ["pods", "*/scale"], "verbs": ["get"], "resourceNames": ["a"]});
        assert!(covers(&rule, &wants("get", "pods", "", "a")));
        assert!(!covers(&rule, &wants("get", "pods", "", "b")));
        assert!(!covers(&rule, &wants("get", "pods", "log", "a")));
        assert!(covers(&rule, &wants("get", "things", "scale", "a")));
        assert!(!covers(&rule, &wants("list", "pods", "", "a")));
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let rule = json!({"nonResourceURLs": ["/api", "/apis/*"], "verbs": ["get"]});
        let wants = |path: &str| Attributes {
            verb: "get".into(),
            path: path.into(),
            ..Attributes::default()
        };
        assert!(covers(&rule, &wants("/api")));
        assert!(covers(&rule, &wants("/apis/x.io")));
        assert!(!covers(&rule, &wants("/api/v1")));
    }
}
