//! `KiteSecondFactor`: what a user's authenticator app and Kite both know. A kind
//! of its own, so that who may read accounts does not read it.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A second factor of signing in. Named like its `KiteUser`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteSecondFactor",
    plural = "kitesecondfactors",
    category = "kite",
    derive = "PartialEq",
    doc = "The second factor of a user of the name. Deleting it lets the user in with the password alone.",
    printcolumn(name = "Confirmed", type_ = "boolean", json_path = ".spec.confirmed"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KiteSecondFactorSpec {
    /// Uid of the `KiteUser`: a later user of the same name is another.
    #[schemars(length(min = 1, max = 64))]
    pub user_uid: String,
    /// The secret from which codes follow, sealed with a key that only the API has.
    #[schemars(length(min = 1, max = 256))]
    pub sealed_secret: String,
    /// Whether a code was told once: only then is one asked for.
    #[serde(default)]
    pub confirmed: bool,
    /// The span of thirty seconds whose code was used last: none is used twice.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub last_step: i64,
    /// Hashes ([`crate::names::fingerprint`]) of the recovery codes that are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub recovery_codes: Vec<String>,
}
