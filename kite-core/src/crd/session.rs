//! `KiteSession`: a login session of the HTTP API. The object's name is a hash
//! of what only the client has ([`crate::names::session`]), so every replica of the
//! API sees a session end when its object is deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Whose session it is and how long it lasts.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteSession",
    plural = "kitesessions",
    category = "kite",
    derive = "PartialEq",
    doc = "A login session of the HTTP API. Deleting it signs the user out.",
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(
        name = "Client",
        type_ = "string",
        json_path = ".spec.client",
        priority = 1
    ),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("self.user == oldSelf.user && self.userUid == oldSelf.userUid && self.expiresAt == oldSelf.expiresAt && has(self.credential) == has(oldSelf.credential) && (!has(self.credential) || self.credential == oldSelf.credential) && has(self.identity) == has(oldSelf.identity) && (!has(self.identity) || self.identity == oldSelf.identity) && has(self.client) == has(oldSelf.client) && (!has(self.client) || self.client == oldSelf.client) && has(self.epoch) == has(oldSelf.epoch) && (!has(self.epoch) || self.epoch == oldSelf.epoch) && has(self.tokens) == has(oldSelf.tokens)").message("whose a session is and how long it lasts cannot be changed: sign in again"))]
#[serde(rename_all = "camelCase")]
pub struct KiteSessionSpec {
    /// Name of the `KiteUser`.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,
    /// Uid of the `KiteUser`: a later user of the same name is another.
    #[schemars(length(min = 1, max = 64))]
    pub user_uid: String,
    /// Fingerprint of the account's password hash when the session began
    /// ([`crate::names::credential`]): with another password it is over, on every
    /// replica at once. Absent where no password was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub credential: Option<String>,
    /// The id of the identity by which it was begun at a sign-in provider: when the account
    /// has it no more it is over, on every replica at once. Absent where it was begun
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub identity: Option<String>,
    /// When it ends.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub expires_at: Time,
    /// The platform's `sessionEpoch` in which it began: in another one it is over.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub epoch: i64,
    /// Hashes of the tokens in a browser's cookies, which are renewed all along.
    /// Absent where one token is the whole session, by whose hash it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<SessionTokens>,
    /// When whoever has the session last proved who they are: by signing in, or by the
    /// password (and a code) since. Absent in a session from before this was noted, whose
    /// user has not.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("provedAt must be before the year 9000"))]
    pub proved_at: Option<Time>,
    /// What the client called itself, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub client: Option<String>,
}

/// Which tokens open a session, and which did before they were replaced. Only
/// hashes ([`crate::names::fingerprint`]).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SessionTokens {
    /// Short-lived tokens that requests are made with.
    #[schemars(length(max = 32))]
    pub access: Vec<AccessToken>,
    /// Each of them renews the session once. There are several where the answer to
    /// a renewal was lost, or several tabs asked at once.
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub refresh: Vec<String>,
    /// Those that the last renewal replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub replaced: Vec<String>,
    /// When they were replaced, or the session began.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("rotatedAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub rotated_at: Time,
}

/// A token that opens a session for a short time.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AccessToken {
    /// Its hash.
    #[schemars(length(max = 64))]
    pub hash: String,
    /// When it ends.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub expires_at: Time,
}
