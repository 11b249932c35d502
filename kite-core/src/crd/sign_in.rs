//! Signing in at OpenID Connect providers: which ones there are, and whose
//! identity there an account is.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AccessLevel;
use crate::names;

/// An OpenID Connect provider at which people sign in.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SignInProvider {
    /// What it is called in addresses. The redirect URI to register there is
    /// `<origin of Kite>/api/v1/auth/oidc/<name>/callback`.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What it is called on the sign-in page; by default its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub display_name: Option<String>,
    /// Its issuer URL, exactly as its discovery document has it: with HTTPS, or
    /// with HTTP on this very machine.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("isURL(self) && !self.contains('?') && !self.contains('#') && (url(self).getScheme() == 'https' || (url(self).getScheme() == 'http' && url(self).getHostname() in ['localhost', '127.0.0.1', '[::1]', '::1']))").message("issuer must be a URL such as https://login.example.org/realms/staff, without query and fragment; http is for localhost only"))]
    pub issuer: String,
    /// Under which Kite is registered there.
    #[schemars(length(min = 1, max = 256))]
    pub client_id: String,
    /// Key of the client's secret in the Secret `kite-oidc` of the namespace
    /// `kite`. Without one the client is a public one, protected by PKCE alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub client_secret_key: Option<String>,
    /// Scopes that are asked for beside `openid`; by default `profile` and
    /// `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scopes_schema")]
    pub scopes: Option<Vec<String>>,
    /// Claim from which the username of a new account comes.
    #[serde(default = "username_claim")]
    #[schemars(length(min = 1, max = 128))]
    pub username_claim: String,
    /// Claim with a person's groups.
    #[serde(default = "groups_claim")]
    #[schemars(length(min = 1, max = 128))]
    pub groups_claim: String,
    /// Who may sign in: members of any of these groups; by default everybody
    /// whom the provider lets in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "groups_schema")]
    pub allowed_groups: Vec<String>,
    /// What groups make of their members, at every sign-in: the highest level of
    /// all groups holds, and `User` for those in none of them. Without any the
    /// provider has no say in access levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub access_levels: Vec<GroupLevel>,
    /// Whether somebody without an account gets one by signing in, whatever the
    /// platform's `signUp` says of accounts with a password.
    #[serde(default)]
    pub sign_up: bool,
}

/// What a group makes of its members.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GroupLevel {
    /// The group, as it stands in the groups claim.
    #[schemars(length(min = 1, max = 256))]
    pub group: String,
    /// The access level of its members.
    pub access_level: AccessLevel,
}

/// Somebody at a provider.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Issuer URL of the provider.
    #[schemars(length(min = 1, max = 512))]
    pub issuer: String,
    /// What the provider calls them for ever (`sub`).
    #[schemars(length(min = 1, max = 255))]
    pub subject: String,
}

impl Identity {
    /// What stands for them where a name is needed: of no two the same.
    pub fn id(&self) -> String {
        names::identity(&self.issuer, &self.subject)
    }

    /// Name of their reservation.
    pub fn reservation(&self) -> String {
        format!("identity.{}", self.id())
    }
}

impl SignInProvider {
    /// A provider with the default settings, at which a public client is
    /// registered and nobody gets an account.
    pub fn new(
        name: impl Into<String>,
        issuer: impl Into<String>,
        client_id: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            display_name: None,
            issuer: issuer.into(),
            client_id: client_id.into(),
            client_secret_key: None,
            scopes: None,
            username_claim: username_claim(),
            groups_claim: groups_claim(),
            allowed_groups: Vec::new(),
            access_levels: Vec::new(),
            sign_up: false,
        }
    }

    /// What people call it.
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// The scopes to ask for, separated by spaces.
    pub fn scope(&self) -> String {
        let others = self.scopes.as_deref().map_or_else(
            || vec!["profile", "email"],
            |scopes| scopes.iter().map(String::as_str).collect(),
        );
        let others = others.into_iter().filter(|scope| *scope != "openid");
        ["openid"]
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Whether members of these groups may sign in.
    pub fn admits(&self, groups: &[String]) -> bool {
        self.allowed_groups.is_empty() || self.allowed_groups.iter().any(|it| groups.contains(it))
    }

    /// The access level of members of these groups; none if the provider has no
    /// say in it.
    pub fn access_level(&self, groups: &[String]) -> Option<AccessLevel> {
        if self.access_levels.is_empty() {
            return None;
        }
        self.access_levels
            .iter()
            .filter(|it| groups.contains(&it.group))
            .map(|it| it.access_level)
            .max()
            .or(Some(AccessLevel::User))
    }
}

fn username_claim() -> String {
    "preferred_username".to_owned()
}

fn groups_claim() -> String {
    "groups".to_owned()
}

/// A bounded set of scopes (RFC 6749 §3.3).
fn scopes_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": { "type": "string", "maxLength": 128, "pattern": r"^[!#-\[\]-~]+$" },
        "x-kubernetes-list-type": "set",
    })
}

/// A bounded set of groups.
fn groups_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": { "type": "string", "minLength": 1, "maxLength": 256 },
        "x-kubernetes-list-type": "set",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> SignInProvider {
        let level = |group: &str, access_level| GroupLevel {
            group: group.to_owned(),
            access_level,
        };
        SignInProvider {
            access_levels: vec![
                level("lookers", AccessLevel::ReadOnly),
                level("admins", AccessLevel::Admin),
                level("leads", AccessLevel::Manager),
            ],
            ..SignInProvider::new("staff", "https://login.example.org", "kite")
        }
    }

    fn groups(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_highest_level_of_all_groups_holds() {
        let level = |names: &[&str]| provider().access_level(&groups(names));
        assert_eq!(level(&["leads", "admins"]), Some(AccessLevel::Admin));
        assert_eq!(level(&["lookers"]), Some(AccessLevel::ReadOnly));
        assert_eq!(level(&["others"]), Some(AccessLevel::User));
        assert_eq!(level(&[]), Some(AccessLevel::User));
        let silent = SignInProvider::new("staff", "https://login.example.org", "kite");
        assert_eq!(silent.access_level(&groups(&["admins"])), None);
    }

    #[test]
    fn without_allowed_groups_everybody_may_come_in() {
        let mut provider = provider();
        assert!(provider.admits(&[]));
        provider.allowed_groups = groups(&["staff"]);
        assert!(!provider.admits(&groups(&["stuff"])));
        assert!(provider.admits(&groups(&["others", "staff"])));
    }

    #[test]
    fn openid_is_asked_for_always_and_once() {
        let mut provider = provider();
        assert_eq!(provider.scope(), "openid profile email");
        provider.scopes = Some(groups(&["groups", "openid"]));
        assert_eq!(provider.scope(), "openid groups");
        provider.scopes = Some(Vec::new());
        assert_eq!(provider.scope(), "openid");
    }
}
