//! Kite's custom resources, group `hy3ons.github.io`, version `v1`.
//!
//! The CRDs are generated from these types ([`all`]) and carry their rules with
//! them: required fields, enums, patterns, bounds, defaults and CEL rules, so
//! that an API server refuses what the controller could not carry out.

mod charge;
mod closed_platform;
mod cluster_setting;
#[allow(clippy::duplicated_attributes)]
mod connection;
pub(crate) mod foreign;
mod formats;
// KubeSchema makes a copy of the spec that nobody reads.
#[allow(dead_code)]
mod image;
mod image_source;
#[allow(clippy::duplicated_attributes, dead_code)]
mod invite;
#[allow(dead_code)]
mod offer;
mod password;
#[allow(dead_code)]
mod platform;
mod reported;
// Several printer columns of one type are no mistake.
#[allow(clippy::duplicated_attributes)]
mod reservation;
mod reserved_domain;
mod salvage;
mod schedule;
mod second_factor;
#[allow(clippy::duplicated_attributes)]
mod session;
mod sign_in;
#[allow(clippy::duplicated_attributes, dead_code)]
mod snapshot;
#[allow(clippy::duplicated_attributes, dead_code)]
mod token;
mod unread_status;
#[allow(dead_code)]
mod user;
mod user_authority;
#[allow(dead_code)]
mod virtual_machine;
#[allow(clippy::duplicated_attributes, dead_code)]
mod volume;

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use self::{
    charge::*, cluster_setting::*, connection::*, image::*, image_source::*, invite::*, offer::*,
    password::*, platform::*, reservation::*, reserved_domain::*, schedule::*, second_factor::*,
    session::*, sign_in::*, snapshot::*, token::*, unread_status::UnreadStatus, user::*,
    user_authority::*, virtual_machine::*, volume::*,
};

/// API group of Kite's kinds.
pub const GROUP: &str = "hy3ons.github.io";
/// API version of Kite's kinds.
pub const VERSION: &str = "v1";

/// The CRDs of all of Kite's kinds, in the order in which to install them.
pub fn all() -> Vec<CustomResourceDefinition> {
    static ALL: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(derived);
    ALL.clone()
}

fn derived() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        KitePlatform::crd(),
        KiteImage::crd(),
        KiteUser::crd(),
        KiteVirtualMachine::crd(),
        KiteVirtualMachineOffer::crd(),
        KiteSnapshot::crd(),
        KiteVolume::crd(),
        KiteReservation::crd(),
        KiteSession::crd(),
        KiteToken::crd(),
        KiteInvite::crd(),
        KiteSecondFactor::crd(),
        KitePassword::crd(),
        KiteConnection::crd(),
    ];
    all.iter_mut().for_each(formats::use_known);
    all
}

/// Pattern of one public key in `authorized_keys` form (RFC 4253 §6.6 names), with what may
/// stand before the types that tokens keep.
macro_rules! key_pattern {
    ($options:literal) => {
        concat!(
            r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|",
            $options,
            r"sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com) [A-Za-z0-9+/]+={0,3}( [^\n\r]*)?$"
        )
    };
}

/// A user's key, with options.
pub(crate) const PUBLIC_KEY_PATTERN: &str =
    key_pattern!("((verify-required|no-touch-required)(,verify-required|,no-touch-required)? )?");

/// A key without options.
pub(crate) const PLAIN_KEY_PATTERN: &str = key_pattern!("");

/// What is zero is left out of an object.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Names of namespaces and the like (RFC 1123 labels).
const LABEL_PATTERN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// Names of most other objects, and domains in lowercase (RFC 1123 subdomains).
const SUBDOMAIN_PATTERN: &str =
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";

/// Schema of a list of SSH public keys: a bounded set.
pub(crate) fn public_keys_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": { "type": "string", "maxLength": 8192, "pattern": PUBLIC_KEY_PATTERN },
        "x-kubernetes-list-type": "set",
    })
}
