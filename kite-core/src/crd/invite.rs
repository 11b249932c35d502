//! `KiteInvite`: a token with which somebody may make one account. The object has
//! only a hash of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AccessLevel, Quota,
    unread_status::{UnreadStatus, salvaged_status},
};

/// For whom an invite is, and what account comes of it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteInvite",
    plural = "kiteinvites",
    category = "kite",
    status = "KiteInviteStatus",
    derive = "PartialEq",
    doc = "An invitation to make one account. Deleting it withdraws it.",
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.accessLevel"),
    printcolumn(name = "Email", type_ = "string", json_path = ".spec.email"),
    printcolumn(name = "By", type_ = "string", json_path = ".spec.createdBy.name"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(name = "Used-by", type_ = "string", json_path = ".status.usedBy.name"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("an invite cannot be changed: make another"))]
#[serde(rename_all = "camelCase")]
pub struct KiteInviteSpec {
    /// Hash of the token's secret ([`crate::names::fingerprint`]).
    #[schemars(length(min = 1, max = 64))]
    pub hash: String,
    /// The only email address for which it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 254))]
    #[x_kube(validation = Rule::new(r"self.matches('^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$')").message("email must be an address such as ann@example.org"))]
    pub email: Option<String>,
    /// What the account may do.
    #[serde(default)]
    pub access_level: AccessLevel,
    /// What the account may use at most; the default follows the access level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// For whom or what it is, in the words of who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub note: Option<String>,
    /// Who made it. It is good only as long as this account may still make it.
    pub created_by: InviteAccount,
    /// When it ends.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub expires_at: Time,
}

/// An account that made an invite, or that was made with it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct InviteAccount {
    /// Name of the `KiteUser`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid: a later user of the same name is another.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// What became of an invite.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteInviteStatus {
    /// The username of the account that is being made with it: nobody can go on
    /// with another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub claimed_for: Option<String>,
    /// The account that was made with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<InviteAccount>,
    /// When that was.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("usedAt must be before the year 9000"))]
    pub used_at: Option<Time>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteInviteStatus, kept: ["usedBy", "claimedFor"], or_fails);
