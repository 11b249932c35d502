//! The gate: who asks, what they want, and whether they may.

use http::request::Parts;
use http::{Method, header};
use serde_json::Value;

use super::registry::Resource;
use super::{ApiServer, Call};
use crate::auth::{self, Attributes, Decision, Identity};
use crate::rest::path::{Route, Target};
use crate::rest::query::Query;
use crate::status::Status;
use crate::store::{GroupResource, Key};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Paths that everybody may read, even without RBAC.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];

fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|p| {
        path == *p
            || path
                .strip_prefix(p)
                .is_some_and(|rest| rest.starts_with('/'))
    })
}

/// What a request wants, in the words of authorization.
pub(crate) fn attributes(method: &Method, path: &str, route: &Route, query: &Query) -> Attributes {
    let Route::Resource(target) = route else {
        return Attributes {
            verb: method.as_str().to_lowercase(),
            path: path.to_owned(),
            ..Attributes::default()
        };
    };
    let name = target
        .name
        .clone()
        .or_else(|| named_by_selector(query))
        .unwrap_or_default();
    Attributes {
        verb: verb(method, target, query).to_owned(),
        group: target.group.clone(),
        resource: target.plural.clone(),
        subresource: target.subresource.clone().unwrap_or_default(),
        name,
        namespace: target.namespace.clone().unwrap_or_default(),
        path: String::new(),
    }
}

/// A list of one name counts as a request for that object.
fn named_by_selector(query: &Query) -> Option<String> {
    let name = query.text("fieldSelector").strip_prefix("metadata.name=")?;
    (!name.contains([',', '=', '!'])).then(|| name.to_owned())
}

/// The verb of a request on a resource.
pub(crate) fn verb(method: &Method, target: &Target, query: &Query) -> &'static str {
    let watching = target.watch_prefix || query.flag("watch");
    match (method.as_str(), target.name.is_some()) {
        ("GET" | "HEAD", true) if target.watch_prefix => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if watching => "watch",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}

impl ApiServer {
    /// Whether RBAC decides; otherwise every authenticated request is allowed.
    pub fn use_rbac(&mut self, on: bool) {
        self.rbac = on;
    }

    /// Makes a bearer token for a user.
    pub fn issue_token(&mut self, identity: Identity) -> String {
        let token = self.ids.token();
        self.tokens.insert(&token, identity, self.now, None);
        token
    }

    /// Who sends a request.
    pub(crate) fn authenticate(&self, parts: &Parts) -> Result<Identity, Status> {
        let sender = match parts.headers.get(header::AUTHORIZATION) {
            None => parts
                .extensions
                .get::<Identity>()
                .cloned()
                .unwrap_or_else(Identity::anonymous),
            Some(value) => value
                .to_str()
                .ok()
                .and_then(|v| v.strip_prefix("Bearer "))
                .and_then(|token| self.tokens.find(token.trim(), self.now))
                .cloned()
                .ok_or_else(Status::unauthorized)?,
        };
        let Some(wanted) = Identity::impersonated(&parts.headers)? else {
            return Ok(sender);
        };
        let ask = |group: &str, resource: &str, name: &str, namespace: &str| Attributes {
            verb: "impersonate".into(),
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            namespace: namespace.into(),
            ..Attributes::default()
        };
        let user = match wanted.name.strip_prefix("system:serviceaccount:") {
            Some(rest) => {
                let (namespace, name) = rest.split_once(':').unwrap_or(("", rest));
                ask("", "serviceaccounts", name, namespace)
            }
            None => ask("", "users", &wanted.name, ""),
        };
        self.allow(&sender, &user)?;
        let given = parts.headers.get_all("impersonate-group").iter();
        for group in given.filter_map(|g| g.to_str().ok()) {
            self.allow(&sender, &ask("", "groups", group, ""))?;
        }
        if !wanted.uid.is_empty() {
            let uid = ask("authentication.k8s.io", "uids", &wanted.uid, "");
            self.allow(&sender, &uid)?;
        }
        for key in wanted.extra.keys() {
            let mut extra = ask("authentication.k8s.io", "userextras", "", "");
            extra.subresource.clone_from(key);
            self.allow(&sender, &extra)?;
        }
        Ok(wanted)
    }

    /// The decision on a request.
    pub(crate) fn decide(&self, identity: &Identity, wanted: &Attributes) -> Decision {
        if self.rbac {
            return auth::authorize(&self.store, identity, wanted);
        }
        Decision {
            allowed: identity.is_authenticated()
                || (wanted.resource.is_empty() && is_public(&wanted.path)),
            reason: String::new(),
        }
    }

    /// Lets a request pass, or refuses it: 401 to strangers where RBAC is off, else 403.
    pub(crate) fn allow(&self, identity: &Identity, wanted: &Attributes) -> Result<(), Status> {
        if self.decide(identity, wanted).allowed {
            return Ok(());
        }
        if !self.rbac && !identity.is_authenticated() {
            return Err(Status::unauthorized());
        }
        Err(wanted.refusal(identity))
    }

    /// Nobody writes roles or bindings that give more than they hold.
    pub(crate) fn refuse_escalation(&self, call: &Call, new: &Value) -> Result<(), Status> {
        let resource = &call.resource;
        if !self.rbac || resource.group != RBAC || call.identity.is_master() {
            return Ok(());
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let binding = resource.kind.ends_with("Binding");
        let rules = if binding {
            if self.may_bind(call, new) {
                return Ok(());
            }
            self.rules_of_role(call, new)?
        } else {
            let escalate = Self::own_wish(call, resource, "escalate", name);
            if self.decide(&call.identity, &escalate).allowed {
                return Ok(());
            }
            new["rules"].as_array().cloned().unwrap_or_default()
        };
        let missing = auth::missing_rights(&self.store, &call.identity, call.namespace(), &rules);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = call
            .identity
            .groups
            .iter()
            .map(|g| format!("{g:?}"))
            .collect();
        let lines: Vec<String> = missing.iter().map(auth::rule_text).collect();
        Err(Status::forbidden(
            RBAC,
            &resource.plural,
            name,
            &format!(
                "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
                call.identity.name,
                groups.join(" "),
                lines.join("\n")
            ),
        ))
    }

    fn own_wish(call: &Call, resource: &Resource, verb: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            group: RBAC.into(),
            resource: resource.plural.clone(),
            name: name.into(),
            namespace: call.namespace().into(),
            ..Attributes::default()
        }
    }

    fn may_bind(&self, call: &Call, binding: &Value) -> bool {
        let role = &binding["roleRef"];
        let cluster = role["kind"] == "ClusterRole";
        let wanted = Attributes {
            verb: "bind".into(),
            group: RBAC.into(),
            resource: if cluster { "clusterroles" } else { "roles" }.into(),
            name: role["name"].as_str().unwrap_or_default().into(),
            namespace: call.namespace().into(),
            ..Attributes::default()
        };
        self.decide(&call.identity, &wanted).allowed
    }

    /// The rules that a binding would give.
    fn rules_of_role(&self, call: &Call, binding: &Value) -> Result<Vec<Value>, Status> {
        let role = &binding["roleRef"];
        let name = role["name"].as_str().unwrap_or_default();
        let (plural, namespace) = if role["kind"] == "ClusterRole" {
            ("clusterroles", "")
        } else {
            ("roles", call.namespace())
        };
        self.store
            .get(
                &GroupResource::new(RBAC, plural),
                &Key::new(namespace, name),
            )
            .map(|o| o.value()["rules"].as_array().cloned().unwrap_or_default())
            .ok_or_else(|| Status::not_found(RBAC, &call.resource.plural, name))
    }
}
