//! Who may act as whom: the modes of constrained impersonation, and the old
//! right to impersonate as the last of them
//! (`apiserver/pkg/endpoints/filters/impersonation`).

use super::ApiServer;
use crate::auth::{Attributes, Identity};
use crate::names::subdomain;
use crate::status::Status;

const AUTHENTICATION: &str = "authentication.k8s.io";
const MASTERS: &str = "system:masters";

/// How a user is impersonated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Node,
    ServiceAccount,
    UserInfo,
    /// By the verb `impersonate` alone.
    Legacy,
}

impl Mode {
    /// The mode that may be used before the old one. Only what has no form of
    /// its own may come with groups and the like.
    fn of(user: &Identity, bare: bool) -> Option<Self> {
        let node = Identity::node(&user.name).is_some();
        let account = Identity::service_account(&user.name).is_some();
        match (node, account) {
            (true, _) => bare.then_some(Self::Node),
            (_, true) => bare.then_some(Self::ServiceAccount),
            _ => Some(Self::UserInfo),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Node => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            other => format!("impersonate:{}", other.name()),
        }
    }

    /// API group of users and groups.
    fn group(self) -> &'static str {
        if self == Self::Legacy {
            ""
        } else {
            AUTHENTICATION
        }
    }
}

impl ApiServer {
    /// Lets the sender act as `user` for a request that wants `request`; `given`
    /// are the groups that the sender asked for.
    pub(super) fn impersonate(
        &self,
        sender: &Identity,
        mut user: Identity,
        given: &[String],
        request: &Attributes,
    ) -> Result<Identity, Status> {
        let bare = given.is_empty() && user.uid.is_empty() && user.extra.is_empty();
        let mut first = None;
        if let Some(mode) = Mode::of(&user, bare) {
            let on = Attributes {
                verb: format!("impersonate-on:{}:{}", mode.name(), request.verb),
                ..request.clone()
            };
            let allowed = self
                .allow(sender, &on)
                .and_then(|()| self.act_as(sender, &user, given, mode));
            match allowed {
                Ok(()) => {
                    if mode == Mode::Node {
                        user.join_nodes();
                    }
                    return Ok(user);
                }
                Err(status) => first = Some(status),
            }
        }
        match self.act_as(sender, &user, given, Mode::Legacy) {
            Ok(()) => Ok(user),
            // What the better way would have needed is told first.
            Err(status) => Err(first.unwrap_or(status)),
        }
    }

    /// Checks the right to each thing that is asked for.
    fn act_as(
        &self,
        sender: &Identity,
        user: &Identity,
        groups: &[String],
        mode: Mode,
    ) -> Result<(), Status> {
        let ask = |group: &str, resource: &str, name: &str| Attributes {
            verb: mode.verb(),
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            ..Attributes::default()
        };
        let refuse = |wanted: &Attributes, why: &str| Err(wanted.refusal(sender, why));
        let mut who = ask(mode.group(), "users", &user.name);
        if mode == Mode::Node {
            "nodes".clone_into(&mut who.resource);
            Identity::node(&user.name)
                .unwrap_or_default()
                .clone_into(&mut who.name);
        }
        if let Some((namespace, name)) = Identity::service_account(&user.name) {
            "serviceaccounts".clone_into(&mut who.resource);
            namespace.clone_into(&mut who.namespace);
            name.clone_into(&mut who.name);
        }
        self.allow(sender, &who)?;
        if !user.uid.is_empty() {
            self.allow(sender, &ask(AUTHENTICATION, "uids", &user.uid))?;
        }
        if mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return refuse(
                    &ask(mode.group(), "groups", ""),
                    "impersonating the empty string group is not allowed",
                );
            }
            if groups.iter().any(|group| group == MASTERS) {
                return refuse(
                    &ask(mode.group(), "groups", MASTERS),
                    "impersonating the system:masters group is not allowed",
                );
            }
            if let Some(why) = malformed_extra(user) {
                return refuse(&ask(AUTHENTICATION, "userextras", ""), &why);
            }
        }
        for group in groups {
            self.allow(sender, &ask(mode.group(), "groups", group))?;
        }
        for (key, values) in &user.extra {
            for value in values {
                let mut extra = ask(AUTHENTICATION, "userextras", value);
                extra.subresource.clone_from(key);
                self.allow(sender, &extra)?;
            }
        }
        Ok(())
    }
}

/// What the newer modes do not take as an attribute of a user.
fn malformed_extra(user: &Identity) -> Option<String> {
    let quoted = |text: &str| crate::go::quote(text);
    user.extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let wrong = match key.split_once('/') {
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => subdomain(domain)
                .first()
                .map(|why| format!("{}: {why}", quoted(domain))),
            _ => Some(format!(
                "{}: must be a domain-prefixed path (such as \"acme.io/foo\")",
                quoted(key)
            )),
        };
        if let Some(wrong) = wrong {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {wrong}"
            ));
        }
        values
            .iter()
            .any(String::is_empty)
            .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}
