//! `KiteSession`: a login session of the HTTP API. The object's name is a hash
//! of an opaque token that only the client has ([`crate::names::session`]), so
//! every replica of the API sees a session end when its object is deleted.

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
#[x_kube(validation = Rule::new("self == oldSelf").message("a session cannot be changed: sign in again"))]
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
    /// When it ends.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000"))]
    pub expires_at: Time,
    /// What the client called itself, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub client: Option<String>,
}
