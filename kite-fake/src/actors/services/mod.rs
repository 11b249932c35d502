//! Services: which addresses they lead to, and from where they are reached.

mod backend;
mod balancers;
mod endpoints;
mod mirrored;
mod slices;

pub use balancers::LoadBalancers;
pub use endpoints::Endpoints;
pub use mirrored::EndpointMirrors;
pub use slices::EndpointSlices;

/// Annotation of a Pod whose ports are really elsewhere on its address:
/// `22=40123,80=40124`. Ports that are not in it cannot be reached. Empty while
/// the Pod cannot be reached at all.
pub const HOST_PORTS: &str = "kite-fake/host-ports";
