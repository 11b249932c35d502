//! What other operators' parts of a cluster do.

mod certificates;
mod gateways;
mod leases;

pub use certificates::Certificates;
pub use gateways::Gateways;
pub use leases::LeaseHolder;
