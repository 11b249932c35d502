//! `KiteReservation`: a claim of which there can be one. The object's name is
//! the claim ([`crate::names::ssh_id_reservation`] and its kin), so the API
//! server itself decides who comes first.

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
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("self.claim == oldSelf.claim && self.holder == oldSelf.holder").message("a reservation cannot be changed: delete it and create another"))]
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
}

impl KiteReservationSpec {
    /// A claim of `holder`.
    pub fn new(claim: Claim, holder: Holder) -> Self {
        Self {
            claim,
            holder,
            fulfilled: false,
        }
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
