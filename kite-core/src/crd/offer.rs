//! `KiteVirtualMachineOffer`: one VM of a fixed size that an administrator gives
//! away, and a user claims by creating a VM with `spec.offer`.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    salvage::salvaged,
    unread_status::{self, UnreadStatus, salvaged_status},
};
use crate::{quantity::Bytes, span::Span};

/// What is offered, to whom, and until when.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteVirtualMachineOffer",
    plural = "kitevirtualmachineoffers",
    shortname = "ktvmo",
    category = "kite",
    status = "KiteVirtualMachineOfferStatus",
    derive = "PartialEq",
    doc = "One VM of a fixed size that a user may claim once.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory"),
    printcolumn(name = "Disk", type_ = "string", json_path = ".spec.disk"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "For", type_ = "string", json_path = ".spec.user"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(name = "Claimed-By", type_ = "string", json_path = ".status.claimedBy.user"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')").message("metadata.name must be at most 63 characters without dots: VMs name it in spec.offer"),
)]
#[x_kube(validation = Rule::new("self.cpu == oldSelf.cpu && self.memory == oldSelf.memory && self.disk == oldSelf.disk && self.image == oldSelf.image && has(self.lifetime) == has(oldSelf.lifetime) && (!has(self.lifetime) || self.lifetime == oldSelf.lifetime)").message("what is offered cannot be changed: delete the offer and create another; expiresAt and user can be changed"))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteVirtualMachineOfferSpec {
    /// Number of virtual CPUs.
    #[schemars(range(min = 1, max = 256))]
    pub cpu: u32,
    /// Memory, at least 64Mi.
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('64Mi')) >= 0").message("memory must be at least 64Mi"))]
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1024Ti')) <= 0").message("memory must be at most 1024Ti"))]
    pub memory: Bytes,
    /// Size of the root disk, at least 1Gi.
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1Gi')) >= 0").message("disk must be at least 1Gi"))]
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1024Ti')) <= 0").message("disk must be at most 1024Ti"))]
    pub disk: Bytes,
    /// Name of the `KiteImage`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub image: String,
    /// Until when it can be claimed; for ever if not given.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000: leave it out if the offer is not to expire"))]
    pub expires_at: Option<Time>,
    /// How long the VM may last: its `spec.expiresAt` must be set, and be no later
    /// than this after its creation. A span such as `720h`, from 1h to ten years;
    /// without it the VM need not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1h') && duration(self) <= duration('87840h')").message("lifetime must be from 1h to 87840h (ten years), such as 720h"))]
    pub lifetime: Option<Span>,
    /// Name of the `KiteUser` who alone may claim it; anybody if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub user: Option<String>,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteVirtualMachineOfferSpec,
    required: { "cpu": 1, "memory": "64Mi", "disk": "1Gi", "image": "unreadable" },
    strict: { "user": "kite-unreadable" }
);

/// Observed state of an offer.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteVirtualMachineOfferStatus")]
pub struct KiteVirtualMachineOfferStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether it can be claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<OfferPhase>,
    /// Who has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<OfferClaim>,
    /// `Available`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteVirtualMachineOfferStatus, kept: ["claimedBy"]);

impl KiteVirtualMachineOffer {
    /// What cannot be read of the offer: of its spec, and of what only its status tells. Until
    /// that is mended nothing is made of it.
    pub fn unreadable(&self) -> Option<Cow<'_, str>> {
        let status = self.status.as_ref();
        let status = status.and_then(|it| it.unreadable.as_deref());
        unread_status::unreadable(self.spec.unreadable.as_deref(), status)
    }
}

/// The VM for which an offer is claimed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OfferClaim {
    /// The VM's namespace.
    pub namespace: String,
    /// The VM's name.
    pub name: String,
    /// The VM's uid.
    pub uid: String,
    /// Whose namespace that is, if it is a user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether the VM got its disk: from then on the offer is used up, whatever
    /// becomes of the VM. Before that a claim that fails is given back.
    pub fulfilled: bool,
}

/// Whether an offer can be claimed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfferPhase {
    /// It can be claimed.
    Available,
    /// It is claimed.
    Claimed,
    /// Nobody claimed it in time.
    Expired,
    /// It is being removed.
    Deleting,
}
