//! Users.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::names::{label, subdomain};
use crate::status::Status;

/// Group of everybody who authenticated.
const AUTHENTICATED: &str = "system:authenticated";
/// Group of everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Who sends no token.
const ANONYMOUS: &str = "system:anonymous";
/// Group whose members may do everything.
const MASTERS: &str = "system:masters";

/// A user as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// User name.
    pub name: String,
    /// UID, empty if there is none.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The administrator: member of `system:masters`.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// What runs a cluster: who makes, changes and clears away what follows from what
    /// others ask for. It may do everything, and is nobody's mistake.
    pub fn control_plane() -> Self {
        Self {
            name: "system:kube-controller-manager".into(),
            ..Self::admin()
        }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// An authenticated user of that name, with the groups that come with it.
    pub fn user(name: &str) -> Self {
        let mut groups = Vec::new();
        if let Some((namespace, _)) = Self::service_account(name) {
            groups.push("system:serviceaccounts".into());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        groups.push(AUTHENTICATED.into());
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// Adds the group of everybody who authenticated, or of nobody, unless one
    /// of them was asked for.
    fn join(&mut self) {
        let has = |wanted: &str| self.groups.iter().any(|g| g == wanted);
        if self.name == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                self.groups.push(UNAUTHENTICATED.into());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
    }

    /// Namespace and name of the service account that a user name stands for.
    pub fn service_account(name: &str) -> Option<(&str, &str)> {
        let (namespace, name) = name
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')?;
        (label(namespace).is_empty() && subdomain(name).is_empty()).then_some((namespace, name))
    }

    /// The node that a user name stands for.
    pub fn node(name: &str) -> Option<&str> {
        let name = name.strip_prefix("system:node:")?;
        subdomain(name).is_empty().then_some(name)
    }

    /// Makes the user one of the nodes, as those are who are impersonated by
    /// the right to impersonate nodes.
    pub(crate) fn join_nodes(&mut self) {
        self.groups = vec!["system:nodes".into(), AUTHENTICATED.into()];
    }

    /// Whether the user proved to be somebody.
    pub fn is_authenticated(&self) -> bool {
        self.groups.iter().any(|g| g == AUTHENTICATED)
    }

    /// Whether the user may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|g| g == MASTERS)
    }

    /// `UserInfo` of reviews.
    pub fn to_json(&self) -> Value {
        let mut out = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            out["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            out["extra"] = json!(self.extra);
        }
        out
    }

    /// Whom the headers ask to impersonate, if anybody.
    ///
    /// # Errors
    /// 400 for groups or a uid without a user name.
    pub fn impersonated(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let values = |name: &str| -> Vec<String> {
            headers
                .get_all(name)
                .iter()
                .filter_map(|v| v.to_str().ok())
                .map(str::to_owned)
                .collect()
        };
        let name = values("impersonate-user").pop().unwrap_or_default();
        let groups = values("impersonate-group");
        let uid = values("impersonate-uid").pop().unwrap_or_default();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            if let (Some(key), Ok(value)) = (
                header.as_str().strip_prefix("impersonate-extra-"),
                value.to_str(),
            ) {
                let key = crate::percent::decode(key, false);
                extra.entry(key).or_default().push(value.into());
            }
        }
        if name.is_empty() {
            if groups.is_empty() && uid.is_empty() && extra.is_empty() {
                return Ok(None);
            }
            let list: Vec<String> = groups.iter().map(|g| format!("{g:?}")).collect();
            return Err(Status::bad_request(format!(
                "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:[]string{{{}}}, Extra:map[string][]string(nil)}} without impersonating a user name",
                list.join(", ")
            )));
        }
        let mut identity = Self::user(&name);
        if !groups.is_empty() {
            identity.groups = groups;
        } else if name == ANONYMOUS {
            identity.groups = Vec::new();
        }
        identity.join();
        identity.uid = uid;
        identity.extra = extra;
        Ok(Some(identity))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_come_with_their_groups() {
        let identity = Identity::user("system:serviceaccount:ns:sa");
        assert_eq!(
            identity.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated"
            ]
        );
    }

    #[test]
    fn groups_need_a_user() {
        let mut headers = HeaderMap::new();
        assert_eq!(Identity::impersonated(&headers).unwrap(), None);
        headers.insert("impersonate-group", "x".parse().unwrap());
        assert_eq!(Identity::impersonated(&headers).unwrap_err().code, 400);
        headers.insert("impersonate-user", "bob".parse().unwrap());
        let bob = Identity::impersonated(&headers).unwrap().unwrap();
        assert_eq!(bob.groups, ["x", "system:authenticated"]);
    }

    #[test]
    fn nobody_stays_nobody() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", "system:anonymous".parse().unwrap());
        let user = Identity::impersonated(&headers).unwrap().unwrap();
        assert_eq!(user.groups, ["system:unauthenticated"]);
        headers.insert("impersonate-user", "bob".parse().unwrap());
        headers.insert(
            "impersonate-group",
            "system:unauthenticated".parse().unwrap(),
        );
        let user = Identity::impersonated(&headers).unwrap().unwrap();
        assert_eq!(user.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn the_keys_of_extra_attributes_are_decoded() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", "bob".parse().unwrap());
        headers.insert("impersonate-extra-x.io%2fscope", "a".parse().unwrap());
        let user = Identity::impersonated(&headers).unwrap().unwrap();
        assert_eq!(user.extra["x.io/scope"], ["a"]);
    }
}
