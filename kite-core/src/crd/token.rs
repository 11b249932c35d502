//! `KiteToken`: an API token, with which a program does on a user's behalf what
//! the token's scopes say. Its spec has only a hash of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unread_status::{UnreadStatus, salvaged_status};

/// Whose token it is, what it may do and how long.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteToken",
    plural = "kitetokens",
    category = "kite",
    status = "KiteTokenStatus",
    derive = "PartialEq",
    doc = "An API token. Deleting it ends it.",
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(name = "Token", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Scopes", type_ = "string", json_path = ".spec.scopes"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(name = "Last-used", type_ = "date", json_path = ".status.lastUsedAt"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("a token cannot be changed: make another"))]
#[serde(rename_all = "camelCase")]
pub struct KiteTokenSpec {
    /// Name of the `KiteUser`.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,
    /// Uid of the `KiteUser`: a later user of the same name is another.
    #[schemars(length(min = 1, max = 64))]
    pub user_uid: String,
    /// What the user calls it. The object's name follows from it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Hash of the token's secret ([`crate::names::fingerprint`]).
    #[schemars(length(min = 1, max = 64))]
    pub hash: String,
    /// What it may do, of what its user may.
    #[schemars(length(min = 1, max = 16))]
    pub scopes: Vec<TokenScope>,
    /// When it ends.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub expires_at: Time,
    /// The user's `tokenEpoch` when it was made: with another one it is over.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub user_epoch: i64,
    /// The platform's `tokenEpoch` when it was made: with another one it is over.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub platform_epoch: i64,
}

/// What an API token may do; never more than its user.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenScope {
    /// See VMs, images and offers.
    #[serde(rename = "vms:read")]
    VmsRead,
    /// Also start and stop VMs.
    #[serde(rename = "vms:power")]
    VmsPower,
    /// Also create, edit and delete VMs.
    #[serde(rename = "vms:write")]
    VmsWrite,
    /// Also change the passwords and keys that open VMs which are there, and the domains
    /// that publish them.
    #[serde(rename = "vms:access")]
    VmsAccess,
    /// See the account and its quota.
    #[serde(rename = "account:read")]
    AccountRead,
    /// Also change the account's email address.
    #[serde(rename = "account:write")]
    AccountWrite,
    /// Also change the account's keys, which open all of its VMs.
    #[serde(rename = "account:keys")]
    AccountKeys,
    /// See what administrators see.
    #[serde(rename = "admin:read")]
    AdminRead,
    /// Also do what administrators do.
    #[serde(rename = "admin")]
    Admin,
}

impl TokenScope {
    /// Every scope.
    pub const ALL: [Self; 9] = [
        Self::VmsRead,
        Self::VmsPower,
        Self::VmsWrite,
        Self::VmsAccess,
        Self::AccountRead,
        Self::AccountWrite,
        Self::AccountKeys,
        Self::AdminRead,
        Self::Admin,
    ];

    /// Its spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VmsRead => "vms:read",
            Self::VmsPower => "vms:power",
            Self::VmsWrite => "vms:write",
            Self::VmsAccess => "vms:access",
            Self::AccountRead => "account:read",
            Self::AccountWrite => "account:write",
            Self::AccountKeys => "account:keys",
            Self::AdminRead => "admin:read",
            Self::Admin => "admin",
        }
    }

    /// Whether it is `other` or more.
    pub fn includes(self, other: Self) -> bool {
        self == other
            || matches!(
                (self, other),
                (
                    Self::VmsAccess,
                    Self::VmsWrite | Self::VmsPower | Self::VmsRead
                ) | (Self::VmsWrite, Self::VmsPower | Self::VmsRead)
                    | (Self::VmsPower, Self::VmsRead)
                    | (Self::AccountKeys, Self::AccountWrite | Self::AccountRead)
                    | (Self::AccountWrite, Self::AccountRead)
                    | (Self::Admin, Self::AdminRead)
            )
    }
}

/// What was seen of a token.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteTokenStatus {
    /// When it was last used, give or take an hour.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("lastUsedAt must be before the year 9000"))]
    pub last_used_at: Option<Time>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteTokenStatus, kept: []);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scopes_are_spelt_as_they_travel() {
        for scope in TokenScope::ALL {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
    }
}
