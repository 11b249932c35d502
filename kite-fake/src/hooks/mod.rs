//! The calls that the server has made to webhooks of the cluster: those that
//! `ValidatingWebhookConfiguration`, `MutatingWebhookConfiguration` and the conversion of
//! a definition name.
//!
//! The server makes no call itself: it says whom to ask what ([`HookCall`]), the service
//! around it asks, and gives it the request again with what was said ([`Said`]). Who
//! answers is one of these:
//!
//! - a tower service in the same process, by
//!   [`FakeCluster::answer_webhooks`](crate::FakeCluster::answer_webhooks): no sockets, no
//!   certificates, also where time is virtual;
//! - whoever listens at the URL or behind the Service, over HTTPS, with the feature
//!   `webhooks`. Without it such a call fails, and the webhook's `failurePolicy` decides.

mod call;
mod caller;
#[cfg(feature = "webhooks")]
mod https;
mod local;
#[cfg(feature = "webhooks")]
mod trust;
#[cfg(feature = "webhooks")]
mod verifier;

pub use call::{HookCall, Place, Replied, Said};
pub(crate) use caller::Caller;
