//! `KiteReservation`: a claim of which there can be one. The object's name is
//! the claim ([`crate::names::ssh_id_reservation`] and its kin), so the API
//! server itself decides who comes first.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is claimed, and by whom.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteReservation",
    plural = "kitereservations",
    category = "kite",
    derive = "PartialEq",
    doc = "A claim of which there can be one, such as a login name. Made and removed by the controller.",
    printcolumn(name = "Claim", type_ = "string", json_path = ".spec.claim"),
    printcolumn(
        name = "Holder-Kind",
        type_ = "string",
        json_path = ".spec.holder.kind"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.holder.namespace"
    ),
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder.name"),
    printcolumn(name = "Kept-Until", type_ = "string", json_path = ".spec.kept.until"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("self.claim == oldSelf.claim && (self.holder == oldSelf.holder || (has(oldSelf.kept) && !has(self.kept)))").message("a reservation cannot be changed: delete it and create another"))]
#[x_kube(validation = Rule::new("!has(self.kept) || self.claim == 'SshId' || self.claim == 'Domain'").message("kept is for login names and domains"))]
#[x_kube(validation = Rule::new("!has(oldSelf.fulfilled) || !oldSelf.fulfilled || (has(self.fulfilled) && self.fulfilled)").message("fulfilled cannot be taken back: the offer is used up"))]
#[x_kube(validation = Rule::new("!has(self.fulfilled) || !self.fulfilled || self.claim == 'Offer'").message("fulfilled is for claims of offers"))]
pub struct KiteReservationSpec {
    /// What kind of claim it is.
    pub claim: Claim,
    /// Who holds it.
    pub holder: Holder,
    /// The holder has got what the claim stands for, an offer: the claim stays,
    /// whatever becomes of the holder. Once set it cannot be taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fulfilled: bool,
    /// The holder has given the claim back. It is kept for its former owner, and
    /// nobody else gets it. The controller removes it when that is over; deleting it
    /// frees the claim at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// How long a login name or a domain is kept for its former owner: people still use
/// its links, and type it, when the VM is gone.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// For whom a claim is kept that was given back, and how long. Its former owner is
/// whoever has VMs in the namespace of its last holder, if that is still the same user.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// From when on anybody may have it.
    #[serde(deserialize_with = "crate::time::required")]
    pub until: Time,
    /// Uid of the user whose VM held it: a later user of the same name is a stranger.
    /// None if the namespace was no user's, or it is not known any more whose it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_uid: Option<String>,
}

impl KiteReservationSpec {
    /// A claim of `holder`.
    pub fn new(claim: Claim, holder: Holder) -> Self {
        Self {
            claim,
            holder,
            fulfilled: false,
            kept: None,
        }
    }

    /// For whom the claim is kept, unless that is the user with `user_uid` (none where
    /// there is no user) and with VMs in `namespace`.
    pub fn kept_from(&self, namespace: &str, user_uid: Option<&str>) -> Option<&Kept> {
        let kept = self.kept.as_ref()?;
        let is_theirs = self.holder.namespace.as_deref() == Some(namespace)
            && kept.user_uid.as_deref() == user_uid;
        (!is_theirs).then_some(kept)
    }

    /// Whether it was kept for its former owner and is not any more at `now`.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.until.0 <= now)
    }
}

/// Kinds of claims.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// A login name at the SSH gateway.
    SshId,
    /// A label below the base domain.
    Domain,
    /// A username.
    Username,
    /// An email address.
    Email,
    /// Somebody at an OpenID Connect provider.
    Identity,
    /// A `KiteVirtualMachineOffer`.
    Offer,
    /// A `KiteVolume`.
    Volume,
}

impl Claim {
    /// Whether it is kept for its former owner when it is given back: what leads people
    /// to a VM would lead them to a stranger's otherwise.
    pub fn is_kept(self) -> bool {
        match self {
            Self::SshId | Self::Domain => true,
            Self::Username | Self::Email | Self::Identity | Self::Offer | Self::Volume => false,
        }
    }
}

/// The object that holds a claim. The uid tells it from a later object of the
/// same name.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// `KiteVirtualMachine` or `KiteUser`.
    pub kind: HolderKind,
    /// Its namespace, for a VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Kinds that can hold a claim.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HolderKind {
    /// A VM.
    KiteVirtualMachine,
    /// A user.
    KiteUser,
}
