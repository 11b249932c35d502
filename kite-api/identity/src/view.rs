//! How the API shows an account.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::crd::{AccessLevel, Identity, KiteUser, Quota, Usage, UserPhase};
use kite_rest::etag_of;
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::key_dates::{self, KeyView};

/// Somebody at a sign-in provider with whom an account is linked.
#[derive(Serialize, JsonSchema)]
pub struct LinkedIdentity {
    /// By which it is unlinked.
    id: String,
    /// Where the provider is.
    issuer: String,
    /// What the provider calls them for ever.
    subject: String,
}

impl LinkedIdentity {
    /// Of an account.
    pub fn of(identity: &Identity) -> Self {
        Self {
            id: identity.id(),
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
        }
    }
}

/// An account as the API shows it: never a hash.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "User")]
pub struct UserView {
    /// Name of its `KiteUser`.
    name: String,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    /// With which one signs in.
    username: String,
    /// Its email address.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// What it may do.
    access_level: AccessLevel,
    /// Whether it is suspended.
    suspended: bool,
    /// Whether one can sign in to it with a password.
    has_password: bool,
    /// Who may sign in to it at sign-in providers.
    identities: Vec<LinkedIdentity>,
    /// Keys that open all that is its.
    ssh_public_keys: Vec<String>,
    /// The same keys, each with when it came.
    ssh_keys: Vec<KeyView>,
    /// Since when it has its password. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    password_changed_at: Option<String>,
    /// What it may have altogether.
    quota: Quota,
    /// What they take.
    usage: Usage,
    /// Whether something can be created for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<UserPhase>,
    /// Absent until something can be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Why it is as it is.
    conditions: Vec<Condition>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Which of its settings cannot be read, and why: what is shown in their place is
    /// not theirs, and nobody is let in. Left out where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl UserView {
    /// The account as it is.
    pub fn of(user: &KiteUser) -> Self {
        let status = user.status.clone().unwrap_or_default();
        Self {
            name: user.name_any(),
            etag: etag_of(user),
            username: user.spec.username.clone(),
            email: user.spec.email.clone(),
            access_level: user.spec.access_level,
            suspended: user.spec.suspended,
            has_password: user.spec.has_password(),
            identities: user
                .spec
                .identities
                .iter()
                .map(LinkedIdentity::of)
                .collect(),
            ssh_public_keys: user.spec.ssh_public_keys.clone(),
            ssh_keys: key_dates::keys_of(user),
            password_changed_at: key_dates::password_since(user).map(|at| at.to_string()),
            quota: user.spec.effective_quota(),
            usage: status.usage.unwrap_or_default(),
            phase: status.phase,
            namespace: status.namespace,
            conditions: status.conditions,
            created_at: user.creation_timestamp().map(|time| time.0.to_string()),
            deleting: user.metadata.deletion_timestamp.is_some(),
            unreadable: user.spec.unreadable.clone(),
        }
    }
}
