//! The gate: who asks, what they want, and whether they may.

use http::request::Parts;
use http::{Method, header};

use super::ApiServer;
use crate::auth::{self, Attributes, Decision, Identity, Token};
use crate::rest::path::{Route, Target};
use crate::rest::query::Query;
use crate::status::Status;
use crate::store::{GroupResource, Key};

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

    /// Who sends a request that wants this.
    pub(crate) fn authenticate(
        &self,
        parts: &Parts,
        wanted: &Attributes,
    ) -> Result<Identity, Status> {
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
                .and_then(|token| self.bearer(token.trim()))
                .cloned()
                .ok_or_else(Status::unauthorized)?,
        };
        match Identity::impersonated(&parts.headers)? {
            None => Ok(sender),
            Some(user) => {
                let groups = parts.headers.get_all("impersonate-group").iter();
                let groups: Vec<String> = groups
                    .filter_map(|g| g.to_str().ok())
                    .map(str::to_owned)
                    .collect();
                self.impersonate(&sender, user, &groups, wanted)
            }
        }
    }

    /// Whose token it is, if it speaks to the API server.
    pub(crate) fn bearer(&self, token: &str) -> Option<&Identity> {
        let known = self.valid_token(token)?;
        known.is_for_server().then_some(&known.identity)
    }

    /// What is known of a token that is valid. That of a service account ends with the account.
    pub(crate) fn valid_token(&self, token: &str) -> Option<&Token> {
        let known = self.tokens.get(token, self.now)?;
        let identity = &known.identity;
        let Some((namespace, name)) = Identity::service_account(&identity.name) else {
            return Some(known);
        };
        let accounts = GroupResource::new("", "serviceaccounts");
        let there = || {
            self.store
                .get(&accounts, &Key::new(namespace, name))
                .is_some_and(|account| account.meta("uid") == identity.uid)
        };
        (identity.uid.is_empty() || there()).then_some(known)
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
        let decision = self.decide(identity, wanted);
        if decision.allowed {
            return Ok(());
        }
        if !self.rbac && !identity.is_authenticated() {
            return Err(Status::unauthorized());
        }
        Err(wanted.refusal(identity, &decision.reason))
    }
}
