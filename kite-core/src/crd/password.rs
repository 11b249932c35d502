//! `KitePassword`: the hash of a password, sealed. A kind of its own, so that who may
//! read accounts does not read it.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A password of an account. Named by its id: `credential` of its `KiteUser` says which
/// one it is that signs the user in.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KitePassword",
    plural = "kitepasswords",
    category = "kite",
    derive = "PartialEq",
    doc = "The hash of a user's password, sealed. It signs in the user whose spec.credential is its name.",
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KitePasswordSpec {
    /// Name of the `KiteUser` whose password it is.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,
    /// The hash (PHC string), sealed with a key that only the API has, for the user and
    /// the name of this object ([`KitePassword::place`]).
    #[schemars(length(min = 1, max = 1024))]
    pub sealed_hash: String,
    /// Whether the password had at least twelve characters when it was set, as an
    /// administrator's has to. Absent where only its hash was known, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long: bool,
}

impl KitePassword {
    /// For what the hash of the password `id` of `user` is sealed: it opens in no other
    /// user's place, nor in that of another password.
    pub fn place(user: &str, id: &str) -> String {
        format!("{user}/{id}")
    }
}
